"""Poisson counts with structural zeros."""

from __future__ import annotations

import cmath
import math

import numpy as np

from npvi.likelihoods.families.poisson import Poisson
from npvi.likelihoods.families.zero_inflated import _ZeroInflated

__all__ = ["ZeroInflatedPoisson"]


class ZeroInflatedPoisson(_ZeroInflated, name="zero_inflated_poisson", about="counts with many zeros"):
    """0 with probability `inflation`, else y ~ Poisson(exposure · link(f)).

    Parameters
    ----------
    inflation : float
        Probability of a structural zero, between 0 and 1.
    link : {"exp", "softplus"}
        exp(f), or knee · log(1 + exp(f)/knee), which grows only linearly beyond the knee.
    knee : float
        Where softplus turns from exp(f) to a straight line; not learned.

    Notes
    -----
    Takes `exposure` per row (1 by default), which multiplies the mean of the Poisson part.

    Examples
    --------
    >>> round(float(ZeroInflatedPoisson(inflation=0.5).log_prob(0.0, 9.0)), 4)  # all zeros are structural
    -0.6931
    """

    def __init__(self, inflation: float = 0.1, link: str = "exp", knee: float = 1.0) -> None:
        self.inflation = inflation
        self.link = link
        self.knee = knee

    @property
    def counts(self) -> Poisson:
        return Poisson(self.link, self.knee)

    @property
    def resolution(self) -> float:
        # for softplus the distance in f is no smaller
        return cmath.phase(self._singularity) / 3.0

    def bend(self, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> tuple[float, float] | None:
        return self.bend_at(abs(self._singularity), exposure)

    @property
    def _singularity(self) -> complex:
        """The rate λ at which log p(0 | f) is singular: e^−λ = −inflation/(1 − inflation)."""
        inflation = float(self.inflation)
        return complex(math.log1p(-inflation) - math.log(inflation), math.pi)
