"""Poisson counts with structural zeros."""

from __future__ import annotations

import math

from npvi.likelihoods.poisson import Poisson
from npvi.likelihoods.zero_inflated import _ZeroInflated

__all__ = ["ZeroInflatedPoisson"]


class ZeroInflatedPoisson(_ZeroInflated):
    """0 with probability `inflation`, else y ~ Poisson(exposure · link(f)).

    Parameters
    ----------
    inflation : float
        Probability of a structural zero, between 0 and 1.
    link : {"exp", "softplus"}
        exp(f), or log(1 + exp(f)), which grows only linearly.

    Notes
    -----
    Takes `exposure` per row (1 by default), which multiplies the mean of the Poisson part.

    Examples
    --------
    >>> round(float(ZeroInflatedPoisson(inflation=0.5).log_prob(0.0, 9.0)), 4)  # all zeros are structural
    -0.6931
    """

    def __init__(self, inflation: float = 0.1, link: str = "exp") -> None:
        self.inflation = inflation
        self.link = link

    @property
    def counts(self) -> Poisson:
        return Poisson(self.link)

    @property
    def resolution(self) -> float:
        # log p(0 | f) is singular where e^−λ = −inflation/(1 − inflation), that is at λ = log(1/inflation − 1) ± iπ;
        # for softplus the distance in f is no smaller
        inflation = float(self.inflation)
        return math.atan2(math.pi, math.log1p(-inflation) - math.log(inflation)) / 3.0
