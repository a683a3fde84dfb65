"""Fields on a mesh: numbers at its nodes, straight in between, with the sparse precision of a stochastic equation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy import linalg
from scipy.spatial import Delaunay, QhullError, cKDTree

from npvi.components.dense import Dense
from npvi.linalg import DenseFactor

__all__ = ["Mesh", "MeshField"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]
Sparse = scipy.sparse.csr_array

#: how far a mesh goes on beyond the data, relative to their extent, and how much wider it is where there are none:
#: in edges, and relative to the distance from them
_BEYOND, _WIDER, _COARSER = 0.15, 2.5, 0.6
#: places are first thinned in squares, a share of an edge wide
_SQUARE = 0.25
#: nodes, and places where nodes may be
_MOST, _MOST_PLACES = 4000, 10**6
#: area of a triangle, relative to that of one with edges as wide as said, below which it is none
_NONE = 1e-6


@dataclass(frozen=True)
class Mesh:
    """Triangles in a plane, and functions that are 1 at one node, 0 at all others and straight in between.

    The field is Lindgren, Rue and Lindström's (2011): (κ² − Δ)f is white noise, which in a plane without end is a
    Matérn of smoothness 1 with the range √8/κ.

    Attributes
    ----------
    nodes : shape (n, 2).
    triangulation : of them.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> mesh = Mesh.of(X, 0.1)
    >>> A = mesh.functions(X)
    >>> bool(np.allclose(A.sum(axis=1), 1.0)), bool(np.allclose(A @ mesh.nodes, X))  # what is straight stays so
    (True, True)
    """

    nodes: Columns
    triangulation: Any

    @classmethod
    def of(cls, X: Columns, edge: float) -> Mesh:
        """With nodes at some of the places, no nearer to each other than `edge`, and fewer where there are none."""
        near = _thinned(X, edge)
        low, high = X.min(axis=0), X.max(axis=0)
        beyond = _BEYOND * float(np.linalg.norm(high - low)) + edge
        around = _lattice(low - beyond, high + beyond, _WIDER * edge)
        apart = cKDTree(near).query(around)[0]
        wide = np.maximum(_WIDER * edge, _COARSER * apart)
        free = apart >= _WIDER * edge
        nodes = np.vstack([near, _spaced(around[free], wide[free])])
        if len(nodes) > _MOST:
            raise ValueError(
                f"mesh={edge:g} makes {len(nodes):,} nodes, at most {_MOST:,} are taken: give a larger one"
            )
        return cls.on(nodes)

    @classmethod
    def on(cls, nodes: Columns) -> Mesh:
        """With these nodes."""
        try:
            return cls(nodes, Delaunay(nodes))
        except QhullError:
            raise ValueError("the nodes of a mesh are at least three that don't lie on a line") from None

    def functions(self, X: Columns) -> Sparse:
        """Their values, shape (rows, n); beyond the mesh those of the nearest node."""
        at = self.triangulation.find_simplex(X)
        outside = np.flatnonzero(at < 0)
        where = X.copy()
        if len(outside):
            where[outside] = self.nodes[cKDTree(self.nodes).query(X[outside])[1]]
            at[outside] = self.triangulation.find_simplex(where[outside], tol=1e-6)
        moved = self.triangulation.transform[at]
        first = np.einsum("ijk,ik->ij", moved[:, :2], where - moved[:, 2])
        share = np.clip(np.column_stack([first, 1.0 - first.sum(axis=1)]), 0.0, 1.0)
        share /= share.sum(axis=1, keepdims=True)
        corners = self.triangulation.simplices[at]
        entries = (share.ravel(), corners.ravel(), np.arange(len(X) + 1) * 3)
        return scipy.sparse.csr_array(entries, shape=(len(X), len(self.nodes)))

    def precision(self, reach: float, sd: float) -> Columns:
        """Of the numbers at the nodes, shape (n, n), for a range and a standard deviation."""
        C, G, H = self._forms
        kappa2 = 8.0 / reach**2
        return (kappa2 * C + 2.0 * G + H / kappa2) / (4.0 * np.pi * sd**2)

    def slope(self, reach: float, sd: float) -> Columns:
        """Its derivative in the range."""
        C, _, H = self._forms
        kappa2 = 8.0 / reach**2
        return (H / kappa2 - kappa2 * C) * (2.0 / reach) / (4.0 * np.pi * sd**2)

    @cached_property
    def _forms(self) -> tuple[Columns, Columns, Columns]:
        """∫ψ_i ψ_j, as if all of a row were on the diagonal; ∫∇ψ_i·∇ψ_j; and what follows for (κ² − Δ)²."""
        corners = self.nodes[self.triangulation.simplices]
        opposite = np.roll(corners, -1, axis=1) - np.roll(corners, -2, axis=1)
        area = 0.5 * np.abs(opposite[:, 0, 0] * opposite[:, 1, 1] - opposite[:, 0, 1] * opposite[:, 1, 0])
        real = area > _NONE * np.median(area)
        at, opposite, area = self.triangulation.simplices[real], opposite[real], area[real]
        n = len(self.nodes)
        mass = np.bincount(at.ravel(), np.repeat(area / 3.0, 3), minlength=n)
        stiff = np.einsum("tik,tjk->tij", opposite, opposite) / (4.0 * area[:, None, None])
        rows, columns = np.repeat(at, 3, axis=1).ravel(), np.tile(at, (1, 3)).ravel()
        G = scipy.sparse.csr_array((stiff.ravel(), (rows, columns)), shape=(n, n)).toarray()
        return np.diag(mass), G, G @ (G / mass[:, None])


class MeshField(Dense):
    """Numbers at the nodes of a mesh, or several independent copies of them, one after the other.

    Parameters
    ----------
    seen : A, shape (rows, copies · n).
    block : the precision of one copy, shape (n, n).

    Examples
    --------
    >>> field = MeshField(scipy.sparse.csr_array(np.eye(4)), np.array([[2.0, -1.0], [-1.0, 2.0]]))
    >>> whole = Dense(np.eye(4), field.precision)
    >>> z = np.arange(4.0)
    >>> np.allclose(field.matvec(z), whole.matvec(z)), bool(np.isclose(field.logdet, whole.logdet))
    (True, True)
    >>> np.allclose(field.row_variance(1e6), whole.row_variance(1e6))
    True
    """

    def __init__(self, seen: Any, block: Columns) -> None:
        self.block, self.copies = block, seen.shape[1] // len(block)
        super().__init__(seen, np.asarray(np.kron(np.eye(self.copies), block), dtype=np.float64))

    def of_rows(self, rows: NDArray[np.intp]) -> MeshField:
        return MeshField(self.seen[rows], self.block)

    def matvec(self, z: Columns) -> Columns:
        return self._blocks(self.block, z)

    def quadratic(self, z: Vector) -> float:
        return float(z @ self.matvec(z))

    @property
    def logdet(self) -> float:
        return -2.0 * self.copies * float(np.log(np.diag(self._root)).sum())

    def row_variance(self, widest: float) -> Vector:
        size = len(self.block)
        seen = self.matrix()
        folded = scipy.sparse.csr_array((seen.data, seen.indices % size, seen.indptr), shape=(seen.shape[0], size))
        return np.minimum(np.asarray((folded @ self._inverse) * folded.toarray()).sum(axis=1), widest)

    def precision_noise(self, rng: np.random.Generator, n: int) -> Columns:
        return self._blocks(self._root, rng.standard_normal((self.size, n)))

    def precision_root(self) -> Columns:
        return np.asarray(np.kron(np.eye(self.copies), self._root.T))

    def gradient(self, slope: Columns, functions: Columns, factor: DenseFactor | None = None) -> float:
        """As of `Dense`; `slope` is that of one copy's precision."""
        found = self.copies * float(np.sum(self._inverse * slope)) - np.sum(functions * self._blocks(slope, functions))
        if factor is not None:
            found -= np.sum(factor.inverse_root * self._blocks(slope, factor.inverse_root))
        return 0.5 * float(found)

    def _blocks(self, block: Columns, z: Columns) -> Columns:
        """The block times each copy's own numbers."""
        columns = z.reshape(self.copies, len(block), -1)
        return np.asarray(block @ columns).reshape(z.shape)

    @cached_property
    def _root(self) -> Columns:
        return np.asarray(np.linalg.cholesky(self.block), dtype=np.float64)

    @cached_property
    def _inverse(self) -> Columns:
        return np.asarray(linalg.cho_solve((self._root, True), np.eye(len(self.block))))


