"""Predictors made of parts: systems, determinants, variances and draws as dense matrices have them."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest

from npvi.components import Coefficients, Dense, Group, Parts, Process, Recent, Rows
from npvi.components import nested as nested_module
from npvi.components import parts as parts_module
from npvi.components.spline import Spline
from npvi.graph import build_graph
from npvi.inference import AllOfParts, Data
from npvi.inference.families.base import Start
from npvi.inference.newton import Problem
from npvi.kernels import Matern12, Matern32, Subset
from npvi.likelihoods import Gaussian
from npvi.priors import FACTORS, NNGP
from tests.support.oracle import dense_triangular

ROWS = 240


class Part(NamedTuple):
    component: Any
    A: np.ndarray
    P: np.ndarray


def process(X, kernel, at, weight=None, neighbors=None):
    """With all points for parents the factor is exact."""
    graph = build_graph(X, len(X) - 1 if neighbors is None else neighbors)
    prior = NNGP(kernel, 1e-3, X[graph.order], graph)
    position = np.argsort(graph.order)[at]
    A = np.zeros((len(at), len(X)))
    A[np.arange(len(at)), position] = 1.0 if weight is None else weight
    T = dense_triangular(prior.root)
    return Part(Process(prior, Rows(len(X), position, weight)), A, T.T @ T)


def group(levels, at, covariance, weight=None):
    a = np.ones((len(at), 1)) if weight is None else weight
    d = a.shape[1]
    A = np.zeros((len(at), levels * d))
    for j in range(d):
        A[np.arange(len(at)), at * d + j] = a[:, j]
    P = np.kron(np.eye(levels), np.linalg.inv(np.atleast_2d(covariance)))
    return Part(Group(levels, at, covariance, weight), A, P)


def space(rng, neighbors=None):
    return process(rng.uniform(size=(90, 2)), Matern32(0.3), rng.integers(90, size=ROWS), neighbors=neighbors)


def years(rng):
    return process(np.arange(8.0)[:, None], Matern12(3.0, 0.5), rng.integers(8, size=ROWS))


def varying(rng):
    X, at = rng.uniform(size=(80, 2)), rng.integers(80, size=ROWS)
    return process(X, Matern32(0.4, 0.6), at, rng.standard_normal(ROWS))


def observers(rng):
    return group(70, rng.integers(70, size=ROWS), 0.4)


def slopes(rng):
    weight = np.column_stack([np.ones(ROWS), rng.standard_normal(ROWS)])
    return group(45, rng.integers(45, size=ROWS), np.array([[0.5, 0.2], [0.2, 0.3]]), weight)


def few_levels(rng):
    return group(5, rng.integers(5, size=ROWS), 2.0)


def smooth(rng):
    x = rng.uniform(size=ROWS)
    spline = Spline.of(x, 9)
    part = spline.part(x, 1e-3, 0.5)
    A = spline.functions(x)
    return Part(part, A, 1e-3 * spline.penalty + 0.5 * np.outer(spline.linear, spline.linear))


def coefficients(rng):
    H = np.column_stack([np.ones(ROWS), rng.standard_normal(ROWS)])
    return Part(Coefficients(H, np.array([0.0, 0.2])), H, np.diag([0.0, 0.2]))


def sites(rng):
    """Levels that see one place each: those of `space`, which has the same numbers."""
    again = np.random.default_rng(0)
    again.uniform(size=(90, 2))
    return group(90, again.integers(90, size=ROWS), 0.7)


def space_time(rng):
    """Moments at places: those of `space`, which has the same numbers."""
    again = np.random.default_rng(0)
    X = again.uniform(size=(90, 2))
    place = again.integers(90, size=ROWS)
    moments, at = np.unique(np.column_stack([place, rng.integers(4, size=ROWS)]), axis=0, return_inverse=True)
    kernel = Subset(Matern32(0.3), [0, 1]) * Subset(Matern12(2.0), [2])
    return process(np.column_stack([X[moments[:, 0]], moments[:, 1]]), kernel, at.ravel())


PARTS = {one.__name__: one for one in (space, years, varying, observers, slopes, few_levels, smooth, coefficients)}
MORE = {one.__name__: one for one in (sites, space_time)}
PREDICTORS = [
    *((name,) for name in PARTS),
    *combinations(PARTS, 2),
    ("space", "sites"),
    ("space", "sites", "coefficients"),
    ("space", "space_time"),
    ("space_time", "observers", "space", "smooth", "sites"),
    ("coefficients", "space", "years", "observers", "smooth"),
    ("slopes", "varying", "observers", "space", "few_levels"),
]
every_predictor = pytest.mark.parametrize("names", PREDICTORS, ids=" + ".join)


class Oracle:
    """Of the parts, and of a few site precisions over two decades."""

    def __init__(self, names, w=None):
        self.parts = [{**PARTS, **MORE}[name](np.random.default_rng(0)) for name in names]
        self.w = 10.0 ** np.random.default_rng(1).uniform(-1.0, 1.0, ROWS) if w is None else w
        self.A = np.hstack([part.A for part in self.parts])
        self.P = np.zeros((self.A.shape[1],) * 2)
        at = 0
        for part in self.parts:
            self.P[at : at + len(part.P), at : at + len(part.P)] = part.P
            at += len(part.P)
        self.precision = self.P + self.A.T @ (self.w[:, None] * self.A)
        self.covariance = np.linalg.inv(self.precision)

    def made(self, **settings):
        return Parts([part.component for part in self.parts], **settings)

    def variance(self, A):
        return np.einsum("ij,jk,ik->i", A, self.covariance, A)

    def own(self):
        """Of each part, its A and its place in z."""
        stops = np.cumsum([len(part.P) for part in self.parts])
        for part, stop in zip(self.parts, stops):
            yield part, slice(stop - len(part.P), stop)


@every_predictor
def test_products_and_systems(names):
    oracle = Oracle(names)
    parts = oracle.made(dense=0)
    rng = np.random.default_rng(2)
    z, r = rng.standard_normal(parts.size), rng.standard_normal(ROWS)
    np.testing.assert_allclose(parts.times(z), oracle.A @ z, rtol=0, atol=1e-11)
    np.testing.assert_allclose(parts.transpose_times(r), oracle.A.T @ r, rtol=0, atol=1e-11)
    size = np.abs(oracle.P).max()
    np.testing.assert_allclose(parts.matvec(z), oracle.P @ z, rtol=0, atol=1e-11 * size)
    precision = parts.at(oracle.w)
    found = precision.solve(parts.transpose_times(r), 1e-12)
    exact = oracle.covariance @ (oracle.A.T @ r)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-7 * np.abs(exact).max())
    together = precision.solve(parts.transpose_times(np.column_stack([r, r**2])), 1e-12)
    np.testing.assert_allclose(together[:, 0], exact, rtol=0, atol=1e-7 * np.abs(exact).max())
    rows = oracle.A @ exact
    np.testing.assert_allclose(precision.solve_rows(r, 1e-12), rows, rtol=0, atol=1e-7 * np.abs(rows).max())


@every_predictor
def test_the_preconditioner_is_symmetric_and_positive(names):
    oracle = Oracle(names)
    precision = oracle.made(dense=0).at(oracle.w)
    inverse = precision.precondition(np.eye(len(oracle.P)))
    np.testing.assert_allclose(inverse, inverse.T, rtol=0, atol=1e-9 * np.abs(inverse).max())
    assert np.linalg.eigvalsh(0.5 * (inverse + inverse.T)).min() > 0.0
    one = precision.precondition(np.eye(len(oracle.P))[:, 1].copy())
    np.testing.assert_allclose(one, inverse[:, 1], rtol=0, atol=1e-12 * np.abs(inverse).max())


@every_predictor
def test_the_determinant(names):
    oracle = Oracle(names)
    found = oracle.made(dense=0).at(oracle.w).determinant(np.random.default_rng(0))
    exact = np.linalg.slogdet(oracle.precision)[1]
    assert abs(found.logarithm - exact) <= 4.0 * found.error + 1e-5 * abs(exact)
    assert found.error < 0.01 * len(oracle.P)


@every_predictor
def test_variances(names):
    """Where no draws are needed they are exact; what draws tell is within their errors."""
    oracle = Oracle(names)
    parts = oracle.made(dense=0)
    draws = 1024
    found = parts.at(oracle.w).variances(np.random.default_rng(0), draws)
    known = len(parts.apart) < 2 or names[:2] == ("space", "sites")
    tolerance = 1e-4 if known else 6.0 * np.sqrt(2.0 / draws)
    np.testing.assert_allclose(found.predictor, oracle.variance(oracle.A), rtol=tolerance)
    for (part, own), rows, numbers in zip(oracle.own(), found.parts, found.numbers):
        alone = np.zeros_like(oracle.A)
        alone[:, own] = part.A
        variance = oracle.variance(alone)
        np.testing.assert_allclose(rows, variance, rtol=tolerance, atol=1e-10 * variance.max())
        np.testing.assert_allclose(numbers, np.diag(oracle.covariance)[own], rtol=tolerance)


@pytest.mark.parametrize("names", [("space", "observers"), ("coefficients", "slopes", "varying")], ids=" + ".join)
@pytest.mark.parametrize("dense", [0, 1000])
def test_draws(names, dense):
    oracle = Oracle(names)
    n = 4000
    x = oracle.made(dense=dense).at(oracle.w).draws(np.random.default_rng(0), n)
    root = np.linalg.cholesky(oracle.precision)
    white = root.T @ x  # with unit covariance
    off = white @ white.T / n - np.eye(len(x))
    assert np.abs(off).max() < 6.0 * np.sqrt(2.0 / n)


@pytest.mark.parametrize("w", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("names", [("space", "observers", "coefficients"), ("space", "varying", "slopes", "smooth")])
def test_directions_that_data_hardly_hold(names, w):
    """A surface's level and the mean of all effects, say: of systems with strong data they have next to no residual."""
    oracle = Oracle(names, np.full(ROWS, w))
    n = 512
    found = oracle.made(dense=0).at(oracle.w).variances(np.random.default_rng(0), n)
    exact = np.split(np.diag(oracle.covariance), np.cumsum([len(part.P) for part in oracle.parts])[:-1])
    for numbers, known in zip(found.numbers, exact):
        np.testing.assert_allclose(numbers, known, rtol=5.0 * np.sqrt(2.0 / n))
    off = np.sqrt(found.predictor / oracle.variance(oracle.A)) - 1.0
    assert np.sqrt(np.mean(off**2)) < 0.5 * np.sqrt(0.5 / n)  # of what draws alone are off by


