"""Negative binomial counts with structural zeros."""

from __future__ import annotations

import cmath
import math
from typing import ClassVar

import numpy as np

from npvi.likelihoods.families.negative_binomial import NegativeBinomial, initial_dispersion
from npvi.likelihoods.families.zero_inflated import _ZeroInflated, initial_inflation
from npvi.runtime.arrays import Number

__all__ = ["ZeroInflatedNegativeBinomial"]


class ZeroInflatedNegativeBinomial(
    _ZeroInflated, name="zero_inflated_negative_binomial", about="counts with many zeros"
):
    """0 with probability `inflation`, else negative binomial with mean μ = exposure · link(f).

    Parameters
    ----------
    inflation : float
        Probability of a structural zero, between 0 and 1.
    dispersion : float
        The variance of the counts that are not structural zeros is μ + μ²/dispersion.
    link : {"exp", "softplus"}
        exp(f), or knee · log(1 + exp(f)/knee), which grows only linearly beyond the knee.
    knee : float
        Where softplus turns from exp(f) to a straight line; not learned.

    Notes
    -----
    Takes `exposure` per row (1 by default), which multiplies μ.

    Examples
    --------
    >>> round(float(ZeroInflatedNegativeBinomial(inflation=0.5).log_prob(0.0, 0.0)), 4)  # log(½ + ½ · ½)
    -0.2877
    """

    limits: ClassVar[dict[str, tuple[float, float]]] = NegativeBinomial.limits

    def __init__(self, inflation: float = 0.1, dispersion: float = 1.0, link: str = "exp", knee: float = 1.0) -> None:
        self.inflation = inflation
        self.dispersion = dispersion
        self.link = link
        self.knee = knee

    @property
    def counts(self) -> NegativeBinomial:
        return NegativeBinomial(self.dispersion, self.link, self.knee)

    @property
    def resolution(self) -> float:
        singularity = self._singularity
        return 1.0 if singularity is None else cmath.phase(singularity) / 3.0

    def bend(self, exposure: np.ndarray | float = 1.0, **row: np.ndarray) -> tuple[float, float] | None:
        dispersion, singularity = float(self.dispersion), self._singularity
        rate = dispersion if singularity is None else min(dispersion, abs(singularity))
        return self.bend_at(rate, exposure)

    @property
    def _singularity(self) -> complex | None:
        """The mean μ at which log p(0 | f) is singular: (1 + μ/r)^−r = −inflation/(1 − inflation); none for r < 1."""
        inflation, r = float(self.inflation), float(self.dispersion)
        if r <= 1.0:
            return None
        log_odds = math.log1p(-inflation) - math.log(inflation)
        return r * (cmath.exp(complex(min(log_odds / r, 700.0), math.pi / r)) - 1.0)

    def initial_parameters(
        self, y: np.ndarray, exposure: np.ndarray | float = 1.0, **row: np.ndarray
    ) -> dict[str, Number]:
        # half to the zeros, half to the dispersion
        dispersion = 2.0 * initial_dispersion(y, exposure)
        return {"inflation": initial_inflation(y, dispersion), "dispersion": dispersion}
