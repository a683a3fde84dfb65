"""How far predictions are from the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import as_numbers, check_finite
from npvi.kernels import diagonal
from npvi.runtime.parallel import threads

if TYPE_CHECKING:
    from npvi.priors import Prior

__all__ = ["Reach", "reach_of"]

#: share of the prior variance above which a prediction counts as the prior
_BEYOND = 0.95


@dataclass(frozen=True, eq=False)
class Reach:
    """How far each predicted row is from the data.

    Attributes
    ----------
    distance : (rows,)
        To the nearest training row, in length scales of the kernel: 0 at a training row, and 3 or more where most
        kernels have nearly forgotten it. In the units of the inputs with kernels that have no length scale (linear, a
        function of your own).
    prior_share : (rows,)
        Var[f | data] over the process's own variance, both without the nugget, at most 1: how much of what was unknown
        before the data still is. Coefficients of the mean that are not known raise it, so that it is 1 for covariates
        far outside of those seen. Of several labels it is the mean over all of them.

    Examples
    --------
    >>> reach = Reach(np.array([0.1, 4.0]), np.array([0.02, 0.99]))
    >>> reach.beyond
    array([False,  True])
    >>> reach.mask([3.5, 8e17])
    array([3.5, nan])
    """

    distance: NDArray[np.float64]
    prior_share: NDArray[np.float64]

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Where a prediction is the prior, or nearly so: a length scale or more from all data, which explain less than
        a twentieth of its variance (``prior_share > 0.95``), so that their correlation with f is below 0.22. (Next to
        data that say little, a prediction is as uncertain, but it isn't far from them.)"""
        return (self.prior_share > _BEYOND) & (self.distance >= 1.0)

    def mask(self, values: Any) -> NDArray[np.float64]:
        """Values of the rows, such as means for a map, with NaN where they are `beyond` the data."""
        values = as_numbers(values, "values")
        check_finite(values, "values")
        if values.ndim and values.shape[-1] != len(self.distance):
            raise ValueError(f"values must have one number per row, {len(self.distance)}; got shape {values.shape}")
        return np.where(self.beyond, np.nan, values)


def reach_of(prior: Prior, Z: NDArray[np.float64], variance: NDArray[np.float64], n_jobs: int | None = None) -> Reach:
    """Of new points Z (M, d), where f has the posterior `variance`, (M,) or (M, C), without the nugget.

    >>> from npvi.graph import build_graph
    >>> from npvi.kernels import RBF
    >>> from npvi.priors import NNGP
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prior = NNGP(RBF(0.5, variance=4.0), 0.0, X, build_graph(X, 2, order="given"))
    >>> reach_of(prior, np.array([[3.0]]), np.array([3.0]))
    Reach(distance=array([2.]), prior_share=array([0.75]))
    """
    with threads(n_jobs):
        nearest = prior.X[prior.nearest(Z)]
        scaled = prior.kernel.scaled_coordinates
        distance = np.linalg.norm(scaled(Z) - scaled(nearest), axis=1)
        before = diagonal(prior.kernel, Z)
    left = variance if variance.ndim == 1 else variance.mean(axis=1)
    # a process without variance, as a linear one at the origin, leaves nothing open
    share = np.divide(left, before, out=np.zeros(len(Z)), where=before > 0.0)
    return Reach(distance, np.minimum(share, 1.0))
