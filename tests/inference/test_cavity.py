"""What a posterior says of observations that are taken out of it, against fits without them."""

from __future__ import annotations

import numpy as np
import pytest

import npvi
from npvi.inference import Start
from npvi.inference.cavity import places_of, without_place
from npvi.learning.objective import BoundObjective
from npvi.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson

KERNEL = npvi.kernels.Matern32(0.3, 1.5)
NUGGET = 0.2


def survey(likelihood, n_places=60, visits=5, seed=0):
    """300 rows at 60 places."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.uniform(size=(n_places, 2)), visits, axis=0)
    f = 0.5 + np.repeat(np.sin(6.0 * X[::visits, 0]), visits) + np.sqrt(NUGGET) * rng.standard_normal(len(X))
    return X, likelihood.sample(rng, f)


def fitted(likelihood, X, y):
    settings = {"kernel": KERNEL, "nugget": NUGGET, "learn": False, "n_neighbors": len(X) - 1}
    return npvi.GPRegressor(likelihood, **settings).fit(X, y)


def left_out(model, most):
    start = Start(model.posterior_.mean, model.fitted_.marginal_variance)
    objective = BoundObjective(model.prior_.X, model.data_, model.basis_, model.graph_, start, careful=True)
    return objective.leave_place_out(model.fitted_.model, most)


@pytest.mark.parametrize(
    "likelihood",
    [Gaussian(0.3), Poisson(), Poisson("softplus", knee=3.0), NegativeBinomial(2.0), Bernoulli()],
    ids=["gaussian", "exp", "softplus", "negative binomial", "bernoulli"],
)
def test_a_place_left_out_is_a_fit_without_it(likelihood):
    X, y = survey(likelihood)
    model = fitted(likelihood, X, y)
    found = left_out(model, 12)
    order = model.graph_.order
    assert len(np.unique(found.place)) == 12
    off = []
    for place in np.unique(found.place):
        rows = order[found.rows[found.place == place]]
        assert len(rows) == 5
        assert (X[rows] == X[rows[0]]).all()
        others = np.setdiff1d(np.arange(len(X)), rows)
        dist = fitted(likelihood, X[others], y[others]).predict_dist(X[rows])
        variance = dist.latent_var + dist.nugget
        mean, own = found.mean[found.place == place], found.variance[found.place == place]
        off.append((mean - dist.latent_mean) / np.sqrt(variance))
        # exact for Gaussian noise, where the sites of others don't change with what is left out
        np.testing.assert_allclose(own, variance, rtol=1e-6 if isinstance(likelihood, Gaussian) else 0.1)
    largest, typical = np.abs(off).max(), np.sqrt(np.mean(np.square(off)))
    assert (largest < 1e-5) if isinstance(likelihood, Gaussian) else (largest < 0.25 and typical < 0.1)


def test_without_repeated_places_each_row_is_its_own():
    X, y = survey(Poisson(), n_places=200, visits=1)
    found = left_out(fitted(Poisson(), X, y), 10)
    np.testing.assert_array_equal(np.sort(found.rows), np.arange(200))


def test_a_cavity_knows_no_less_than_the_prior():
    prior = np.array([[2.0, 1.5], [1.5, 2.0]])
    # sites that say more than the posterior knows: what is left would be less than nothing
    mean, variance = without_place(np.zeros(2), np.zeros(2), np.full(2, 9.0), 0.5 * prior, prior)
    np.testing.assert_allclose(variance, 2.0)
    np.testing.assert_allclose(mean, 0.0)


def test_places_are_rows_with_equal_coordinates():
    X = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0], [-0.0, 2.0]])
    assert [rows.tolist() for rows in places_of(X)] == [[0, 2], [1, 3]]