@every_predictor
def test_few_numbers_are_dense_and_exact(names):
    oracle = Oracle(names)
    parts = oracle.made(dense=10**6)
    precision = parts.at(oracle.w)
    exact = np.linalg.slogdet(oracle.precision)[1]
    assert precision.determinant(np.random.default_rng(0)).logarithm == pytest.approx(exact, rel=1e-10)
    found = precision.variances()
    np.testing.assert_allclose(found.predictor, oracle.variance(oracle.A), rtol=1e-7)
    for (_, own), numbers in zip(oracle.own(), found.numbers):
        np.testing.assert_allclose(numbers, np.diag(oracle.covariance)[own], rtol=1e-7)


def in_long_numbers(matrix):
    """log |matrix|, and its inverse's diagonal."""
    n = len(matrix)
    C = np.zeros((n, n), np.longdouble)
    for j in range(n):
        column = matrix[j:, j] - C[j:, :j] @ C[j, :j]
        C[j:, j] = column / np.sqrt(column[0])
    inverse = np.eye(n, dtype=np.longdouble)
    for j in range(n):
        inverse[j] = (inverse[j] - C[j, :j] @ inverse[:j]) / C[j, j]
    return 2.0 * float(np.log(np.diag(C)).sum()), np.sum(inverse**2, axis=0).astype(float)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="long numbers are no longer than others here")
