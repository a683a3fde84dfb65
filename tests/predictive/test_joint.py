"""Joint draws at new points, against dense linear algebra."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from npvi import GPClassifier, GPRegressor
from npvi.graph import build_graph
from npvi.kernels import RBF, Linear, Matern12, Matern32
from npvi.likelihoods import Gaussian, Poisson
from npvi.linalg import Triangular
from npvi.posteriors import FactorPosterior
from npvi.predictive.base import Predictive, _with_linear_part
from npvi.predictive.joint import JointPrediction, JointSampler
from npvi.predictive.mixture import MixturePredictive
from npvi.predictive.varying_noise import VaryingNoisePredictive
from npvi.priors import NNGP
from npvi.runtime.parallel import threads
from tests.support import oracle

rng = np.random.default_rng(0)
SQUARE = rng.random((60, 2))
NEW = rng.random((80, 2))


def matern12_plus_linear(A, B):
    return oracle.matern12(A, B, 0.3) + A @ B.T


KERNELS = [
    (Matern12(length_scale=0.3), lambda A, B: oracle.matern12(A, B, 0.3)),
    (RBF(length_scale=0.2, variance=3.0), lambda A, B: oracle.rbf(A, B, 0.2, 3.0)),
    (Matern12(length_scale=0.3) + Linear(), matern12_plus_linear),
]
every_kernel = pytest.mark.parametrize(("kernel", "covariance"), KERNELS, ids=["matern12", "rbf", "sum"])


def nngp(X, K, kernel, nugget):
    graph = build_graph(X, K)
    return NNGP(kernel, nugget, X[graph.order], graph)


def linear_map(joint, n, m):
    """What `propagate` makes of unit vectors: the weights on f at the training points, and the factor of the noise."""
    return joint.propagate(np.eye(n), np.zeros((m, n))), joint.propagate(np.zeros((n, m)), np.eye(m))


def conditional(covariance, X, Z, nugget):
    """Weights and covariance of f at Z given f at X, each with a nugget of its own."""
    old = covariance(X, X) + nugget * np.eye(len(X))
    weights = np.linalg.solve(old, covariance(X, Z)).T
    return weights, covariance(Z, Z) + nugget * np.eye(len(Z)) - weights @ covariance(X, Z)


@every_kernel
@pytest.mark.parametrize("nugget", [1e-7, 1e-3, 0.5])
def test_with_all_neighbours_it_is_the_gaussian_process(kernel, covariance, nugget):
    X, Z = SQUARE, np.vstack([NEW, NEW[:3], SQUARE[:2]])  # among the new: repeated points, and old ones
    prior = nngp(X, 59, kernel, nugget)
    for joint in (JointPrediction(prior, Z), JointPrediction(prior, Z, 10_000)):
        weights, factor = linear_map(joint, len(X), len(Z))
        expected, spread = conditional(covariance, prior.X, Z, nugget)
        tolerance = 1e-5 if nugget < 1e-5 else 1e-8
        np.testing.assert_allclose(weights, expected, rtol=0, atol=tolerance * np.abs(expected).max())
        found = factor @ factor.T + joint.fresh_variance * np.eye(len(Z))
        np.testing.assert_allclose(found, spread, rtol=0, atol=tolerance * np.abs(spread).max())


@every_kernel
def test_each_point_given_its_nearest_before_it(kernel, covariance):
    """The definition, row by row, with few neighbours: more rows of Z than of X, fewer of X than neighbours."""
    K, nugget = 7, 0.2
    for n in (5, 60):
        prior = nngp(SQUARE[:n], K, kernel, nugget)
        joint = JointPrediction(prior, NEW, K)
        weights, factor = linear_map(joint, n, len(NEW))
        coordinates = kernel.coordinates(np.vstack([prior.X, NEW]))
        points = np.vstack([prior.X, NEW])
        Sigma = covariance(points, points)
        kept = 1e-6 * np.diag(Sigma).max()
        Sigma += np.diag(np.r_[np.full(n, nugget), np.full(len(NEW), kept)])
        assert joint.fresh_variance == pytest.approx(nugget - kept)
        # f at all points as a linear map of f at the old points and the noise at the new
        rows = np.zeros((n + len(NEW), n + len(NEW)))
        rows[:n, :n] = np.eye(n)
        before = list(range(n))
        for i in n + coarse_to_fine(joint, n):
            nearest = np.argsort(oracle.distances(coordinates[[i]], coordinates[before])[0], kind="stable")[:K]
            a = np.array(before)[nearest]
            b = np.linalg.solve(Sigma[np.ix_(a, a)], Sigma[a, i])
            rows[i] = b @ rows[a]
            rows[i, i] = np.sqrt(Sigma[i, i] - b @ Sigma[a, i])
            before.append(i)
        np.testing.assert_allclose(np.hstack([weights, factor]), rows[n:], rtol=0, atol=1e-7)


def coarse_to_fine(joint, n):
    """The order that decides who is earlier, found again on its own."""
    from npvi.graph.grid import grid_order

    order = grid_order(NEW, seed=0)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    # the visits respect it: nobody depends on a later point
    assert sorted(joint.visit) == list(range(len(NEW)))
    for row, neighbors in zip(joint.visit, joint._neighbors):
        new = neighbors[neighbors >= n] - n
        assert np.all(position[new] < position[row])
    return order


def test_twenty_neighbours_nearly_do():
    """The variance of a sum over many more new points than old, with a large nugget, to a few per cent."""
    Z = np.random.default_rng(1).random((600, 2))
    prior = nngp(SQUARE, 20, Matern12(length_scale=0.3), 2.0)
    joint = JointPrediction(prior, Z)
    weights, factor = linear_map(joint, len(SQUARE), len(Z))
    expected, spread = conditional(KERNELS[0][1], prior.X, Z, 2.0)
    found = factor @ factor.T + joint.fresh_variance * np.eye(len(Z))
    assert found.sum() == pytest.approx(spread.sum(), rel=0.15)
    total = prior.marginal_variance[0]
    old = total * np.eye(len(SQUARE)) + KERNELS[0][1](prior.X, prior.X) - np.eye(len(SQUARE))
    marginal = weights @ old @ weights.T + found  # under the prior, every new point has the prior's variance
    np.testing.assert_allclose(np.diag(marginal), total, rtol=0.02)
    assert marginal.sum() == pytest.approx((expected @ old @ expected.T + spread).sum(), rel=0.05)


@pytest.mark.parametrize("kernel", [Matern12(length_scale=0.3), RBF(length_scale=0.5)], ids=repr)
def test_without_a_nugget_coinciding_points_have_one_f(kernel):
    X = np.random.default_rng(2).random((30, 2)) if kernel.__class__ is Matern12 else SQUARE[:6]
    prior = nngp(X, 10, kernel, 0.0)
    Z = np.vstack([prior.X[:3], np.repeat(NEW[:2], 30, axis=0), NEW[:2] + 1e-12, NEW])
    f = prior.root.solve(np.random.default_rng(3).standard_normal((len(X), 50)))
    draws = JointPrediction(prior, Z).draw(f, np.random.default_rng(4))
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() < 8.0
    np.testing.assert_allclose(draws[:3], f[:3], atol=2e-3)
    for start, stop in ((3, 33), (33, 63)):
        assert np.ptp(draws[start:stop], axis=0).max() < 2e-3


def test_a_nugget_is_fresh_for_every_row():
    prior = nngp(SQUARE, 20, Matern32(length_scale=0.5), 0.4)
    Z = np.repeat(NEW[:1], 2000, axis=0)
    draws = JointPrediction(prior, Z).draw(np.zeros((60, 3)), np.random.default_rng(0))
    np.testing.assert_allclose(draws.var(axis=0), 0.4, rtol=0.15)
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 0.1


def test_offsets():
    prior = nngp(SQUARE, 10, Matern32(length_scale=0.5), 0.1)
    joint = JointPrediction(prior, NEW)
    f = np.zeros((60, 4))
    plain = joint.draw(f, np.random.default_rng(1))
    for offset in (3.0, np.arange(80.0), np.arange(320.0).reshape(80, 4)):
        shifted = joint.draw(f, np.random.default_rng(1), offset)
        expected = offset[:, None] if np.ndim(offset) == 1 else offset
        np.testing.assert_allclose(shifted - plain, np.broadcast_to(expected, (80, 4)), atol=1e-12)


def test_draws_do_not_depend_on_threads():
    prior = nngp(SQUARE, 10, Matern32(length_scale=0.5), 0.1)
    Z = np.random.default_rng(0).random((70_000, 2))
    f = np.random.default_rng(1).standard_normal((60, 4))
    draws = []
    for n_jobs in (1, 2):
        with threads(n_jobs):
            draws.append(JointPrediction(prior, Z).draw(f, np.random.default_rng(2)))
    np.testing.assert_array_equal(*draws)


def test_the_sampler_draws_in_parts(monkeypatch):
    """The means are those it is given; many draws are made a few at a time."""
    prior = nngp(SQUARE, 10, Matern32(length_scale=0.5), 1e-4)
    certain = Triangular(prior.graph, np.full(60, 1e-9), np.zeros((60, 10)))
    posterior = FactorPosterior(np.full(60, 5.0), certain, np.ones(60))
    sampler = JointSampler(prior, posterior, SQUARE, np.arange(60.0), n_jobs=1)
    np.testing.assert_allclose(sampler(3, np.random.default_rng(0)).T, [np.arange(60.0)] * 3, atol=0.1)
    monkeypatch.setattr("npvi.predictive.joint._NUMBERS", 60 * 4)
    draws = sampler(10, np.random.default_rng(0))
    assert draws.shape == (60, 10)
    assert len(np.unique(draws[0])) == 10


# -- from data to draws -----------------------------------------------------------------------------------------------


def smooth_data(n=40, m=50, seed=5):
    rng = np.random.default_rng(seed)
    X, Z = rng.random((n, 2)), rng.random((m, 2))
    return X, 2.0 + np.sin(5.0 * X[:, 0]) + 0.3 * rng.standard_normal(n), Z


@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_total_against_dense_algebra(mean):
    """Gaussian noise and all neighbours: a sum over new rows has a mean and a variance in closed form."""
    X, y, Z = smooth_data()
    nugget, noise, n = 0.05, 0.1, 4000
    kernel = Matern32(length_scale=0.4)
    model = GPRegressor(Gaussian(noise), kernel, nugget=nugget, mean=mean, method="npvi", n_neighbors=89, learn=False)
    with pytest.warns(UserWarning, match="only 40 points"):
        model.fit(X, y)
    weights = np.linspace(-0.5, 2.0, len(Z))
    total = model.predict_dist(Z).total(weights, n=n, seed=0)

    order = model.graph_.order
    posterior = model.posterior_
    constant = float(model.mean_coefficients_.sum())
    gain, spread = conditional(lambda A, B: oracle.matern32(A, B, 0.4), X[order], Z, nugget)
    factor = posterior.factor.to_scipy().toarray()
    expected = weights @ (constant + gain @ (posterior.mean - constant))
    root = weights @ gain @ factor
    variance = root @ root + weights @ spread @ weights + noise * weights @ weights
    if mean == "constant":  # which isn't known either
        ones = np.ones(len(y))
        answer = np.linalg.solve(oracle.matern32(X, X, 0.4) + (nugget + noise) * np.eye(len(y)), ones)
        variance += (weights @ (1.0 - oracle.matern32(Z, X, 0.4) @ answer)) ** 2 / answer.sum()
    assert abs(total.mean - expected) < 4.0 * np.sqrt(variance / n)
    assert abs(total.std**2 - variance) < 4.0 * variance * np.sqrt(2.0 / n)
    covered = np.mean(np.abs(total.draws - expected) < 1.6448536 * np.sqrt(variance))
    assert abs(covered - 0.9) < 4.0 * np.sqrt(0.09 / n)
    # and with independent rows it would have been wrong
    alone = weights**2 @ model.predict_dist(Z).var
    assert abs(variance / alone - 1.0) > 0.3


def test_joint_draws_agree_with_the_marginals():
    X, y, Z = smooth_data(300, 200)
    model = GPRegressor(Gaussian(0.1), Matern32(length_scale=0.4), nugget=0.01, learn=False).fit(X, y)
    dist = model.predict_dist(Z)
    assert dist.nugget == 0.01
    f = dist.joint_latent_sample(4000, seed=1)
    assert np.all(np.abs(f.mean(axis=0) - dist.latent_mean) < 5.0 * np.sqrt(dist.latent_var / 4000))
    np.testing.assert_allclose(f.var(axis=0), dist.latent_var, rtol=0.25)
    y = dist.joint_sample(4000, seed=1)
    np.testing.assert_allclose((y - f).var(axis=0), 0.1 + 0.01, rtol=0.15)  # the same f, noise and a nugget of its own


def test_exposure_and_pickling():
    X, _, Z = smooth_data(100, 30)
    counts = np.random.default_rng(0).poisson(3.0, 100)
    model = GPRegressor("poisson", Matern32(length_scale=0.4), learn=False).fit(X, counts)
    one = model.predict_dist(Z).total(n=200, seed=1)
    many = model.predict_dist(Z, exposure=np.full(30, 100.0)).total(n=200, seed=1)
    assert many.mean == pytest.approx(100.0 * one.mean, rel=0.05)
    again = pickle.loads(pickle.dumps(model.predict_dist(Z))).total(n=200, seed=1)
    np.testing.assert_array_equal(again.draws, one.draws)


def test_classes_are_drawn_together():
    X = np.linspace(0.0, 1.0, 60)[:, None]
    model = GPClassifier(kernel=Matern32(length_scale=0.3), learn=False).fit(X, X[:, 0] > 0.5)
    draws = model.predict_dist(X).joint_sample(5, seed=0)
    assert draws.shape == (5, 60)
    assert set(np.unique(draws)) <= {0.0, 1.0}


# -- covariances and totals without draws -----------------------------------------------------------------------------


def exact_covariance(kernel, X, noise, Z, basis=None):
    """Of f at Z given observations at X, variances `noise`; coefficients of `basis` (at X, at Z) have flat priors."""
    precision = np.linalg.inv(kernel(X, X) + np.diag(np.broadcast_to(noise, len(X))))
    gain = kernel(Z, X) @ precision
    C = kernel(Z, Z) - gain @ kernel(X, Z)
    if basis is not None:
        left = basis[1] - gain @ basis[0]
        C += left @ np.linalg.inv(basis[0].T @ precision @ basis[0]) @ left.T
    return C


@pytest.mark.parametrize("kernel", [Matern12(length_scale=0.3), RBF(length_scale=0.2)], ids=repr)
def test_adjoint_is_the_transpose_of_propagate(kernel):
    prior = nngp(SQUARE, 9, kernel, 0.1)
    joint = JointPrediction(prior, NEW, 7)
    rng = np.random.default_rng(0)
    weights, f, noise = rng.standard_normal((80, 3)), rng.standard_normal((60, 2)), rng.standard_normal((80, 2))
    old, new = joint.adjoint(weights)
    np.testing.assert_allclose(old.T @ f + new.T @ noise, weights.T @ joint.propagate(f, noise.copy()), atol=1e-10)
    # and a triangular system of all points makes the same of noise
    own = Triangular(prior.graph, prior.root.diagonal, prior.root.edges)
    both = joint.extend(own).solve(np.concatenate([f, noise[joint.visit]]))
    np.testing.assert_allclose(both[60:], joint.propagate(own.solve(f), noise.copy())[joint.visit], atol=1e-8)


LATTICE = np.stack(np.meshgrid(np.arange(20) + 0.5, np.arange(20) + 0.5), axis=-1).reshape(-1, 2)
REGION = np.where(LATTICE[:, 0] < 8.0, 1.0, 0.2)


@pytest.mark.parametrize(("n", "method"), [(150, "full"), (1100, "full"), (150, "npvi")])
@pytest.mark.parametrize("scale", [2.0, 10.0])
def test_covariances_and_totals_are_the_exact_ones(n, method, scale):
    rng = np.random.default_rng(1)
    X, noise = 20.0 * rng.random((n, 2)), 0.5
    y = np.sin(X[:, 0] / 3.0) + 0.1 * X[:, 1] + np.sqrt(noise) * rng.standard_normal(n)
    settings = {"method": method, "n_neighbors": 149 if method == "npvi" else 20, "mean": "constant"}
    model = GPRegressor(Gaussian(noise), Matern32(length_scale=scale), nugget=1e-6, learn=False, **settings).fit(X, y)
    dist = model.predict_dist(LATTICE)
    ones = (np.ones((n, 1)), np.ones((400, 1)))
    C = exact_covariance(lambda A, B: oracle.matern32(A, B, scale), X, noise, LATTICE, ones)
    assert np.abs(dist.joint_covariance() - C).max() < 0.06 * C.diagonal().max()
    W = np.column_stack([REGION, np.ones(400)])
    np.testing.assert_allclose(dist.joint_covariance(W), W.T @ C @ W, rtol=0.02)
    latent, total = dist.latent_total(REGION), dist.total(REGION)
    assert latent.mean == pytest.approx(REGION @ dist.latent_mean) == total.mean
    assert latent.std == pytest.approx(np.sqrt(REGION @ C @ REGION), rel=0.01)
    expected = np.sqrt(REGION @ C @ REGION + (noise + 1e-6) * REGION @ REGION)
    assert total.std == pytest.approx(expected, rel=0.01)
    assert dist.total(REGION, of="mean").std == pytest.approx(latent.std)
    assert total.quantile(0.975) == pytest.approx(total.mean + 1.959964 * total.std)
    # and so do draws, whose smooth directions the posterior's factor alone would get wrong
    sums = dist.joint_latent_sample(4000, seed=0) @ W
    np.testing.assert_allclose(sums.std(axis=0), np.sqrt(np.diag(W.T @ C @ W)), rtol=0.05)


@pytest.mark.parametrize("n", [200, 1200])
def test_totals_of_counts(n):
    """Against brute force with the dense posterior at the fit's own site precisions."""
    rng = np.random.default_rng(2)
    X = 20.0 * rng.random((n, 2))
    counts = rng.poisson(np.exp(np.sin(X[:, 0] / 3.0)))
    model = GPRegressor(Poisson(), Matern32(length_scale=4.0), nugget=0.05, learn=False).fit(X, counts)
    dist = model.predict_dist(LATTICE, exposure=np.full(400, 2.0))
    noise = 1.0 / model.posterior_.site_precision + 0.05
    ones = (np.ones((n, 1)), np.ones((400, 1)))
    C = exact_covariance(lambda A, B: oracle.matern32(A, B, 4.0), model.prior_.X, noise, LATTICE, ones)
    root = np.linalg.cholesky(C + 1e-9 * np.eye(400))
    means = 2.0 * np.exp(dist.latent_mean[:, None] + 0.025 + root @ rng.standard_normal((400, 20_000)))
    of_mean = (REGION @ means).std()
    given = means + means**2 * np.expm1(0.05)  # of one response, its nugget included
    of_response = np.sqrt(of_mean**2 + (REGION**2 @ given).mean())
    for seed in range(2):
        total, mean = (dist.total(REGION, n=1000, seed=seed, of=of) for of in ("response", "mean"))
        assert total.mean == mean.mean == pytest.approx(REGION @ dist.mean)
        assert mean.std == pytest.approx(of_mean, rel=0.03)
        assert total.std == pytest.approx(of_response, rel=0.03)
        np.testing.assert_allclose(mean.draws.std(), mean.std, rtol=0.04)
        expected = np.quantile(REGION @ means, [0.05, 0.95]) - (REGION @ means).mean()
        np.testing.assert_allclose(np.array(mean.interval(0.9)) - mean.mean, expected, atol=0.12 * of_mean)


