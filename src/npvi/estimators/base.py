"""What the estimators share: fitting, more data, what was learned, predicting."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from npvi.estimators import validation
from npvi.estimators.canonical import naming_rows
from npvi.estimators.extending import extend
from npvi.estimators.fitting import (
    NEVER,
    Chosen,
    Clock,
    Task,
    choose,
    companion_of,
    fit_by_grid,
    rows_of_fit,
    task_of,
)
from npvi.estimators.hyper import Hyper, settle
from npvi.estimators.inferring import infer, not_converged
from npvi.estimators.latent import latent_at
from npvi.estimators.predicting import Predicts, per_row
from npvi.estimators.settings import fewest_neighbors
from npvi.estimators.sums import sums_at_training_rows, warn_about_sums
from npvi.graph import Graph
from npvi.inference import Data, Start, Trend
from npvi.learning.objective import Model
from npvi.learning.standard_errors import TWO_SIDED, parameter_table, with_smoothness
from npvi.learning.table import Table
from npvi.likelihoods import Likelihood, as_likelihood
from npvi.posteriors import Posterior
from npvi.predictive.base import Predictive
from npvi.predictive.mixture import MixturePredictive
from npvi.priors import Prior
from npvi.runtime import progress
from npvi.runtime.parallel import threads

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BaseGP"]


class BaseGP(Predicts, BaseEstimator):
    """What both estimators share; the parameters are documented in `GPRegressor`."""

    graph_: Graph
    prior_: Prior
    posterior_: Posterior
    trend_: Trend
    companion_: BaseGP | None
    companion_weight_: float
    hyper_: Hyper | None

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
        X, y = validation.check_response(self, X, y)
        weight = validation.check_weights(sample_weight, X)
        self._fit(X, self._encode(y), weight, per_row(exposure, trials, noise_variance, censored))
        warn_about_sums(self)
        return self

    def _fit(
        self,
        X: NDArray[np.float64],
        y: NDArray,
        weight: NDArray[np.float64] | None,
        row: dict[str, Any],
        previous: BaseGP | None = None,
    ) -> Self:
        """Fit checked data; `previous`, fitted on the same rows, lends its graph and its posterior as a start."""
        if self.learn == "grid":
            fit_by_grid(self, X, y, weight, row)
            return self
        task = task_of(self, X, y, weight, row)
        validation.warn_about_columns(task.table.X, getattr(self, "feature_names_in_", None))
        if task.part.constant and task.table.data.one_sided:
            warnings.warn(
                "all counts are 0, or all are as large as can be: how rare the others are can't be known, so the "
                f"constant mean (of log or logit) has a prior of mean 0 and standard deviation {NEVER:g}",
                UserWarning,
                stacklevel=3,
            )
        report = progress.print_progress if self.verbose else None
        with threads(self.n_jobs), progress.reporting(report), naming_rows(task.rows):
            clock = Clock()
            chosen = choose(self, task, previous)
            clock.lap("graph" if chosen.learned is None else "learn")
            info = self._infer(task, chosen, clock)
        self.companion_, self.companion_weight_, self.hyper_ = None, 0.0, None
        if chosen.learned is not None:
            self.fit_info_ |= {"learning": chosen.learned.info, "at_bound": chosen.learned.info["at_bound"]}
            if chosen.learned.second is not None:
                other = companion_of(self, chosen.learned)
                self.companion_, self.companion_weight_ = other._fit(X, y, weight, row), chosen.learned.weight
            with threads(self.n_jobs), progress.reporting(report), naming_rows(task.rows):
                settle(self, task, chosen)
                clock.lap("hyper")
        if info["interrupted"]:
            raise KeyboardInterrupt(
                f"fit interrupted after {info['n_iter']} iterations; the model holds the last good state, which "
                "hasn't converged"
            )
        if not info["converged"] and self.method != "npvi-nn":  # which says by itself how far it is
            warnings.warn(not_converged(info, self.max_iter), UserWarning, stacklevel=3)
        return self

    def _infer(self, task: Task, chosen: Chosen, clock: Clock) -> dict[str, Any]:
        """Find the posterior of a model that was chosen, and keep it; returns how that went."""
        model, ordered = chosen.model, task.table.take(chosen.graph.order)
        data = replace(ordered.data, likelihood=model.likelihood)
        prior: Any = model.prior(ordered.X, chosen.graph)
        if chosen.learned is None and not chosen.node:
            validation.warn_about_scale(prior, np.random.default_rng(0))
        clock.lap("prior")
        progress.report("prior", points=len(ordered))
        mean_function = model.mean_function(prior, ordered.basis)
        fit = infer(self, prior, data, mean_function, chosen.start, task.seed)
        trend = fit.trend  # computed here, in these threads
        clock.lap("inference")
        prior.forget_precision()
        self.kernel_, self.likelihood_, self.nugget_ = model.kernel, model.likelihood, float(model.nugget)
        self.graph_, self.prior_, self.posterior_ = chosen.graph.relabelled(task.rows), prior, fit.posterior
        self.linear_part_, self.trend_, self.data_, self.structure_ = task.part, trend, data, model.structure
        self.basis_, self._said = ordered.basis, task.said
        self.coefficient_precision_ = model.coefficient_precision
        self.elbo_, self.n_iter_ = fit.elbo, max(1, fit.info["n_iter"])
        self.fit_info_ = {**fit.info, "seconds": clock.laps, **sums_at_training_rows(self)}
        return fit.info

    # -- what the estimators differ in --------------------------------------------------------------------------------

    def _encode(self, y: NDArray, every: Any = None) -> NDArray:
        """Responses as numbers; `every` has all labels, where `y` may lack some."""
        raise NotImplementedError

    def _encode_new(self, y: Any) -> Any:
        """Responses of new rows as numbers."""
        return y

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
        given = (X, y, sample_weight, exposure, trials, noise_variance, censored)
        X = validation.check_inputs(self, X, reset=False)
        y = np.asarray(self._encode_new(y), dtype=np.float64)
        if y.shape != (len(X),):
            raise ValueError(f"y must have one number per row of X, {len(X)} in all; got shape {y.shape}")
        y = self.likelihood_.check_response(y)
        row = self.likelihood_.check_row(per_row(exposure, trials, noise_variance, censored), len(X), y)
        weight = validation.check_weights(sample_weight, X)
        if not len(X):
            return self
        n = self.graph_.n_points
        if self.graph_.n_neighbors < min(fewest_neighbors(self), n + len(X) - 1):
            raise ValueError(
                f"the model has only {n} points, so that all of them are neighbours: fit it anew with all rows"
            )
        new = Data(self.likelihood_, y, row, weight)
        rows = rows_of_fit(self, X, new)
        every = np.empty(n + len(X), dtype=np.int64)  # the caller's row of each row of the fit
        every[self.prior_.graph.order], every[n:] = self.graph_.order, n + rows
        with naming_rows(every):
            prior, data, basis, fit = extend(self, X[rows], new.take(rows))
        self.graph_, self.prior_, self.posterior_ = prior.graph.relabelled(every), prior, fit.posterior
        self.data_, self.basis_, self.trend_, self.elbo_ = data, basis, fit.trend, fit.elbo
        kept: dict[str, Any] = {
            name: self.fit_info_[name] for name in ("learning", "at_bound") if name in self.fit_info_
        }
        self.fit_info_ = {
            **fit.info,
            **kept,
            "seconds": self.fit_info_.get("seconds", {}),
            **sums_at_training_rows(self),
        }
        warn_about_sums(self)
        if self.companion_ is not None:
            self.companion_.update(*given)
        if self.hyper_ is not None:
            for other in self.hyper_.models:
                other.update(*given)
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
        model = self._fitted_model()
        table = Table(self.prior_.X, self.data_, self.basis_)
        start = Start(self.posterior_.mean, self._marginal_variance())
        known = {} if self.hyper_ is None else {row["parameter"]: row for row in self.hyper_.table}
        with threads(self.n_jobs):
            weak, wanted = self.hyperprior == "weak", standard_errors and not known
            rows = parameter_table(table, model, self._said, self.prior_.graph, start, wanted, weak)
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

    def _fitted_model(self) -> Model:
        """Everything that defines the model that was fitted."""
        precision = self.coefficient_precision_
        return Model(self.kernel_, self.nugget_, self.likelihood_, self.structure_, precision)

    def _marginal_variance(self) -> NDArray[np.float64]:
        """Of f at the training points, in the graph's order, what isn't known of the mean's coefficients included."""
        if not isinstance(self.trend_, Trend):  # several classes have theirs without
            return self.posterior_.variance
        return self.posterior_.variance + self.trend_.own_variance(self.basis_)

    def _coefficients(self) -> dict[str, tuple[float, float]]:
        """Each coefficient of the mean and its standard error, for the covariates as they came."""
        return self._in_units(self.trend_)

    def _in_units(self, trend: Trend) -> dict[str, tuple[float, float]]:
        values, covariance = self.linear_part_.in_units(trend.coefficients, trend.covariance)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return {name: (float(a), float(b)) for name, a, b in zip(self.linear_part_.names, values, errors)}

    @property
    def mean_coefficients_(self) -> NDArray[np.float64]:
        """Coefficients of the prior mean, for the covariates as they came: the constant first, where there is one."""
        return self.linear_part_.in_units(self.trend_.coefficients, self.trend_.covariance)[0]

    # -- prediction ---------------------------------------------------------------------------------------------------

    def _predictive(self, X: NDArray[np.float64], row: dict[str, NDArray]) -> Any:
        shares = self._shares()
        parts = [model._predictive_alone(X, row) for model, _ in shares]
        return parts[0] if len(parts) == 1 else MixturePredictive(parts, [share for _, share in shares])

    def _predictive_alone(self, X: NDArray[np.float64], row: dict[str, NDArray]) -> Predictive:
        """At the hyper-parameters that were found best."""
        latent = latent_at(self, X)
        about = (latent.sampler(self), latent.nugget, latent.reach(self))
        return Predictive(self.likelihood_, latent.mean, latent.variance, row, *about)

    def _shares(self) -> list[tuple[BaseGP, float]]:
        """The models that have a say in predictions, and the share of each."""
        own = [(self, 1.0)]
        if self.hyper_ is not None:
            own = list(zip(self.hyper_.models, self.hyper_.weights.tolist()))
        if self.companion_ is None:
            return own
        second, share = self.companion_._shares(), self.companion_weight_
        return [(model, (1.0 - share) * part) for model, part in own] + [(m, share * part) for m, part in second]

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; `npvi.load` reads it back."""
        from npvi.io.persistence import save

        save(self, path)
