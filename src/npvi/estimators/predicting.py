"""What every estimator answers once it is fitted: how responses at new rows are distributed, and how well that does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from npvi.checks import LARGEST, as_numbers, check_finite, check_flag
from npvi.estimators import validation
from npvi.likelihoods import Likelihood
from npvi.predictive import Predictive
from npvi.runtime.warn import warn

__all__ = ["ROW", "Predicts", "PredictsNumbers", "forgotten", "per_row", "r_squared", "warn_forgotten"]

ROW = ("exposure", "trials", "noise_variance", "censored")
"""What there may be per row besides the response."""
#: what a prediction means without it. Measurements without an error of their own can't be asked for otherwise, and of a
#: censored response it is the true value that is predicted
_WITHOUT = {"exposure": "every row counts as exposure 1", "trials": "every row counts as one trial"}


def per_row(exposure: Any, trials: Any, noise_variance: Any, censored: Any) -> dict[str, Any]:
    """What there may be per row besides the response, by name; None for what isn't given.

    >>> per_row([1.0, 2.5], None, None, None)["exposure"]
    [1.0, 2.5]
    """
    return {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}


def forgotten(model: Any, given: Mapping[str, Any]) -> list[str]:
    """What a model was fitted with, and responses at new rows depend on, but isn't given there."""
    fitted = getattr(model, "_row_of_fit", ())
    return [name for name in _WITHOUT if name in fitted and given.get(name) is None]


def warn_forgotten(model: Any, given: Mapping[str, Any]) -> None:
    """Warn where it isn't given."""
    for name in forgotten(model, given):
        warn(
            f"the model was fitted with {name}, and none is given here: {_WITHOUT[name]}. Give {name}=…, or "
            f"{name}=1.0 if that is what you want"
        )


def r_squared(y: Any, mean: NDArray[np.float64], sample_weight: Any) -> float:
    """R² of predicted means, with checked responses and weights."""
    from sklearn.metrics import r2_score  # which takes long to import

    seen = as_numbers(validation.check_column(y, "y"), "y")
    if len(seen) != len(mean):
        raise ValueError(f"y must have one number per row, {len(mean)} in all; got {len(seen)}")
    check_finite(seen, "y", LARGEST / 1e10)  # a sum of their squares is a number too
    return float(r2_score(seen, mean, sample_weight=validation.check_weights(sample_weight, mean)))


class Predicts:
    """An estimator whose `_predictive` gives the predictive distribution of checked rows."""

    likelihood_: Likelihood
    #: scikit-learn passes these on where its metadata routing is on, without being asked
    __metadata_request__fit: ClassVar[dict[str, Any]] = dict.fromkeys(ROW, True)

    @property
    def _row_of_fit(self) -> tuple[str, ...]:
        """What there was per row of the training data besides the response."""
        return tuple(getattr(getattr(self, "data_", None), "row", ()))

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
        exposure, trials, noise_variance, censored : data per row, as in ``fit``. A warning says where `exposure` or
            `trials` were given there and aren't here; ``exposure=1.0`` is for predictions per unit.

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
        given = per_row(exposure, trials, noise_variance, censored)
        warn_forgotten(self, given)
        row = self.likelihood_.check_row(given, len(X))
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

    __metadata_request__predict: ClassVar[dict[str, Any]] = dict.fromkeys(ROW, True)
    __metadata_request__score: ClassVar[dict[str, Any]] = dict.fromkeys(ROW, True)

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
        return_std = check_flag(return_std, "return_std")
        dist = self.predict_dist(X, exposure, trials, noise_variance, censored)
        return (dist.mean, dist.std) if return_std else dist.mean

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> float:
        """R² of the means, scikit-learn's score of regressors: 1 is best, 0 is that of a constant."""
        mean = self.predict(X, exposure=exposure, trials=trials, noise_variance=noise_variance, censored=censored)
        return r_squared(y, mean, sample_weight)
