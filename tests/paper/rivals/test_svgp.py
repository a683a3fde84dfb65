"""SVGP against dense formulas, the exact process and GPyTorch."""

from __future__ import annotations

import warnings
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from npvi import bounded, fixed, positive
from npvi.inference.data import Data
from npvi.inference.stochastic import observed
from npvi.kernels import RBF, Matern32
from npvi.learning.objective import Model
from npvi.likelihoods import Gaussian, Ordinal, Poisson, Tweedie
from npvi.paper.rivals import SVGP
from npvi.paper.rivals.posteriors import Spread, Whitened, marginals
from npvi.paper.rivals.process import JITTER, Inducing, Places, Process
from npvi.paper.rivals.svgp import Bound, Hyperparameters, Parameters, Problem
from npvi.paper.rivals.task import choose_points
from npvi.runtime.precision import float64
from tests.support import oracle
from tests.support.dense_rivals import LENGTH, NOISE, NUGGET, VARIANCE, Dense, exact, gaussian_case, poisson_case

KERNEL = Matern32(LENGTH, VARIANCE)
NEW = np.linspace(-1.0, 7.0, 9)[:, None]


def some_q(size, rng):
    """A q that is far from any optimum, dense and in JAX."""
    m, C = rng.standard_normal(size), np.tril(0.4 * rng.standard_normal((size, size)), -1)
    C += np.diag(rng.uniform(0.3, 1.5, size))
    with float64():
        return m, C, Whitened(jnp.asarray(m), Spread(jnp.asarray(C), jnp.asarray(np.log(np.diag(C)))))


def at_rows(posterior, X):
    """Means and variances of f at the training rows."""
    return marginals(posterior, Places(X, np.arange(len(X))))[0]


def test_all_rows_as_inducing_points_give_the_exact_process():
    X, y = gaussian_case()
    settings = {"n_inducing": len(X), "batch_size": len(X), "epochs": 1000}
    model = SVGP(Gaussian(NOISE), KERNEL, nugget=NUGGET, **settings).fit(X, y)
    mean, variance, evidence = exact(X, y, NEW)
    dist = model.predict_dist(NEW)
    found = np.hstack([at_rows(model.posterior_, X), [dist.latent_mean, dist.latent_var + NUGGET]])
    np.testing.assert_allclose(found[0], mean, atol=1e-6)
    np.testing.assert_allclose(found[1], variance, atol=1e-5)
    assert model.elbo_ == pytest.approx(evidence, abs=1e-4)
    assert model.fit_info_["outcome"] == "finished"
    assert model.log_score(NEW, NEW[:, 0]) == pytest.approx(np.mean(dist.log_prob(NEW[:, 0])))


@pytest.fixture(scope="module")
def every_batch():
    """Seven counts: every batch of three with its loss at some q; and the terms of the dense bound there."""
    X, y = (part[:7] for part in poisson_case())
    rng, inducing_rows, constant = np.random.default_rng(2), np.array([4, 1, 6]), 0.3
    exposure = rng.uniform(0.5, 2.0, len(y))
    m, C, q = some_q(3, rng)
    with float64():
        places = Places(jnp.asarray(X), jnp.arange(len(y)))
        inducing = Inducing.of(Process(KERNEL, NUGGET), places.take(inducing_rows))
        data = Data(Poisson("softplus"), y, {"exposure": exposure})
        problem = Problem(places, observed(data, 2.0), inducing, 2.0, np.ones(1))
        parameters = Parameters(q, jnp.asarray(constant / 2.0), None, None)
        batches = jnp.asarray(list(combinations(range(len(y)), 3)))
        of_batch = jax.jit(jax.vmap(lambda rows: Bound()(parameters, rows, jax.random.key(0), problem)))
        losses = np.asarray(of_batch(batches))
    dense = Dense.of(X, inducing_rows, oracle.poisson_softplus(y, exposure))
    return np.asarray(batches), losses, dense.expected(m, C, constant), dense.divergence(m, C)


def test_bound_of_a_batch(every_batch):
    batches, losses, expected, divergence = every_batch
    np.testing.assert_allclose(losses, divergence - 7 * expected[batches].mean(axis=1), rtol=1e-6)


def test_bound_is_unbiased(every_batch):
    _, losses, expected, divergence = every_batch
    assert losses.mean() == pytest.approx(divergence - expected.sum(), rel=1e-6)
    assert losses.std() > 0.1  # or the batches would say nothing