@pytest.mark.parametrize(
    "names", [("space", "space_time"), ("space", "sites"), ("space_time", "space", "coefficients")]
)
def test_strong_data_leave_what_parts_that_see_the_same_differ_by(names):
    """10¹¹ beside 1 has no digits left to tell; the roots of both have."""
    oracle = Oracle(names)
    w = 1e11 * (1.0 + np.arange(ROWS) / ROWS)
    A = oracle.A.astype(np.longdouble)
    logarithm, variances = in_long_numbers(oracle.P + A.T @ (w[:, None] * A))
    precision = oracle.made(dense=10**6).at(w)
    assert precision.determinant(np.random.default_rng(0)).logarithm == pytest.approx(logarithm, abs=1e-5)
    np.testing.assert_allclose(np.concatenate(precision.variances().numbers), variances, rtol=1e-5)


@pytest.mark.parametrize("names", [("coefficients", "space", "observers", "smooth"), ("slopes", "varying")])
def test_systems_that_begin_where_others_have_ended(names):
    """They take fewer iterations, and tell the same."""
    oracle = Oracle(names)
    parts = oracle.made(dense=0)
    recent = Recent()
    parts.at(1.1 * oracle.w, recent, rough=True).told(np.random.default_rng(0), 64)
    found = parts.at(oracle.w, recent, rough=True).told(np.random.default_rng(0), 64)
    alone = parts.at(oracle.w)
    np.testing.assert_allclose(
        found.variances.predictor, alone.variances(np.random.default_rng(0), 64).predictor, rtol=0.02
    )
    for one, two in zip(found.moments, alone.moments(np.random.default_rng(0), 64)):
        assert np.sum(one.columns**2) == pytest.approx(np.sum(two.columns**2), rel=0.01)
    recent.forget()
    assert recent.like("draws 0", np.zeros((parts.rest.size, 32))) is None


@pytest.mark.parametrize("w", [0.05, 1.0, 100.0, 1e6])
def test_effects_of_places_beside_a_surface(w):
    """Where only the sum is known, the group is eliminated exactly: no more iterations than for the surface alone."""
    oracle = Oracle(("space", "sites"), np.full(ROWS, w))
    parts = oracle.made(dense=0)
    precision = parts.at(oracle.w)
    rhs = oracle.A.T @ np.random.default_rng(3).standard_normal(ROWS)
    found = precision.solve(rhs)
    assert precision.iterations[0] <= 3
    exact = np.linalg.solve(oracle.precision, rhs)
    np.testing.assert_allclose(oracle.A @ found, oracle.A @ exact, rtol=0, atol=1e-6 * np.abs(oracle.A @ exact).max())


