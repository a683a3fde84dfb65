"""npvi with everything at its default except the likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

import npvi
from benchmarks.beside.peers.sides.base import Side

__all__ = ["Ours"]


class Ours(Side):
    """`exponential`, a length scale and a variance, holds the kernel at these numbers, with a zero mean."""

    warm_up_rows = None  # all: the shapes of a smaller fit would compile again

    def __init__(self, noise: str, threads: int, exponential: tuple[float, float] | None = None) -> None:
        super().__init__(noise, threads)
        self.settings: dict[str, Any] = {"n_jobs": threads}
        if exponential is not None:
            held = {"kernel": npvi.kernels.Matern12(*exponential), "nugget": 1e-6, "learn": False, "mean": "zero"}
            self.settings |= held

    def fit(self, X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
        if self.noise == "varying_lognormal":
            return npvi.VaryingNoiseRegressor(npvi.GPRegressor("lognormal", **self.settings)).fit(X, y)
        return npvi.GPRegressor(self.noise, **self.settings).fit(X, y)

    def predict(self, model: Any, X: np.ndarray) -> Any:
        return model.predict_dist(X)

    def forecast(self, predicted: Any) -> Any:
        return predicted
