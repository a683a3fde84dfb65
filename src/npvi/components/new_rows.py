"""What new rows see of the parts of a predictor: A z at rows without data of their own, and what is new about them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.components.group import Group
from npvi.components.process import Process
from npvi.priors import Joint

__all__ = ["NewRows", "OfFew", "OfGroup", "OfProcess"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]
Sparse = scipy.sparse.csr_array

#: neighbours of a new row in units of K: each row by itself, and all rows taken together
_TIMES, _JOINT_TIMES = 3, 1.5


class NewRows(Protocol):
    """B z + e at new rows, for a part z; e ~ N(0, ·) is what z doesn't say of them.

    Attributes
    ----------
    matrix : B, each row for itself, shape (rows, size).
    fresh : variances of e, shape (rows,).
    """

    @property
    def matrix(self) -> Sparse: ...

    @property
    def fresh(self) -> Vector: ...

    @property
    def joint(self) -> Joint:
        """The same for all rows together."""
        ...


class OfFew:
    """Coefficients, smooths: B is all there is.

    >>> OfFew(np.array([[1.0, 2.0]])).joint.propagate(np.array([[1.0], [10.0]]), np.zeros((0, 1)))
    array([[21.]])
    """

    n_noise = 0

    def __init__(self, functions: Any) -> None:
        self.matrix = scipy.sparse.csr_array(functions)
        self.fresh = np.zeros(self.matrix.shape[0])

    @property
    def joint(self) -> Any:
        return self

    def propagate(self, f: Columns, noise: Columns) -> Columns:
        return self.matrix @ f

    def adjoint(self, weights: Columns) -> tuple[Columns, Columns]:
        return self.matrix.T @ weights, np.zeros((0, weights.shape[1]))


class OfGroup:
    """Effects of levels: those of the data, and others that are new, each with effects of its own.

    Parameters
    ----------
    group : of the data.
    at : the level of each row, −1 for one that the data don't have.
    new : a number for each new level, for the rows that have one.
    weight : shape (rows, d).

    Examples
    --------
    >>> rows = OfGroup(Group(2, np.array([0, 1]), 4.0), np.array([1, -1, -1]), np.array([0, 0]), np.ones((3, 1)))
    >>> rows.matrix.toarray().tolist(), rows.fresh.tolist()
    ([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [0.0, 4.0, 4.0])
    >>> rows.joint.propagate(np.array([[1.0], [10.0]]), np.array([[1.0]])).ravel()  # both see the same new one
    array([10.,  2.,  2.])
    """

    def __init__(self, group: Group, at: NDArray[np.intp], new: NDArray[np.intp], weight: NDArray[np.float64]) -> None:
        d, unknown = group.width, at < 0
        known = np.flatnonzero(~unknown)
        entries = (weight[known].ravel(), (np.repeat(known, d), (at[known, None] * d + np.arange(d)).ravel()))
        self.matrix: Any = scipy.sparse.csr_array(entries, shape=(len(at), group.size))
        root = np.linalg.cholesky(group.covariance)
        rows = np.flatnonzero(unknown)
        of_new = weight[rows] @ root
        self.n_noise = d * (int(new.max(initial=-1)) + 1)
        entries = (of_new.ravel(), (np.repeat(rows, d), (new[:, None] * d + np.arange(d)).ravel()))
        self._along: Any = scipy.sparse.csr_array(entries, shape=(len(at), self.n_noise))
        self.fresh = np.zeros(len(at))
        self.fresh[rows] = np.einsum("ij,ij->i", of_new, of_new)

    @property
    def joint(self) -> Any:
        return self

    def propagate(self, f: Columns, noise: Columns) -> Columns:
        seen: Columns = self.matrix @ f + self._along @ noise
        return seen

    def adjoint(self, weights: Columns) -> tuple[Columns, Columns]:
        return self.matrix.T @ weights, self._along.T @ weights


class OfProcess:
    """A process at new places, times a weight.

    Parameters
    ----------
    process : of the data; its prior is a nearest-neighbour one.
    Z : places of the rows, shape (rows, d).
    weight : shape (rows,); None for 1.
    """

    def __init__(self, process: Process, Z: NDArray[np.float64], weight: Vector | None = None) -> None:
        self._prior: Any = process.prior
        self.places, self._weight = Z, np.ones(len(Z)) if weight is None else weight
        #: which points of the process each row looks at, and how it follows from them, weight included
        given: Any = self._prior.conditional(Z, _TIMES)
        self.neighbors, self.weights = given.neighbors, given.weights * self._weight[:, None]
        self.fresh = np.maximum(given.variance - self._prior.nugget, 0.0) * self._weight**2
        rows, k = given.neighbors.shape
        entries = (self.weights.ravel(), given.neighbors.ravel(), np.arange(rows + 1) * k)
        self.matrix = scipy.sparse.csr_array(entries, shape=(rows, process.size))

    @cached_property
    def joint(self) -> Any:
        return _Weighted(self._joint, self._weight)

    @property
    def _joint(self) -> Joint:
        graph = self._prior.graph
        k = graph.n_neighbors
        return self._prior.joint(self.places, None if k >= graph.n_points - 1 else int(_JOINT_TIMES * k))


class _Weighted:
    """A process at all new rows together, each times its weight."""

    def __init__(self, joint: Joint, weight: Vector) -> None:
        self._joint, self._weight = joint, weight[:, None]
        self.n_noise = joint.n_noise

    def propagate(self, f: Columns, noise: Columns) -> Columns:
        return self._weight * self._joint.propagate(np.ascontiguousarray(f), np.array(noise, order="C"))

    def adjoint(self, weights: Columns) -> tuple[Columns, Columns]:
        return self._joint.adjoint(self._weight * weights)