def some_predictions(likelihood, y, rows, **row):
    X = 10.0 * np.random.default_rng(0).random((len(y), 2))
    model = GPRegressor(likelihood, Matern32(length_scale=4.0), nugget=0.05, learn=False)
    model.fit(X, y, **{name: np.full(len(y), value) for name, value in row.items()})
    return model.predict_dist(X[:rows] + 0.5, **{name: np.full(rows, value) for name, value in row.items()})


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize(
    ("likelihood", "mean", "row"),
    [("poisson", 0.06, {}), ("poisson", 3.0, {}), ("bernoulli", 0.3, {}), ("binomial", 2.0, {"trials": 3.0})],
)
def test_totals_of_counts_are_counts(likelihood, mean, row, rows):
    """With the mean, the standard deviation and the probabilities that draws of all rows have."""
    rng = np.random.default_rng(3)
    most = {"bernoulli": 1, "binomial": 3}.get(likelihood)
    y = rng.poisson(mean, 300) if most is None else rng.binomial(most, mean / most, 300)
    dist = some_predictions(likelihood, y, rows, **row)
    direct = dist.joint_sample(20_000, seed=1).sum(axis=1)
    draws = np.concatenate([dist.total(seed=seed).draws for seed in range(5)])
    assert np.all(draws == np.rint(draws))
    assert draws.min() >= 0.0
    assert most is None or draws.max() <= most * rows
    assert draws.mean() == pytest.approx(direct.mean(), abs=5.0 * direct.std() / np.sqrt(10_000))
    assert draws.std() == pytest.approx(direct.std(), rel=0.06)
    for count in np.unique(np.quantile(direct, [0.05, 0.5, 0.95])):
        assert np.mean(draws <= count) == pytest.approx(np.mean(direct <= count), abs=0.025)
    half = dist.total(np.full(rows, 0.5), seed=0).draws
    assert np.all(2.0 * half == np.rint(2.0 * half))


