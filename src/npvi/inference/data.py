"""The observations of one fit, and what they say about f."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from npvi.likelihoods import Curvatures, Expectations, Likelihood, by_quadrature, curvatures, expectations

__all__ = ["Data"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Observations in the graph's order.

    Attributes
    ----------
    likelihood : what y is, given f.
    y : responses, shape (N,).
    row : the likelihood's extras, such as the exposure, each of shape (N,).
    weight : observation weights, shape (N,), or None: they multiply log p(y|f).
    coarse : whether quadrature may be off by 1e-6.
    """

    likelihood: Likelihood
    y: Vector
    row: dict[str, Vector] = field(default_factory=dict)
    weight: Vector | None = None
    coarse: bool = False

    @property
    def one_sided(self) -> bool:
        """Whether all of these, of those with weight, are the smallest response that has a probability, or all the
        largest: then nothing says how far away the constant mean is."""
        support = self.likelihood.support
        if not support.discrete and support.atom is None:
            return False
        rows = slice(None) if self.weight is None else self.weight > 0.0
        once = 1.0 if "trials" in self.likelihood.extras else support.upper  # of one trial, where none are given
        largest = self.row.get("trials", np.full(len(self.y), once))
        return not np.any(self.y[rows] > 0.0) or bool(np.all(self.y[rows] == largest[rows]))

    @property
    def limits_on_one_side(self) -> bool:
        """Whether all of these, of those with weight, are limits of the same kind, beyond which the values are: then
        the constant mean runs away from them without end."""
        censored = self.row.get("censored", np.zeros(len(self.y)))
        kinds = np.unique(censored if self.weight is None else censored[self.weight > 0.0])
        return len(kinds) == 1 and kinds[0] != 0.0

    @property
    def by_quadrature(self) -> bool:
        """Whether `expectations` are, and so off by a little that differs from one variance to another."""
        return by_quadrature(self.likelihood, self.y, self.row)

    @property
    def silent(self) -> bool:
        """Whether nothing is said of f at all, as zeros that follow a rule of their own do."""
        at = self.expectations(np.zeros(len(self.y)), np.ones(len(self.y)))
        return not (np.any(at.gradient) or np.any(at.precision))

    @property
    def latent_unit(self) -> float:
        """What counts as a change of f by one (`Likelihood.latent_unit`), by the rows that have weight."""
        counted = self if self.weight is None else self.take(np.flatnonzero(self.weight > 0.0))
        return self.likelihood.latent_unit(counted.y, **counted.row) if len(counted.y) else 1.0

    def take(self, rows: NDArray) -> Data:
        """Some of the rows, in some order."""
        row = {name: values[rows] for name, values in self.row.items()}
        weight = None if self.weight is None else self.weight[rows]
        return Data(self.likelihood, self.y[rows], row, weight, self.coarse)

    def expectations(self, mean: Vector, variance: Vector) -> Expectations:
        """E log p(y|f) under f ~ N(mean, variance), its gradient and w = −2 ∂/∂variance."""
        parts = expectations(self.likelihood, self.y, mean, variance, self.row, coarse=self.coarse)
        return Expectations(*self._weighted(parts))

    def curvatures(self, mean: Vector, sd: Vector) -> Curvatures:
        """E log p(y|f) under f ~ N(mean, sd²), with first and second derivatives in mean and sd."""
        parts = curvatures(self.likelihood, self.y, mean, sd, self.row, coarse=self.coarse)
        return Curvatures(*self._weighted(parts))

    def _weighted(self, parts: tuple[Vector, ...]) -> list[Vector]:
        if self.weight is None:
            return list(parts)
        # a row of weight 0 says nothing, whatever its log-density has overflowed to
        return [np.where(self.weight > 0.0, part, 0.0) * self.weight for part in parts]
