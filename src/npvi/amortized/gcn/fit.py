"""NPVI-NN as published: the paper's two networks, trained on the bound by stochastic gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from npvi.amortized.gcn.bound import NetworkBound, Parameters, apply_networks, loss, network_bound
from npvi.amortized.gcn.layout import each_once
from npvi.amortized.gcn.networks import GCN, Networks, initial_networks
from npvi.components import Coefficients, Process, Stack
from npvi.graph import Graph, build_graph
from npvi.inference import Data, Fit, SparseFactors
from npvi.inference.stochastic import bound_of, certify
from npvi.likelihoods import predictive_log_prob
from npvi.linalg import Triangular
from npvi.posteriors import FactorPosterior
from npvi.priors import NNGP
from npvi.runtime.training import Trained, train

__all__ = ["GCNFit", "HeldOut", "fit_gcn"]

Vector = NDArray[np.float64]
Progress = Callable[[dict[str, float]], None]
Regraph = Callable[[NDArray[np.float64]], Graph]

#: per point: a posterior that lacks less than this is called converged
_ENOUGH = 1e-3


@dataclass(frozen=True)
class HeldOut:
    """Observations at other places, by which one state of the networks is told from another.

    Attributes
    ----------
    X, basis : where they are, shape (M, d), and the mean function's H there, shape (M, p).
    data : what was observed.

    Examples
    --------
    >>> from npvi.components import Process
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Gaussian
    >>> X = np.array([[0.0], [1.0]])
    >>> prior = NNGP(RBF(), 0.1, X, build_graph(X, 1, order="given"))
    >>> other = HeldOut(np.array([[0.5]]), np.zeros((1, 0)), Data(Gaussian(0.2), np.array([1.0])))
    >>> score = other.score(prior, Stack(Process(prior)))
    >>> round(score(np.ones(2), Triangular(prior.graph, np.ones(2), np.zeros((2, 1)))), 3)
    0.879
    """

    X: NDArray[np.float64]
    basis: NDArray[np.float64]
    data: Data

    def score(self, prior: NNGP, stack: Stack) -> Callable[[Vector, Triangular], float]:
        """Mean negative log-density of the observations, given μ + Hβ and L at the prior's points; β as if known."""
        given = prior.conditional(self.X)
        some = self.data

        def score(mean: Vector, factor: Triangular) -> float:
            coefficients = stack.coefficients(mean)
            residual = mean - stack.linear.basis @ coefficients
            m = np.einsum("ij,ij->i", given.weights, residual[given.neighbors]) + self.basis @ coefficients
            q = FactorPosterior(mean, factor, np.zeros_like(mean))
            v = given.variance + q.projected_variance(given.neighbors, given.weights)
            log_density = predictive_log_prob(some.likelihood, some.y, m, v, some.row)
            return -float(np.average(log_density, weights=some.weight))

        return score


@dataclass(frozen=True)
class GCNFit(Fit):
    """A `Fit`, and the networks that said what its posterior is."""

    networks: Networks


