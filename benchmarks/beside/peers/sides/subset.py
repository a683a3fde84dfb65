"""scikit-learn's GaussianProcessRegressor, which is exact and therefore sees only some of the rows.

Kernel as in its guide (scikit-learn.org, "Gaussian Processes"): a constant times a Matérn kernel with a length scale
per input, plus white noise, fitted by maximum likelihood from one starting point, `normalize_y=True`. Positive
responses by their logarithms. Counts by log(1 + y), normal before rounding, so that each has an honest probability.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from benchmarks.beside.peers.sides.base import Side

__all__ = ["Subset"]

_ROWS = 2000


class Subset(Side):
    def __init__(self, noise: str, threads: int, smoothness: float = 1.5) -> None:
        super().__init__(noise, threads)
        self.smoothness = smoothness

    def fit(self, X: np.ndarray, y: np.ndarray, seconds: float) -> GaussianProcessRegressor:
        rows = np.random.default_rng(0).permutation(len(X))[:_ROWS]
        X, z = X[rows], (np.log1p if self.counts else np.log)(y[rows])
        lengths = 0.5 * X.std(axis=0)
        matern = Matern(lengths, (1e-3 * lengths.min(), 1e3 * lengths.max()), nu=self.smoothness)
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * matern + WhiteKernel(0.1, (1e-6, 1e2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a parameter at its bound is an answer too
            return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(X, z)

    def predict(self, model: GaussianProcessRegressor, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return model.predict(X, return_std=True)  # white noise included

    def forecast(self, predicted: tuple[np.ndarray, np.ndarray]) -> Any:
        from benchmarks.beside.peers.forecasts import Mixture, RoundedLogNormal

        mean, sd = predicted
        return RoundedLogNormal(mean, sd) if self.counts else Mixture(False, mean[:, None], sd[:, None] ** 2)
