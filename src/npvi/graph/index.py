"""Nearest points to any others, for prediction."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from npvi.checks import check_count
from npvi.graph.checks import check_points
from npvi.graph.search import arrange, search
from npvi.graph.tree import build_tree

__all__ = ["NeighborIndex"]


class NeighborIndex:
    """Exact nearest neighbours among a fixed set of points.

    Parameters
    ----------
    X : (N, D) array of numbers
        The points to search.

    Examples
    --------
    >>> index = NeighborIndex([[0.0], [1.0], [5.0]])
    >>> index.query([[0.9], [4.0]], k=2).tolist()
    [[1, 0], [2, 1]]
    """

    def __init__(self, X: ArrayLike) -> None:
        points = check_points(X, "X")
        self._arranged = arrange(build_tree(points), np.arange(len(points)))

    @property
    def n_points(self) -> int:
        """Number of points that can be found."""
        return len(self._arranged.points)

    def query(self, Z: ArrayLike, k: int) -> np.ndarray:
        """Rows of the k nearest points to each row of Z, nearest first.

        Parameters
        ----------
        Z : (M, D) array of numbers
        k : int
            At most the number of points.

        Returns
        -------
        int32 (M, k)

        Examples
        --------
        >>> NeighborIndex([[0.0], [1.0], [5.0]]).query([[2.0]], k=3).tolist()
        [[1, 0, 2]]
        """
        points = check_points(Z, "Z", allow_empty=True)
        dimension = self._arranged.points.shape[1]
        if points.shape[1] != dimension:
            raise ValueError(
                f"Z has {points.shape[1]} columns but the index was built on {dimension}: "
                "give the same inputs in the same order"
            )
        k = check_count(k, "k")
        if k > self.n_points:
            raise ValueError(f"k is {k} but there are {self.n_points} points: choose k between 1 and {self.n_points}")
        found = np.empty((len(points), k), np.int32)
        if len(points):
            # In the order of a tree of their own, queries that follow each other visit the same nodes.
            visit = build_tree(points)
            limits = np.full(len(points), self.n_points, np.int32)
            homes = np.zeros(len(points), np.int32)
            search(self._arranged, visit.points, homes, limits, visit.rows, found)
        return found
