"""What a classifier adds for three or more labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.categorical import CategoricalPredictive
from npvi.estimators.latent import joint_neighbors
from npvi.joint import JointSampler
from npvi.parallel import threads
from npvi.priors import Joint

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP
    from npvi.estimators.latent import Latent

__all__ = ["predictive"]


def predictive(model: BaseGP, classes: NDArray, latent: Latent) -> CategoricalPredictive:
    """The distribution of the labels at new rows."""
    about = (_ClassSampler(model, latent), latent.nugget, latent.reach(model))
    return CategoricalPredictive(classes, latent.mean, latent.variance, *about)


class _ClassSampler:
    """Joint draws of the functions of all classes: independent of each other, with the same neighbours."""

    def __init__(self, model: BaseGP, latent: Latent) -> None:
        self._model, self._latent = model, latent
        self._prediction: Joint | None = None

    def __call__(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws, shape (rows, n, C)."""
        model, latent = self._model, self._latent
        neighbors = joint_neighbors(model)
        if self._prediction is None:
            with threads(model.n_jobs):
                self._prediction = model.prior_.joint(latent.places, neighbors)
        posteriors: Any = model.posterior_
        trends: Any = model.trend_
        draws = []
        for c, (posterior, trend) in enumerate(zip(posteriors.parts, trends.parts)):
            mean = np.ascontiguousarray(latent.mean[:, c])
            sampler = JointSampler(
                model.prior_, posterior, latent.places, mean, neighbors, model.n_jobs, trend, latent.basis
            )
            vars(sampler)["_prediction"] = self._prediction  # found once for all classes
            draws.append(sampler(n, rng))
        return np.stack(draws, axis=2)
