"""What every estimator answers once it is fitted: how responses at new rows are distributed, and how well that does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from npvi.estimators import validation
from npvi.likelihoods import Likelihood
from npvi.predictive.base import Predictive

__all__ = ["Predicts", "PredictsNumbers", "per_row"]


def per_row(exposure: Any, trials: Any, noise_variance: Any, censored: Any) -> dict[str, Any]:
    """What there may be per row besides the response, by name; None for what isn't given.

    >>> per_row([1.0, 2.5], None, None, None)["exposure"]
    [1.0, 2.5]
    """
    return {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}


class Predicts:
    """An estimator whose `_predictive` gives the predictive distribution of checked rows."""

    likelihood_: Likelihood

    def predict_dist(
        self,
        X: Any,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> Predictive:
        """The predictive distribution of the response at each row of X.

        Parameters
        ----------
        X : (rows, d) array or DataFrame of pandas or polars.
        exposure, trials, noise_variance, censored : data per row, as in ``fit``.

        Returns
        -------
        Predictive
            with ``mean``, ``var``, ``std``, ``quantile(q)``, ``interval(level)``, ``log_prob(y)``, ``sample(n, seed)``,
            ``latent_mean`` and ``latent_var`` (of f, without the nugget) of each row; ``joint_sample(n, seed)``,
            ``total(weights)``, ``latent_total(weights)`` and ``joint_covariance()`` of all rows together, and
            ``reach``, how far they are from the data (which the baselines don't have).
        """
        check_is_fitted(self, "posterior_")
        X = validation.check_inputs(self, X, reset=False)
        row = self.likelihood_.check_row(per_row(exposure, trials, noise_variance, censored), len(X))
        return self._predictive(X, row)

    def log_score(
        self,
        X: Any,
        y: Any,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> float:
        """Mean log predictive density of the responses `y` at `X`: higher is better."""
        dist = self.predict_dist(X, exposure, trials, noise_variance, censored)
        return float(np.mean(dist.log_prob(self._scored(y))))

    def _predictive(self, X: NDArray[np.float64], row: dict[str, NDArray]) -> Any:
        """The predictive distribution at checked rows, with what there is per row."""
        raise NotImplementedError

    def _scored(self, y: Any) -> Any:
        """Responses as the predictive distribution takes them."""
        return y


class PredictsNumbers(Predicts, RegressorMixin):
    """One whose responses are numbers: a regressor of scikit-learn."""

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> Any:
        """Mean of the response at each row of X; with `return_std` also its standard deviation."""
        dist = self.predict_dist(X, exposure, trials, noise_variance, censored)
        return (dist.mean, dist.std) if return_std else dist.mean
