"""GPBoost's Vecchia approximation.

Settings: the defaults of `GPModel` (20 neighbours, random order, L-BFGS, twice the neighbours in predictions) with an
intercept, as in its examples (github.com/fabsig/GPBoost, examples/python-guide). In its favour:

* `matrix_inversion_method="cholesky"`: on 20,000 counts it was faster than the default, the iterative one;
* the smoothness that scored best with it on each data set;
* with more than two inputs, a range for each (`matern_ard`).

At held parameters `predict(y=…, cov_pars=…)` does everything, inference included. Nothing is computed before it: a fit
or a likelihood at the same parameters would count that work twice.
"""

from __future__ import annotations

from typing import Any

import gpboost
import numpy as np

from benchmarks.beside.peers.sides.base import Side

__all__ = ["Vecchia"]


class Vecchia(Side):
    """`exponential`, a length scale and a variance, holds the kernel at these numbers, with a zero mean."""

    def __init__(
        self,
        noise: str,
        threads: int,
        smoothness: float = 0.5,
        route: str = "cholesky",
        exponential: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(noise, threads)
        self.smoothness, self.route = smoothness, route
        self.held = None if exponential is None else np.array([exponential[1], exponential[0]])

    def fit(self, X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
        z = np.log(y) if self.noise == "lognormal" else y
        model = gpboost.GPModel(
            gp_coords=X,
            cov_function="matern" if X.shape[1] <= 2 else "matern_ard",
            cov_fct_shape=self.smoothness,
            likelihood="gaussian" if self.noise == "lognormal" else self.noise,
            gp_approx="vecchia",
            num_neighbors=20,
            matrix_inversion_method=self.route,
            num_parallel_threads=self.threads,
            seed=0,
        )
        if self.held is None:
            model.fit(y=z, X=np.ones((len(z), 1)), params={"trace": False})
        return model, z

    def predict(self, model: Any, X: np.ndarray) -> dict[str, Any]:
        gp, z = model
        given = {"X_pred": np.ones((len(X), 1))} if self.held is None else {"cov_pars": self.held, "y": z}
        found = gp.predict(gp_coords_pred=X, predict_var=True, predict_response=False, **given)
        return {"mean": found["mu"], "var": found["var"], "number": self._number(gp)}

    def forecast(self, predicted: dict[str, Any]) -> Any:
        from benchmarks.beside.peers.forecasts import latent_normal

        return latent_normal(self.noise, **predicted)

    def _number(self, gp: Any) -> float | None:
        """Variance of log-normal noise, which comes first among GPBoost's covariance parameters; shape; dispersion."""
        if self.noise == "poisson":
            return None
        found = gp.get_cov_pars if self.noise == "lognormal" else gp.get_aux_pars
        return float(np.ravel(found(format_pandas=False))[0])
