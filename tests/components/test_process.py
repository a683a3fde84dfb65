"""Solving with P + W, and what happens when the first preconditioner is not enough."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.components import Coefficients, Process, ProcessPrecision, SolverLog, Stack
from npvi.components.process import PROBES
from npvi.graph import build_graph
from npvi.kernels import RBF, Matern
from npvi.linalg import Noise
from npvi.priors import FACTORS, NNGP, marginal_gradient
from npvi.priors.nngp import classical
from tests.support.linalg_cases import prior
from tests.support.oracle import dense_triangular

ROUTES = ["zero-fill on a wider pattern", "classical"]


def relative_residual(solver, x, rhs):
    return np.linalg.norm(solver.matvec(x) - rhs) / np.linalg.norm(rhs)


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32"])
def test_the_plain_factor_serves(kernel):
    model = prior(400, 10, kernel)
    w = np.random.default_rng(0).exponential(size=400)
    solver = ProcessPrecision(model, w)
    rhs = np.random.default_rng(1).standard_normal(400)
    T = dense_triangular(model.root)
    x = solver.solve(rhs)
    assert relative_residual(solver, x, rhs) <= 1.1e-10
    np.testing.assert_allclose(x, np.linalg.solve(T.T @ T + np.diag(w), rhs), rtol=0, atol=1e-8 * np.abs(x).max())
    assert solver.log.fallbacks == []
    assert solver.log.breakdowns == [0]
    assert solver.log.iterations[0] <= ProcessPrecision.patience


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("settings", "w"),
    [
        ({"n": 400, "K": 10, "kernel": RBF(0.1), "nugget": 1e-6}, 1.0),
        ({"n": 400, "K": 10, "kernel": RBF(0.3), "nugget": 1e-6}, 100.0),
        ({"n": 2000, "K": 5, "kernel": RBF(0.1), "nugget": 1e-6}, 100.0),
        ({"n": 2000, "K": 5, "kernel": RBF(0.1), "nugget": 1e-4}, 1.0),
    ],
)
def test_fallbacks_reach_the_tolerance_and_are_logged(settings, w, seed):
    model = prior(**settings, order="random", seed=1)
    log = SolverLog()
    solver = ProcessPrecision(model, np.full(settings["n"], w), log)
    rhs = np.random.default_rng(seed).standard_normal(settings["n"])
    x = solver.solve(rhs)
    assert log.fallbacks
    assert log.fallbacks == ROUTES[: len(log.fallbacks)]
    assert len(log.breakdowns) == 1 + len(log.fallbacks)
    assert log.breakdowns[0] > 0
    # rounding in b − A x, which is formed anew at each change of preconditioner
    assert relative_residual(solver, x, rhs) <= 2e-10
    # the next solve starts with the preconditioner that worked
    changes = len(log.fallbacks)
    if changes == len(ROUTES):
        again = solver.solve(2.0 * rhs)
        assert len(log.fallbacks) == changes
        assert relative_residual(solver, again, 2.0 * rhs) <= 2e-10


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_tolerance_is_kept_when_patience_ends_just_short_of_it(seed):
    """Within a factor of a hundred of the tolerance is not within the tolerance."""
    X = np.random.default_rng(1).uniform(size=(2000, 2))
    graph = build_graph(X, 5, order="random", seed=0)
    solver = ProcessPrecision(NNGP(RBF(0.1), 1e-4, X[graph.order], graph), np.full(2000, 100.0))
    rhs = np.random.default_rng(seed).standard_normal(2000)
    assert relative_residual(solver, solver.solve(rhs), rhs) <= 2e-10


def test_the_classical_preconditioner_is_its_formula():
    model = prior(80, 6)
    w = np.random.default_rng(0).exponential(size=80)
    factor = classical(model, w)
    T = dense_triangular(model.root)
    C = T * np.sqrt(model.conditional_variance)[:, None]  # I − B
    expected = C.T @ np.diag(1.0 / model.conditional_variance + w) @ C
    U = dense_triangular(factor.transpose).T
    np.testing.assert_allclose(U @ U.T, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    x = np.random.default_rng(1).standard_normal(80)
    np.testing.assert_allclose(expected @ factor.solve(x), x, rtol=0, atol=1e-8)


@pytest.mark.parametrize("p", [0, 1, 3])
def test_the_mean_function_is_profiled_out(p):
    """β is the generalised least-squares estimate, and P̃ = P − PH (HᵀPH)⁻¹ HᵀP."""
    model = prior(60, 8)
    rng = np.random.default_rng(0)
    H, f, w = rng.standard_normal((60, p)), rng.standard_normal(60), rng.exponential(size=60)
    T = dense_triangular(model.root)
    P = T.T @ T
    projected = P - P @ H @ np.linalg.solve(H.T @ P @ H, H.T @ P) if p else P
    mean = Stack(Process(model), Coefficients(H))
    beta = np.linalg.lstsq(T @ H, T @ f, rcond=None)[0]
    np.testing.assert_allclose(mean.coefficients(f), beta, rtol=1e-8)
    np.testing.assert_allclose(mean.centred(f), f - H @ beta, rtol=1e-8, atol=1e-10)
    assert mean.quadratic(f) == pytest.approx(f @ projected @ f, rel=1e-8)
    gradient = mean.matvec(f)
    np.testing.assert_allclose(gradient, projected @ f, rtol=0, atol=1e-8 * np.abs(gradient).max())
    x = mean.solve(ProcessPrecision(model, w), f)
    np.testing.assert_allclose(x, np.linalg.solve(projected + np.diag(w), f), rtol=0, atol=1e-7 * np.abs(x).max())


def test_coefficients_beyond_all_bounds_have_no_bound():
    assert Coefficients(np.ones((3, 1)), np.ones(1)).quadratic(np.array([1e200])) == np.inf


@pytest.mark.parametrize("smoothness", [1.5, 2.5])
@pytest.mark.parametrize("of", ["bound", "part", "part, wider"])
def test_what_a_factor_lacks_is_in_the_slopes_of_the_determinant(of, smoothness):
    """A factor within a hundredth of exact has slopes that are off by more than their standard errors."""
    n, z = 2000, np.log([0.3, 1.0, 1e-3])
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    graph = build_graph(X, 15)
    X, w = X[graph.order], rng.uniform(0.5, 2.0, n)

    def at(z):
        length, variance, nugget = np.exp(z)
        return NNGP(Matern(length, variance, smoothness=smoothness), nugget, X, graph)

    def exact(z):
        dense = at(z).block(np.arange(n))
        return -0.5 * at(z).logdet - 0.5 * np.linalg.slogdet(dense + np.diag(w))[1]

    slopes = np.array([(exact(z + e) - exact(z - e)) / 2e-3 for e in 1e-3 * np.eye(3)])
    here, nothing = at(z), np.zeros((n, 1))
    wider = (FACTORS[1], here.factor(w, FACTORS[1])) if "wider" in of else None
    solver = ProcessPrecision(here, w, own=wider)
    factor, noise = solver.factor(), Noise(graph.order).columns(0, PROBES)

    def in_logarithms(found):
        in_kernel = float(found.kernel.length_scale), float(found.kernel.variance)
        return np.exp(z) * np.array([*in_kernel, found.nugget])

    alone = in_logarithms(marginal_gradient(here, nothing, factor))
    if of == "bound":
        found = marginal_gradient(here, nothing, factor, solver.draws(factor, noise), noise)
    else:
        found = Process(here).gradient(nothing, solver)
    off, was = np.abs(in_logarithms(found) - slopes), np.abs(alone - slopes)
    assert solver.determinant(factor, Noise(graph.order)).departure < 0.02
    assert np.all(off < 0.006 * np.abs(slopes) + 0.1)
    if smoothness == 2.5 and "wider" not in of:  # which alone is near already
        assert off.max() < 0.2 * was.max()


@pytest.mark.parametrize("nugget", [1e-3, 1e-5])
def test_draws_are_right_in_sums_over_rows(nugget):
    """Draws that are off by a ten-thousandth hide, of a million rows, whole nats in a slope."""
    n = 1500
    rng = np.random.default_rng(1)
    X = rng.random((n, 2))
    graph = build_graph(X, 10)
    model = NNGP(Matern(0.3, smoothness=1.5), nugget, X[graph.order], graph)
    solver = ProcessPrecision(model, rng.uniform(0.5, 2.0, n))
    factor, noise = solver.factor(), Noise(graph.order).columns(0, 16)
    assert factor.root is not None
    U = np.linalg.inv(factor.transpose.solve(np.eye(n)).T)  # draws are U⁻ᵀ M^{−½} ε
    inverse = np.linalg.inv(U)
    M = inverse @ (model.block(np.arange(n)) + np.diag(solver.site_precision)) @ inverse.T
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    exact = (vectors / np.sqrt(values)) @ (vectors.T @ noise)
    found = U.T @ solver.draws(factor, noise)
    off = np.linalg.norm(found - exact, axis=0) / np.linalg.norm(exact, axis=0)
    assert off.max() < 4e-6  # whatever n is: a tile's share of a sum over all rows has to be as good as the sum
    assert solver.determinant(factor, Noise(graph.order)).departure > 2e-3  # and the factor isn't exact