def test_agrees_with_gpytorch():
    reason = "GPyTorch is not installed: pip install 'npvi[bench]'"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch", reason=reason)
        gpytorch = pytest.importorskip("gpytorch", reason=reason)
    rng = np.random.default_rng(3)
    X, y, Z = rng.uniform(0.0, 3.0, (25, 2)), rng.standard_normal(25), rng.uniform(0.0, 3.0, (6, 2))
    m, C, q = some_q(6, rng)
    with float64():
        points = Places(jnp.asarray(Z), jnp.full(6, -1))
        inducing = Inducing.of(Process(RBF(0.8, variance=1.7), 0.0), points)
        places = Places(jnp.asarray(X), jnp.arange(25))
        problem = Problem(places, observed(Data(Gaussian(0.3), y), 1.5), inducing, 1.0, np.ones(2))
        ours = -float(Bound()(Parameters(q, None, None, None), jnp.arange(25), jax.random.key(0), problem))

    class Theirs(gpytorch.models.ApproximateGP):
        def __init__(self):
            over_values = gpytorch.variational.CholeskyVariationalDistribution(6)
            strategy = gpytorch.variational.VariationalStrategy(
                self, torch.tensor(Z), over_values, learn_inducing_locations=False, jitter_val=1.7 * JITTER
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.double()
            self.covar_module.outputscale, self.covar_module.base_kernel.lengthscale = 1.7, 0.8
            over_values.variational_mean.data, over_values.chol_variational_covar.data = map(torch.tensor, (m, C))
            strategy.variational_params_initialized.fill_(1)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    theirs, noise = Theirs(), gpytorch.likelihoods.GaussianLikelihood().double()
    noise.noise = 0.3
    bound = gpytorch.mlls.VariationalELBO(noise, theirs, num_data=25)
    with torch.no_grad():
        value = 25 * float(bound(theirs(torch.tensor(X)), torch.tensor(y)))
    assert ours == pytest.approx(value, abs=1e-5)


def test_learned_numbers_are_those_of_the_largest_evidence():
    X, y = gaussian_case()
    nugget = 1e-3

    def negative_evidence(z):
        length_scale, noise = np.exp(z)
        total = oracle.matern32(X, X, length_scale) + (nugget + noise) * np.eye(len(X))
        return 0.5 * (y @ np.linalg.solve(total, y) + np.linalg.slogdet(2.0 * np.pi * total)[1])

    best = scipy.optimize.minimize(negative_evidence, np.log([1.0, 0.1]), method="Nelder-Mead")
    model = SVGP(
        Gaussian(0.5),
        Matern32(1.0, variance=fixed(1.0)),
        nugget=fixed(nugget),
        n_inducing=len(X),
        batch_size=len(X),
        epochs=1500,
        learn=True,
    ).fit(X, y)
    assert model.kernel_.variance == 1.0
    assert model.nugget_ == nugget
    assert model.elbo_ == pytest.approx(-best.fun, abs=1e-3)
    np.testing.assert_allclose([model.kernel_.length_scale, model.likelihood_.variance], np.exp(best.x), rtol=0.02)
    # the posterior belongs to what was learned
    K = oracle.matern32(X, X, model.kernel_.length_scale) + nugget * np.eye(len(X))
    fitted = K @ np.linalg.solve(K + model.likelihood_.variance * np.eye(len(X)), y)
    np.testing.assert_allclose(at_rows(model.posterior_, X)[0], fitted, atol=1e-3)


def test_hyperparameters_in_jax_are_those_of_the_search_space():
    X = np.random.default_rng(0).uniform(size=(9, 2))
    likelihoods = Ordinal(cuts=[-1.0, 0.5, 2.0]), Tweedie(power=1.3, dispersion=0.7), Poisson()
    for likelihood in likelihoods:
        kernel = RBF([0.5, 2.0], variance=3.0) + 2.0 * Matern32(1.0)
        told = {
            "kernel__k1__variance": bounded(3.0, 1.0, 4.0),
            "kernel__k2__factor": fixed(2.0),
            "nugget": positive(0.1, prior=(-1.0, 0.5)),
        }
        learned = Hyperparameters(Model(kernel, 0.1, likelihood), told, X)
        z = learned.start + np.linspace(0.5, 2.0, len(learned.start))
        with float64():
            process, found = learned.parts(jnp.asarray(z))
        model = learned.model(z)
        names = [coordinate.name for coordinate in learned.space.coordinates]
        assert "kernel__k2__factor" not in names
        assert model.kernel.k1.variance == 4.0  # which is its upper bound
        assert process.nugget == pytest.approx(model.nugget)
        prior = -0.5 * ((np.log(model.nugget) + 1.0) / 0.5) ** 2
        assert float(learned.log_prior(z)) == pytest.approx(prior, rel=1e-5)
        for ours, plain in ((process.kernel, model.kernel), (found, model.likelihood)):
            for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)


def test_no_nugget_stays_none():
    learned = Hyperparameters(Model(RBF(0.5), 0.0, Poisson()), {}, np.random.default_rng(0).uniform(size=(9, 2)))
    assert "nugget" not in [coordinate.name for coordinate in learned.space.coordinates]
    with float64():
        process, _ = learned.parts(jnp.asarray(learned.start + 1.0))
    assert float(process.nugget) == learned.model(learned.start + 1.0).nugget == 0.0


def test_inducing_points_move_to_where_the_bound_is_larger():
    X, y = gaussian_case()
    settings = {"n_inducing": 4, "inducing": "kmeans", "batch_size": len(X), "epochs": 400}
    model = SVGP(Gaussian(NOISE), KERNEL, nugget=NUGGET, learn_inducing=True, **settings).fit(X, y)
    noise = oracle.gaussian(y, NOISE)
    first = choose_points("kmeans", X, 4, np.random.RandomState(0)).X
    last = np.asarray(model.posterior_.inducing.points.X)
    before, after = (Dense.at(X, points, noise).maximum(constant=False)[0] for points in (first, last))
    assert model.elbo_ == pytest.approx(after, abs=0.01)
    assert after > before + 1.0