def fit_gcn(
    prior: NNGP,
    data: Data,
    stack: Stack,
    settings: GCN | None = None,
    held_out: HeldOut | None = None,
    regraph: Regraph | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> GCNFit:
    """Train the paper's two networks on the bound, and let them say what the posterior is.

    Parameters
    ----------
    prior, data : in the graph's order.
    stack : a process and the mean Hβ; β is trained together with the networks, which say what f − Hβ is.
    settings : of networks and training.
    held_out : observations that aren't in `data`: the epoch that predicts them best wins.
    regraph : the graph for coordinates of some of the points, where ``settings.validation`` holds out the others; by
        default with as many neighbours, in maximin order.
    seed : for the first weights, batches, draws and the rows held out.
    progress : called with the numbers of each epoch.

    Returns
    -------
    GCNFit

    Raises
    ------
    FloatingPointError
        Where training went so far astray that the posterior has no finite bound.

    Notes
    -----
    A keyboard interrupt ends training after the epoch; what was reached is returned with ``info["interrupted"]`` true.

    Examples
    --------
    >>> from npvi.components import Process
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Poisson
    >>> X = np.linspace(0.0, 10.0, 200)[:, None]
    >>> graph = build_graph(X, 5)
    >>> prior = NNGP(RBF(), 0.01, X[graph.order], graph)
    >>> data = Data(Poisson(), np.round(3.0 + 2.0 * np.sin(X[graph.order, 0])))
    >>> fit = fit_gcn(prior, data, Stack(Process(prior)), GCN(epochs=5))
    >>> fit.info["steps"], fit.posterior.mean.shape
    (20, (200,))
    """
    settings = GCN() if settings is None else settings
    settings.validate()
    problem = _Problem(prior, data, stack, settings, held_out)
    if held_out is None and settings.validation:
        problem = problem.divided(regraph or _regraph(prior), seed)
    trained = problem.train(seed, progress)
    mean, factor = _reached(trained.parameters, prior, data, stack)
    with np.errstate(all="ignore"):
        value = bound_of(prior, data, stack, mean, factor)
    if not np.isfinite(value):
        raise FloatingPointError(
            f"the bound of what the networks say is not finite after {trained.epochs} epochs of training: use a "
            f"smaller learning_rate than {settings.learning_rate!r}"
        )
    found = certify(SparseFactors(prior), prior, data, stack, mean, factor)
    info = {
        "method": "npvi-nn",
        "network": "gcn",
        "guarantee": "none: expected_gain is what the optimum would add to the bound, as seen from here",
        **_told(trained, problem),
        "elbo": [found.elbo],
        "mean_residual": [found.mean_residual],
        "covariance_residual": [found.covariance_residual],
        "expected_gain": found.gain,
        "converged": bool(found.gain <= _ENOUGH * len(data.y)),
    }
    posterior = FactorPosterior(mean, factor, found.site_precision)
    return GCNFit(posterior, found.elbo, info, stack, found.solver, trained.parameters.networks)


def _told(trained: Trained, problem: _Problem) -> dict[str, Any]:
    """What there is to say about the training."""
    n = len(problem.data.y)
    info: dict[str, Any] = {
        "layout": problem.settings.layout,
        "batch_size": problem.settings.batch(n),
        "n_parameters": sum(leaf.size for leaf in jax.tree.leaves(trained.parameters)),
        "elbo_estimate": [-n * value for value in trained.history["loss"]],
        "epoch_seconds": trained.history["seconds"],
        "epochs": trained.epochs,
        "n_iter": trained.epochs,
        "steps": trained.epochs * problem.estimate.steps,
        "outcome": trained.outcome,
        "interrupted": trained.outcome == "interrupted",
    }
    if trained.best_epoch is not None:
        info |= {"best_epoch": trained.best_epoch, "evaluation": trained.history["evaluation"]}
    return info


def _regraph(prior: NNGP) -> Regraph:
    return lambda coordinates: build_graph(coordinates, prior.graph.n_neighbors).packed()


@dataclass(frozen=True)
class _Problem:
    """What the networks are trained on."""

    prior: NNGP
    data: Data
    stack: Stack
    settings: GCN
    held_out: HeldOut | None

    @cached_property
    def estimate(self) -> NetworkBound:
        return network_bound(self.prior, self.data, self.stack, self.settings)

    def train(self, seed: int, progress: Progress | None) -> Trained:
        settings, n, steps = self.settings, len(self.data.y), self.estimate.steps
        epochs = settings.passes(steps)
        fitted = self.data.likelihood.initial_latent(self.data.y, **self.data.row)
        first = Parameters(
            initial_networks(seed, settings.sizes),
            jnp.asarray(self.stack.coefficients(fitted)),
        )
        per_batch = settings.batch(n) if settings.layout == "random" else 1

        def report(loss: float, **numbers: float) -> None:
            if progress is not None:
                progress({**numbers, "elbo": -n * loss})

        return train(
            loss,
            first,
            each_once(len(self.estimate.layout.nodes), per_batch),
            settings.transformation(epochs * steps),
            epochs=epochs,
            data=self.estimate,
            seed=seed,
            evaluate=self._judge(),
            patience=settings.patience,
            checkpoint=settings.checkpoint,
            settings=settings.identity(epochs),
            report=report,
        )

    def _judge(self) -> Callable[[Parameters], float] | None:
        """What tells one epoch from another: what is held out or, where patience needs it, the bound per point."""
        if self.held_out is not None:
            score = self.held_out.score(self.prior, self.stack)
        elif self.settings.patience is not None:

            def score(mean: Vector, factor: Triangular) -> float:
                return -bound_of(self.prior, self.data, self.stack, mean, factor) / len(mean)
        else:
            return None

        return lambda parameters: score(*_reached(parameters, self.prior, self.data, self.stack))

    def divided(self, regraph: Regraph, seed: int) -> _Problem:
        """The same for some of the points, with the others held out; rows without weight are no test."""
        prior, data, n = self.prior, self.data, len(self.data.y)
        tests = np.arange(n) if data.weight is None else np.flatnonzero(data.weight > 0.0)
        count = min(max(1, round(self.settings.validation * len(tests))), len(tests), n - 1)
        if not count:
            return self
        others = np.random.default_rng(seed).permutation(tests)[:count]
        some = np.setdiff1d(np.arange(n), others)
        graph = regraph(prior.kernel.coordinates(prior.X[some]))
        some = some[graph.order]
        fewer = NNGP(prior.kernel, prior.nugget, prior.X[some], graph)
        basis, precision = self.stack.linear.basis, self.stack.linear.precision
        held_out = HeldOut(prior.X[others], basis[others], data.take(others))
        return _Problem(
            fewer, data.take(some), Stack(Process(fewer), Coefficients(basis[some], precision)), self.settings, held_out
        )


def _reached(parameters: Parameters, prior: NNGP, data: Data, stack: Stack) -> tuple[Vector, Triangular]:
    """The mean of f and L at all points."""
    mean, factor = apply_networks(parameters.networks, prior, data)
    return mean + stack.linear.basis @ np.asarray(parameters.coefficients, dtype=np.float64), factor
