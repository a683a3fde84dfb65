"""NPVI by stochastic gradients, as the paper has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from npvi.components import Stack
from npvi.inference.data import Data
from npvi.inference.fit import Family, Fit, Start
from npvi.inference.stochastic.bound import Parameters, StochasticBound, loss, stochastic_bound
from npvi.inference.stochastic.certificate import bound_of, certify
from npvi.inference.stochastic.gaussian import SparseGaussian
from npvi.inference.stochastic.settings import SGD
from npvi.likelihoods import predictive_log_prob
from npvi.linalg import Triangular
from npvi.posteriors import FactorPosterior
from npvi.priors import Prior
from npvi.runtime.precision import float64
from npvi.runtime.training import Trained, shuffled, train

__all__ = ["fit_stochastic"]

Vector = NDArray[np.float64]
Progress = Callable[[dict[str, float]], None]

#: per point: a posterior that lacks less than this is called converged
_ENOUGH = 1e-3
#: logarithms beyond this are those of a training that went astray; a number whose square is still one takes their place
_ASTRAY = 300.0


def fit_stochastic(
    family: Family,
    prior: Prior,
    data: Data,
    stack: Stack,
    start: Start | None = None,
    settings: SGD | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fit:
    """Maximise the bound over μ and L on the graph's pattern, by stochastic gradients.

    Parameters
    ----------
    family : NPVI's; what is missing at the end is measured by it.
    prior, data : in the graph's order.
    stack : the prior and its mean Hβ; β is trained together with q.
    start : means of f to begin with; by default what y's own fitted values shrink to if no point hears of another. L
        starts diagonal, each point as if the others were known.
    settings : of the optimiser.
    seed : for batches, draws and the rows held out.
    progress : called with the numbers of each epoch.

    Notes
    -----
    ``info["elbo_estimate"]`` has what the batches said of the bound, in each epoch. The bound at the end and both
    residuals are exact; ``info["expected_gain"]`` is what the optimum would add, to second order.

    A keyboard interrupt ends training after the epoch; what was reached is returned with ``info["interrupted"]`` true.

    Examples
    --------
    >>> from npvi.components import Process
    >>> from npvi.graph import build_graph
    >>> from npvi.inference import SparseFactors
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Gaussian
    >>> from npvi.priors import NNGP
    >>> X = np.linspace(0.0, 1.0, 10)[:, None]
    >>> graph = build_graph(X, 3)
    >>> prior = NNGP(RBF(), 0.1, X[graph.order], graph)
    >>> data = Data(Gaussian(0.5), np.sin(X[graph.order, 0]))
    >>> fit = fit_stochastic(SparseFactors(prior), prior, data, Stack(Process(prior)))
    >>> fit.info["converged"]
    True
    """
    settings = SGD() if settings is None else settings
    settings.validate()
    problem = _Problem(prior, data, stack, settings, _held_out(len(data.y), settings.validation, seed))
    batch = settings.batch(len(data.y))
    with float64():
        estimate = stochastic_bound(prior, problem.seen, stack, settings.samples)
        first = problem.first(estimate, start)
        try:
            trained = problem.train(estimate, first, batch, seed, progress)
        except MemoryError:
            batch = -(-batch // 2)  # once: with less memory than that nothing is gained by going on
            trained = problem.train(estimate, first, batch, seed, progress)
        mean, factor = problem.reached(estimate, trained.parameters)
    with np.errstate(over="ignore", invalid="ignore"):  # a training that went astray may have got far
        found = certify(family, prior, problem.seen, stack, mean, factor)
    info = {
        "method": family.name,
        "optimizer": "sgd",
        "guarantee": "none: expected_gain is what the optimum would add to the bound, as seen from here",
        **_told(trained),
        "batch_size": batch,
        "elbo": [found.elbo],
        "mean_residual": [found.mean_residual],
        "covariance_residual": [found.covariance_residual],
        "expected_gain": found.gain,
        "converged": bool(found.gain <= _ENOUGH * len(data.y)),
    }
    return Fit(FactorPosterior(mean, factor, found.site_precision), found.elbo, info, stack, found.solver)


def _told(trained: Trained) -> dict[str, Any]:
    """What there is to say about the training."""
    info: dict[str, Any] = {
        "elbo_estimate": [-value for value in trained.history["loss"]],
        "epoch_seconds": trained.history["seconds"],
        "epochs": trained.epochs,
        "n_iter": trained.epochs,
        "outcome": trained.outcome,
        "interrupted": trained.outcome == "interrupted",
    }
    if trained.best_epoch is not None:
        info |= {"best_epoch": trained.best_epoch, "evaluation": trained.history["evaluation"]}
    return info


@dataclass(frozen=True)
class _Problem:
    prior: Prior
    data: Data
    stack: Stack
    settings: SGD
    held_out: NDArray[np.int64]

    @property
    def seen(self) -> Data:
        """The data in which the rows held out say nothing."""
        if not len(self.held_out):
            return self.data
        weight = np.ones(len(self.data.y)) if self.data.weight is None else self.data.weight.copy()
        weight[self.held_out] = 0.0
        return Data(self.data.likelihood, self.data.y, self.data.row, weight, self.data.coarse)

    def first(self, estimate: StochasticBound, start: Start | None) -> Parameters:
        """Where training starts."""
        prior, data, basis = self.prior, self.seen, self.stack.linear.basis
        if start is not None:
            coefficients = self.stack.coefficients(start.mean)
            mean = start.mean - basis @ coefficients
        else:
            f = data.likelihood.initial_latent(data.y, **data.row)
            w = _site_precision(data, f)
            coefficients = self._regression(f, w)
            mean = (f - basis @ coefficients) * (w / (w + 1.0 / prior.marginal_variance))
        w = _site_precision(data, mean + basis @ coefficients)
        log_diagonal = -0.5 * np.log(prior.precision_diagonal + w)
        q = SparseGaussian(jnp.asarray(mean), jnp.zeros(prior.graph.parents.shape), jnp.asarray(log_diagonal))
        return estimate.parameters(q, jnp.asarray(coefficients))

    def _regression(self, f: Vector, w: Vector) -> Vector:
        """β by weighted least squares, as if the points were independent."""
        basis = self.stack.linear.basis
        weight = 1.0 / (self.prior.marginal_variance + 1.0 / np.maximum(w, np.finfo(float).tiny))
        inner = basis.T @ (weight[:, None] * basis) + np.diag(self.stack.linear.precision)
        return np.asarray(np.linalg.lstsq(inner, basis.T @ (weight * f))[0], dtype=np.float64)

    def train(
        self, estimate: StochasticBound, first: Parameters, batch: int, seed: int, progress: Progress | None
    ) -> Trained:
        settings, n = self.settings, len(self.data.y)

        def report(loss: float, **numbers: float) -> None:
            if progress is not None:
                progress({**numbers, "elbo": -loss})

        return train(
            loss,
            first,
            shuffled(n, batch),
            settings.transformation(settings.epochs * -(-n // batch)),
            epochs=settings.epochs,
            data=estimate,
            seed=seed,
            evaluate=self._judge(estimate),
            patience=settings.patience,
            checkpoint=settings.checkpoint,
            settings=settings.identity(),
            report=report,
        )

    def reached(self, estimate: StochasticBound, parameters: Parameters) -> tuple[Vector, Triangular]:
        """The mean of f, and L."""
        q, coefficients = estimate.posterior(parameters)
        graph = self.prior.graph
        edges = np.where(graph.parents >= 0, np.asarray(q.edges), 0.0)
        factor = Triangular(graph, np.exp(np.clip(np.asarray(q.log_diagonal), -_ASTRAY, _ASTRAY)), edges)
        return np.asarray(q.mean) + self.stack.linear.basis @ np.asarray(coefficients), factor

    def _judge(self, estimate: StochasticBound) -> Callable[[Parameters], float] | None:
        """What tells one epoch from another: the rows held out or, where patience needs it, the bound per point."""

        def loss_of_the_held_out(parameters: Parameters) -> float:
            mean, factor = self.reached(estimate, parameters)
            rows, v = self.held_out, factor.row_norms_squared()
            some = self.data.take(rows)
            return -float(predictive_log_prob(some.likelihood, some.y, mean[rows], v[rows], some.row).mean())

        def loss_of_all(parameters: Parameters) -> float:
            mean, factor = self.reached(estimate, parameters)
            return -bound_of(self.prior, self.data, self.stack, mean, factor) / len(self.data.y)

        if len(self.held_out):
            return loss_of_the_held_out
        return loss_of_all if self.settings.patience is not None else None


def _site_precision(data: Data, f: Vector) -> Vector:
    """w where f is known to be f."""
    return np.maximum(data.expectations(f, np.full_like(f, 1e-6)).precision, 0.0)


def _held_out(n: int, share: float, seed: int) -> NDArray[np.int64]:
    count = min(max(1, round(share * n)), n - 1) if share else 0
    return np.random.default_rng(seed).permutation(n)[:count]
