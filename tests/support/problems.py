"""Random problems, each as the package sees it and as the oracle does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npvi.kernels import RBF, Matern12, Matern32, Matern52, RationalQuadratic
from npvi.likelihoods import Bernoulli, Gaussian, LogNormal, Poisson
from tests.support import oracle
from tests.support.models import paper_regressor


def gaussian_case(rng, f, variance=0.3, **extra):
    y = f + np.sqrt(variance) * rng.standard_normal(len(f))
    return Gaussian(variance), y, oracle.gaussian(y, variance, extra.get("sample_weight", 1.0))


def lognormal_case(rng, f, variance=0.1, **extra):
    y = np.exp(f + np.sqrt(variance) * rng.standard_normal(len(f)))
    return LogNormal(variance), y, oracle.lognormal(y, variance, extra.get("sample_weight", 1.0))


def poisson_case(rng, f, link="exp", sample_weight=1.0, exposure=1.0):
    rate = np.exp(f) if link == "exp" else np.logaddexp(0.0, f)
    y = rng.poisson(exposure * rate).astype(float)
    make = oracle.poisson_exp if link == "exp" else oracle.poisson_softplus
    return Poisson(link), y, make(y, exposure, sample_weight)


def softplus_case(rng, f, **extra):
    return poisson_case(rng, f, "softplus", **extra)


def bernoulli_case(rng, f, link="logit", sample_weight=1.0):
    y = (f + rng.logistic(size=len(f)) > 0).astype(float)
    make = oracle.bernoulli_logit if link == "logit" else oracle.bernoulli_probit
    return Bernoulli(link), y, make(y, sample_weight)


def probit_case(rng, f, **extra):
    return bernoulli_case(rng, f, "probit", **extra)


KERNELS = {
    "rbf": (RBF, oracle.rbf),
    "matern12": (Matern12, oracle.matern12),
    "matern32": (Matern32, oracle.matern32),
    "matern52": (Matern52, oracle.matern52),
    "rational_quadratic": (RationalQuadratic, oracle.rational_quadratic),
}


@dataclass
class Problem:
    """A recipe; `fitted()` makes data from it, fits the model and builds the dense bound on the model's own graph."""

    make: Any
    kernel: str = "matern32"
    n: int = 60
    K: int = 6
    length_scale: float = 0.3
    variance: float = 1.0
    nugget: float = 0.05
    mean: str = "zero"
    with_exposure: bool = False
    with_weights: bool = False
    seed: int = 0
    n_nodes: int | None = 257
    settings: dict = field(default_factory=dict)

    def fitted(self):
        rng = np.random.default_rng([self.seed, self.n, self.K])
        X = rng.uniform(size=(self.n, 2))
        f = 1.0 + np.sin(5.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(self.n)
        extra = {}
        if self.with_exposure:
            extra["exposure"] = rng.uniform(0.2, 4.0, self.n)
        if self.with_weights:
            extra["sample_weight"] = rng.choice([0.0, 0.5, 1.0, 3.0], self.n)
        likelihood, y, observations = self.make(rng, f, **extra)
        return fit_and_bound(self, X, y, likelihood, observations, extra)


def fit_and_bound(problem, X, y, likelihood, observations, extra=None):
    """The fitted model, and the oracle's bound on its graph with the rows put in the graph's order."""
    kernel_class, dense_kernel = KERNELS[problem.kernel]
    model = paper_regressor(
        likelihood,
        kernel=kernel_class(length_scale=problem.length_scale, variance=problem.variance),
        nugget=problem.nugget,
        mean=problem.mean,
        n_neighbors=problem.K,
        random_state=0,
        **problem.settings,
    ).fit(X, y, **(extra or {}))
    order, parents = model.graph_.order, model.graph_.parents
    Z = X[order]
    covariance = dense_kernel(Z, Z, length_scale=problem.length_scale, variance=problem.variance)
    P, logdet = oracle.nngp_precision(covariance + problem.nugget * np.eye(len(y)), parents)
    bound = oracle.Bound(P, logdet, in_order(observations, order), oracle.pattern(parents))
    bound.n_nodes = problem.n_nodes
    if problem.mean == "constant":
        bound.with_constant()
    return model, bound


def in_order(observations, order):
    """Observations of rows taken in another order."""
    back = np.argsort(order)
    weight = observations.weight
    return oracle.Observations(
        lambda f: observations.log_prob(f[back])[order],
        lambda f: observations.slope(f[back])[order],
        weight if np.ndim(weight) == 0 else weight[order],
    )


def solution(model):
    """μ and the dense L of a fitted model; the constant of the mean first, where there is one."""
    return with_coefficients(model, oracle.dense_triangular(model.posterior_.factor))


def with_coefficients(model, L):
    """Means and a factor of the covariance of coefficients and f together; L is the factor of f given coefficients."""
    trend, mu = model.trend_, model.posterior_.mean
    root = np.linalg.cholesky(trend.covariance) if len(trend.covariance) else trend.covariance
    along = (model.basis_ + trend.sensitivity) @ root
    joint = np.block([[root, np.zeros((len(root), len(mu)))], [along, L]])
    return np.concatenate([trend.coefficients, mu]), joint


def falls(model):
    """The largest fall of the bound from one iteration to the next, relative to its size (0 where it never falls)."""
    elbo = np.array(model.fit_info_["elbo"])
    return max(0.0, float(np.max((elbo[:-1] - elbo[1:]) / np.maximum(1.0, np.abs(elbo[1:])), initial=0.0)))