@pytest.mark.parametrize(("visits", "wide"), [(20, True), (4, False)])
@pytest.mark.parametrize(("w", "most"), [(0.05, 3), (1.0, 2)])
def test_many_visits_to_a_place_are_worth_a_wider_factor(visits, wide, w, most):
    """An iteration then costs more than the factor's width; with the graph's own it takes one more."""
    rng = np.random.default_rng(0)
    places = rng.uniform(size=(1000, 2))
    graph = build_graph(places, 20)
    at = np.argsort(graph.order)[rng.integers(1000, size=visits * 1000)]
    surface = Process(NNGP(Matern32(0.1), 1e-3, places[graph.order], graph), Rows(1000, at))
    parts = Parts([surface, Group(1000, at, 1.0)], dense=0)
    precision = parts.at(np.full(len(at), w * 20 / visits))
    precision.solve(parts.transpose_times(rng.standard_normal(len(at))), 1e-6)
    assert (surface.factor_for_many(np.ones(len(at))).route == FACTORS[1]) == wide
    assert precision.iterations[0] == (most if wide else most + 1)


@pytest.mark.parametrize("visits", [1, 1000])
def test_processes_on_top_of_each_other_have_an_exact_factor(monkeypatch, visits):
    """Where every position sees all others; by conditionals, and where there are many visits to a place by columns."""
    monkeypatch.setattr(nested_module, "_AROUND", ROWS)
    monkeypatch.setattr(nested_module, "_VISITS", visits)
    parts = [part(np.random.default_rng(0)) for part in (space, space_time)]
    pair = nested_module.Nested(*(part.component for part in parts))
    A = np.hstack([part.A for part in parts])
    w = 10.0 ** np.random.default_rng(1).uniform(-2.0, 3.0, ROWS)
    precision = A.T @ (w[:, None] * A)
    n = len(parts[0].P)
    precision[:n, :n] += parts[0].P
    precision[n:, n:] += parts[1].P
    factor = pair.factor(w)
    white = factor.half(factor.half(precision).T)
    assert np.abs(np.linalg.eigvalsh(0.5 * (white + white.T)) - 1.0).max() < 1e-6
    assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(precision)[1], rel=1e-9)
    z = np.random.default_rng(2).standard_normal((len(A.T), 2))
    np.testing.assert_allclose(factor.half_transpose(z).T @ z[:, :1], z.T @ factor.half(z[:, :1]))
    np.testing.assert_allclose(factor.half_transpose(z[:, 0]), factor.half_transpose(z)[:, 0])
    np.testing.assert_allclose(pair.times(z), A @ z)
    np.testing.assert_allclose(pair.transpose_times(A @ z), A.T @ A @ z)


@pytest.mark.parametrize(("others", "times"), [((), 5), (("smooth", "coefficients"), 5)])
def test_where_data_are_strong_processes_on_top_of_each_other_do_not_crawl(others, times):
    oracle = Oracle(("space_time", "space", *others), np.full(ROWS, 1e4))
    rhs = oracle.A.T @ np.random.default_rng(3).standard_normal(ROWS)
    together = oracle.made(dense=0)
    quick = together.at(oracle.w)
    found = quick.solve(rhs, 1e-10)
    assert together.rest.nested_together
    np.testing.assert_allclose(found, np.linalg.solve(oracle.precision, rhs), rtol=0, atol=1e-6)
    apart = oracle.made(dense=0)
    apart.rest.nested_together = False
    slow = apart.at(oracle.w)
    slow.solve(rhs, 1e-10)
    assert times * quick.iterations[0] < slow.iterations[0]


def test_processes_that_are_not_on_top_of_each_other():
    rng = np.random.default_rng(0)
    place, moment = space(np.random.default_rng(0)).component, space_time(np.random.default_rng(0)).component
    nested = nested_module.nested_pair
    assert nested([moment, place]) == (1, 0)
    assert nested([place, years(rng).component]) is None  # positions of neither lie at one of the other's
    assert nested([place, varying(rng).component, observers(rng).component]) is None
    unseen = Process(moment.prior, Rows(moment.size, np.zeros(ROWS, dtype=int)))
    assert nested([Process(place.prior, Rows(place.size, np.zeros(ROWS, dtype=int))), unseen]) is None


def on_top(places, times, in_time=0.2, sd=1.0, seed=0):
    """A field in space, and one in space and time, with a row for each time at each place."""
    rng = np.random.default_rng(seed)
    S, t = rng.uniform(size=(places, 2)), np.tile(np.linspace(0.0, 1.0, times), places)
    place = np.repeat(np.arange(places), times)
    X = np.column_stack([S[place], t])
    kernel = Subset(Matern32(0.1, sd**2), [0, 1]) * Subset(Matern12(in_time), [2])
    found = []
    for inputs, scaled, of, nugget, at in (
        (S, S / 0.1, Matern32(0.1), 1e-6, place),
        (X, X / [0.1, 0.1, in_time], kernel, 1e-6 * sd**2, np.arange(len(X))),
    ):
        graph = build_graph(scaled, 20)
        position = np.argsort(graph.order)[at]
        found.append(Process(NNGP(of, nugget, inputs[graph.order], graph), Rows(len(inputs), position)))
    return found


