"""What a classifier adds for three or more labels."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.estimators.latent import joint_neighbors
from npvi.predictive.categorical import CategoricalPredictive
from npvi.predictive.joint import JointSampler
from npvi.runtime.parallel import threads

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

    def __call__(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws, shape (rows, n, C)."""
        return np.stack([sampler(n, rng) for sampler in self._samplers], axis=2)

    @cached_property
    def _samplers(self) -> list[JointSampler]:
        model, latent = self._model, self._latent
        posteriors: Any = model.posterior_
        trends: Any = model.trend_
        neighbors = joint_neighbors(model)
        with threads(model.n_jobs):
            prediction = model.prior_.joint(latent.places, neighbors)
        samplers = []
        for c, (posterior, trend) in enumerate(zip(posteriors.parts, trends.parts)):
            mean = np.ascontiguousarray(latent.mean[:, c])
            sampler = JointSampler(
                model.prior_, posterior, latent.places, mean, neighbors, model.n_jobs, trend, latent.basis
            )
            vars(sampler)["_prediction"] = prediction  # found once for all classes
            samplers.append(sampler)
        return samplers
