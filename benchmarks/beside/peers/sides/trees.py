"""scikit-learn's histogram gradient boosting.

Its defaults, with as many trees as its early stopping finds useful (up to 2,000; scikit-learn.org, "Histogram-Based
Gradient Boosting"). Counts by the Poisson loss; positive responses by squared errors of their logarithms. Trees
predict no spread: the tenth of the training rows that stops the growth also gives one, the dispersion of negative
binomial counts or the variance of log y that makes these rows most probable.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from benchmarks.beside.peers.forecasts import Mixture
from benchmarks.beside.peers.sides.base import Side

__all__ = ["Trees"]


class Trees(Side):
    def fit(self, X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
        z = y if self.counts else np.log(y)
        X, X_held, z, z_held, _, y_held = train_test_split(X, z, y, test_size=0.1, random_state=0)
        loss = "poisson" if self.counts else "squared_error"
        trees = HistGradientBoostingRegressor(loss=loss, max_iter=2000, early_stopping=True, random_state=0)
        trees.fit(X, z, X_val=X_held, y_val=z_held)
        centre = trees.predict(X_held)
        if not self.counts:
            return trees, float(np.mean((z_held - centre) ** 2))

        def loss_of(log_dispersion: float) -> float:
            return -float(Mixture(True, centre[:, None], np.exp(log_dispersion)).log_prob(y_held).mean())

        return trees, float(np.exp(minimize_scalar(loss_of, bounds=(-4.0, 8.0), method="bounded").x))

    def predict(self, model: Any, X: np.ndarray) -> Mixture:
        trees, spread = model
        return Mixture(self.counts, trees.predict(X)[:, None], spread)

    def forecast(self, predicted: Mixture) -> Mixture:
        return predicted
