"""The paper's two networks: every part against plain loops, the bound of any layout against dense matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npvi.amortized.gcn import fit as gcn_fit
from npvi.amortized.gcn import networks as gcn
from npvi.amortized.gcn.bound import Parameters, apply_networks, loss, network_bound
from npvi.amortized.gcn.fit import HeldOut, fit_gcn
from npvi.amortized.gcn.layout import each_once, patch_layout, random_layout
from npvi.amortized.gcn.networks import GCN, initial_networks
from npvi.components import Coefficients, Process, Stack
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.inference.stochastic.certificate import bound_of
from npvi.kernels import Linear, Matern32
from npvi.likelihoods import LogNormal, Poisson, StudentT
from npvi.priors import NNGP
from npvi.runtime.precision import float64
from npvi.runtime.training import Trained, TrainingStopped
from tests.support import oracle

LENGTH, NUGGET, VARIANCE = 0.3, 0.05, 0.4
KEY = jax.random.key(3)

adjacency, recognise = jax.jit(gcn.adjacency), jax.jit(gcn.recognise)


# -- plain loops ------------------------------------------------------------------------------------------------------


def normalised(covariance, members):
    """D^{−½} A D^{−½} for members with the point itself last, by loops."""
    n = len(members)
    A = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            if a < n - 1 or b == n - 1:
                A[a, b] = covariance[members[a], members[b]]
    D = [sum(abs(A[a, b]) for b in range(n)) for a in range(n)]
    return np.array([[A[a, b] / np.sqrt(D[a] * D[b]) for b in range(n)] for a in range(n)])


def network(layers, A, y):
    H = np.asarray(y, dtype=float)[:, None]
    for number, (W, b) in enumerate(layers):
        H = A @ H @ np.asarray(W, dtype=float) + np.asarray(b, dtype=float)
        if number < len(layers) - 1:
            H = np.maximum(H, 0.0)
    return H[:, 0]


def dense_posterior(networks, covariance, parents, y):
    """μ and a dense L, point by point."""
    n = len(y)
    mean, L = np.empty(n), np.zeros((n, n))
    for i in range(n):
        members = [*parents[i][parents[i] >= 0], i]
        A = normalised(covariance, members)
        mean[i] = network(networks.mean, A, y[members]).mean()
        L[i, members] = network(networks.factor, A, y[members])
        L[i, i] = np.log1p(np.exp(L[i, i]))
    return mean, L


def dense_bound(observations, P, logdet, mean, L, offset=0.0):
    expected = observations.expectations(mean + offset, (L**2).sum(axis=1))[0].sum()
    return expected - 0.5 * (np.trace(P @ (L @ L.T)) + mean @ P @ mean + logdet - len(mean)) + np.log(np.diag(L)).sum()


class Case:
    def __init__(self, n=40, k=5, seed=0, columns=0):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(n, 2))
        self.graph = build_graph(X, k, order="random", seed=seed)
        self.X, self.parents = X[self.graph.order], self.graph.parents
        self.covariance = oracle.matern32(self.X, self.X, length_scale=LENGTH) + NUGGET * np.eye(n)
        self.P, self.logdet = oracle.nngp_precision(self.covariance, self.parents)
        self.prior = NNGP(Matern32(length_scale=LENGTH), NUGGET, self.X, self.graph)
        self.y = np.exp(np.sin(5.0 * self.X[:, 0]) + np.sqrt(VARIANCE) * rng.standard_normal(n))
        self.weight = rng.choice([0.0, 0.5, 1.0, 2.0], n)
        self.data = Data(LogNormal(VARIANCE), self.y, {}, self.weight)
        self.observations = oracle.lognormal(self.y, VARIANCE, self.weight)
        self.stack = Stack(Process(self.prior), Coefficients(rng.standard_normal((n, columns)), np.full(columns, 0.7)))
        self.coefficients = rng.standard_normal(columns)

    def parameters(self, sizes=(6, 4, 1)):
        return Parameters(initial_networks(3, sizes), jnp.asarray(self.coefficients))

    def dense(self, parameters):
        """The bound per point, as a function of the parameters."""
        mean, L = dense_posterior(parameters.networks, self.covariance, self.parents, self.y)
        beta = np.asarray(parameters.coefficients, dtype=float)
        value = dense_bound(self.observations, self.P, self.logdet, mean, L, self.stack.linear.basis @ beta)
        return (value - 0.35 * beta @ beta) / len(mean)

    def estimate(self, **settings):
        settings = GCN(**{"samples": None, **settings})
        n = len(self.y)
        estimate = network_bound(self.prior, self.data, self.stack, settings)
        per_batch = settings.batch(n) if settings.layout == "random" else 1
        return estimate, each_once(len(estimate.layout.nodes), per_batch)(KEY, None)


@jax.jit
def epoch(parameters, batches, estimate):
    """The mean of the loss over the batches."""
    return jnp.mean(jax.lax.map(lambda batch: loss(parameters, batch, KEY, estimate), batches))


@pytest.fixture
def double():
    with float64():
        yield


# -- the networks -----------------------------------------------------------------------------------------------------


def neighbourhoods(case):
    members = np.hstack([case.parents, np.arange(len(case.y))[:, None]])
    return np.maximum(members, 0), members >= 0


@pytest.mark.parametrize("k", [1, 5])
def test_adjacency(double, k):
    case = Case(12, k)
    members, there = neighbourhoods(case)
    A = np.asarray(adjacency(Matern32(length_scale=LENGTH), NUGGET, case.X[members], there))
    for i in range(12):
        own = np.flatnonzero(there[i])
        np.testing.assert_allclose(A[i][np.ix_(own, own)], normalised(case.covariance, members[i, own]), rtol=1e-12)
        outside = np.ones_like(A[i], dtype=bool)
        outside[np.ix_(own, own)] = False
        assert np.all(A[i][outside] == 0.0)


def test_adjacency_of_a_kernel_with_negative_values(double):
    case = Case(12, 4)
    X = case.X - 0.5
    members, there = neighbourhoods(case)
    A = np.asarray(adjacency(Linear(), 0.1, X[members], there))
    own = members[-1]
    np.testing.assert_allclose(A[-1], normalised(X @ X.T + 0.1 * np.eye(12), own), rtol=1e-12)
    assert np.any(A < 0.0)


@pytest.mark.parametrize("sizes", [(20, 10, 1), (3, 7, 2, 1), (1,)])
def test_both_networks_at_every_point(double, sizes):
    case = Case(20, 6)
    networks = initial_networks(3, sizes)
    mean, factor = apply_networks(networks, case.prior, case.data)
    dense_mean, L = dense_posterior(networks, case.covariance, case.parents, case.y)
    np.testing.assert_allclose(mean, dense_mean, rtol=1e-11)
    np.testing.assert_allclose(oracle.dense_triangular(factor), L, rtol=1e-11, atol=1e-14)
    assert np.all(factor.edges[case.parents < 0] == 0.0)


def test_many_points_are_taken_in_parts(double, monkeypatch):
    monkeypatch.setattr("npvi.amortized.gcn.bound._ENTRIES", 7 * 49)
    case = Case(23, 6)  # a shape that nothing has been compiled for
    networks = initial_networks(3, (4, 1))
    mean, factor = apply_networks(networks, case.prior, case.data)
    dense_mean, L = dense_posterior(networks, case.covariance, case.parents, case.y)
    np.testing.assert_allclose(mean, dense_mean, rtol=1e-11)
    np.testing.assert_allclose(oracle.dense_triangular(factor), L, rtol=1e-11, atol=1e-14)


def test_the_order_of_parents_does_not_matter(double):
    case, order = Case(30, 6), np.array([3, 0, 5, 1, 4, 2, 6])
    networks = initial_networks(3, (8, 5, 1))
    members, there = neighbourhoods(case)
    kernel = Matern32(length_scale=LENGTH)
    q, permuted = (
        recognise(networks, adjacency(kernel, NUGGET, case.X[m], t), case.y[m], t)
        for m, t in ((members, there), (members[:, order], there[:, order]))
    )
    np.testing.assert_allclose(permuted.mean, q.mean, rtol=1e-12)
    np.testing.assert_allclose(permuted.edges, np.asarray(q.edges)[:, order[:-1]], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(permuted.log_diagonal, q.log_diagonal, rtol=1e-12)


def test_a_very_narrow_posterior_has_a_gradient():
    networks = initial_networks(3, (2, 1))
    last = networks.factor[-1]

    def log_diagonal(bias):
        shifted = networks._replace(factor=(networks.factor[0], last._replace(bias=bias)))
        return recognise(shifted, jnp.ones((1, 1, 1)), jnp.ones((1, 1)), jnp.ones((1, 1), bool)).log_diagonal[0]

    both = jax.jit(jax.value_and_grad(log_diagonal))
    for far in (-30.0, -90.0, -200.0):
        value, slope = both(jnp.array([far]))
        np.testing.assert_allclose(value, far, rtol=1e-2)
        np.testing.assert_allclose(slope, 1.0, rtol=1e-5)


# -- layouts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k", "size"), [(40, 5, 16), (40, 5, 1), (33, 8, 4), (7, 6, 3), (1, 1, 64)])
def test_groups_have_what_their_points_need(n, k, size):
    case = Case(n, k, seed=1)
    for layout in (patch_layout(case.graph, case.X, size), random_layout(case.graph)):
        nodes, places, columns = (np.asarray(part) for part in (layout.nodes, layout.parents, layout.columns))
        points = nodes[:, : places.shape[1]]
        assert sorted(points[points >= 0]) == list(range(n))
        assert places.shape[1] <= size or size == 1
        for g in range(len(nodes)):
            there = nodes[g][nodes[g] >= 0]
            parents = case.parents[points[g][points[g] >= 0]]
            assert sorted(there) == sorted({*points[g][points[g] >= 0], *parents[parents >= 0]})
            for p, i in enumerate(points[g]):
                found = [nodes[g, m] for m in places[g, p] if m >= 0]
                assert found == ([] if i < 0 else [*case.parents[i][case.parents[i] >= 0]])
            numbers = {}
            for m, j in enumerate(nodes[g]):
                row = [] if j < 0 else [*case.parents[j], j]
                for t, c in enumerate(row):
                    number = columns[g, m, t]
                    assert (number < 0) == (c < 0)
                    assert c < 0 or numbers.setdefault(c, number) == number < layout.width
                assert j >= 0 or np.all(columns[g, m] == -1)
            assert len(set(numbers.values())) == len(numbers)


def test_patches_are_compact():
    case = Case(256, 5, seed=2)
    layout = patch_layout(case.graph, case.X, 16)
    points = np.asarray(layout.nodes)[:, :16]
    areas = [np.prod(np.ptp(case.X[patch], axis=0)) for patch in points]
    assert points.shape == (16, 16)
    assert sum(areas) < 1.0  # leaves of a tree don't overlap; 16 random points would have some 0.8 each


CASES = {
    "a mean function": ({"columns": 2}, {"batch_size": 16}),
    "more parents than points in a patch": ({"k": 9}, {"batch_size": 4}),
    "one point in a patch": ({"n": 15}, {"batch_size": 1}),
    "fewer points than neighbours": ({"n": 4, "k": 10}, {"batch_size": 3}),
    "one point": ({"n": 1}, {}),
}


@pytest.mark.parametrize("layout", ["patches", "random"])
@pytest.mark.parametrize("name", CASES)
def test_an_epoch_of_either_layout_is_the_bound(double, name, layout):
    arguments, settings = CASES[name]
    case = Case(**arguments)
    parameters = case.parameters()
    estimate, batches = case.estimate(layout=layout, **settings)
    np.testing.assert_allclose(-epoch(parameters, batches, estimate), case.dense(parameters), rtol=1e-10)


def test_an_epoch_in_single_precision():
    case = Case(n=60)
    parameters = case.parameters()
    for layout in ("patches", "random"):
        estimate, batches = case.estimate(layout=layout, batch_size=16)
        value = epoch(parameters, batches, estimate)
        assert value.dtype == jnp.float32
        np.testing.assert_allclose(-value, case.dense(parameters), rtol=1e-5)


def test_batches_have_the_gradient_of_the_bound_on_average(double):
    case = Case(30, 4, columns=1)
    parameters = case.parameters((3, 1))
    estimate, batches = case.estimate(batch_size=8)
    found = jax.jit(jax.grad(epoch))(parameters, batches, estimate)
    leaves, structure = jax.tree.flatten(parameters)
    for number, leaf in enumerate(leaves):
        at, step = tuple(0 for _ in leaf.shape), 1e-5
        values = []
        for sign in (1.0, -1.0):
            moved = [*leaves[:number], leaf.at[at].add(sign * step), *leaves[number + 1 :]]
            values.append(-case.dense(jax.tree.unflatten(structure, moved)))
        difference = (values[0] - values[1]) / (2.0 * step)
        np.testing.assert_allclose(jax.tree.leaves(found)[number][at], difference, rtol=1e-5, atol=1e-8)


def test_draws_have_the_gradient_of_the_expectation_on_average(double):
    case = Case(20, 4)
    parameters = case.parameters((3, 1))
    exact, batches = case.estimate(batch_size=20)
    drawn, _ = case.estimate(batch_size=20, samples=1)
    slope = jax.grad(loss)
    wanted = jax.jit(slope)(parameters, batches[0], KEY, exact)
    keys = jax.random.split(KEY, 4000)
    found = jax.jit(jax.vmap(slope, in_axes=(None, None, 0, None)))(parameters, batches[0], keys, drawn)
    for draws, value in zip(jax.tree.leaves(found.networks), jax.tree.leaves(wanted.networks)):
        error = np.asarray(draws).std(axis=0) / np.sqrt(len(keys))
        assert np.any(error > 0.0)  # not all: there are nodes that no neighbourhood switches on
        assert np.all(np.abs(np.asarray(draws).mean(axis=0) - value) <= 4.5 * error + 1e-12)


# -- fits -------------------------------------------------------------------------------------------------------------


def test_a_fit_and_its_bound():
    case = Case(150, 6, columns=1)
    seen = []
    settings = GCN(epochs=40, batch_size=32)
    fit = fit_gcn(case.prior, case.data, case.stack, settings, seed=1, progress=seen.append)
    info = fit.info
    assert (info["epochs"], info["steps"], info["outcome"]) == (40, 200, "finished")
    assert len(seen) == 40
    assert seen[-1]["elbo"] == pytest.approx(info["elbo_estimate"][-1])
    assert np.mean(info["elbo_estimate"][-5:]) > np.mean(info["elbo_estimate"][:5])
    L = oracle.dense_triangular(fit.posterior.factor)
    mean = fit.posterior.mean
    H, precision = case.stack.linear.basis, case.stack.linear.precision
    beta = np.linalg.solve(H.T @ case.P @ H + np.diag(precision), H.T @ case.P @ mean)
    value = dense_bound(case.observations, case.P, case.logdet, mean - H @ beta, L, H @ beta)
    value += oracle.what_coefficients_add(case.P, H, precision, fit.trend)
    given, known = (case.observations.expectations(mean, v)[0].sum() for v in ((L**2).sum(axis=1), fit.variance))
    np.testing.assert_allclose(fit.elbo, value + known - given, rtol=1e-6)
    np.testing.assert_allclose(fit.trend.coefficients, beta, rtol=1e-7)
    assert info["elbo"] == [fit.elbo]
    assert info["expected_gain"] > 0.0
    assert not info["converged"]


@pytest.mark.parametrize(
    ("likelihood", "observe", "samples"),
    [
        (StudentT(4.0, 0.3), lambda f, rng: f + 0.3 * rng.standard_t(4.0, len(f)), 1),
        (Poisson("softplus"), lambda f, rng: rng.poisson(np.exp(f)).astype(float), None),
    ],
)
def test_training_raises_the_bound_whatever_the_likelihood(likelihood, observe, samples):
    case = Case(60, 4)
    data = Data(likelihood, observe(np.sin(6.0 * case.X[:, 0]), np.random.default_rng(0)))
    settings = GCN(epochs=30, batch_size=20, sizes=(8, 1), samples=samples)
    fit = fit_gcn(case.prior, data, case.stack, settings)
    before = initial_networks(0, (8, 1))
    assert fit.elbo > bound_of(case.prior, data, case.stack, *apply_networks(before, case.prior, data))


def test_a_training_that_breaks_off_names_the_batch():
    case = Case(60, 4)
    exposure = np.where(np.arange(60) == 7, 3.3e38, 1.0)  # times the first rates, more than single precision holds
    data = Data(Poisson(), np.round(case.y), {"exposure": exposure})
    with pytest.warns(TrainingStopped, match=r"in epoch 0 at batch \d, where the loss or its gradient is not finite"):
        fit = fit_gcn(case.prior, data, case.stack, GCN(batch_size=20, sizes=(1,), samples=None))
    assert fit.info["outcome"] == "not finite"
    assert np.isfinite(fit.elbo)


def test_networks_without_a_bound_are_refused(monkeypatch):
    case = Case(60, 4)
    astray = jax.tree.map(lambda leaf: 1e9 + leaf, case.parameters())
    monkeypatch.setattr(gcn_fit, "train", lambda *_, **__: Trained(astray, {}, 3, "finished"))
    data = Data(Poisson(), np.round(case.y))
    with pytest.raises(FloatingPointError, match=r"not finite after 3 epochs .* smaller learning_rate than 0\.1"):
        fit_gcn(case.prior, data, case.stack)


def test_rows_held_out_do_not_train_the_networks():
    case = Case(50, 4)
    settings = GCN(epochs=4, batch_size=16, sizes=(1,), validation=0.2)
    others = np.random.default_rng(0).permutation(np.flatnonzero(case.weight > 0.0))
    others = others[: round(0.2 * len(others))]
    fits = []
    for factor in (1.0, 1.001):
        y = case.y.copy()
        y[others] *= factor
        fits.append(fit_gcn(case.prior, Data(LogNormal(VARIANCE), y, {}, case.weight), case.stack, settings))
    first, second = (fit.info for fit in fits)
    assert first["elbo_estimate"] == second["elbo_estimate"]
    assert first["evaluation"] != second["evaluation"]
    assert first["best_epoch"] == int(np.argmin(first["evaluation"]))
    assert len(fits[0].posterior.mean) == 50


def test_the_score_of_what_is_held_out():
    case, rng = Case(30, 29, columns=1), np.random.default_rng(5)
    Z, basis, y = rng.uniform(size=(7, 2)), rng.standard_normal((7, 1)), rng.lognormal(size=7)
    weight = rng.uniform(size=7)
    networks = initial_networks(3, (5, 1))
    mean, factor = apply_networks(networks, case.prior, case.data)
    L = oracle.dense_triangular(factor)
    cross = oracle.matern32(Z, case.X, length_scale=LENGTH)
    B = np.linalg.solve(case.covariance, cross.T).T
    H = case.stack.linear.basis
    beta = np.linalg.solve(H.T @ case.P @ H + 0.7, H.T @ case.P @ mean)
    m = B @ (mean - H @ beta) + basis @ beta
    v = 1.0 + NUGGET - np.sum(B * cross, axis=1) + np.sum((B @ L) ** 2, axis=1) + VARIANCE
    log_density = -np.log(y) - 0.5 * (np.log(2.0 * np.pi * v) + (np.log(y) - m) ** 2 / v)
    held_out = HeldOut(Z, basis, Data(LogNormal(VARIANCE), y, {}, weight))
    score = held_out.score(case.prior, case.stack)(mean, factor)
    np.testing.assert_allclose(score, -np.sum(weight * log_density) / weight.sum(), rtol=1e-8)


def test_patience_and_a_checkpoint(tmp_path):
    case = Case(40, 4)
    settings = GCN(epochs=2, batch_size=16, sizes=(1,), patience=3, checkpoint=tmp_path / "networks.checkpoint")
    begun = fit_gcn(case.prior, case.data, case.stack, settings)
    ended = fit_gcn(case.prior, case.data, case.stack, settings.replace(epochs=6))
    assert ended.info["elbo_estimate"][:2] == begun.info["elbo_estimate"]
    assert ended.info["epochs"] == 6
    assert -ended.elbo / 40 == pytest.approx(min(ended.info["evaluation"]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": (20, 10)}, r"sizes must be .* the last one 1; got \(20, 10\)"),
        ({"sizes": ()}, "sizes must be"),
        ({"layout": "rows"}, "layout must be one of 'patches', 'random'; got 'rows'"),
        ({"epochs": 0}, "epochs must be a whole number from 1, got 0"),
        ({"samples": 1.5}, "samples must be"),
        ({"validation": 1.0}, "validation must be a share of the rows"),
        ({"optimizer": "newton"}, "optimizer must be one of 'adagrad'"),
        ({"optimizer": 3}, "optimizer must be one of 'adagrad'"),
        ({"learning_rate": -1.0}, "learning_rate must be a positive number of at most 1e6, got -1.0"),
    ],
)
def test_settings_that_are_not_allowed(settings, message):
    with pytest.raises(ValueError, match=message):
        GCN(**settings).validate()


def test_how_long_training_takes_where_nothing_is_said():
    assert GCN().passes(97) == 62
    assert GCN().passes(10**6) == 5
    assert GCN(epochs=7).passes(97) == 7
