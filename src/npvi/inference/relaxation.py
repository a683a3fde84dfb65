"""Which share of a proposed change to take, where points answer for each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Relaxation"]

Vector = NDArray[np.float64]


class Relaxation:
    """Which share of the proposed change of each w to take (Aitken's rule).

    Points that share a place answer for each other: all of them correct w at once, each as if alone, and overshoot.
    Then successive proposals change sign, and their ratio says by how much to hold back.

    >>> relaxation = Relaxation(1)
    >>> relaxation.of(np.array([1.0])), relaxation.of(np.array([-1.0]))
    (array([1.]), array([0.5]))
    """

    #: proposals below this (relative to 1/v) must turn twice in a row: one turn is what the last step left over
    _small = 0.01

    def __init__(self, n: int) -> None:
        self._proposal, self._share, self._turned = np.zeros(n), np.ones(n), np.zeros(n, dtype=bool)

    def of(self, proposal: Vector) -> Vector:
        """The share of each, given all proposals before."""
        before = self._proposal
        ratio = np.divide(proposal, before, out=np.zeros_like(proposal), where=before != 0.0)
        held_back = np.maximum(self._share / (1.0 - np.minimum(ratio, 0.0)), 0.2)
        # a proposal that turned but shrank to a third will be gone soon enough by itself
        turned = ratio < -0.3
        overshot = turned & (self._turned | (np.abs(before) > self._small))
        self._share = np.where(overshot, held_back, np.minimum(1.0, 1.5 * self._share))
        self._proposal, self._turned = proposal, turned
        return self._share
