"""What the estimators share: checking, fitting, predicting."""

from __future__ import annotations

import time
import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from npvi import progress, validation
from npvi.graph import Graph, build_graph
from npvi.graph.tree import build_tree
from npvi.inference import Data, Start, fit_npvi
from npvi.kernels import as_kernel
from npvi.likelihoods import as_likelihood
from npvi.parallel import threads
from npvi.posteriors import FactorPosterior
from npvi.predictive import Predictive
from npvi.priors import NNGP

__all__ = ["BaseGP"]

#: new rows handled at a time, which bounds the memory of prediction
_ROWS = 2**16


class BaseGP(BaseEstimator):
    """What both estimators share; the parameters are documented in `GPRegressor`."""

    graph_: Graph
    prior_: NNGP
    posterior_: FactorPosterior

    def __init__(
        self,
        likelihood="gaussian",
        kernel="matern32",
        nugget=1e-4,
        mean="zero",
        method="npvi",
        prior="nngp",
        n_neighbors=20,
        rule="nearest",
        order="maximin",
        learn=False,
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
        self.n_neighbors = n_neighbors
        self.rule = rule
        self.order = order
        self.learn = learn
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> Self:
        """Fit the posterior of f at the training points.

        Parameters
        ----------
        X : (N, d) array or DataFrame of pandas or polars.
        y : (N,) responses.
        sample_weight : (N,) weights, optional: the log-likelihood of each row is multiplied by its weight.
        exposure : (N,) positive numbers, optional: multiplies the mean of counts (area, time, population).

        Returns
        -------
        self
        """
        X, y = validation.check_response(self, X, y)
        weight = validation.check_weights(sample_weight, X)
        return self._fit(X, self._encode(y), weight, {"exposure": exposure})

    def _encode(self, y: NDArray) -> NDArray:
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
        kernel, likelihood = self._check_parameters(X.shape[1])
        y = likelihood.check_response(y)
        row = likelihood.check_row(row, len(y))
        validation.warn_about_columns(X, getattr(self, "feature_names_in_", None))
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        reporter = progress.print_progress if self.verbose else None
        with threads(self.n_jobs), progress.reporting(reporter):
            clock = _Clock()
            graph = self._graph(kernel.coordinates(X), rng, previous)
            clock.lap("graph")
            order = graph.order
            prior = NNGP(kernel, self.nugget, X[order], graph)
            validation.warn_about_scale(prior, np.random.default_rng(0))
            clock.lap("prior")
            progress.report("prior", points=len(y))
            data = Data(
                likelihood,
                y[order],
                {name: values[order] for name, values in row.items()},
                None if weight is None else weight[order],
            )
            basis = np.ones((len(y), 1 if self.mean == "constant" else 0))
            start = None
            if previous is not None and previous.graph_ is graph:
                start = Start(previous.posterior_.mean, previous.posterior_.variance)
            fit = fit_npvi(
                prior,
                data,
                basis,
                start,
                tolerance=self.tol,
                max_iterations=self.max_iter,
                progress=lambda numbers: progress.report("iteration", **numbers),
            )
            clock.lap("inference")
        prior.forget_precision()
        self.kernel_, self.likelihood_ = kernel, likelihood
        self.graph_, self.prior_, self.posterior_ = graph, prior, fit.posterior
        self.mean_coefficients_ = fit.coefficients
        self.elbo_ = fit.elbo
        self.fit_info_ = {**fit.info, "seconds": clock.laps}
        self.n_iter_ = max(1, fit.info["n_iter"])
        if fit.info["interrupted"]:
            raise KeyboardInterrupt(
                f"fit interrupted after {fit.info['n_iter']} iterations; the model holds the last good state, which "
                "hasn't converged"
            )
        if not fit.info["converged"]:
            warnings.warn(_not_converged(fit.info, self.max_iter), UserWarning, stacklevel=3)
        return self

    def _check_parameters(self, n_inputs: int) -> tuple[Any, Any]:
        kernel, likelihood = clone(as_kernel(self.kernel)), clone(as_likelihood(self.likelihood))
        kernel.validate(n_inputs)
        likelihood.validate()
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")
        if not (isinstance(self.nugget, Real) and 0.0 <= float(self.nugget) < np.inf):
            raise ValueError(f"nugget must be a finite number that isn't negative, got {self.nugget!r}")
        if not (isinstance(self.tol, Real) and float(self.tol) > 0.0):
            raise ValueError(f"tol must be a positive number, got {self.tol!r}")
        if not (self.n_jobs is None or (isinstance(self.n_jobs, Integral) and self.n_jobs != 0)):
            raise ValueError(f"n_jobs must be None (all cores), a number of threads, or -1, -2, …; got {self.n_jobs!r}")
        validation.check_count("n_neighbors", self.n_neighbors)
        validation.check_count("max_iter", self.max_iter)
        return kernel, likelihood

    def _graph(self, coordinates: NDArray, rng: np.random.RandomState, previous: BaseGP | None) -> Graph:
        n = len(coordinates)
        if self.n_neighbors >= n > 1:
            warnings.warn(
                f"n_neighbors is {self.n_neighbors} but there are only {n} points: using {n - 1}",
                UserWarning,
                stacklevel=4,
            )
        if previous is not None and previous._same_graph(self, coordinates):
            return previous.graph_
        progress.report("graph", points=n)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        return build_graph(coordinates, self.n_neighbors, rule=self.rule, order=self.order, seed=seed).packed()

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

    # -- prediction ---------------------------------------------------------------------------------------------------

    def predict_dist(self, X: Any, exposure: Any = None) -> Predictive:
        """The predictive distribution of the response at each row of X.

        Returns
        -------
        Predictive
            with ``mean``, ``var``, ``std``, ``quantile(q)``, ``interval(level)``, ``log_prob(y)``, ``sample(n, seed)``,
            ``latent_mean`` and ``latent_var``.
        """
        check_is_fitted(self, "posterior_")
        X = validation.check_inputs(self, X, reset=False)
        row = self.likelihood_.check_row({"exposure": exposure}, len(X))
        mean, variance = np.empty(len(X)), np.empty(len(X))
        offset = float(self.mean_coefficients_.sum())  # the constant, or 0
        residual = self.posterior_.mean - offset
        with threads(self.n_jobs):
            # neighbours in space one after the other: they have their neighbours in common
            visit = build_tree(self.kernel_.coordinates(X)).rows
            for start in range(0, len(X), _ROWS):
                rows = visit[start : start + _ROWS]
                given = self.prior_.conditional(X[rows])
                mean[rows] = offset + np.einsum("ij,ij->i", given.weights, residual[given.neighbors])
                spread = self.posterior_.projected_variance(given.neighbors, given.weights)
                variance[rows] = given.variance + spread
                progress.report("predict", rows=min(len(X), start + _ROWS), of=len(X))
        return Predictive(self.likelihood_, mean, variance, row)

    def log_score(self, X: Any, y: Any, exposure: Any = None) -> float:
        """Mean log predictive density of the responses `y` at `X`: higher is better."""
        dist = self.predict_dist(X, exposure=exposure)
        return float(np.mean(dist.log_prob(self._encode_new(y))))

    def _encode_new(self, y: Any) -> Any:
        return y

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; `npvi.load` reads it back."""
        from npvi.persistence import save

        save(self, path)


_CHOICES = {
    "mean": ("zero", "constant"),
    "method": ("npvi",),
    "prior": ("nngp",),
    "learn": (False,),
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
    reached = max(info["mean_residual"][-1], info["covariance_residual"][-1])
    why = f"max_iter={max_iter} was reached" if info["n_iter"] >= max_iter else "no further step raises the bound"
    return f"the fit did not converge to tol: {why} at a residual of {reached:.1e}. See fit_info_"
