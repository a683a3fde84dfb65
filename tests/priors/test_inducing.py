"""FITC and Nyström: the questions that a prior answers, against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from npvi.graph import build_graph
from npvi.kernels import RBF, Linear, Matern12, Matern32, Matern52, Periodic
from npvi.linalg.woodbury import woodbury
from npvi.posteriors import DrawsPosterior, FactorPosterior
from npvi.posteriors.low_rank import LowRankPosterior
from npvi.posteriors.projection import projected_covariance
from npvi.posteriors.stacked import StackedPosterior
from npvi.priors import FITC, NotPositiveDefiniteError, Nystrom
from npvi.priors.low_rank.inducing import choose_inducing
from npvi.priors.low_rank.prior import low_rank_gradient
from npvi.runtime.parallel import threads
from tests.support import oracle
from tests.support.low_rank_oracle import DenseLowRank

NUGGET = 0.03
KERNELS = {
    "rbf": (RBF(0.5, 2.0), lambda A, B: oracle.rbf(A, B, 0.5, 2.0)),
    "matern12": (Matern12(0.5), lambda A, B: oracle.matern12(A, B, 0.5)),
    "matern32, ard": (
        Matern32([0.3, 0.8], 0.7),
        lambda A, B: oracle.matern32(A / [0.3, 0.8], B / [0.3, 0.8], 1.0, 0.7),
    ),
    "sum": (Matern32(0.3) + Linear(0.5), lambda A, B: oracle.matern32(A, B, 0.3) + 0.5 * A @ B.T),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
both = pytest.mark.parametrize("kind", [FITC, Nystrom])
rng_of = np.random.default_rng


def made(kind, kernel, n=40, m=9, K=5, nugget=NUGGET, inducing=None, **settings):
    kernel, dense = KERNELS[kernel]
    rng = rng_of([n, m])
    X = rng.uniform(size=(n, 2))
    inducing = rng.uniform(size=(m, 2)) if inducing is None else inducing
    graph = build_graph(kernel.coordinates(X), K, **settings)
    X = X[graph.order]
    prior = kind(kernel, nugget, X, graph, inducing)
    return prior, DenseLowRank(dense, X, inducing, nugget, kind is FITC)


def assert_close(actual, expected, tolerance=1e-7):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# -- the prior itself -------------------------------------------------------------------------------------------------


@both
@every_kernel
@pytest.mark.parametrize(("n", "m"), [(40, 9), (1, 1), (7, 12)])
def test_every_question_against_dense_matrices(kind, kernel, n, m):
    prior, dense = made(kind, kernel, n, m)
    covariance, P = dense.covariance, dense.precision
    everything = np.arange(n)
    assert_close(prior.block(everything), P)
    some = everything[:: max(1, n // 5)]
    assert_close(prior.block(some), P[np.ix_(some, some)])
    assert prior.logdet == pytest.approx(np.linalg.slogdet(covariance)[1], rel=1e-8, abs=1e-8)
    x = rng_of(1).standard_normal((n, 3))
    assert_close(prior.matvec(x), P @ x)
    assert_close(prior.matvec(x[:, 0]), P @ x[:, 0])
    assert prior.quadratic(x[:, 1]) == pytest.approx(x[:, 1] @ P @ x[:, 1], rel=1e-7)
    assert_close(prior.whiten(x).T @ prior.whiten(x), x.T @ P @ x)
    assert_close(prior.precision_diagonal, np.diag(P))
    assert_close(prior.marginal_variance, np.diag(covariance))


@both
def test_draws_have_the_precision_for_covariance(kind):
    prior, dense = made(kind, "matern12", n=6, m=3)
    x = prior.draw(rng_of(0), 400_000)
    assert x.shape == (6, 400_000)
    P = dense.precision
    error = np.sqrt((P**2 + np.outer(np.diag(P), np.diag(P))) / x.shape[1])
    assert np.abs((x @ x.T / x.shape[1] - P) / error).max() < 5.0


@both
@every_kernel
def test_with_every_point_an_inducing_point_it_is_the_gaussian_process(kind, kernel):
    kernel, dense = KERNELS[kernel]
    X = rng_of(0).uniform(size=(60, 2))
    X[10:14] = X[10]  # some share a place
    graph = build_graph(X, 5)
    for inducing in (choose_inducing("random", 60, kernel, X), choose_inducing(X, 1, kernel, X)):
        assert len(inducing) == 57
        prior = kind(kernel, 1e-3, X[graph.order], graph, inducing)
        covariance = dense(prior.X, prior.X) + 1e-3 * np.eye(60)
        assert_close(np.linalg.inv(prior.block(np.arange(60))), covariance, 1e-6)
        Z = rng_of(1).uniform(size=(9, 2))
        found, cross = prior.conditional(Z), dense(Z, prior.X)
        weights = np.linalg.solve(covariance, cross.T).T
        assert_close(found.mean(np.eye(60)), weights, 1e-6)
        assert_close(found.variance, np.diag(dense(Z, Z)) + 1e-3 - np.sum(weights * cross, axis=1), 1e-6)


@both
@pytest.mark.parametrize("nugget", [0.0, 1e-11])
def test_without_a_nugget_it_says_what_to_do(kind, nugget):
    X = rng_of(0).uniform(size=(20, 2))
    with pytest.raises(NotPositiveDefiniteError, match=r"needs a nugget.* nugget=0\.000"):
        kind(RBF(0.3), nugget, X, build_graph(X, 3, order="given"), X[:5])


def test_fitc_needs_none_where_all_points_have_variance_of_their_own():
    X, inducing = rng_of(0).uniform(size=(20, 2)), rng_of(1).uniform(size=(6, 2))
    prior = FITC(Matern12(0.3), 0.0, X, build_graph(X, 3, order="given"), inducing)
    dense = DenseLowRank(lambda A, B: oracle.matern12(A, B, 0.3), X, inducing, 0.0, True)
    assert_close(np.linalg.inv(prior.block(np.arange(20))), dense.covariance)


def test_a_kernel_that_is_none_is_an_error():
    X = rng_of(0).uniform(size=(20, 2))

    def no_kernel(x, z):
        return -1.0 - ((x - z) ** 2).sum()

    from npvi.kernels import as_kernel

    with pytest.raises(NotPositiveDefiniteError, match="the 5 inducing points isn't positive definite"):
        FITC(as_kernel(no_kernel), 0.1, X, build_graph(X, 3, order="given"), X[:5])


@both
def test_more_points_join_the_prior_of_all(kind):
    prior, dense = made(kind, "matern32, ard", n=30, m=8)
    rng = rng_of(3)
    more = rng.uniform(size=(4, 2))
    graph = build_graph(np.vstack([prior.X, more]), 5, order="given")
    longer = prior.extended(more, graph)
    dense.X = np.vstack([prior.X, more])
    assert type(longer) is kind
    assert_close(longer.block(np.arange(34)), dense.precision)


# -- P + W ------------------------------------------------------------------------------------------------------------


def site_precisions(n, seed=0):
    return rng_of(seed).exponential(size=n) * np.repeat([1e-3, 1.0, 1e3, 0.0], -(-n // 4))[:n]


@both
@every_kernel
def test_the_factor_is_the_inverse(kind, kernel):
    prior, dense = made(kind, kernel)
    w = site_precisions(40)
    A = dense.precision + np.diag(w)
    factor = prior.factor(w, prior.routes[0])
    assert factor.finite
    assert len(factor.breakdowns) == 0
    assert_close(factor.solve(np.eye(40)), np.linalg.inv(A))
    assert_close(factor.solve(np.ones(40)), np.linalg.solve(A, np.ones(40)))
    assert_close(factor.variance, np.diag(np.linalg.inv(A)))
    assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-8)


@both
def test_negative_site_precisions_are_for_the_dense_matrix_to_judge(kind):
    prior, dense = made(kind, "matern32, ard")
    lowest = np.linalg.eigvalsh(dense.precision)[0]
    for share, definite in [(0.9, True), (1.1, False)]:
        w = np.full(40, -share * lowest)
        factor = prior.factor(w)
        assert factor.finite == definite
        if definite:
            assert_close(factor.variance, np.diag(np.linalg.inv(dense.precision + np.diag(w))), 1e-6)
    w = np.zeros(40)
    w[3] = -2.0 / prior.own_variance[3]
    assert not prior.factor(w).finite


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**31), st.floats(-8.0, 2.0), st.floats(-3.0, 3.0))
def test_woodbury_for_any_features(n, m, seed, log_own, log_w):
    rng = rng_of(seed)
    F, own, w = rng.standard_normal((n, m)), 10.0 ** (log_own + rng.uniform(size=n)), 10.0**log_w * rng.uniform(size=n)
    covariance = F @ F.T + np.diag(own)
    log_inner = np.linalg.slogdet(covariance)[1] - np.log(own).sum()
    factor = woodbury(F, own, log_inner, w)
    # (Σ⁻¹ + W)⁻¹ = Σ − Σ (Σ + W⁻¹)⁻¹ Σ, which needs no inverse of Σ
    root = np.sqrt(w)[:, None]
    inner = np.eye(n) + root * covariance * root.T
    expected = covariance - (covariance * root.T) @ np.linalg.solve(inner, root * covariance)
    scale = np.abs(covariance).max()
    np.testing.assert_allclose(factor.solve(np.eye(n)), expected, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(factor.variance, np.diag(expected), rtol=0, atol=1e-9 * scale)
    precision = np.linalg.slogdet(inner)[1] - np.linalg.slogdet(covariance)[1]
    assert factor.log_determinant() == pytest.approx(precision, rel=1e-6, abs=1e-6)


@both
@pytest.mark.parametrize("settings", [{}, {"rule": "paper", "order": "random"}, {"order": "given"}], ids=str)
@pytest.mark.parametrize("K", [1, 5, 39])
def test_the_column_sweep_against_dense_columns(kind, K, settings):
    prior, dense = made(kind, "matern32, ard", K=K, **settings)
    w = rng_of(0).exponential(size=40)
    L = prior.lower_half.sweep(w)
    A = dense.precision + np.diag(w)
    assert_close(oracle.dense_triangular(L), oracle.sweep(A, oracle.pattern(prior.graph.parents)))
    residual, largest = prior.lower_half.stationarity(L, w)
    assert residual < 1e-10 * largest


def test_the_entries_of_the_sweep_are_the_same_in_any_number_of_threads():
    X = rng_of(0).uniform(size=(3000, 2))
    graph = build_graph(X, 8)
    halves = []
    for n in (1, 3):
        with threads(n):
            halves.append(FITC(Matern32(0.2), 0.1, X[graph.order], graph, X[:20]).lower_half)
    for name in ("counts", "ends", "columns"):
        np.testing.assert_array_equal(getattr(halves[0], name), getattr(halves[1], name))
    np.testing.assert_allclose(halves[0].values, halves[1].values, rtol=1e-9, atol=1e-12)


# -- new points -------------------------------------------------------------------------------------------------------


def posteriors(prior):
    """One of each kind, and its dense covariance."""
    n = len(prior.X)
    rng = rng_of(7)
    w = rng.exponential(size=n)
    factor = FactorPosterior(rng.standard_normal(n), prior.lower_half.sweep(w), w)
    L = oracle.dense_triangular(factor.factor)
    draws = rng.standard_normal((n, 5))
    closed = LowRankPosterior(rng.standard_normal(n), prior.factor(w))
    return [
        (factor, L @ L.T),
        (DrawsPosterior(factor.mean, draws, (draws**2).mean(axis=1), w), draws @ draws.T / 5.0),
        (closed, np.linalg.inv(prior.block(np.arange(n)) + np.diag(w))),
    ]


@both
@every_kernel
def test_new_points_given_the_old(kind, kernel):
    prior, dense = made(kind, kernel)
    Z = np.vstack([rng_of(5).uniform(size=(7, 2)), prior.X[:2], prior.inducing[:1], [[50.0, -40.0]]])
    weights, spread = dense.conditional(Z)
    found = prior.conditional(Z)
    f = rng_of(6).standard_normal((40, 2))
    assert_close(found.variance, np.diag(spread))
    assert_close(found.mean(f), weights @ f)
    assert_close(found.mean(f[:, 0]), weights @ f[:, 0])
    for posterior, V in posteriors(prior):
        expected = np.einsum("ij,jk,ik->i", weights, V, weights)
        assert_close(found.projected_variance(posterior), expected)
        assert_close(posterior.variance, np.diag(V))
    several = StackedPosterior([posterior for posterior, _ in posteriors(prior)])
    expected = [np.einsum("ij,jk,ik->i", weights, V, weights) for _, V in posteriors(prior)]
    assert_close(found.projected_variance(several), np.column_stack(expected))


def test_other_posteriors_are_refused():
    with pytest.raises(TypeError, match="a dict can't say"):
        projected_covariance({}, np.eye(2))


@both
def test_joint_draws_have_the_dense_moments(kind):
    prior, dense = made(kind, "matern12", n=12, m=5)
    Z = np.vstack([rng_of(5).uniform(size=(3, 2)), prior.X[:1], prior.X[:1]])
    weights, spread = dense.conditional(Z)
    f = rng_of(6).standard_normal(12)
    S = 200_000
    draws = prior.joint(Z).draw(np.repeat(f[:, None], S, axis=1), rng_of(0), np.arange(5.0))
    expected = weights @ f + np.arange(5.0)
    assert np.abs((draws.mean(axis=1) - expected) / np.sqrt(np.diag(spread) / S)).max() < 5.0
    error = np.sqrt((spread**2 + np.outer(np.diag(spread), np.diag(spread))) / S)
    assert np.abs((np.cov(draws) - spread) / error).max() < 5.0
    offsets = np.zeros((5, 2))
    offsets[:, 1] = 3.0
    moved = prior.joint(Z).draw(np.repeat(f[:, None], 2, axis=1), rng_of(0), offsets)
    plain = prior.joint(Z).draw(np.repeat(f[:, None], 2, axis=1), rng_of(0), 0.0)
    np.testing.assert_allclose(moved - plain, offsets, atol=1e-12)


def test_a_low_rank_posterior_samples_and_projects_itself():
    prior, _ = made(FITC, "matern12", n=6, m=3)
    posterior, V = posteriors(prior)[2]
    x = posterior.sample(400_000, rng_of(0)) - posterior.mean[:, None]
    error = np.sqrt((V**2 + np.outer(np.diag(V), np.diag(V))) / x.shape[1])
    assert np.abs((x @ x.T / x.shape[1] - V) / error).max() < 5.0
    neighbors, weights = np.array([[0, 3], [5, 1]], dtype=np.int32), np.array([[1.0, -2.0], [0.5, 0.1]])
    expected = [row @ V[np.ix_(near, near)] @ row for near, row in zip(neighbors, weights)]
    np.testing.assert_allclose(posterior.projected_variance(neighbors, weights), expected, rtol=1e-7)


# -- the gradient -----------------------------------------------------------------------------------------------------

SMOOTH = {
    "rbf": (RBF(0.4, 2.0), lambda A, B, length_scale, variance: oracle.rbf(A, B, length_scale, variance)),
    "matern52, ard": (
        Matern52([0.3, 0.8], 0.7),
        lambda A, B, length_scale, variance: oracle.matern52(A / length_scale, B / length_scale, 1.0, variance),
    ),
}


def expected_log_density(dense, functions, weights, diagonal):
    """−½ [log |Σ| + tr(Σ⁻¹ S)], densely."""
    S = (functions * weights) @ functions.T + np.diag(diagonal)
    return -0.5 * (np.linalg.slogdet(dense.covariance)[1] + np.sum(dense.precision * S))


@both
@pytest.mark.parametrize("name", SMOOTH)
def test_the_gradient_against_differences_of_the_dense_formula(kind, name):
    kernel, covariance = SMOOTH[name]
    rng = rng_of(0)
    X, inducing = rng.uniform(size=(30, 2)), rng.uniform(size=(8, 2))
    X[1] = X[0]
    inducing[0] = X[0]
    functions, weights, diagonal = rng.standard_normal((30, 4)), rng.uniform(size=4), rng.uniform(size=30)
    graph = build_graph(X, 3, order="given")
    found = low_rank_gradient(kind(kernel, 0.05, X, graph, inducing), functions, weights, diagonal)

    def objective(step, parameter=None, entry=None):
        values = {name: np.array(getattr(kernel, name), dtype=float) for name in ("length_scale", "variance")}
        nugget = 0.05 if parameter else 0.05 * np.exp(step)
        if parameter:
            values[parameter][entry] *= np.exp(step)
        dense = DenseLowRank(lambda A, B: covariance(A, B, **values), X, inducing, nugget, kind is FITC)
        return expected_log_density(dense, functions, weights, diagonal)

    def difference(*which):
        return (objective(1e-5, *which) - objective(-1e-5, *which)) / 2e-5

    assert found.nugget * 0.05 == pytest.approx(difference(), rel=1e-5, abs=1e-5)
    for parameter in ("length_scale", "variance"):
        value, slope = np.asarray(getattr(kernel, parameter)), np.asarray(getattr(found.kernel, parameter))
        assert slope.shape == value.shape
        for entry in np.ndindex(value.shape):
            assert slope[entry] * value[entry] == pytest.approx(difference(parameter, entry), rel=1e-5, abs=1e-5)


@both
def test_the_gradient_of_any_kernel_and_in_blocks(kind, monkeypatch):
    """Kernels with parts, whose log density is that of the package's own prior; blocks of a few rows add up."""
    kernel = 2.0 * Matern32(0.5) * Periodic(period=0.7) + RBF([0.5, 0.2], 1.0)
    rng = rng_of(0)
    X, inducing, f = rng.uniform(size=(25, 2)), rng.uniform(size=(6, 2)), rng.standard_normal(25)
    graph = build_graph(X, 3, order="given")

    def value(kernel):
        prior = kind(kernel, 0.05, X, graph, inducing)
        return -0.5 * (prior.logdet + prior.quadratic(f))

    monkeypatch.setattr("npvi.priors.low_rank.prior._PAIRS", 8 * 6)
    found = low_rank_gradient(kind(kernel, 0.05, X, graph, inducing), f[:, None], np.ones(1))
    derivatives = found.kernel.get_params(deep=True)
    names = [name for name, number in kernel.get_params(deep=True).items() if isinstance(number, float)]
    assert len(names) >= 4
    for name in names:
        number = kernel.get_params(deep=True)[name]
        ends = [value(clone(kernel).set_params(**{name: number * np.exp(step)})) for step in (1e-5, -1e-5)]
        assert float(derivatives[name]) * number == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-5), name


