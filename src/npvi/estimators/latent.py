"""The latent function of a fitted model at new rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from npvi.estimators.settings import neighbors_of
from npvi.graph.tree import build_tree
from npvi.predictive.joint import JointSampler
from npvi.predictive.reach import Reach, reach_of
from npvi.runtime import progress
from npvi.runtime.parallel import threads

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP

__all__ = ["Latent", "joint_neighbors", "latent_at"]

#: neighbours of a new row, in units of K: far from all data, where the nearest ones are all on one side, more of them
#: say more, and unlike in a fit they are cheap
_TIMES = 3
#: those of a new row among old and new ones, where all are taken together: with K of them standard deviations of single
#: rows were up to 1 % off in rms, with one and a half times as many 0.1 to 0.4 %
_JOINT_TIMES = 1.5
#: new rows handled at a time, which bounds the memory of prediction
_ROWS = 2**16


@dataclass(frozen=True)
class Latent:
    """f at new rows: what the process and the mean function see of them, means and variances.

    The variance is that of the surface; a response has the nugget of its row besides.
    """

    places: NDArray[np.float64]
    basis: NDArray[np.float64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    nugget: float

    def reach(self, model: BaseGP) -> Callable[[], Reach]:
        """How far the rows are from the data, once it is asked for."""
        return partial(reach_of, model.prior_, self.places, self.variance, model.n_jobs)

    def sampler(self, model: BaseGP, nugget: bool = False) -> JointSampler:
        """Draws of f at all of the rows together, with or without the nugget."""
        return JointSampler(
            model.prior_,
            model.posterior_,
            self.places,
            self.mean,
            joint_neighbors(model),
            model.n_jobs,
            model.trend_,
            self.basis,
            nugget,
        )


def joint_neighbors(model: BaseGP) -> int | None:
    """How many points, old and new, a new row is conditioned on where all are taken together; None: what `prior_` does.

    The paper's method has K, like everything else of it; and where those are all, so they stay."""
    k = model.prior_.graph.n_neighbors
    if model.method != "full" or k >= model.prior_.graph.n_points - 1:
        return neighbors_of(model)
    return int(_JOINT_TIMES * k)


def latent_at(model: BaseGP, X: NDArray[np.float64]) -> Latent:
    """Means and variances of f at new rows, without the nugget; with a column per class where there are several."""
    places, basis = model.linear_part_.places(X), model.linear_part_.basis(X)
    coefficients = model.trend_.coefficients
    residual = model.posterior_.mean - model.basis_ @ coefficients
    mean, variance = np.empty((2, len(X), *residual.shape[1:]))
    times = _TIMES if model.method == "full" else 1  # the paper's predictions look at K, like everything else of it
    with threads(model.n_jobs):
        # neighbours in space one after the other: they have their neighbours in common
        visit = build_tree(model.kernel_.coordinates(places)).rows
        for start in range(0, len(X), _ROWS):
            rows = visit[start : start + _ROWS]
            given = model.prior_.conditional(places[rows], times)
            mean[rows] = basis[rows] @ coefficients + given.mean(residual)
            unsure = given.projected_variance(model.posterior_)
            unsure += model.trend_.projected_variance(basis[rows], given)
            variance[rows] = (given.variance + unsure.T).T
            progress.report("predict", rows=min(len(X), start + _ROWS), of=len(X))
    nugget = model.prior_.nugget
    return Latent(places, basis, mean, np.maximum(variance - nugget, 0.0), nugget)
