"""Scores of a forecast: the same functions for every program."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["scores"]

#: per row, for the CRPS
_DRAWS = 1000


def scores(forecast: Any, y: np.ndarray) -> dict[str, float]:
    """NLPD and CRPS (lower is better), and the share of y inside central 90 % intervals, randomised for counts."""
    from npvi.diagnostics.scores import crps_of_draws
    from npvi.predictive.calibration import coverage, randomised_pit

    return {
        "nlpd": -float(np.mean(forecast.log_prob(y))),
        "crps": float(np.mean(crps_of_draws(forecast, y, _DRAWS, seed=0))),
        "coverage": coverage(randomised_pit(forecast, y, seed=0), 0.9),
    }