def _thinned(X: Columns, edge: float) -> Columns:
    """Some of the places, none nearer to another than an edge; the same whatever the order of rows."""
    square = np.floor((X - X.min(axis=0)) / (_SQUARE * edge))
    order = np.lexsort((X[:, 1], X[:, 0], square[:, 1], square[:, 0]))
    first = np.ones(len(X), dtype=bool)
    first[1:] = (np.diff(square[order], axis=0) != 0.0).any(axis=1)
    # shuffled: sweeping over the plane would pack them as densely as can be
    few = X[np.random.default_rng(0).permutation(order[first])]
    return _spaced(few, np.full(len(few), edge))


def _spaced(X: Columns, wide: Vector) -> Columns:
    """Those that are so far from all before them, narrow ones first."""
    if not len(X):
        return X
    X, wide = X[np.argsort(wide, kind="stable")], np.sort(wide, kind="stable")
    tree, free, kept = cKDTree(X), np.ones(len(X), dtype=bool), []
    for i in range(len(X)):
        if free[i]:
            kept.append(i)
            free[tree.query_ball_point(X[i], float(wide[i]) * (1.0 - 1e-9))] = False
    return X[kept]


def _lattice(low: Vector, high: Vector, step: float) -> Columns:
    """Corners of triangles with equal edges."""
    tall = step * np.sqrt(0.75)
    n = np.ceil((high - low) / (step, tall)).astype(int) + 1
    if n[0] * n[1] > _MOST_PLACES:
        raise ValueError(
            f"mesh={step / _WIDER:g} is too fine for data that are {np.ptp([low, high], axis=0).max():g} wide"
        )
    column, row = np.meshgrid(np.arange(n[0]), np.arange(n[1]), indexing="ij")
    return np.column_stack([low[0] + step * (column + 0.5 * (row % 2)).ravel(), low[1] + tall * row.ravel()])