def test_processes_of_different_inputs_are_not_on_top_of_each_other():
    """Though no two rows share a position of either, so that each has one of the other."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=(2, 100, 2))

    def of(X):
        return process(X, Matern32(0.3), np.arange(100), neighbors=10).component

    nested = nested_module.nested_pair
    assert nested([of(a), of(b)]) is None
    assert nested([of(a), of(np.column_stack([a[:, 0], b]))]) is None
    assert nested([of(a), of(np.column_stack([b, a]))]) == (0, 1)
    levels = rng.integers(3, size=100)
    near, far = (np.column_stack([a, apart * levels]) for apart in (1e5, 3e5))  # apart by their own ranges
    assert nested([of(near), of(np.column_stack([far, b]))]) == (0, 1)


def test_processes_in_cells_are_below_those_at_places():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    cells, at = np.unique(np.floor(10.0 * X) / 10.0 + 0.05, axis=0, return_inverse=True)
    fine = process(X, Matern32(0.3), np.arange(200), neighbors=10).component
    assert nested_module.nested_pair([fine, process(cells, Matern32(0.3), at.ravel(), neighbors=10).component]) == (
        1,
        0,
    )


@pytest.mark.parametrize("sd", [1e-7, 1e-9])
def test_where_processes_on_top_of_each_other_have_no_factor_each_has_its_own(sd):
    """Next to a field of sd 1 the other is less than rounding."""
    first, second = on_top(80, 3, sd=sd)
    assert nested_module.Nested(first, second).factor(np.full(240, 1e4)) is None
    parts = Parts([first, second], dense=0)
    parts.rest.nested_together = True
    precision = parts.at(np.full(240, 1e4))
    rhs = parts.transpose_times(np.random.default_rng(0).standard_normal(240))
    found = precision.solve(rhs)
    assert np.linalg.norm(precision.matvec(found) - rhs) < 1e-6 * np.linalg.norm(rhs)


@pytest.mark.parametrize(("places", "times"), [(300, 2), (70, 60)])
def test_a_factor_of_two_processes_keeps_what_it_is_made_of(places, times, monkeypatch):
    """Conditionals are found of the coarser one's positions alone, and no larger array is held fast by a view of it."""
    asked = []
    found = nested_module.conditional_root
    monkeypatch.setattr(nested_module, "conditional_root", lambda *a: asked.append(len(a[3])) or found(*a))
    pair = nested_module.Nested(*on_top(places, times))
    kept = pair._given_sum.triangular
    assert asked == ([places] if times < 4 else [])
    assert kept.edges.shape == (places, 20)
    assert all(array.base is None or array.base.nbytes == array.nbytes for array in (kept.edges, kept.diagonal))


def test_a_factor_together_that_was_no_better_is_tried_again_where_data_are_stronger(monkeypatch):
    asked = []

    def effort(self, limit):
        asked.append(len(self.blocks))
        strong = self.site_precision.max() > 1e3
        return True, 1.0 if (len(self.blocks) == 1) == strong else 2.0

    monkeypatch.setattr(parts_module._Apart, "_effort", effort)
    first, second = on_top(100, 5)
    recent = Recent()
    for strength, together, times in ((1.0, None, 3), (2.0, None, 0), (1e4, True, 3), (1e4, True, 0)):
        parts = Parts([first, second], dense=0)  # as learning makes them anew
        asked.clear()
        assert parts.at(np.full(500, strength), recent) is not None
        assert parts.rest.nested_together is together
        assert len(asked) == times


def test_a_factor_together_that_is_wild_is_not_taken(monkeypatch):
    """Conjugate gradients give it up after few iterations, which is no sign of its being good."""
    broken = type("Broken", (), {name: lambda self, x: np.nan * x for name in ("half", "half_transpose")})
    monkeypatch.setattr(nested_module.Nested, "factor", lambda self, w: broken())
    parts = Parts(on_top(100, 5), dense=0)
    w = np.full(500, 1e4)
    precision = parts.at(w)
    assert not parts.rest.nested_together
    rhs = parts.transpose_times(np.ones(500))
    assert np.isfinite(precision.solve(rhs, 1e-6)).all()


@pytest.mark.parametrize("in_time", [0.2, 0.002])
def test_many_visits_to_a_place_have_a_say(in_time):
    """Sixty, where conditionals see forty, all of one place."""
    parts = Parts(on_top(70, 60, in_time), dense=0)
    parts.rest.nested_together = True
    w = np.full(70 * 60, 100.0)
    precision = parts.at(w)
    rhs = parts.transpose_times(np.random.default_rng(0).standard_normal(len(w)))
    precision.solve(rhs, 1e-6)
    assert precision.iterations[-1] <= 15


