"""Priors of hyper-parameters: penalised complexity, in the data's own units, and wherever a length scale stands."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

import npvi
from npvi.inference.data import Data
from npvi.kernels import RBF, Matern, Matern12, Matern32, Sphere, Subset
from npvi.learning.learner import Learner, Stacked, _Found, with_smoothness
from npvi.learning.objective import Model
from npvi.learning.start import weak_priors
from npvi.learning.table import Table
from npvi.likelihoods import Gaussian, Ordinal, Poisson
from npvi.parameters import PenalisedComplexity


def probability(prior, low, high):
    """That log x is between two numbers, by quadrature of the density."""
    density = lambda z: np.exp(prior.log_density(z))  # noqa: E731
    return integrate.quad(density, low, high, limit=200)[0] / integrate.quad(density, -60.0, 60.0, limit=500)[0]


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_pc_says_how_likely_what_is(share):
    length = npvi.pc(below=3.0, probability=share).prior
    assert probability(length, -60.0, np.log(3.0)) == pytest.approx(share, abs=1e-6)
    deviation = npvi.pc(above=2.0, probability=share).prior  # of a standard deviation, for its square
    assert probability(deviation, np.log(4.0), 60.0) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("prior", [PenalisedComplexity(0.5, 3.0), PenalisedComplexity(-0.5, 0.2)])
def test_slopes_against_differences(prior):
    for z in (-3.0, 0.1, 4.0):
        difference = (prior.log_density(z + 1e-5) - prior.log_density(z - 1e-5)) / 2e-5
        assert prior.slope(z) == pytest.approx(difference, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "pc needs either below= "),
        ({"below": 1.0, "above": 1.0}, "pc needs either below= "),
        ({"below": -1.0}, "below must be a positive number from 1e-50 to 1e50, got -1.0"),
        ({"above": 1.0, "probability": 1.5}, "probability must be between 0 and 1, got 1.5"),
    ],
)
def test_pc_refuses(given, message):
    with pytest.raises(ValueError, match=message):
        npvi.pc(**given)


def test_a_prior_of_ones_own_takes_the_place_of_the_weak_one_and_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 1))
    y = np.sin(9.0 * X[:, 0]) + 0.3 * rng.standard_normal(80)
    long = npvi.GPRegressor(kernel=Matern32(npvi.pc(below=50.0, probability=1e-6), 1.0)).fit(X, y)
    free = npvi.GPRegressor(kernel=Matern32(0.3, 1.0)).fit(X, y)
    assert long.kernel_.length_scale > 1.5 * free.kernel_.length_scale
    long.save(tmp_path / "model.npvi")
    assert npvi.load(tmp_path / "model.npvi").kernel.length_scale == long.kernel.length_scale


def test_weak_priors_stand_wherever_there_is_a_length_scale():
    X = np.random.default_rng(0).uniform(size=(50, 3))
    kernel = Sphere(Matern()) + Subset(RBF(2.0), [2]) * Subset(Matern12([1.0, 1.0]), [0, 1])
    found = weak_priors(Model(kernel, 0.1, Poisson()), X, np.ones(len(X)), 2.0)
    assert set(found) == {
        f"kernel__{part}__{name}"
        for part in ("k1__kernel", "k2__k1__kernel", "k2__k2__kernel")
        for name in ("length_scale", "variance")
    } | {"nugget"}
    assert len(found["kernel__k2__k2__kernel__length_scale"]) == 2
    assert found["kernel__k2__k1__kernel__variance"][0].mode == 4.0
    assert found["kernel__k2__k2__kernel__variance"][0].mode == 1.0  # it only scales the other factor


def test_without_them_it_is_maximum_likelihood():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(60, 2))
    y = rng.standard_normal(60)
    flat = npvi.GPRegressor(kernel="matern32", hyperprior=None).fit(X, y)
    weak = npvi.GPRegressor(kernel="matern32").fit(X, y)
    assert flat.elbo_ >= weak.elbo_ - 0.05  # which has a prior to please, too
    with pytest.raises(ValueError, match="hyperprior must be one of 'weak', None; got 'strong'"):
        npvi.GPRegressor(hyperprior="strong").fit(X, y)


# -- smoothness -------------------------------------------------------------------------------------------------------


def test_every_smoothness_that_is_open_is_found():
    X = np.zeros((1, 3))
    kernel = Sphere(Matern()) * Subset(Matern(smoothness=0.5), [2]) + 2.0 * Subset(Matern(), [2])
    names = list(kernel.choices(X))
    assert names == ["k1__k1__kernel__smoothness", "k2__kernel__kernel__smoothness"]
    model = with_smoothness(Model(kernel, 0.1, Poisson()), X, 2.5)
    deep = model.kernel.get_params(deep=True)
    assert [deep[name] for name in names] == [2.5, 2.5]
    assert deep["k1__k2__kernel__smoothness"] == 0.5
    again = with_smoothness(model, X, 0.5).kernel.get_params(deep=True)
    assert [again[name] for name in names] == [0.5, 0.5]


@pytest.mark.parametrize("truth", [0.5, 2.5])
def test_smoothness_is_learned_on_the_sphere(truth):
    rng = np.random.default_rng(0)
    place = np.column_stack([rng.uniform(0.0, 20.0, 700), rng.uniform(40.0, 55.0, 700)])
    dense = Sphere(Matern(500.0, 1.0, truth))
    K = npvi.kernels.matrix(dense, place) + 1e-8 * np.eye(700)
    y = np.linalg.cholesky(K) @ rng.standard_normal(700) + 0.05 * rng.standard_normal(700)
    model = npvi.GPRegressor(kernel=Sphere(Matern(300.0))).fit(place, y)
    assert model.kernel_.kernel.smoothness == truth


@pytest.mark.parametrize("in_doubt", [False, True])
def test_more_rows_say_which_smoothness_leads_only_where_the_part_cannot(monkeypatch, in_doubt):
    """All rows see near ones most: what is best beside the data may be far off in a gap."""
    X, y = np.random.default_rng(0).uniform(size=(8, 2)), np.arange(8.0)
    table = Table(X, Data(Gaussian(), y), np.ones((8, 1)))
    models = [Model(Matern(smoothness=nu), 0.1, Gaussian()) for nu in (0.5, 1.5)]
    best, second = (_Found(model, None, value=value) for model, value in zip(models, (1.0, 2.0)))
    asked = []
    learner = Learner({}, lambda points: None)
    monkeypatch.setattr(learner, "climb", lambda table, found, *a, **k: found)
    monkeypatch.setattr(learner, "rounds", lambda table, found: found)
    monkeypatch.setattr(learner, "stacked", lambda table, *both, **k: asked.append(both) or Stacked(0.3, 1.0))
    found = learner.companion(table, best, second, in_doubt)
    expected = (second, best) if in_doubt else (best, second)
    assert asked == [expected]
    assert tuple(found) == expected


def test_ends_of_categories_that_nobody_chose_have_priors():
    """Nothing else holds them: a step grew to 138, and each evaluation of the bound with it."""
    ordinal, y = Ordinal(cuts=[-1.0, 0.0, 2.0]), np.array([1.0, 2.0, 2.0, 3.0])
    found = weak_priors(Model(Matern32(), 0.1, ordinal), np.ones((4, 1)) * y[:, None], y, 1.0)
    assert found["likelihood__cuts"] == [(-1.0, 0.5), (0.0, 0.5), None]
    all_seen = weak_priors(Model(Matern32(), 0.1, ordinal), y[:, None], np.arange(4.0), 1.0)
    assert all_seen["likelihood__cuts"] == [None, None, None]
