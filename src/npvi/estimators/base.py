"""What the estimators share: checking, fitting, predicting."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from npvi import progress, validation
from npvi.estimators.extending import extend
from npvi.estimators.linear_part import LinearPart, linear_part
from npvi.graph import Graph, build_graph
from npvi.graph.tree import build_tree
from npvi.inference import FAMILIES, Data, MeanFunction, Start, Trend, fit_posterior
from npvi.inference.learner import Learned, Table, learn, parameter_table
from npvi.inference.learning import Model
from npvi.inference.search_space import unwrapped
from npvi.inference.starting import starting_model
from npvi.inference.stochastic import SGD, fit_stochastic
from npvi.joint import JointSampler
from npvi.kernels import Kernel, as_kernel
from npvi.likelihoods import Likelihood, as_likelihood
from npvi.likelihoods.softmax import Softmax
from npvi.mixture import MixturePredictive
from npvi.parallel import threads
from npvi.parameters import Parameter
from npvi.posteriors import Posterior
from npvi.predictive import Predictive
from npvi.priors import NNGP, Prior
from npvi.priors.inducing import choose_inducing
from npvi.priors.structure import LOW_RANK, InducingPoints, NearestNeighbors, Structure

__all__ = ["BaseGP"]

#: new rows handled at a time, which bounds the memory of prediction
_ROWS = 2**16
#: standard deviation of the constant where all counts are 0, which otherwise would have no end
_NEVER = 3.0
#: the nugget where none is given and nothing is learned
_NUGGET = 1e-4


@dataclass(frozen=True)
class Latent:
    """f at new rows: what the process and the mean function see of them, means and variances."""

    places: NDArray[np.float64]
    basis: NDArray[np.float64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]


class BaseGP(BaseEstimator):
    """What both estimators share; the parameters are documented in `GPRegressor`."""

    graph_: Graph
    prior_: Prior
    posterior_: Posterior
    trend_: Trend
    companion_: BaseGP | None
    companion_weight_: float

    def __init__(
        self,
        likelihood="gaussian",
        kernel="matern",
        nugget=None,
        mean="constant",
        method="full",
        prior="nngp",
        optimizer="closed",
        n_neighbors=20,
        rule="nearest",
        order="maximin",
        inducing="kmeans",
        n_inducing=200,
        network="sites",
        solve="cg",
        refine=0,
        learn=True,
        coords=None,
        coefficient_scale=None,
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
        noise_variance : (N,) positive numbers, optional: known variance of each observation (Gaussian noise).
        censored : (N,) of −1, 0, 1, optional: y is a lower (1) or upper (−1) limit of the true value (censored noise).

        Returns
        -------
        self
        """
        X, y = validation.check_response(self, X, y)
        weight = validation.check_weights(sample_weight, X)
        row = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
        return self._fit(X, self._encode(y), weight, row)

    def _encode(self, y: NDArray, every: Any = None) -> NDArray:
        """Responses as numbers; `every` has all labels, where `y` may lack some."""
        raise NotImplementedError

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
            return self._fit_by_grid(X, y, weight, row)
        names = getattr(self, "feature_names_in_", None)
        self._check_settings()
        part = linear_part(X, names, self.coords, self._mean(y, weight), flat=self.coefficient_scale is None)
        places = part.places(X)
        kernel, likelihood, nugget, said = self._parts(places.shape[1])
        y = likelihood.check_response(y)
        row = likelihood.check_row(row, len(y), y)
        validation.warn_about_columns(places, names)
        if part.constant and Data(likelihood, y, row, weight).never:
            warnings.warn(
                "all counts are 0: how rare they are can't be known, so the constant mean (of log or logit) has a "
                f"prior of mean 0 and standard deviation {_NEVER:g}",
                UserWarning,
                stacklevel=3,
            )
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        table = Table(places, Data(likelihood, y, row, weight), part.basis(X))
        learned: Learned | None = None
        start: Start | None = None
        with threads(self.n_jobs), progress.reporting(progress.print_progress if self.verbose else None):
            clock = _Clock()
            if self.learn:
                named = isinstance(self.kernel, str)
                if isinstance(self.likelihood, str):
                    likelihood = likelihood.replace(**likelihood.initial_parameters(y, **row))
                model = starting_model(kernel, named, nugget, likelihood, places, y, row)
                structure = self._structure(model, places, seed)
                model = replace(model, structure=structure)
                learned = learn(
                    table,
                    model,
                    said,
                    lambda points: self._graph(points, seed, None, len(y)),
                    lambda **numbers: progress.report("learn", **numbers),
                )
                kernel, nugget, likelihood = learned.model.kernel, learned.model.nugget, learned.model.likelihood
                graph, start = learned.graph, learned.start
                clock.lap("learn")
            else:
                nugget = _NUGGET if nugget is None else nugget
                structure = self._structure(Model(kernel, nugget, likelihood), places, seed)
                graph = self._graph(kernel.coordinates(places), seed, previous, len(y))
                if previous is not None and previous.graph_ is graph:
                    start = Start(previous.posterior_.mean, previous.posterior_.variance)
                clock.lap("graph")
            sorted_ = table.take(graph.order)
            data = Data(likelihood, sorted_.data.y, sorted_.data.row, sorted_.data.weight)
            prior: Any = structure.prior(kernel, nugget, sorted_.X, graph)
            if learned is None:
                validation.warn_about_scale(prior, np.random.default_rng(0))
            clock.lap("prior")
            progress.report("prior", points=len(y))
            mean_function = MeanFunction(prior, sorted_.basis, self._coefficient_precision(part, data))
            fit = self._infer(prior, data, mean_function, start, seed)
            trend = fit.trend
            clock.lap("inference")
        prior.forget_precision()
        self.kernel_, self.likelihood_, self.nugget_ = kernel, likelihood, float(nugget)
        self.graph_, self.prior_, self.posterior_ = graph, prior, fit.posterior
        self.linear_part_, self.trend_, self.data_, self.structure_ = part, trend, data, structure
        self.basis_ = sorted_.basis
        self.elbo_ = fit.elbo
        self.fit_info_ = {**fit.info, "seconds": clock.laps}
        if learned is not None:
            self.fit_info_ |= {"learning": learned.info, "at_bound": learned.info["at_bound"]}
        self.n_iter_ = max(1, fit.info["n_iter"])
        self._said = said
        self.companion_, self.companion_weight_ = None, 0.0
        if learned is not None and learned.second is not None:
            second = learned.second.model
            settings = {"kernel": second.kernel, "nugget": second.nugget, "likelihood": second.likelihood}
            if isinstance(structure, InducingPoints):  # those it was learned with
                settings["inducing"] = structure.points
            if isinstance(self.optimizer, SGD):
                settings["optimizer"] = self.optimizer.for_companion()
            other = copy.copy(self).set_params(learn=False, **settings)  # names and labels are kept
            self.companion_, self.companion_weight_ = other._fit(X, y, weight, row), learned.weight
        if fit.info["interrupted"]:
            raise KeyboardInterrupt(
                f"fit interrupted after {fit.info['n_iter']} iterations; the model holds the last good state, which "
                "hasn't converged"
            )
        if not fit.info["converged"] and self.method != "npvi-nn":  # which says by itself how far it is
            warnings.warn(_not_converged(fit.info, self.max_iter), UserWarning, stacklevel=3)
        return self

    def _structure(self, model: Model, places: NDArray[np.float64], seed: int) -> Structure:
        """How the process is approximated; inducing points are chosen here, once, and held while learning."""
        if self.prior not in LOW_RANK:
            return NearestNeighbors()
        if self.method == "npvi-nn":
            raise ValueError(f"prior={self.prior!r} goes with method='full' or 'npvi'; 'npvi-nn' needs prior='nngp'")
        if self.learn and isinstance(model.likelihood, Softmax):
            raise ValueError(
                f"with prior={self.prior!r} nothing can be learned from three or more labels: pass learn=False with a "
                "kernel of your own, learn='grid', or prior='nngp'"
            )
        if self.prior == "nystrom" and model.nugget == 0.0:
            raise ValueError(
                "prior='nystrom' needs a positive nugget, because without one its covariance is singular; got 0. Leave "
                "nugget out, give one such as 1e-4, or use prior='fitc'"
            )
        points = choose_inducing(self.inducing, self.n_inducing, model.kernel, places, seed)
        return InducingPoints(self.prior, points)

    def _infer(self, prior: Any, data: Data, mean_function: MeanFunction, start: Start | None, seed: int) -> Any:
        """The posterior at these hyper-parameters: a `Fit`, or the like for several classes."""
        if self.method == "npvi-nn":
            if isinstance(data.likelihood, Softmax):
                raise ValueError(
                    "method='npvi-nn' recognises the posterior of one function, and three labels or more have one "
                    "each: use method='full' or 'npvi'"
                )
            from npvi.networks.inference import infer  # rarely needed

            def report(numbers: dict[str, float]) -> None:
                progress.report("iteration", **numbers)

            fit, self.recognizer_ = infer(self.network, self.solve, self.refine, data, mean_function, seed, report)
            return fit
        if self.optimizer != "closed":
            return self._by_gradients(prior, data, mean_function, start, seed)
        solve: Any = fit_posterior
        if isinstance(data.likelihood, Softmax):
            from npvi.inference.softmax import fit_softmax  # rarely needed

            solve = fit_softmax
        return solve(
            FAMILIES[self.method](prior),
            prior,
            data,
            mean_function,
            start,
            tolerance=self.tol,
            max_iterations=self.max_iter,
            progress=lambda numbers: progress.report("iteration", **numbers),
        )

    def _by_gradients(
        self, prior: NNGP, data: Data, mean_function: MeanFunction, start: Start | None, seed: int
    ) -> Any:
        """The paper's own way to its posterior."""
        if isinstance(data.likelihood, Softmax):
            raise ValueError(
                "optimizer='sgd' is for one latent function, and three or more labels have one each: use "
                "optimizer='closed'"
            )
        settings = SGD() if self.optimizer == "sgd" else self.optimizer

        def report(numbers: dict[str, float]) -> None:
            progress.report("epoch", of=settings.epochs, **numbers)

        return fit_stochastic(FAMILIES["npvi"](prior), prior, data, mean_function, start, settings, seed, report)

    def _fit_by_grid(self, X: NDArray, y: NDArray, weight: NDArray | None, row: dict[str, Any]) -> Self:
        """The paper's way: the length scale that scores best on a validation split, then all rows with that one."""
        import pandas as pd

        from npvi.model_selection import grid_search  # which knows the estimators

        names = getattr(self, "feature_names_in_", None)
        table = X if names is None else pd.DataFrame(X, columns=names)
        result = grid_search(clone(self), table, y, sample_weight=weight, **row)
        best = copy.copy(self).set_params(kernel=result.best_model.kernel, learn=False)  # names and labels are kept
        best._fit(X, y, weight, row)
        settings = self.get_params(deep=False)
        self.__dict__.update({name: value for name, value in vars(best).items() if name not in settings})
        self.fit_info_["grid"] = result.table.to_dict("list")
        return self

    def _mean(self, y: NDArray, weight: NDArray[np.float64] | None) -> str:
        """The prior mean to use."""
        return self.mean

    def _check_settings(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if not any(value is choice or (value == choice and type(value) is type(choice)) for choice in choices):
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")
        nugget = self.nugget.value if isinstance(self.nugget, Parameter) else self.nugget
        if not (nugget is None or (isinstance(nugget, Real) and 0.0 <= float(nugget) < np.inf)):
            raise ValueError(f"nugget must be a finite number that isn't negative, got {self.nugget!r}")
        scale = self.coefficient_scale
        if not (scale is None or (isinstance(scale, Real) and 0.0 < float(scale) < np.inf)):
            raise ValueError(f"coefficient_scale must be a positive number, or None for a flat prior; got {scale!r}")
        if not (isinstance(self.tol, Real) and float(self.tol) > 0.0):
            raise ValueError(f"tol must be a positive number, got {self.tol!r}")
        if not (self.n_jobs is None or (isinstance(self.n_jobs, Integral) and self.n_jobs != 0)):
            raise ValueError(f"n_jobs must be None (all cores), a number of threads, or -1, -2, …; got {self.n_jobs!r}")
        if self.method == "npvi-nn":
            from npvi.networks.inference import check_network  # rarely needed

            check_network(self.network, self.solve, self.refine)
        self._check_optimizer()
        validation.check_count("n_neighbors", self.n_neighbors)
        validation.check_count("n_inducing", self.n_inducing)
        validation.check_count("max_iter", self.max_iter)

    def _check_optimizer(self) -> None:
        if isinstance(self.optimizer, SGD):
            self.optimizer.validate()
        elif self.optimizer not in ("closed", "sgd"):
            raise ValueError(f"optimizer must be 'closed', 'sgd' or an npvi.SGD; got {self.optimizer!r}")
        if self.optimizer != "closed" and self.method != "npvi":
            raise ValueError(f"optimizer={self.optimizer!r} goes with method='npvi'; got method={self.method!r}")

    def _parts(self, n_inputs: int) -> tuple[Kernel, Likelihood, float | None, dict[str, Parameter]]:
        """Kernel, likelihood and nugget with plain numbers inside, and what the user said about those."""
        kernel, said = unwrapped(as_kernel(self.kernel), "kernel")
        likelihood, more = unwrapped(self._likelihood(), "likelihood")
        kernel.validate(n_inputs)
        likelihood.validate()
        said = {**said, **more}
        nugget = self.nugget
        if isinstance(nugget, Parameter):
            said["nugget"] = nugget
            nugget = nugget.value
        return kernel, likelihood, None if nugget is None else float(nugget), said

    def _likelihood(self) -> Likelihood:
        return as_likelihood(self.likelihood)

    def _coefficient_precision(self, part: LinearPart, data: Data) -> NDArray[np.float64]:
        """Of the prior of the mean's coefficients; that of the constant is flat, unless no count is positive."""
        flat = np.zeros(len(part.names))
        if part.constant and data.never:
            flat[0] = _NEVER**-2
        if self.coefficient_scale is not None:
            # the prior is for covariates as they came, the basis has them scaled
            flat[int(part.constant) :] = 1.0 / (self.coefficient_scale * part.scale) ** 2
        return flat

    def _graph(self, coordinates: NDArray, seed: int, previous: BaseGP | None, rows: int) -> Graph:
        n = len(coordinates)
        if previous is not None and previous._same_graph(self, coordinates):
            return previous.graph_
        if self.n_neighbors >= n > 1:
            warnings.warn(
                f"n_neighbors is {self.n_neighbors} but there are only {n} points: using {n - 1}",
                UserWarning,
                stacklevel=4,
            )
        progress.report("graph", points=n)
        order = self.order
        if not isinstance(order, str) and n < rows:  # learning looks at some of the rows
            order = "maximin"
        return build_graph(coordinates, self.n_neighbors, rule=self.rule, order=order, seed=seed).packed()

    def _same_graph(self, other: BaseGP, coordinates: NDArray) -> bool:
        """Whether `other` would get this model's graph: same rule and order, same neighbours (up to a common scale)."""
        names = ("n_neighbors", "rule", "order", "random_state")
        if any(not np.array_equal(getattr(self, name), getattr(other, name)) for name in names):
            return False
        mine, theirs = self.kernel_.coordinates(self.prior_.X), coordinates[self.graph_.order]
        if mine.shape != theirs.shape:
            return False
        scale = np.abs(mine).max() / max(np.abs(theirs).max(), np.finfo(float).tiny)
        return bool(np.allclose(mine, theirs * scale, rtol=1e-12, atol=0.0))

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
        extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
        row = self.likelihood_.check_row(extras, len(X), y)
        weight = validation.check_weights(sample_weight, X)
        if not len(X):
            return self
        n = self.graph_.n_points
        if self.graph_.n_neighbors < min(self.n_neighbors, n + len(X) - 1):
            raise ValueError(
                f"the model has only {n} points, so that all of them are neighbours: fit it anew with all rows"
            )
        prior, data, basis, fit = extend(self, X, y, weight, row)
        self.graph_, self.prior_, self.posterior_ = prior.graph, prior, fit.posterior
        self.data_, self.basis_, self.trend_, self.elbo_ = data, basis, fit.trend, fit.elbo
        kept: dict[str, Any] = {
            name: self.fit_info_[name] for name in ("learning", "at_bound") if name in self.fit_info_
        }
        self.fit_info_ = {**fit.info, **kept, "seconds": self.fit_info_["seconds"]}
        if self.companion_ is not None:
            self.companion_.update(*given)
        return self

    def partial_fit(self, X: Any, y: Any, **extras: Any) -> Self:
        """`fit` the first time, `update` from then on."""
        return self.update(X, y, **extras) if hasattr(self, "posterior_") else self.fit(X, y, **extras)

    # -- what was learned ---------------------------------------------------------------------------------------------

    def summary(self, standard_errors: bool = False) -> pd.DataFrame:
        """Hyper-parameters and coefficients of the mean, one row each: value, standard error, and what it is.

        Parameters
        ----------
        standard_errors : whether to compute those of the hyper-parameters too; it takes about four evaluations of the
            bound for each.
        """
        check_is_fitted(self, "posterior_")
        model = Model(self.kernel_, self.nugget_, self.likelihood_, self.structure_)
        table = Table(self.prior_.X, self.data_, self.basis_)
        start = Start(self.posterior_.mean, self.posterior_.variance)
        with threads(self.n_jobs):
            rows = parameter_table(table, model, self._said, self.graph_, start, standard_errors)
        for name, (value, error) in self._coefficients().items():
            rows.append({"parameter": f"mean__{name}", "value": value, "standard_error": error})
        return pd.DataFrame(rows).set_index("parameter")

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

    def predict_dist(
        self,
        X: Any,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> Predictive:
        """The predictive distribution of the response at each row of X.

        Returns
        -------
        Predictive
            with ``mean``, ``var``, ``std``, ``quantile(q)``, ``interval(level)``, ``log_prob(y)``, ``sample(n, seed)``,
            ``latent_mean`` and ``latent_var`` of each row, and ``joint_sample(n, seed)`` and ``total(weights)`` of all
            rows together.
        """
        check_is_fitted(self, "posterior_")
        extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
        second = None if self.companion_ is None else self.companion_.predict_dist(X, **extras)
        X = validation.check_inputs(self, X, reset=False)
        row = self.likelihood_.check_row(extras, len(X))
        latent = self._latent(X)
        joint = JointSampler(
            self.prior_,
            self.posterior_,
            latent.places,
            latent.mean,
            self.n_neighbors,
            self.n_jobs,
            self.trend_,
            latent.basis,
        )
        first = Predictive(self.likelihood_, latent.mean, latent.variance, row, joint)
        return first if second is None else MixturePredictive(first, second, self.companion_weight_)

    def _latent(self, X: NDArray[np.float64]) -> Latent:
        """Means and variances of f at new rows; with a column per class where there are several."""
        places, basis = self.linear_part_.places(X), self.linear_part_.basis(X)
        coefficients = self.trend_.coefficients
        residual = self.posterior_.mean - self.basis_ @ coefficients
        mean, variance = np.empty((2, len(X), *residual.shape[1:]))
        with threads(self.n_jobs):
            # neighbours in space one after the other: they have their neighbours in common
            visit = build_tree(self.kernel_.coordinates(places)).rows
            for start in range(0, len(X), _ROWS):
                rows = visit[start : start + _ROWS]
                given = self.prior_.conditional(places[rows])
                mean[rows] = basis[rows] @ coefficients + given.mean(residual)
                unsure = given.projected_variance(self.posterior_)
                unsure += self.trend_.projected_variance(basis[rows], given)
                variance[rows] = (given.variance + unsure.T).T
                progress.report("predict", rows=min(len(X), start + _ROWS), of=len(X))
        return Latent(places, basis, mean, variance)

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

    def _encode_new(self, y: Any) -> Any:
        return y

    def _scored(self, y: Any) -> Any:
        """Responses as the predictive distribution takes them."""
        return self._encode_new(y)

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; `npvi.load` reads it back."""
        from npvi.persistence import save

        save(self, path)


_CHOICES = {
    "mean": ("zero", "constant", "linear"),
    "method": tuple(FAMILIES),
    "prior": ("nngp", *LOW_RANK),
    "learn": (True, False, "grid"),
}


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now


def _not_converged(info: dict[str, Any], max_iter: int) -> str:
    if info.get("optimizer") == "sgd":
        return (
            f"stochastic gradients ended {info['expected_gain']:.3g} below the largest bound, as seen from there: "
            "raise epochs or the learning rate, or use optimizer='closed'. See fit_info_"
        )
    reached = max(info["mean_residual"][-1], info["covariance_residual"][-1])
    why = f"max_iter={max_iter} was reached" if info["n_iter"] >= max_iter else "no further step raises the bound"
    return f"the fit did not converge to tol: {why} at a residual of {reached:.1e}. See fit_info_"