def test_factors_that_are_not_exact():
    """With ten parents the zero-fill factor is only near, and systems and determinants are as good as ever."""
    rng = np.random.default_rng(0)
    near = space(np.random.default_rng(0), neighbors=10)
    part = observers(rng)
    w = np.full(ROWS, 2.0)
    A = np.hstack([near.A, part.A])
    precision = np.zeros((A.shape[1],) * 2)
    precision[:90, :90], precision[90:, 90:] = near.P, part.P
    precision += A.T @ (w[:, None] * A)
    made = Parts([near.component, part.component], dense=0).at(w)
    rhs = rng.standard_normal(A.shape[1])
    np.testing.assert_allclose(made.solve(rhs, 1e-11), np.linalg.solve(precision, rhs), rtol=0, atol=1e-7)
    found = made.determinant(np.random.default_rng(0), 64)
    assert abs(found.logarithm - np.linalg.slogdet(precision)[1]) <= 4.0 * found.error + 1e-3
    assert found.error < 0.4


def test_rows_that_say_nothing():
    """w = 0 leaves the prior."""
    oracle = Oracle(("space", "observers"), np.zeros(ROWS))
    draws = 1024
    found = oracle.made(dense=0).at(oracle.w).variances(draws=draws)
    np.testing.assert_allclose(found.predictor, oracle.variance(oracle.A), rtol=6.0 * np.sqrt(2.0 / draws))


@pytest.mark.parametrize("dense", [0, 10**6])
@pytest.mark.parametrize("names", [("observers", "space"), ("observers", "coefficients"), ("smooth",)])
def test_no_precision_is_no_posterior(names, dense):
    oracle = Oracle(names)
    assert oracle.made(dense=dense).at(np.full(ROWS, -1e6)) is None


def test_the_order_of_parts_does_not_matter():
    oracle, other = Oracle(("space", "few_levels", "observers")), Oracle(("observers", "space", "few_levels"))
    one, two = oracle.made(dense=0).at(oracle.w), other.made(dense=0).at(oracle.w)
    r = np.random.default_rng(5).standard_normal(ROWS)
    np.testing.assert_allclose(one.solve_rows(r, 1e-12), two.solve_rows(r, 1e-12), rtol=0, atol=1e-8)


