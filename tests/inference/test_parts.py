"""Inference for predictors made of parts: the equations of the best Gaussian, by dense matrices of their own."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.components import Coefficients, Group, Parts, Process, Rows, Stack
from npvi.components.spline import Spline
from npvi.graph import build_graph
from npvi.inference import AllCovariances, Data, fit_posterior
from npvi.inference.families.parts import AllOfParts
from npvi.kernels import Matern12, Matern32
from npvi.likelihoods import Bernoulli, Gamma, Poisson, StudentT
from npvi.priors import NNGP
from tests.support.oracle import dense_triangular

N = 160


def process(rng, places, weight=None):
    X, at = rng.uniform(size=(places, 2)), rng.integers(places, size=N)
    graph = build_graph(X, places - 1)
    prior = NNGP(Matern32(0.4, 0.6), 1e-3, X[graph.order], graph)
    return Process(prior, Rows(places, at, weight))


def years(rng):
    X = np.arange(10.0)[:, None]
    graph = build_graph(X, 9)
    return Process(NNGP(Matern12(3.0, 0.4), 1e-3, X[graph.order], graph), Rows(10, rng.integers(10, size=N)))


def slopes(rng):
    weight = np.column_stack([np.ones(N), rng.standard_normal(N)])
    return Group(40, rng.integers(40, size=N), np.array([[0.4, 0.1], [0.1, 0.2]]), weight)


def smooth(rng):
    x = rng.uniform(size=N)
    return Spline.of(x, 9).part(x, 1e-3, 0.5)


def constant(rng):
    return Coefficients(np.ones((N, 1)), np.array([0.05]))


PREDICTORS = {
    "surface": lambda rng: [process(rng, 90), constant(rng)],
    "surface + observers": lambda rng: [process(rng, 70), Group(50, rng.integers(50, size=N), 0.4), constant(rng)],
    "slopes + smooth": lambda rng: [constant(rng), slopes(rng), smooth(rng)],
    "varying coefficient": lambda rng: [process(rng, 60), process(rng, 60, rng.standard_normal(N)), years(rng)],
    "crossed groups": lambda rng: [Group(n, rng.integers(n, size=N), 0.5) for n in (20, 70)] + [constant(rng)],
}
LIKELIHOODS = {
    "poisson": (Poisson("exp"), lambda rng, f: rng.poisson(np.exp(f))),
    "bernoulli": (Bernoulli(), lambda rng, f: rng.random(N) < 1.0 / (1.0 + np.exp(-f))),
    "gamma": (Gamma(2.0), lambda rng, f: rng.gamma(2.0, np.exp(f) / 2.0)),
    "student t": (StudentT(0.6, 5.0), lambda rng, f: f + 0.6 * rng.standard_t(5.0, N)),
}


def dense(component):
    """A and P, from what they are made of."""
    if isinstance(component, Process):
        A = np.zeros((N, component.size))
        A[np.arange(N), component.rows.at] = 1.0 if component.rows.weight is None else component.rows.weight
        T = dense_triangular(component.prior.root)
        return A, T.T @ T
    if isinstance(component, Group):
        d = component.weight.shape[1]
        A = np.zeros((N, component.levels * d))
        for j in range(d):
            A[np.arange(N), component.at * d + j] = component.weight[:, j]
        return A, np.kron(np.eye(component.levels), np.linalg.inv(component.covariance))
    if isinstance(component, Coefficients):
        return component.basis, np.diag(component.precision)
    return np.asarray(component.seen), component.precision


class Oracle:
    def __init__(self, components, offset):
        found = [dense(one) for one in components]
        self.A, self.offset = np.hstack([A for A, _ in found]), offset
        self.P = np.zeros((self.A.shape[1],) * 2)
        at = 0
        for _, P in found:
            self.P[at : at + len(P), at : at + len(P)] = P
            at += len(P)

    def residuals(self, data, z, w):
        """Of Aᵀg = Pz and of w = −2 ∂E/∂v, and the bound, at N(z, (P + AᵀWA)⁻¹)."""
        covariance = np.linalg.inv(self.P + self.A.T @ (w[:, None] * self.A))
        variance = np.einsum("ij,jk,ik->i", self.A, covariance, self.A)
        expected = data.expectations(self.A @ z + self.offset, variance)
        pull, gradient = self.P @ z, self.A.T @ expected.gradient
        mean_residual = np.abs(gradient - pull).max() / max(np.abs(gradient).max(), np.abs(pull).max())
        sites = np.abs((expected.precision - w) * variance).max()
        bound = expected.value.sum() + 0.5 * (
            np.linalg.slogdet(self.P)[1]
            + np.linalg.slogdet(covariance)[1]
            - z @ self.P @ z
            - np.trace(self.P @ covariance)
            + len(z)
        )
        return mean_residual, sites, bound, variance


@pytest.fixture(params=PREDICTORS)
def components(request):
    return PREDICTORS[request.param](np.random.default_rng(0))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_best_gaussian(components, name):
    """Where log p is concave the two equations have one solution, the optimum of the bound."""
    likelihood, respond = LIKELIHOODS[name]
    rng = np.random.default_rng(1)
    offset = 0.2 * rng.standard_normal(N)
    y = np.asarray(respond(rng, 0.7 * rng.standard_normal(N) + offset), dtype=float)
    data, parts = Data(likelihood, y), Parts(components, offset)
    fit = fit_posterior(AllOfParts(parts), data, parts)
    assert fit.info["converged"]
    oracle = Oracle(components, offset)
    mean_residual, sites, bound, variance = oracle.residuals(data, fit.posterior.mean, fit.posterior.site_precision)
    assert mean_residual < 1e-5
    assert sites < 1e-5
    assert fit.elbo == pytest.approx(bound, rel=1e-8)
    np.testing.assert_allclose(fit.posterior.variance, variance, rtol=1e-6)


@pytest.mark.parametrize("name", ["poisson", "bernoulli"])
def test_factors_draws_and_probes_come_near(components, name):
    """The same without dense matrices: means within a twentieth of a standard deviation, the bound within its noise."""
    likelihood, respond = LIKELIHOODS[name]
    rng = np.random.default_rng(1)
    y = np.asarray(respond(rng, 0.7 * rng.standard_normal(N)), dtype=float)
    data, exact, near = Data(likelihood, y), Parts(components), Parts(components, dense=0)
    best = fit_posterior(AllOfParts(exact), data, exact)
    fit = fit_posterior(AllOfParts(near), data, near)
    assert fit.info["converged"]
    sd = np.sqrt(best.posterior.variance)
    off = (near.seen(fit.posterior.mean) - exact.seen(best.posterior.mean)) / sd
    assert np.sqrt(np.mean(off**2)) < 0.02
    assert np.abs(off).max() < 0.1
    np.testing.assert_allclose(np.sqrt(fit.posterior.variance), sd, rtol=0.15)
    assert fit.elbo == pytest.approx(best.elbo, abs=1.5)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_surface_and_coefficients_are_what_a_stack_makes_of_them(name):
    """The same model by the one operator and by the other."""
    likelihood, respond = LIKELIHOODS[name]
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(N, 2))
    graph = build_graph(X, 20)
    prior = NNGP(Matern32(0.3, 0.8), 0.05, X[graph.order], graph)
    H = np.column_stack([np.ones(N), rng.standard_normal(N)])
    y = np.asarray(respond(rng, np.sin(5.0 * X[graph.order][:, 0])), dtype=float)
    data, linear = Data(likelihood, y), Coefficients(H, np.array([0.0, 0.3]))
    stack, parts = Stack(Process(prior), linear), Parts([Process(prior), linear])
    one = fit_posterior(AllCovariances(prior), data, stack)
    two = fit_posterior(AllOfParts(parts), data, parts)
    assert two.elbo == pytest.approx(one.elbo, rel=1e-9)
    sd = np.sqrt(one.variance)
    np.testing.assert_allclose(parts.seen(two.posterior.mean), one.posterior.mean, rtol=0, atol=1e-5 * sd.max())
    np.testing.assert_allclose(two.posterior.variance, one.variance, rtol=1e-5)
    coefficients = parts.split(two.posterior.mean)[1]
    np.testing.assert_allclose(coefficients, one.trend.coefficients, rtol=1e-4, atol=1e-5)


def test_counts_of_nothing_under_a_wide_prior():
    """All zeros at some levels: what tells them is the prior alone, and the iteration comes to its end."""
    rng = np.random.default_rng(3)
    at = rng.integers(20, size=N)
    y = np.where(at < 6, 0.0, rng.poisson(3.0, N)).astype(float)
    parts = Parts([Group(20, at, 25.0), Coefficients(np.ones((N, 1)), np.array([0.01]))])
    data = Data(Poisson("exp"), y)
    fit = fit_posterior(AllOfParts(parts), data, parts)
    assert fit.info["converged"]
    oracle = Oracle(parts.components, 0.0)
    mean_residual, sites, bound, _ = oracle.residuals(data, fit.posterior.mean, fit.posterior.site_precision)
    assert mean_residual < 1e-5
    assert sites < 1e-5
    assert fit.elbo == pytest.approx(bound, rel=1e-8)