def test_totals_stay_within_what_responses_can_be():
    y = np.random.default_rng(3).gamma(0.3, 1.0, 300) + 1e-6
    dist = some_predictions("gamma", y, 1)
    assert dist.total(seed=0).draws.min() >= 0.0
    assert dist.total(-np.ones(1), seed=0).draws.max() <= 0.0


def test_totals_of_mixtures_and_of_noise_that_varies():
    X, y, Z = smooth_data(120, 60)
    model = GPRegressor(Gaussian(0.1), Matern32(length_scale=0.4), nugget=0.01, learn=False)
    other = GPRegressor(Gaussian(0.1), Matern12(length_scale=0.4), nugget=0.01, learn=False)
    parts = [m.fit(X, y).predict_dist(Z) for m in (model, other)]
    mixed = MixturePredictive(parts, [0.3, 0.7])
    C, sums = [part.joint_covariance() for part in parts], [part.latent_mean.sum() for part in parts]
    between = 0.21 * (sums[0] - sums[1]) ** 2
    variance = 0.3 * C[0].sum() + 0.7 * C[1].sum() + between
    assert mixed.latent_total().std == pytest.approx(np.sqrt(variance))
    assert mixed.joint_covariance().sum() == pytest.approx(variance)
    total = mixed.total(n=4000, seed=0)
    assert total.std == pytest.approx(np.sqrt(variance + 60 * 0.11))
    assert np.mean(total.draws <= total.quantile(0.9)) == pytest.approx(0.9, abs=0.02)
    about = (Gaussian(1e-9), parts[0].latent_mean, parts[0].latent_var, np.full(60, -2.0), np.full(60, 0.3))
    joint = parts[0].joint
    varying = VaryingNoisePredictive(*about, joint, lambda n, rng: rng.normal(-2.0, np.sqrt(0.3), (60, n)), nugget=0.01)
    total = varying.total(n=4000, seed=0)
    assert total.std == pytest.approx(np.sqrt(C[0].sum() + 60 * (0.01 + np.exp(-2.0 + 0.15))), rel=0.02)
    assert varying.latent_total().std == pytest.approx(np.sqrt(C[0].sum()))