def test_many_numbers_together():
    """A dense part may have more columns than parts are put together for."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((ROWS, 90))
    near = space(rng)
    parts = Parts([near.component, Dense(A, np.eye(90))], dense=0)
    w = np.full(ROWS, 0.5)
    whole = np.hstack([near.A, A])
    precision = whole.T @ (w[:, None] * whole)
    precision[:90, :90] += near.P
    precision[90:, 90:] += np.eye(90)
    rhs = rng.standard_normal(180)
    made = parts.at(w)
    np.testing.assert_allclose(made.solve(rhs, 1e-12), np.linalg.solve(precision, rhs), rtol=0, atol=1e-7)
    assert made.determinant(rng).logarithm == pytest.approx(np.linalg.slogdet(precision)[1], rel=1e-6)


def evidence(parts, w, s):
    """log ∫ exp(−½ (Az − s)ᵀW(Az − s)) p(z) dz, but for a constant, by dense matrices."""
    A = np.hstack([part.A for part in parts])
    P = np.zeros((A.shape[1],) * 2)
    at = 0
    for part in parts:
        P[at : at + len(part.P), at : at + len(part.P)] = part.P
        at += len(part.P)
    precision, b = P + A.T @ (w[:, None] * A), A.T @ (w * s)
    logs = np.linalg.slogdet(P)[1] - np.linalg.slogdet(precision)[1]
    return 0.5 * (logs + b @ np.linalg.solve(precision, b))


def of_scales(length, variance, sd, slope_sd, correlation, smoothing):
    """A surface, years, slopes and a smooth with these; and what the smoothing multiplies."""
    rng = np.random.default_rng(0)
    first = process(rng.uniform(size=(70, 2)), Matern32(length, variance), rng.integers(70, size=ROWS))
    second = process(np.arange(6.0)[:, None], Matern12(2.0, 0.5), rng.integers(6, size=ROWS))
    weight = np.column_stack([np.ones(ROWS), rng.standard_normal(ROWS)])
    C = correlation * sd * slope_sd
    third = group(50, rng.integers(50, size=ROWS), np.array([[sd**2, C], [C, slope_sd**2]]), weight)
    x = rng.uniform(size=ROWS)
    spline = Spline.of(x, 8)
    P = smoothing * spline.penalty + np.outer(spline.linear, spline.linear)
    return [first, second, third, Part(spline.part(x, smoothing, 1.0), spline.functions(x), P)], spline.penalty


@pytest.mark.parametrize("dense", [0, 10**6])
def test_gradients_by_differences(dense):
    """Of the evidence of Gaussian sites, in what each part hands over: by its own moments alone."""
    at = {"length": 0.3, "variance": 0.8, "sd": 0.7, "slope_sd": 0.5, "correlation": 0.3, "smoothing": 0.02}
    rng = np.random.default_rng(4)
    w, s = 10.0 ** rng.uniform(-1.0, 1.0, ROWS), rng.standard_normal(ROWS)
    exact = {}
    for name, value in at.items():
        step = 1e-4 * value
        ends = [evidence(of_scales(**{**at, name: value + sign * step})[0], w, s) for sign in (1.0, -1.0)]
        exact[name] = value * (ends[0] - ends[1]) / (2.0 * step)
    cases, penalty = of_scales(**at)
    parts = Parts([part.component for part in cases], dense=dense)
    precision = parts.at(w)
    means = parts.split(precision.solve(parts.transpose_times(w * s), 1e-10))
    moments = precision.moments(np.random.default_rng(0), 1024)
    functions = [np.column_stack([mean, own.columns]) for mean, own in zip(means, moments)]
    factors = [own.factor for own in moments]
    surface = parts.components[0].gradient(functions[0], factors[0])
    in_covariance = parts.components[2].gradient(functions[2], factors[2])
    sd, slope_sd, correlation = at["sd"], at["slope_sd"], at["correlation"]
    cross = in_covariance[0, 1] + in_covariance[1, 0]
    slopes = {
        "length": float(surface.kernel.length_scale),
        "variance": float(surface.kernel.variance),
        "sd": 2.0 * sd * in_covariance[0, 0] + cross * correlation * slope_sd,
        "slope_sd": 2.0 * slope_sd * in_covariance[1, 1] + cross * correlation * sd,
        "correlation": cross * sd * slope_sd,
        "smoothing": parts.components[3].gradient(penalty, functions[3], factors[3]),
    }
    for name, value in exact.items():  # in logarithms; of draws a few hundredths are left
        assert at[name] * slopes[name] == pytest.approx(value, rel=1e-5, abs=1e-5 if dense else 0.15), name


@pytest.mark.parametrize("dense", [0, 10**6])
def test_some_negative_site_precisions(dense):
    """As of likelihoods that aren't log-concave: draws, variances and determinants as long as Λ is positive."""
    w = 10.0 ** np.random.default_rng(1).uniform(-1.0, 1.0, ROWS)
    w[::7] = -0.05
    oracle = Oracle(("space", "observers", "coefficients"), w)
    assert np.linalg.eigvalsh(oracle.precision).min() > 0.0
    precision = oracle.made(dense=dense).at(w)
    n = 1024
    found = precision.variances(np.random.default_rng(0), n)
    np.testing.assert_allclose(found.predictor, oracle.variance(oracle.A), rtol=6.0 * np.sqrt(2.0 / n))
    logarithm, error = precision.determinant(np.random.default_rng(0), 64)
    assert abs(logarithm - np.linalg.slogdet(oracle.precision)[1]) <= 4.0 * error + 1e-4
    x = precision.draws(np.random.default_rng(0), 4000)
    variance = np.diag(oracle.covariance)
    np.testing.assert_allclose(np.mean(x**2, axis=1), variance, rtol=6.0 * np.sqrt(2.0 / 4000))


@pytest.mark.parametrize("sd", [1e-6, 1e-3])
def test_no_variation_between_levels_is_an_answer(sd):
    """σ → 0 leaves the other parts as they are without the group."""
    rng = np.random.default_rng(0)
    surface, w = space(rng), np.full(ROWS, 3.0)
    nothing = group(70, rng.integers(70, size=ROWS), sd**2)
    r = rng.standard_normal(ROWS)
    both = Parts([surface.component, nothing.component], dense=0).at(w)
    alone = Parts([surface.component], dense=0).at(w)
    rows = alone.solve_rows(r, 1e-10)
    np.testing.assert_allclose(both.solve_rows(r, 1e-10), rows, rtol=0, atol=100.0 * sd * np.abs(rows).max())
    found, before = both.variances(np.random.default_rng(0), 64), alone.variances()
    np.testing.assert_allclose(found.predictor, before.predictor, rtol=100.0 * sd)
    np.testing.assert_allclose(found.numbers[1], sd**2, rtol=1e-3)
    changed = both.determinant(rng).logarithm - alone.determinant(rng).logarithm
    assert changed == pytest.approx(70 * np.log(sd**-2.0), abs=1e-2)


