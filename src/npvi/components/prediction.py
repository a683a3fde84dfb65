"""The predictor at new rows: means, variances, covariances and joint draws of some of its parts, or of all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.components.drawn_variance import DrawnVariance
from npvi.components.new_rows import NewRows, OfProcess
from npvi.components.parts import Dependence, PartsPrecision
from npvi.components.precision_posterior import precision_posterior
from npvi.components.process import Process

__all__ = ["PartsPrediction", "Seen"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: draws that tell how parts without few numbers depend on each other
_DRAWS = 256
#: numbers held at a time
_NUMBERS = 2**24
#: to which systems are solved for covariances
_TOLERANCE = 1e-6


class PartsPrediction:
    """What is found once for all predictions of a fitted predictor.

    Where all is dense, variances are exact. Else those of a part given all others are its factor's, what parts of few
    numbers add is known without draws too, and only how the other parts depend on each other is told by draws: of one
    such part nothing is drawn.

    Parameters
    ----------
    precision : Λ, of the posterior.
    mean : of z.
    """

    def __init__(self, precision: PartsPrecision, mean: Vector) -> None:
        self.precision, self.mean, self.parts = precision, mean, precision.parts

    @cached_property
    def split_mean(self) -> list[Vector]:
        """The means of each part's numbers."""
        return self.parts.split(self.mean)

    @property
    def slices(self) -> list[slice]:
        """Where each part's numbers are."""
        return self.parts.slices

    def covariance_of_few(self, some: slice) -> Columns:
        """The posterior covariance of the numbers of a part that has few."""
        root = self.precision.root if self.precision.is_dense else self.precision.few_root
        return root[some] @ root[some].T

    @cached_property
    def _known(self) -> list[Any]:
        """What tells the variance of each part given the others that aren't few."""
        return [self._posterior(component, factor) for component, factor in zip(*self.precision.apart())]

    @staticmethod
    def _posterior(component: Any, factor: Any) -> Any:
        if not isinstance(component, Process):
            return factor
        size, w = component.size, factor.site_precision
        variance = factor.inverse_diagonal()
        return precision_posterior(component.prior, np.zeros(size), variance, w, factor.factor(), factor.route)[0]

    @cached_property
    def _drawn(self) -> Dependence:
        """How all parts that aren't few depend on each other."""
        return self.precision.apart_draws(np.random.default_rng(0), _DRAWS)

    def variance(self, new: Sequence[NewRows | None]) -> Vector:
        """Of the sum of the parts that are there, at new rows; parts that aren't wanted are None."""
        given = [one for one in new if one is not None]
        fresh = np.asarray(sum((one.fresh for one in given), np.zeros(_rows(given))))
        if self.precision.is_dense:
            return fresh + self._squares(new, self.precision.root)
        total = fresh + self._squares(new, self.precision.few_root)
        where = self.precision.parts.apart
        wanted = [(k, j) for k, j in enumerate(where) if new[j] is not None]
        if not wanted:
            return total
        alone = [self._alone(k, new[j]) for k, j in wanted]
        return total + (alone[0] if len(where) == 1 else self._with_draws(new, [j for _, j in wanted], alone))

    def _alone(self, k: int, rows: Any) -> Vector:
        """The variance of one part given all others."""
        known = self._known[k]
        if isinstance(rows, OfProcess):
            return np.asarray(known.projected_variance(rows.neighbors, rows.weights))
        component: Any = self.precision.parts.components[self.precision.parts.apart[k]]
        d = component.width
        a = rows.matrix.tocsr()
        level = np.zeros(a.shape[0], dtype=np.int64)
        seen = np.diff(a.indptr) > 0
        level[seen] = a.indices[a.indptr[:-1][seen]] // d
        weight = np.zeros((len(level), d))
        weight[seen] = a.data.reshape(-1, d)
        return np.einsum("ij,ijk,ik->i", weight, known.inverse[level], weight)

    def _with_draws(self, new: Sequence[NewRows | None], wanted: list[int], alone: list[Vector]) -> Vector:
        """The variance of the sum of some parts, for that of each given all others."""
        drawn = self._drawn
        at = dict(zip(self.parts.apart, self.precision.apart_slices()))
        out = np.empty(len(alone[0]))
        step = max(1, _NUMBERS // (_DRAWS * len(wanted)))
        for start in range(0, len(out), step):
            some = slice(start, start + step)
            rows: list[Any] = [new[j].matrix[some] for j in wanted]  # type: ignore[union-attr]
            draws, means, *levels = ([B @ z[at[j]] for B, j in zip(rows, wanted)] for z in drawn)
            found = DrawnVariance([known[some] for known in alone], *levels)
            found.add(draws, means)
            out[some] = found.value()
        return out

    def _squares(self, new: Sequence[NewRows | None], root: Columns) -> Vector:
        """Of a covariance root rootᵀ of z."""
        out = np.zeros(_rows([one for one in new if one is not None]))
        if not root.shape[1]:
            return out
        B = self._matrix(new)
        step = max(1, _NUMBERS // root.shape[1])
        for start in range(0, len(out), step):
            seen = B[start : start + step] @ root
            out[start : start + step] = np.einsum("ij,ij->i", seen, seen)
        return out

    def _matrix(self, new: Sequence[NewRows | None]) -> Any:
        n = _rows([one for one in new if one is not None])
        blocks = [
            scipy.sparse.csr_array((n, component.size)) if one is None else one.matrix
            for one, component in zip(new, self.parts.components)
        ]
        return scipy.sparse.hstack(blocks, format="csr")

    def means(self, new: Sequence[NewRows | None]) -> list[Vector | None]:
        """Of each part at new rows."""
        return [None if one is None else one.matrix @ z for one, z in zip(new, self.parts.split(self.mean))]


class Seen:
    """The sum of some parts at new rows taken together: joint draws, and covariances by one solve for each sum.

    Parameters
    ----------
    prediction : of the fitted predictor.
    new : what the rows see of each part; None for those that aren't wanted.
    mean : of the predictor there, shape (rows,): each row from all it can see.
    """

    def __init__(self, prediction: PartsPrediction, new: Sequence[NewRows | None], mean: Vector) -> None:
        self._prediction, self._new, self._mean = prediction, list(new), mean

    @property
    def n_points(self) -> int:
        """Numbers that a draw has, about."""
        return self._prediction.parts.size + len(self._mean)

    @cached_property
    def _joint(self) -> list[Any]:
        return [None if one is None else one.joint for one in self._new]

    def __call__(self, n: int, rng: np.random.Generator) -> Columns:
        """n draws, shape (rows, n)."""
        out = np.empty((len(self._mean), n))
        step = max(1, _NUMBERS // self.n_points)
        for start in range(0, n, step):
            count = min(step, n - start)
            z = self._prediction.precision.draws(rng, count)
            noise = [
                np.zeros((0, count)) if one is None else rng.standard_normal((one.n_noise, count))
                for one in self._joint
            ]
            out[:, start : start + count] = self._propagated(z, noise)
        return out + self._mean[:, None]

    def covariance(self, weights: Columns | None = None) -> Columns:
        """Of the predictor between all rows, or of its weighted sums, weights of shape (rows, R)."""
        weights = np.eye(len(self._mean)) if weights is None else np.asarray(weights, dtype=np.float64)
        old, noise = [], []
        for joint, component in zip(self._joint, self._prediction.parts.components):
            if joint is None:
                old.append(np.zeros((component.size, weights.shape[1])))
            else:
                seen, fresh = joint.adjoint(np.ascontiguousarray(weights))
                old.append(seen)
                noise.append(fresh)
        across = np.concatenate(old)
        found = across.T @ self._prediction.precision.solve(across, _TOLERANCE)
        found = found + sum((fresh.T @ fresh for fresh in noise), np.zeros_like(found))
        return 0.5 * (found + found.T)

    def _propagated(self, z: Columns, noise: list[Columns]) -> Columns:
        total = np.zeros((len(self._mean), z.shape[1]))
        for joint, own, fresh in zip(self._joint, self._prediction.parts.split(z), noise):
            if joint is not None:
                total += joint.propagate(own, fresh)
        return total


def _rows(given: Sequence[NewRows]) -> int:
    return int(given[0].matrix.shape[0]) if given else 0