# -- where inducing points lie ----------------------------------------------------------------------------------------


def test_clusters_are_covered_as_the_kernel_measures():
    rng = rng_of(0)
    centres = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 100.0], [1.0, 100.0]])
    X = np.repeat(centres, 50, axis=0) + 0.01 * rng.standard_normal((200, 2)) * [1.0, 100.0]
    found = choose_inducing("kmeans", 4, RBF([1.0, 100.0]), X, seed=3)
    assert {tuple(row) for row in found} <= {tuple(row) for row in X}
    nearest = np.argmin(np.linalg.norm((found[:, None] - centres[None]) / [1.0, 100.0], axis=-1), axis=1)
    assert sorted(nearest) == [0, 1, 2, 3]
    np.testing.assert_array_equal(found, choose_inducing("kmeans", 4, RBF([1.0, 100.0]), X, seed=3))


def test_points_of_a_periodic_kernel_are_rows_too():
    X = np.linspace(0.0, 10.0, 200)[:, None]
    found = choose_inducing("kmeans", 8, Periodic(period=1.0), X)
    assert len(found) == 8
    assert np.isin(found, X).all()
    gaps = np.diff(np.sort(found.ravel() % 1.0), append=1.0 + (found % 1.0).min())
    assert gaps.max() < 0.3