def test_columns_some_at_a_time(monkeypatch):
    """Of many numbers few columns are held at once: the same answers."""
    oracle = Oracle(("space", "observers", "coefficients"))
    monkeypatch.setattr("npvi.components.parts._NUMBERS", 3 * len(oracle.P))
    held = []
    solved = parts_module._solved
    monkeypatch.setattr(parts_module, "_solved", lambda *a, **k: held.append(a[1].shape[1]) or solved(*a, **k))
    precision = oracle.made(dense=0).at(oracle.w)
    n = 512
    found = precision.variances(np.random.default_rng(0), n)
    np.testing.assert_allclose(found.predictor, oracle.variance(oracle.A), rtol=6.0 * np.sqrt(2.0 / n))
    logarithm, error = precision.determinant(np.random.default_rng(0), 32)
    assert abs(logarithm - np.linalg.slogdet(oracle.precision)[1]) <= 4.0 * error + 1e-4
    assert precision.moments(np.random.default_rng(0), 16)[0].columns.shape[1] >= 16
    assert precision.draws(np.random.default_rng(0), 7).shape == (len(oracle.P), 7)
    assert max(held) <= 3


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("weight", [False, True])
def test_rows_that_see_numbers(weight, many):
    """Each one row, in any order, or several rows some of them."""
    rng = np.random.default_rng(0)
    at = rng.integers(20, size=50) if many else rng.permutation(50)
    a = rng.standard_normal(50) if weight else None
    rows = Rows(20 if many else 50, at, a)
    A = rows.matrix().toarray()
    x, z = rng.standard_normal((50, 3)), rng.standard_normal((rows.size, 3))
    np.testing.assert_allclose(rows.times(z), A @ z, atol=1e-14)
    np.testing.assert_allclose(rows.transpose_times(x), A.T @ x, atol=1e-14)
    np.testing.assert_allclose(rows.transpose_times(x[:, 0]), A.T @ x[:, 0], atol=1e-14)


def test_a_factor_that_breaks_down_gives_way_to_a_wider_one():
    """A graph for other ranges, strong data, next to no nugget: where the first factor breaks down, it is far off."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=(700, 2)), rng.integers(4, size=700)])
    graph = build_graph(X / [0.5, 0.5, 2.0], 20)
    kernel = Matern32([0.47, 16.9, 2.27], 0.14)
    part = Process(NNGP(kernel, 1.4e-7, X[graph.order], graph))
    w = np.full(700, 1300.0)
    exact = part.precision_matrix() + np.diag(w)

    def largest(factor):
        white = factor.half(factor.half(exact).T)
        return np.linalg.eigvalsh(0.5 * (white + white.T)).max()

    first, found = part.prior.factor(w, "zero-fill"), part.factor(w)
    assert len(first.breakdowns)
    assert found.route == "zero-fill on a wider pattern"
    assert largest(first) > 100.0 * largest(found)


def test_a_start_with_sites_that_lead_nowhere_is_one_for_rows(monkeypatch):
    """Numbers of parts are not the predictor's: there are more of them than rows."""
    oracle = Oracle(("space", "observers", "sites", "space_time"))
    parts = oracle.made(dense=10**6)
    assert parts.size > ROWS
    data = Data(Gaussian(0.5), np.random.default_rng(0).standard_normal(ROWS))
    problem = Problem(AllOfParts(parts), data, parts, (1e-6, 1e-6))
    state = problem.initial(Start(np.zeros(parts.size), np.ones(ROWS), np.full(ROWS, 2.0)))
    monkeypatch.setattr(problem, "_newton", lambda state: None)
    for name in ("_improve_mean", "_improve_covariance"):
        monkeypatch.setattr(problem, name, lambda state: state)
    better = problem.improve(state)
    assert problem.complete(better)
    exact = oracle.A @ np.linalg.solve(oracle.P + 2.0 * oracle.A.T @ oracle.A, 2.0 * oracle.A.T @ data.y)
    np.testing.assert_allclose(better.predictor, exact, rtol=0, atol=1e-6)


def test_all_levels_share_no_random_number():
    """Of effects beside a surface the mean is hardly known: all their variances have it, without noise of draws."""
    oracle = Oracle(("space", "observers"), np.full(ROWS, 1e4))
    found = oracle.made(dense=0).at(oracle.w).variances(np.random.default_rng(0), 16)
    ratio = found.numbers[1] / np.diag(oracle.covariance)[-len(found.numbers[1]) :]
    assert abs(np.mean(ratio) - 1.0) < 0.03  # one of 16 draws would be off by .35


def test_parts_that_cannot_be_told_apart_are_dense():
    """Of a surface and two coefficients that vary in space conjugate gradients crawl where data are strong."""
    varied = [varying(np.random.default_rng(seed)).component for seed in (5, 6)]
    parts = Parts([space(np.random.default_rng(1)).component, *varied], dense=0)
    recent = Recent()
    assert not parts.at(np.ones(ROWS), recent).is_dense
    assert parts.at(np.full(ROWS, 1e6), recent).is_dense
    assert recent.dense
    assert parts.at(np.ones(ROWS), recent).is_dense  # and stays so, as a bound by the other way would differ
    large = Parts(parts.components, dense=0)
    large.size = parts_module._DENSE_AT_MOST + 1
    assert not large.densely(recent)
