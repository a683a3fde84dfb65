"""What every program is asked."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Side"]


class Side:
    """A program with its settings. `fit` and `predict` are timed, `forecast` is not.

    Parameters
    ----------
    noise : {"poisson", "negative_binomial", "gamma", "lognormal", "varying_lognormal"}
    threads : int
    """

    #: training rows of a first fit that is not timed; None for all of them
    warm_up_rows: int | None = 500
    #: whether the last fit ended because its time was up
    stopped = False

    def __init__(self, noise: str, threads: int) -> None:
        self.noise, self.threads = noise, threads

    @property
    def counts(self) -> bool:
        return self.noise in ("poisson", "negative_binomial")

    def fit(self, X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
        """A fitted model. A program that can be stopped at any time ends within `seconds` and sets `stopped`."""
        raise NotImplementedError

    def predict(self, model: Any, X: np.ndarray) -> Any:
        """Mean and variance for new rows: of f for a Gaussian process, else of whatever the program predicts."""
        raise NotImplementedError

    def forecast(self, predicted: Any) -> Any:
        """What was predicted, as a distribution of y: a `Predictive`, or one of `forecasts`.

        Those are imported inside, after the memory of the program itself was read.
        """
        raise NotImplementedError