def test_random_points_are_different_rows():
    X = np.repeat(rng_of(0).uniform(size=(30, 2)), 3, axis=0)
    found = choose_inducing("random", 20, RBF(), X, seed=1)
    assert len(np.unique(found, axis=0)) == len(found) == 20
    assert {tuple(row) for row in found} <= {tuple(row) for row in X}
    assert not np.array_equal(found, choose_inducing("random", 20, RBF(), X, seed=2))


@pytest.mark.parametrize("how", ["kmeans", "random"])
def test_no_more_points_than_there_are_places(how):
    X = np.repeat(rng_of(0).uniform(size=(30, 2)), 3, axis=0)
    assert len(choose_inducing(how, 30, RBF(), X)) == len(choose_inducing(how, 90, RBF(), X)) == 30
    with pytest.warns(UserWarning, match="n_inducing is 91 but there are only 90 points: using all of them"):
        assert len(choose_inducing(how, 91, RBF(), X)) == 30


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            "grid",
            r"inducing must be 'kmeans', 'random' or an array with a row per inducing point and 2 columns; got 'grid'",
        ),
        (np.ones((3, 1)), r"inducing has shape \(3, 1\), but must have a row per inducing point and 2 columns"),
        (np.ones(2), r"inducing has shape \(2,\)"),
        (np.ones((0, 2)), r"inducing has shape \(0, 2\)"),
        ([[1.0, np.nan]], "Input inducing contains NaN or infinity"),
        ([["a", "b"]], "inducing must be numbers, got text such as 'a'"),
        ([[10**400, 1.0]], "inducing must be numbers"),
        ([[1e200, 1.0]], r"inducing has values beyond ±1e\+150 in 1 of 1 rows"),
        (7, r"inducing has shape \(\)"),
    ],
)
def test_points_that_cannot_be_are_refused(how, message):
    with pytest.raises(ValueError, match=message):
        choose_inducing(how, 5, RBF(), np.ones((4, 2)))