def test_what_covariances_need():
    X, y, Z = smooth_data(60, 30)
    dist = GPRegressor(Gaussian(0.1), Matern32(length_scale=0.4), learn=False).fit(X, y).predict_dist(Z)
    with pytest.raises(ValueError, match="one row for each of 30"):
        dist.joint_covariance(np.ones(30))
    with pytest.raises(ValueError, match="of must be one of 'response', 'mean'; got"):
        dist.total(of="f")
    bare = Predictive(Gaussian(0.1), np.zeros(10_001), np.ones(10_001))
    with pytest.raises(ValueError, match=r"10001 rows would be a matrix of 0\.8 GB.*latent_total"):
        bare.joint_covariance()
    with pytest.raises(ValueError, match="need the training rows"):
        bare.latent_total()
    total = dist.total(n=50, seed=3)
    again = pickle.loads(pickle.dumps(dist)).total(n=50, seed=3)
    np.testing.assert_array_equal(total.draws, again.draws)


@pytest.mark.parametrize("prior", ["fitc", "nystrom"])
def test_sums_under_low_rank_priors_are_those_of_draws(prior):
    rng = np.random.default_rng(2)
    X, new = rng.uniform(0.0, 4.0, size=(80, 1)), np.linspace(0.5, 5.0, 7)[:, None]
    model = GPRegressor(Gaussian(0.1), Matern32(1.0), prior=prior, n_inducing=12, nugget=0.01, learn=False)
    dist = model.fit(X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(80)).predict_dist(new)
    covariance = dist.joint_covariance()
    np.testing.assert_allclose(np.diag(covariance), dist.latent_var, rtol=1e-8)
    assert dist.latent_total().std == pytest.approx(np.sqrt(covariance.sum()), rel=1e-8)
    # responses have noise and nugget of their own
    sums = dist.joint_sample(20_000, seed=0).sum(axis=1)
    assert sums.std() == pytest.approx(np.sqrt(covariance.sum() + 7 * 0.11), rel=0.03)
    assert dist.total().std == pytest.approx(sums.std(), rel=0.05)


@pytest.mark.parametrize("n", [1, 3])
def test_a_sum_in_which_f_has_no_part_is_its_draws(n):
    draws = np.array([1.0, 2.0, 4.0])[:n]
    total = _with_linear_part(draws, np.zeros(n), 0.0, 2.0, 0.9)
    np.testing.assert_array_equal(total.draws, draws)
    assert (total.mean, total.std) == (2.0, draws.std(ddof=1) if n > 1 else 0.0)
