"""What the estimators share: fitting, more data, what was learned, predicting."""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from npvi.checks import as_numbers, check_flag, random_state
from npvi.components import Trend
from npvi.estimators import validation
from npvi.estimators.mapping import Maps
from npvi.estimators.named import NamedParts
from npvi.estimators.predicting import Predicts, per_row
from npvi.estimators.validation import settings_on_map
from npvi.graph import Graph
from npvi.inference import Data
from npvi.kernels import Kernel
from npvi.learning import TWO_SIDED, Table, parameter_table, with_smoothness
from npvi.likelihoods import Likelihood, as_likelihood
from npvi.model import Fitted, Hyper, Interrupted, LinearPart, Spec, fit, predict, spec_of, update, warn_about_sums
from npvi.posteriors import Posterior
from npvi.priors import Prior, Structure
from npvi.runtime import progress
from npvi.runtime.interrupts import interrupts_remembered
from npvi.runtime.parallel import threads

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BaseGP"]


def _of_fitted(path: str, doc: str) -> Any:
    return property(attrgetter(f"fitted_.{path}"), doc=doc)


class BaseGP(NamedParts, Maps, Predicts, BaseEstimator):
    """What both estimators share; the parameters are documented in `GPRegressor`."""

    fitted_: Fitted
    _takes_points = True

    def __init__(
        self,
        likelihood="gaussian",
        kernel="matern",
        nugget=None,
        mean="constant",
        method="full",
        prior="nngp",
        optimizer="closed",
        n_neighbors="auto",
        rule="nearest",
        order="maximin",
        inducing="kmeans",
        n_inducing=200,
        network="sites",
        solve="cg",
        refine=0,
        learn=True,
        coords=None,
        coefficient_scale="weak",
        hyperprior="weak",
        hyper="auto",
        tol=1e-7,
        max_iter=200,
        random_state=None,
        n_jobs=None,
        verbose=0,
        terms=None,
        formula=None,
        link=None,
    ):
        self.likelihood = likelihood
        self.kernel = kernel
        self.nugget = nugget
        self.mean = mean
        self.method = method
        self.prior = prior
        self.optimizer = optimizer
        self.n_neighbors = n_neighbors
        self.rule = rule
        self.order = order
        self.inducing = inducing
        self.n_inducing = n_inducing
        self.network = network
        self.solve = solve
        self.refine = refine
        self.learn = learn
        self.coords = coords
        self.coefficient_scale = coefficient_scale
        self.hyperprior = hyperprior
        self.hyper = hyper
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.terms = terms
        self.formula = formula
        self.link = link

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> Self:
        """Learn the hyper-parameters and fit the posterior of f at the training points.

        Parameters
        ----------
        X : (N, d) array or DataFrame of pandas or polars.
        y : (N,) responses.
        sample_weight : (N,) weights, optional: the log-likelihood of each row is multiplied by its weight.
        exposure : (N,) positive numbers, optional: multiplies the mean of counts (area, time, population).
        trials : (N,) whole numbers, optional: of which y succeeded (binomial noise).
        noise_variance : (N,) positive numbers, optional: known variance of each observation (Gaussian
            noise), or of its logarithm (log-normal).
        censored : (N,) of −1, 0, 1, optional: y is a lower (1) or upper (−1) limit of the true value (censored noise).

        Returns
        -------
        self
        """
        for name in ("terms", "formula", "link"):
            if getattr(self, name, None) is not None:
                raise ValueError(
                    f"{name} is for GPRegressor: of two labels, GPRegressor('bernoulli', {name}=…) has them"
                )
        with interrupts_remembered():
            self._fit(X, y, sample_weight, per_row(exposure, trials, noise_variance, censored))
        warn_about_sums(self.fitted_, getattr(self, "classes_", None))
        return self

    def _fit(
        self, X: Any, y: Any, weight: Any, row: dict[str, Any], previous: Fitted | None = None, labels: Any = None
    ) -> Self:
        """`fit`, without a word on the sums. `previous`, fitted to the same rows, lends its graph and its posterior as
        a start; `labels` has all there are, where `y` may lack some."""
        X, y, weight = self._checked(X, y, weight)
        y = self._encode(y, labels)
        if isinstance(self.learn, str) and self.learn == "grid":
            return self._fit_by_grid(X, y, weight, row)
        return self._fit_checked(X, y, weight, row, previous)

    def _checked(self, X: Any, y: Any, weight: Any) -> tuple[NDArray[np.float64], Any, NDArray[np.float64] | None]:
        """What a fit is given, as arrays."""
        X, y = validation.check_response(self, X, y)
        return X, y, validation.check_weights(weight, X)

    def _fit_checked(
        self,
        X: NDArray[np.float64],
        y: NDArray,
        weight: NDArray[np.float64] | None,
        row: dict[str, Any],
        previous: Fitted | None = None,
        **held: Any,
    ) -> Self:
        """The same with some settings `held` at other values."""
        likelihood = self._likelihood()
        if isinstance(self.likelihood, str):
            likelihood = likelihood.sized_for(y)
        spec = self._spec(likelihood, X.shape[1], mean=self._mean(y, weight), **held)
        data = spec.data(y, row, weight)
        report = progress.print_progress if self.verbose else None
        try:
            with threads(self.n_jobs), progress.reporting(report):
                self.fitted_ = fit(spec, X, data, previous)
        except Interrupted as stop:
            self.fitted_ = stop.fitted
            raise KeyboardInterrupt(str(stop)) from None
        return self

    def _fit_by_grid(self, X: NDArray, y: NDArray, weight: NDArray | None, row: dict[str, Any]) -> Self:
        """The paper's way: the length scale that scores best on a validation split, then all rows with that one."""
        import pandas as pd  # slow imports, needed only here

        from npvi.selection import grid_search

        names = getattr(self, "feature_names_in_", None)
        table = X if names is None else pd.DataFrame(X, columns=names)
        result = grid_search(clone(self), table, y, sample_weight=weight, **row)
        self._fit_checked(X, y, weight, row, kernel=result.best_model.kernel, learn=False)
        self.fit_info_["grid"] = result.table.to_dict("list")
        return self

    def _spec(self, likelihood: Likelihood, n_columns: int, **held: Any) -> Spec:
        """What the settings, some of them `held` at other values, say of the model."""
        names = getattr(self, "feature_names_in_", None)
        seed = int(random_state(self.random_state).randint(np.iinfo(np.int32).max))
        # of an estimator that is derived from ours, which may have other parameters of its own
        settings = {name: getattr(self, name) for name in BaseGP._get_param_names()} | held
        crs = getattr(self, "crs_", None)
        if crs is not None:
            settings = settings_on_map(settings, crs)
        return spec_of(settings, likelihood, n_columns, names, seed)

    # -- what the estimators differ in --------------------------------------------------------------------------------

    def _encode(self, y: NDArray, every: Any = None) -> NDArray:
        """Responses as numbers; `every` has all labels, where `y` may lack some."""
        raise NotImplementedError

    def _encode_new(self, y: Any) -> Any:
        """Responses of new rows as numbers."""
        return as_numbers(y, "y")

    def _scored(self, y: Any) -> Any:
        return self._encode_new(y)

    def _mean(self, y: NDArray, weight: NDArray[np.float64] | None) -> str:
        """The prior mean to use."""
        return self.mean

    def _likelihood(self) -> Likelihood:
        return as_likelihood(self.likelihood)

    # -- more data ----------------------------------------------------------------------------------------------------

    def update(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> Self:
        """Let new observations join the posterior; hyper-parameters stay as they are.

        The new points come last in the graph, and the posterior starts from the one there is: the answer is that of a
        fit from scratch on the extended graph.
        """
        check_is_fitted(self, "posterior_")
        X = validation.check_inputs(self, X, reset=False)
        y = self._encode_new(y)
        if y.shape != (len(X),):
            raise ValueError(f"y must have one number per row of X, {len(X)} in all; got shape {y.shape}")
        likelihood = self.likelihood_
        y = likelihood.check_response(y)
        row = likelihood.check_row(per_row(exposure, trials, noise_variance, censored), len(X), y)
        weight = validation.check_weights(sample_weight, X)
        with interrupts_remembered(), threads(self.n_jobs):
            self.fitted_ = update(self.fitted_, X, Data(likelihood, y, row, weight))
        warn_about_sums(self.fitted_, getattr(self, "classes_", None))
        return self

    def partial_fit(self, X: Any, y: Any, **extras: Any) -> Self:
        """`fit` the first time, `update` from then on."""
        return self.update(X, y, **extras) if hasattr(self, "posterior_") else self.fit(X, y, **extras)

    # -- what was learned ---------------------------------------------------------------------------------------------

    def summary(self, standard_errors: bool = False) -> pd.DataFrame:
        """Hyper-parameters and coefficients of the mean, one row each: value, standard error, and a 95 % interval.

        The smoothness of a `Matern` is among them, without the latter two. ``summary().attrs`` has the model's
        ``likelihood``, its number of ``rows`` and its ``bound``, which are shown above the table.

        Where hyper-parameters were integrated over, these are of their posterior: the error is the root mean square
        about the value, on its own scale, and the interval is symmetric on that of learning (the logarithm, for
        positive numbers).

        Parameters
        ----------
        standard_errors : whether to compute those of the hyper-parameters where they are not known yet; it takes about
            four evaluations of the bound for each.
        """
        check_is_fitted(self, "posterior_")
        standard_errors = check_flag(standard_errors, "standard_errors")
        fitted = self.fitted_
        table = Table(fitted.prior.X, fitted.data, fitted.basis)
        known = {} if fitted.hyper is None else {row["parameter"]: row for row in fitted.hyper.table}
        with threads(self.n_jobs):
            weak, wanted = fitted.spec.hyperprior == "weak", standard_errors and not known
            graph, said = fitted.prior.graph, fitted.spec.said
            rows = parameter_table(table, fitted.model, said, graph, fitted.start, wanted, weak)
        rows = with_smoothness(rows, self.kernel_, self.prior_.X)
        rows = [{**row, **known.get(row["parameter"], {})} for row in rows]
        for name, (value, error) in self._coefficients().items():
            ends = {"lower": value - TWO_SIDED * error, "upper": value + TWO_SIDED * error}
            rows.append({"parameter": f"mean__{name}", "value": value, "standard_error": error, **ends})
        import pandas as pd  # slow imports, needed only here

        from npvi.estimators.summary import Summary

        found = Summary(pd.DataFrame(rows).set_index("parameter"))
        found.attrs = {
            "likelihood": repr(self.likelihood_),
            "rows": int(self.graph_.n_points),
            "bound": float(self.elbo_),
        }
        return found

    def _coefficients(self) -> dict[str, tuple[float, float]]:
        """Each coefficient of the mean and its standard error, for the covariates as they came."""
        return self.fitted_.coefficients()[0]

    @property
    def mean_coefficients_(self) -> NDArray[np.float64]:
        """Coefficients of the prior mean, for the covariates as they came: the constant first, where there is one."""
        return np.array([value for value, _ in self.fitted_.coefficients()[0].values()])

    kernel_: Kernel = _of_fitted("model.kernel", "The kernel, with its numbers.")
    likelihood_: Likelihood = _of_fitted("model.likelihood", "The likelihood, with its numbers.")
    nugget_: float = _of_fitted("model.nugget", "The nugget.")
    structure_: Structure = _of_fitted("model.structure", "How the process is approximated.")
    coefficient_precision_: NDArray = _of_fitted("model.coefficient_precision", "Of the prior of the coefficients.")
    graph_: Graph = _of_fitted("graph", "The graph, with the caller's rows.")
    prior_: Prior = _of_fitted("prior", "The prior at the training points, in the graph's order.")
    posterior_: Posterior = _of_fitted("posterior", "The posterior there.")
    trend_: Trend = _of_fitted("trend", "The posterior of the coefficients of the mean.")
    linear_part_: LinearPart = _of_fitted("linear_part", "Which columns the process sees, and which enter the mean.")
    data_: Data = _of_fitted("data", "The observations, in the graph's order.")
    basis_: NDArray[np.float64] = _of_fitted("basis", "The columns of the prior mean, in the graph's order.")
    elbo_: float = _of_fitted("elbo", "The evidence lower bound.")
    n_iter_: int = _of_fitted("n_iter", "Iterations of the fit, at least 1.")
    fit_info_: dict[str, Any] = _of_fitted("info", "How the fit went.")
    recognizer_: Any = _of_fitted("recognizer", "The network that was used, if one was.")
    companion_weight_: float = _of_fitted("companion_weight", "The share of the companion in predictions.")

    @property
    def companion_(self) -> Self | None:
        """A second fitted model, of another smoothness, or None."""
        companion = self.fitted_.companion
        return None if companion is None else self._beside(companion)

    @property
    def hyper_(self) -> Hyper | None:
        """Models at other hyper-parameters that predictions are mixed from, with their weights, or None."""
        hyper = self.fitted_.hyper
        return hyper and Hyper([self._beside(node) for node in hyper.models], hyper.weights, hyper.table)

    def _beside(self, fitted: Fitted) -> Self:
        """An estimator that has `fitted`, which is a part of this one's; with the same labels and names."""
        other, spec = copy.copy(self), fitted.spec
        other.fitted_ = fitted
        if self.learn and not spec.learn:  # a companion was fitted at the numbers that it was found to have
            other.learn = False
            for name in ("kernel", "likelihood", "nugget", "inducing", "optimizer"):
                setattr(other, name, getattr(spec, name))
        return other

    # -- prediction ---------------------------------------------------------------------------------------------------

    def _predictive(self, X: NDArray[np.float64], row: dict[str, NDArray]) -> Any:
        return predict(self.fitted_, X, row, getattr(self, "classes_", None), self.n_jobs)

    def to_arviz(self, draws: int = 1000, seed: Any = None) -> Any:
        """Draws of the posterior at the training rows, with log-likelihoods, for ArviZ (extra ``arviz``).

        An ``InferenceData`` with posterior (f, hyper-parameters, coefficients of the mean), posterior_predictive,
        log_likelihood and observed_data: `npvi.estimators.exporting.to_arviz`.

        Parameters
        ----------
        draws : how many.
        seed : of the draws.
        """
        check_is_fitted(self, "posterior_")
        from npvi.estimators.exporting import to_arviz  # rarely needed

        with threads(self.n_jobs):
            return to_arviz(self, draws, seed)

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; `npvi.load` reads it back."""
        from npvi.io import save  # rarely needed

        save(self, path)
