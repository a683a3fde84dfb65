"""The variance of a sum of parts by draws of them, with little noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["DrawnVariance"]

Vector = NDArray[np.float64]


class DrawnVariance:
    """Var Σ z_k at rows, of parts z_k that depend on each other, by draws and what is known without them.

    With K_k the variance of z_k given all other parts, m_k its mean given them in the same draw, and e_k = z_k − m_k,

        Var Σ z_k = Σ_k K_k + E Σ_k m_k(Σ_j z_j − e_k),

    which has little noise where parts hardly depend on each other, as effects of observers beside a surface do: each m
    is small then. What is 0 in expectation is taken off as far as the draws of a row say that it takes noise along:
    Σ_k e_k m_k, and how far the above is from K_s + E(Σ_j z_j − e_s)², with the part s of which least is known, which
    has little noise where parts lie on top of each other.

    Parameters
    ----------
    known : K_k of each part, shape (rows,) each.
    parts, means : columns of a covariance that draws don't have, with what would be the m_k of each.

    Examples
    --------
    >>> z, nothing = np.random.default_rng(0).standard_normal((2, 1, 64)), np.zeros((1, 64))
    >>> found = DrawnVariance([np.ones(1), np.ones(1)])
    >>> found.add(list(z), [nothing, nothing])  # both are independent
    >>> found.value().round(6), float(np.var(z.sum(axis=0)).round(2))
    (array([2.]), 1.5)
    """

    def __init__(self, known: Sequence[Vector], parts: Sequence[NDArray] = (), means: Sequence[NDArray] = ()) -> None:
        stacked = np.array(known)
        self._surest = np.argmax(stacked, axis=0)[:, None]
        self._least, self._all = np.max(stacked, axis=0), np.sum(stacked, axis=0)
        self._count = 0
        #: sums over draws: of what is wanted, of two that are 0 in expectation, of the products of these with all three
        self._sums = np.zeros((8, len(self._all)))
        self._fixed = [x.sum(axis=1)[:, None] for x in self._products(parts, means)] if parts else [0.0, 0.0, 0.0]
        self._fixed[0] += self._all[:, None]
        self._fixed[1] += (self._least - self._all)[:, None]

    def _products(self, parts: Sequence[NDArray], means: Sequence[NDArray]) -> list[NDArray[np.float64]]:
        """What is wanted, how far it is from the other, and Σ_k e_k m_k, of each column."""
        total = np.sum(parts, axis=0, dtype=np.float64)
        others = [total - (z - mean) for z, mean in zip(parts, means)]
        wanted = np.sum([mean * other for mean, other in zip(means, others)], axis=0)
        along = np.sum([mean * (z - mean) for z, mean in zip(parts, means)], axis=0)
        return [wanted, np.choose(self._surest, others) ** 2 - wanted, along]

    def add(self, parts: Sequence[NDArray], means: Sequence[NDArray]) -> None:
        """Draws of the z_k and the m_k of each, shape (rows, draws) each."""
        wanted, apart, along = (x + fixed for x, fixed in zip(self._products(parts, means), self._fixed))
        self._count += wanted.shape[1]
        for own, x in zip(self._sums[:3], (wanted, apart, along)):
            own += x.sum(axis=1)
        pairs = ((apart, wanted), (along, wanted), (apart, apart), (apart, along), (along, along))
        for own, (x, y) in zip(self._sums[3:], pairs):
            own += np.einsum("ij,ij->i", x, y)

    def value(self) -> Vector:
        """Shape (rows,); never less than is known of the part s."""
        wanted, a, b, aw, bw, aa, ab, bb = self._sums / self._count
        aw, bw, aa, ab, bb = aw - a * wanted, bw - b * wanted, aa - a * a, ab - a * b, bb - b * b
        in_a = _ratio(aw * bb - bw * ab, aa * bb - ab * ab, 1e-9 * aa * bb)
        in_b = _ratio(bw - in_a * ab, bb, np.zeros_like(bb))
        return np.maximum(wanted - in_a * a - in_b * b, self._least)


def _ratio(x: Vector, y: Vector, least: Vector) -> Vector:
    """x / y, and 0 where y isn't larger than that."""
    return np.divide(x, y, out=np.zeros_like(x), where=y > least)
