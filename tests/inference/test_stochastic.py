"""The paper's stochastic route: estimates against dense formulas, and where it ends against the closed form."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest
from typer.testing import CliRunner

import npvi
import npvi.priors
import npvi.runtime.progress
from npvi.cli import app
from npvi.components import Coefficients, Process, Stack
from npvi.graph import build_graph
from npvi.inference import Data, SparseFactors, fit_posterior
from npvi.inference.stochastic import (
    SGD,
    ConditionalPrior,
    LowRankPrior,
    SparseGaussian,
    entropy,
    fit_stochastic,
    neighbourhoods,
    observed,
    stochastic_bound,
)
from npvi.inference.stochastic.bound import loss
from npvi.kernels import Matern32
from npvi.likelihoods import Poisson
from npvi.priors import NNGP
from npvi.runtime.precision import float64
from npvi.runtime.training import CheckpointError, TrainingStopped
from tests.support import oracle
from tests.support.models import paper_classifier, paper_regressor
from tests.support.problems import Problem, gaussian_case, poisson_case, solution

N, K = 30, 4


class Case:
    """A small problem with a q that is far from any optimum, in JAX and dense."""

    def __init__(self, n=N, k=K, seed=0, rule="nearest"):
        rng = np.random.default_rng(seed)
        self.X = rng.uniform(size=(n, 2))
        self.graph = build_graph(self.X, k, rule=rule, seed=0)
        self.parents = self.graph.parents
        Z = self.X[self.graph.order]
        self.covariance = oracle.matern32(Z, Z, length_scale=0.4) + 0.1 * np.eye(n)
        self.P, self.logdet = oracle.nngp_precision(self.covariance, self.parents)
        self.mean = rng.standard_normal(n)
        self.edges = 0.3 * rng.standard_normal((n, k))
        self.log_diagonal = 0.5 * rng.standard_normal(n) - 0.5
        self.y = rng.poisson(np.exp(rng.standard_normal(n))).astype(float)
        self.exposure, self.weight = rng.uniform(0.5, 2.0, n), rng.choice([0.0, 0.5, 1.0, 2.0], n)
        self.n, self.rng = n, rng
        self.q = SparseGaussian(*map(jnp.asarray, (self.mean, self.edges, self.log_diagonal)))
        self.prior = NNGP(Matern32(length_scale=0.4), 0.1, Z, self.graph)
        self.near = neighbourhoods(self.graph)
        self.conditional = ConditionalPrior(
            self.near,
            jnp.asarray(self.prior.conditional_mean_weights),
            jnp.asarray(self.prior.conditional_variance),
            jnp.asarray(self.prior.logdet),
        )

    def dense(self, edges=None, log_diagonal=None):
        L = np.diag(np.exp(self.log_diagonal if log_diagonal is None else log_diagonal))
        edges = self.edges if edges is None else edges
        for i, row in enumerate(self.parents):
            for s, j in enumerate(row):
                if j >= 0:
                    L[i, j] = edges[i, s]
        return L

    def sparse(self, mean, in_L):
        """Gradients in μ and in a dense L, as those in the entries of a `SparseGaussian`."""
        edges = np.zeros_like(self.edges)
        for i, row in enumerate(self.parents):
            for s, j in enumerate(row):
                edges[i, s] = in_L[i, j] if j >= 0 else 0.0
        return SparseGaussian(mean, edges, np.diag(in_L) * np.exp(self.log_diagonal))

    def moments(self):
        L = self.dense()
        return L @ L.T + np.outer(self.mean, self.mean)

    def cross_entropy(self, P, logdet):
        return -0.5 * (np.sum(P * self.moments()) + logdet + self.n * np.log(2.0 * np.pi))

    def cross_entropy_gradient(self, P):
        return self.sparse(-P @ self.mean, -P @ self.dense())

    def poisson(self, samples=None, link="exp"):
        data = Data(Poisson(link), self.y, {"exposure": self.exposure}, self.weight)
        make = oracle.poisson_exp if link == "exp" else oracle.poisson_softplus
        return observed(data, 3.0, samples), make(self.y, self.exposure, self.weight)


@pytest.fixture
def double():
    with float64():
        yield


@pytest.fixture(scope="module")
def case():
    with float64():
        return Case()


N_DRAWS = 2000


def close(found, wanted, tolerance=1e-10):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max()))


def within_errors(draws, wanted, errors=4.0):
    """Every entry's mean within some of its standard errors; where draws don't differ, equal."""
    for a, b in zip(jax.tree.leaves(draws), jax.tree.leaves(wanted), strict=True):
        a = np.asarray(a)
        error = a.std(axis=0) / np.sqrt(len(a))
        assert np.all(np.abs(a.mean(axis=0) - b) <= errors * error + 1e-9)


def over_single_points(term, q):
    """The mean of ``term(q, points, key)`` over all batches of one point, and its gradient."""

    def whole(q):
        return jax.vmap(lambda points: term(q, points, jax.random.key(0)))(jnp.arange(N)[:, None]).mean()

    return jax.jit(jax.value_and_grad(whole))(q)


def over_random_batches(term, q, size=7):
    """``term(q, points, key)`` and its gradient for many batches without repeats."""
    batches = np.argsort(np.random.default_rng(3).random((N_DRAWS, N)), axis=1)[:, :size]
    each = jax.vmap(jax.value_and_grad(term), in_axes=(None, 0, 0))
    return jax.jit(each)(q, batches, jax.random.split(jax.random.key(1), N_DRAWS))


# -- how rows meet ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(
    ("n", "k", "rule"), [(30, 4, "nearest"), (30, 4, "paper"), (12, 11, "nearest"), (25, 1, "paper")]
)
def test_rows_meet_where_they_should(n, k, rule):
    case = Case(n, k, seed=1, rule=rule)
    L, points = case.dense(), jnp.arange(n)
    members = np.asarray(case.near.members(points))
    weights = case.rng.standard_normal((n, k + 1)) * (members >= 0)

    @jax.jit
    def both(q):
        rows = q.rows(case.near.parents, jnp.maximum(members, 0))
        return case.near.products(points, rows), case.near.added(points, weights[:, :, None] * rows)

    products, added = map(np.asarray, both(case.q))
    assert case.near.width == max(np.count_nonzero(np.abs(L[m[m >= 0]]).sum(axis=0)) for m in members)
    for i, m in enumerate(members):
        there = m >= 0
        np.testing.assert_allclose(products[i, there], L[m[there]] @ L[i], atol=1e-12)
        # the columns are numbered in an order of their own
        total = weights[i, there] @ L[m[there]]
        np.testing.assert_allclose(np.sort(added[i][added[i] != 0]), np.sort(total[total != 0]), atol=1e-12)


# -- each term, by all batches of one point and by random batches -----------------------------------------------------


@pytest.mark.usefixtures("double")
def test_entropy(case):
    def term(q, points, key):
        return entropy(q, points)

    V = case.dense() @ case.dense().T
    value = 0.5 * np.linalg.slogdet(2.0 * np.pi * np.e * V)[1]
    wanted = (value, case.sparse(np.zeros(N), np.diag(1.0 / np.exp(case.log_diagonal))))
    close(over_single_points(term, case.q), wanted)
    within_errors(over_random_batches(term, case.q), wanted)


@pytest.mark.usefixtures("double")
def test_cross_entropy_with_neighbours(case):
    wanted = (case.cross_entropy(case.P, case.logdet), case.cross_entropy_gradient(case.P))
    close(over_single_points(case.conditional.cross_entropy, case.q), wanted)
    within_errors(over_random_batches(case.conditional.cross_entropy, case.q), wanted)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(
    ("link", "samples", "how"),
    [("exp", None, "closed form"), ("softplus", None, "quadrature"), ("softplus", 1, 1), ("exp", 3, 3)],
)
def test_expected_likelihood(case, link, samples, how):
    seen, dense = case.poisson(samples, link)
    assert seen.how == how

    def term(q, points, key):
        variance = jnp.sum(q.rows(case.near.parents, points) ** 2, axis=1)
        return seen.expected_log_likelihood(q.mean[points], variance, points, key)

    L = case.dense()
    value, in_mean, in_variance = dense.expectations(case.mean, (L**2).sum(axis=1))
    wanted = (value.sum(), case.sparse(in_mean, 2.0 * in_variance[:, None] * L))
    if samples is None:
        close(over_single_points(term, case.q), wanted, 1e-9)
    else:
        within_errors(over_random_batches(term, case.q), wanted)


@pytest.mark.usefixtures("double")
def test_a_row_of_weight_zero_says_nothing_even_if_it_overflows(case):
    seen, _ = case.poisson()
    silent = jnp.asarray(np.flatnonzero(case.weight == 0.0))
    assert len(silent)

    def total(mean):
        return seen.expected_log_likelihood(mean, jnp.ones(len(silent)), silent, jax.random.key(0))

    value, gradient = jax.value_and_grad(total)(jnp.full(len(silent), 1e6))
    assert value == 0.0
    np.testing.assert_array_equal(gradient, 0.0)


# -- priors of low rank -----------------------------------------------------------------------------------------------


def low_rank(case, sign, rank=3):
    """P = diag ± R Rᵀ, as arrays and dense."""
    R = np.random.default_rng(5).standard_normal((case.n, rank))
    diagonal = np.linspace(1.0, 2.0, case.n) + (0.0 if sign > 0 else np.linalg.norm(R, 2) ** 2)
    P = np.diag(diagonal) + sign * R @ R.T
    logdet = -np.linalg.slogdet(P)[1]
    arrays = (case.near, jnp.asarray(diagonal), jnp.asarray(R), jnp.asarray(sign), jnp.asarray(logdet))
    return LowRankPrior(*arrays), P, logdet


def every_other(parents):
    """All (i, j') that can be drawn, and how probable j' is given i; a point without any stands for itself once."""
    pairs, shares = [], []
    for i, row in enumerate(parents):
        others = sorted(set(range(len(parents))) - {i} - set(row.tolist())) or [0]
        pairs += [(i, j) for j in others]
        shares += [1.0 / len(others)] * len(others)
    return jnp.asarray(np.array(pairs).T), jnp.asarray(shares)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("n", "k", "sign"), [(N, K, 1.0), (N, K, -1.0), (7, 6, -1.0)])
def test_all_points_with_all_others_give_the_cross_entropy_of_low_rank(n, k, sign):
    case = Case(n, k)
    prior, P, logdet = low_rank(case, sign)
    (points, others), shares = every_other(case.parents)

    def whole(q):
        return -0.5 * (shares @ prior.quadratic(q, points, others) + logdet + n * jnp.log(2.0 * jnp.pi))

    wanted = (case.cross_entropy(P, logdet), case.cross_entropy_gradient(P))
    close(jax.jit(jax.value_and_grad(whole))(case.q), wanted)


@pytest.mark.usefixtures("double")
def test_cross_entropy_with_low_rank(case):
    prior, P, logdet = low_rank(case, -1.0)
    wanted = (case.cross_entropy(P, logdet), case.cross_entropy_gradient(P))
    within_errors(over_random_batches(prior.cross_entropy, case.q), wanted)


@pytest.mark.usefixtures("double")
def test_the_other_point_is_any_but_parents_and_oneself(case):
    prior, _, _ = low_rank(case, 1.0)
    draw = jax.jit(jax.vmap(lambda key: prior.draw_others(jnp.arange(N), key)))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(2), 4000)))
    for i, row in enumerate(case.parents):
        banned = [i, *row[row >= 0]]
        probability = 1.0 / (N - len(banned))
        counts = np.bincount(drawn[:, i], minlength=N)
        assert counts[banned].sum() == 0
        share = np.delete(counts, banned) / 4000.0
        error = np.sqrt(probability * (1.0 - probability) / 4000.0)
        assert np.all(np.abs(share - probability) < 5.0 * error)  # there are 780 of them


# -- all of it --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("double")
def test_the_bound_is_the_dense_one_with_the_coefficients(case):
    """All single points together, in the units in which it is trained, with a constant mean."""
    data = Data(Poisson(), case.y, {"exposure": case.exposure}, case.weight)
    stack = Stack(Process(case.prior), Coefficients(np.ones((N, 1)), np.array([0.3])))
    estimate = stochastic_bound(case.prior, data, stack)
    parameters = estimate.parameters(case.q, jnp.array([0.7]))
    back, coefficients = estimate.posterior(parameters)
    close((back, coefficients), (case.q, np.array([0.7])), 1e-14)
    dense = oracle.Bound(case.P, case.logdet, case.poisson()[1], oracle.pattern(case.parents))
    # with a mean the likelihood is at μ + 0.7, the prior at μ
    L = case.dense()
    moved = dense.observations.expectations(case.mean + 0.7, (L**2).sum(axis=1))[0].sum()
    wanted = dense._rest(case.mean, L) + moved - 0.5 * 0.3 * 0.7**2
    value, _ = over_single_points(lambda p, points, key: -loss(p, points, key, estimate), parameters)
    np.testing.assert_allclose(value, wanted, rtol=1e-10)


# -- where it ends ----------------------------------------------------------------------------------------------------

QUICK = SGD("adam", learning_rate=0.05, epochs=3, batch_size=20)


def some_data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, rng.poisson(np.exp(1.0 + np.sin(5.0 * X[:, 0]))).astype(float)


def quick(settings=QUICK, likelihood="poisson", data=None, **more):
    """A fit that isn't meant to converge."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="stochastic gradients ended")
        options = {"nugget": 0.1, "n_neighbors": 5, **more}
        return paper_regressor(likelihood, optimizer=settings, **options).fit(*(data or some_data()))


PROBLEMS = {
    "gaussian, adagrad": (Problem(gaussian_case, n=200, K=6), SGD(epochs=400)),
    "poisson, adagrad": (Problem(poisson_case, n=200, K=6), SGD(epochs=800)),
    "poisson, exposure, weights, constant, draws": (
        Problem(poisson_case, n=200, K=6, mean="constant", with_exposure=True, with_weights=True),
        SGD("adam", learning_rate=0.02, epochs=800, samples=8, batch_size=100),
    ),
}


@pytest.mark.filterwarnings("ignore:the model was fitted with exposure")
@pytest.mark.parametrize("name", PROBLEMS)
def test_it_reaches_the_closed_form(name):
    problem, settings = PROBLEMS[name]
    closed, bound = problem.fitted()
    problem.settings = {"optimizer": settings}
    model, _ = problem.fitted()
    gap = closed.elbo_ - model.elbo_
    assert 0.0 <= gap <= 1e-3 * problem.n
    info = model.fit_info_
    assert info["converged"]
    # the bound is exact, the gap was foreseen, and the residuals are those of the dense equations
    mu, L = solution(model)
    value, in_mu, in_L = bound.gradient(mu, L)
    assert model.elbo_ == pytest.approx(value, rel=1e-9)
    assert info["expected_gain"] == pytest.approx(gap, rel=0.1, abs=1e-7 * problem.n)
    assert info["covariance_residual"][-1] == pytest.approx(np.abs(in_L).max() * L.diagonal().min(), rel=1e-6)
    pull = bound.mean_precision @ mu
    assert 0.3 < info["mean_residual"][-1] / (np.abs(in_mu).max() / np.abs(pull).max()) <= 1.0 + 1e-6
    assert len(info["elbo_estimate"]) == info["epochs"] == model.n_iter_ == settings.epochs
    assert abs(np.mean(info["elbo_estimate"][-20:]) - model.elbo_) < 0.05 * problem.n
    points = np.random.default_rng(0).uniform(size=(20, 2))
    np.testing.assert_allclose(model.predict(points), closed.predict(points), rtol=0.1, atol=0.05)


def test_numbers_are_learned_first():
    X, y = some_data()
    settings = {"likelihood": "lognormal", "learn": True, "nugget": 0.1, "n_neighbors": 5}
    model = quick(data=(X, y + 1.0), **settings)
    closed = paper_regressor(**settings).fit(X, y + 1.0)
    assert model.kernel_.length_scale == closed.kernel_.length_scale
    assert model.fit_info_["learning"]["evaluations"] > 1
    assert model.elbo_ < closed.elbo_


def test_an_optimiser_of_optax():
    # QUICK takes nine steps in all
    own = SGD(optax.adam(optax.cosine_decay_schedule(0.05, 9)), epochs=3, batch_size=20)
    np.testing.assert_array_equal(quick().posterior_.mean, quick(own).posterior_.mean)


@pytest.mark.parametrize("kind", [npvi.priors.FITC, npvi.priors.Nystrom])
def test_priors_of_low_rank(kind):
    """Pairs of points are noisy: it gets nearer, and says how far it still is."""
    X, y = some_data()
    graph = build_graph(X, 5)
    Z, data = X[graph.order], Data(Poisson(), y[graph.order])
    prior = kind(Matern32(length_scale=0.4), 0.1, Z, graph, Z[:8])
    stack, family = Stack(Process(prior)), SparseFactors(prior)
    best = fit_posterior(family, data, stack).elbo
    fit = fit_stochastic(family, prior, data, stack, settings=SGD("adam", epochs=300, batch_size=20))
    assert 0.0 < best - fit.elbo < 0.3 * 60
    assert fit.info["expected_gain"] == pytest.approx(best - fit.elbo, rel=0.2)
    L = oracle.dense_triangular(fit.posterior.factor)
    P = prior.block(np.arange(60))
    bound = oracle.Bound(P, -np.linalg.slogdet(P)[1], oracle.poisson_exp(data.y), oracle.pattern(graph.parents))
    assert fit.elbo == pytest.approx(bound.value(fit.posterior.mean, L), rel=1e-9)


def test_same_seed_same_result():
    one, two, other = quick(), quick(), quick(random_state=1)
    np.testing.assert_array_equal(one.posterior_.mean, two.posterior_.mean)
    assert one.elbo_ == two.elbo_ != other.elbo_


def test_it_says_that_it_has_not_converged():
    with pytest.warns(UserWarning, match=r"stochastic gradients ended .* below the largest bound.*raise epochs"):
        paper_regressor("poisson", optimizer=QUICK, nugget=0.1, n_neighbors=5).fit(*some_data())


def test_rows_held_out_choose_the_epoch_and_do_not_inform():
    X, y = some_data()
    settings = SGD("adam", learning_rate=0.2, epochs=60, validation=0.2, samples=1, batch_size=20, patience=5)
    model = quick(settings, data=(X, y))
    info = model.fit_info_
    assert info["outcome"] == "stopped early"
    assert len(info["evaluation"]) == info["epochs"] == info["best_epoch"] + 6
    assert np.argmin(info["evaluation"]) == info["best_epoch"]
    held_out = np.flatnonzero(model.posterior_.site_precision == 0.0)
    assert len(held_out) == 12
    changed = y.copy()
    changed[model.graph_.order[held_out]] += 3.0
    again = quick(settings, data=(X, changed)).fit_info_
    together = min(again["epochs"], info["epochs"])
    # the epochs are the same, though another one may be the best
    assert again["elbo_estimate"][:together] == info["elbo_estimate"][:together]
    assert again["evaluation"] != info["evaluation"]


def test_patience_without_rows_held_out_looks_at_the_bound():
    model = quick(SGD("adam", learning_rate=0.05, epochs=2000, patience=20, batch_size=20))
    info = model.fit_info_
    assert info["outcome"] == "stopped early"
    assert info["epochs"] == info["best_epoch"] + 21
    assert model.elbo_ == pytest.approx(-60.0 * min(info["evaluation"]), rel=1e-12)


def test_going_on_from_a_checkpoint(tmp_path):
    whole = quick()
    settings = QUICK.replace(checkpoint=tmp_path / "training.checkpoint")

    def interrupt(stage, numbers):
        if numbers.get("epoch") == 1:
            raise KeyboardInterrupt

    with npvi.runtime.progress.reporting(interrupt), pytest.raises(KeyboardInterrupt, match="after 2 iterations"):
        quick(settings)
    rest = quick(settings)
    np.testing.assert_array_equal(whole.posterior_.mean, rest.posterior_.mean)
    np.testing.assert_array_equal(whole.posterior_.factor.edges, rest.posterior_.factor.edges)
    assert whole.elbo_ == rest.elbo_
    assert whole.fit_info_["elbo_estimate"] == rest.fit_info_["elbo_estimate"]
    with pytest.raises(CheckpointError, match="other settings"):
        quick(settings.replace(learning_rate=0.1))
    with pytest.raises(CheckpointError, match="other data"):
        quick(settings, data=some_data(seed=1))


def test_an_interrupt_leaves_the_last_state():
    def interrupt(stage, numbers):
        if numbers.get("epoch") == 1:
            raise KeyboardInterrupt

    model = paper_regressor("poisson", optimizer=QUICK, nugget=0.1, n_neighbors=5)
    with npvi.runtime.progress.reporting(interrupt), pytest.raises(KeyboardInterrupt):
        model.fit(*some_data())
    assert model.fit_info_["epochs"] == 2
    assert np.isfinite(model.predict([[0.5, 0.5]])).all()


def test_numbers_that_overflow_end_it():
    unusable = pytest.raises(ValueError, match=r"no usable posterior: its bound is -inf\. Take a smaller learning_rate")
    with unusable, pytest.warns(TrainingStopped, match="epoch 2 at batch 2"):
        quick(SGD("sgd", learning_rate=0.1, epochs=5, batch_size=20))


def test_too_little_memory_halves_the_batch_once(monkeypatch):
    from npvi.inference.stochastic import fit

    sizes = []

    def no_more_than(limit):
        def shuffled(n, size):
            sizes.append(size)
            if size > limit:
                raise MemoryError
            return kept(n, size)

        return shuffled

    kept = fit.shuffled
    monkeypatch.setattr(fit, "shuffled", no_more_than(20))
    assert quick(QUICK.replace(batch_size=40)).fit_info_["batch_size"] == 20
    sizes.clear()
    monkeypatch.setattr(fit, "shuffled", no_more_than(5))
    with pytest.raises(MemoryError):
        quick(QUICK.replace(batch_size=40))
    assert sizes == [40, 20]


def test_more_rows_join():
    X, y = some_data(80)
    model = quick(data=(X[:60], y[:60]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="stochastic gradients ended")
        model.update(X[60:], y[60:])
    assert model.graph_.n_points == 80
    assert model.fit_info_["optimizer"] == "sgd"


def test_models_are_saved_with_their_settings(tmp_path):
    model = quick(QUICK.replace(checkpoint=tmp_path / "training.checkpoint"))
    model.save(tmp_path / "model.npvi")
    loaded = npvi.load(tmp_path / "model.npvi")
    # a path is for whoever fits, and is not in the file
    assert loaded.optimizer.get_params() == {**model.optimizer.get_params(), "checkpoint": None}
    np.testing.assert_array_equal(loaded.predict([[0.5, 0.5]]), model.predict([[0.5, 0.5]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("newton", "optimizer must be one of 'closed', 'sgd', or an npvi.SGD; got 'newton'"),
        (SGD("newton"), "optimizer must be one of 'adagrad', .*got 'newton'"),
        (SGD(3), "optimizer must be one of .*got 3"),
        (SGD(learning_rate=-0.1), "learning_rate must be a positive number of at most 1e6, got -0.1"),
        (SGD(learning_rate="fast"), "learning_rate must be a positive number of at most 1e6, got 'fast'"),
        (SGD(optax.adam(0.1), learning_rate=0.1), "that of optax has its own"),
        (SGD(batch_size=0), "batch_size must be a whole number from 1, got 0"),
        (SGD(batch_size=61), "batch_size must be at most 60, the number of rows; got 61"),
        (SGD(epochs=0), "epochs must be a whole number from 1, got 0"),
        (SGD(epochs=None), "epochs must be a whole number from 1, got None"),
        (SGD(samples=1.5), "samples must be a whole number from 1, got 1.5"),
        (SGD(patience=0), "patience must be a whole number from 1, got 0"),
        (SGD(validation=1.0), "validation must be a share of the rows"),
        (SGD(validation=-0.1), "validation must be a share of the rows"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        paper_regressor("poisson", optimizer=settings, n_neighbors=5).fit(*some_data())


def test_what_it_is_not_for():
    X, y = some_data()
    with pytest.raises(ValueError, match="goes with method='npvi'; got method='full'"):
        npvi.GPRegressor("poisson", optimizer="sgd").fit(X, y)
    with pytest.raises(ValueError, match="three or more labels have one each"):
        paper_classifier(optimizer="sgd", n_neighbors=5).fit(X, np.arange(60) % 3)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run a command in a folder with a table."""
    X, y = some_data()
    pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "count": y}).to_csv(tmp_path / "survey.csv", index=False)
    monkeypatch.chdir(tmp_path)
    table = (
        "fit survey.csv --target count --inputs x,y --likelihood poisson --no-learn --neighbors 5 --length-scale 0.3"
    )

    def run(more):
        return CliRunner().invoke(app, f"{table} {more}".split(), env={"COLUMNS": "120"})

    return run


def test_from_the_shell(command, tmp_path):
    done = command("--method npvi --optimizer adam --epochs 3 --checkpoint training.checkpoint --save m.npvi")
    assert done.exit_code == 0, done.output
    assert "raise --epochs" in done.output
    model = npvi.load(tmp_path / "m.npvi")
    assert (model.optimizer.optimizer, model.fit_info_["epochs"]) == ("adam", 3)
    assert (tmp_path / "training.checkpoint").exists()
    again = command("--method npvi --optimizer sgd --checkpoint training.checkpoint")
    assert again.exit_code != 0
    assert "belongs to another training" in again.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--optimizer sgd", "--optimizer sgd goes with --method npvi, not full"),
        ("--optimizer newton", "--optimizer cannot be 'newton'"),
        ("--method npvi --epochs 3", "--epochs and --checkpoint go with --optimizer sgd or adam"),
    ],
)
def test_wrong_options(command, options, message):
    done = command(options)
    assert done.exit_code == 2
    assert message in done.output
