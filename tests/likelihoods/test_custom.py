"""A user's own log-density: it gives what the built-in likelihood of the same formula gives."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import npvi
from npvi.likelihoods import (
    Bernoulli,
    Beta,
    Custom,
    Gamma,
    Poisson,
    StudentT,
    ZeroInflatedPoisson,
    as_likelihood,
    expectations,
)
from npvi.likelihoods.density import predictive_log_prob
from npvi.likelihoods.expectations import _by_rule
from npvi.likelihoods.learning import parameter_gradient
from npvi.likelihoods.moments import conditional_moments, predictive_moments
from npvi.likelihoods.quantiles import predictive_cdf, predictive_quantile
from npvi.likelihoods.support import Support
from npvi.parameters import Interval, bounded, fixed, positive


def student(y, f, scale):
    return StudentT(scale, 4.0).log_prob(y, f)


def log_scale(y, f):
    """f is the logarithm of the standard deviation: P(Y ≤ y | f) doesn't fall with f."""
    return -0.5 * jnp.log(2.0 * jnp.pi) - f - 0.5 * y**2 * jnp.exp(-2.0 * f)


PAIRS = {
    "student": (Custom(student, {"scale": 0.4}), StudentT(0.4, 4.0), [-1.0, 0.3, 400.0]),
    "gamma": (
        Custom(lambda y, f, shape: Gamma(shape).log_prob(y, f), {"shape": 0.7}, "positive"),
        Gamma(0.7),
        [0.01, 1.0, 40.0],
    ),
    "beta": (Custom(lambda y, f, c: Beta(c).log_prob(y, f), {"c": 9.0}, "unit"), Beta(9.0), [0.1, 0.5, 0.99]),
    "poisson": (Custom(Poisson().log_prob, support="counts", name="poisson"), Poisson(), [0.0, 3.0, 100.0]),
    "bernoulli": (Custom(Bernoulli().log_prob, support="binary"), Bernoulli(), [0.0, 1.0]),
    "zero-inflated": (
        Custom(lambda y, f, zeros: ZeroInflatedPoisson(zeros).log_prob(y, f), {"zeros": 0.3}, "counts"),
        ZeroInflatedPoisson(0.3),
        [0.0, 1.0, 200.0],
    ),
}
every_pair = pytest.mark.parametrize(("custom", "known", "y"), PAIRS.values(), ids=PAIRS)
#: an interval, counts, the whole line: what takes numerical inversion, seconds each
_SLOW = ("beta", "zero-inflated", "student")
some_pairs = pytest.mark.parametrize(("custom", "known", "y"), [PAIRS[name] for name in _SLOW], ids=_SLOW)
F = np.array([-6.0, -1.5, 0.1, 0.7, 4.0])
M, V = np.array([-1.0, 0.5, 2.0]), np.array([0.01, 1.0, 3.0])


@pytest.mark.slow
@some_pairs
def test_given_f(custom, known, y):
    custom.validate()
    for got, expected in zip(conditional_moments(custom, F), conditional_moments(known, F)):
        np.testing.assert_allclose(got, expected, rtol=1e-4)
    at = np.array([-1.0, *y, 2.5])[:, None]
    np.testing.assert_allclose(custom.cdf(at, F), known.cdf(at, F), atol=1e-4)
    f = np.full(5000, 0.7)
    draws, reference = (x.sample(np.random.default_rng(seed), f) for seed, x in enumerate((custom, known)))
    assert draws.dtype == np.float64
    assert not custom.support.invalid(draws).any()
    if custom.support.discrete:
        assert abs(draws.mean() - reference.mean()) < 5 * reference.std() / 50
    else:
        assert stats.kstest(draws, lambda x: known.cdf(x, 0.7)).pvalue > 1e-4


@pytest.mark.slow
@some_pairs
def test_with_f_integrated_out(custom, known, y):
    for got, expected in zip(predictive_moments(custom, M, V), predictive_moments(known, M, V)):
        np.testing.assert_allclose(got, expected, rtol=1e-4)
    for level in y:
        at = np.full(3, level)
        np.testing.assert_allclose(predictive_cdf(custom, at, M, V), predictive_cdf(known, at, M, V), atol=2e-5)
    for q in (0.02, 0.9):
        got, expected = predictive_quantile(custom, q, M, V), predictive_quantile(known, q, M, V)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-12)
        assert np.all(got == np.floor(got)) or not custom.support.discrete


@every_pair
def test_inference(custom, known, y):
    y = np.array(y)
    m, v = np.full(len(y), 0.4), np.full(len(y), 0.8)
    for got, expected in zip(expectations(custom, y, m, v), expectations(known, y, m, v)):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(predictive_log_prob(custom, y, m, v), predictive_log_prob(known, y, m, v), rtol=1e-8)
    start = custom.initial_latent(y)
    assert np.all(np.isfinite(start))
    assert np.all(np.diff(start[np.argsort(y)]) > 0)


def test_resolution_follows_the_scale():
    for scale in (1e-3, 0.1, 30.0):
        estimate = Custom(student, {"scale": scale}).resolution
        assert 0.5 < estimate / StudentT(scale, 4.0).resolution < 1.5
    for other in (Poisson(), Bernoulli()):
        assert 0.3 < Custom(other.log_prob, support=other.support).resolution < 1.5
    # polynomials are smooth at any scale, kinks at none: then their width counts
    gaussian = Custom(lambda y, f: -0.5 * jnp.log(2.0 * jnp.pi * 9.0) - (y - f) ** 2 / 18.0)
    assert gaussian.resolution == pytest.approx(3.0, rel=0.1)
    assert 0.005 < Custom(lambda y, f: -jnp.abs(y - f) / 0.3 - jnp.log(0.6)).resolution < 0.1


def test_responses_that_do_not_grow_with_f():
    likelihood, z = Custom(log_scale), np.linspace(-9.0, 9.0, 4001)
    m, v = np.array([-1.0, 0.5]), np.array([0.01, 0.5])
    for y in (-1.0, 0.3):
        expected = [
            np.trapezoid(stats.norm.cdf(y, 0.0, np.exp(a + np.sqrt(b) * z)) * stats.norm.pdf(z), z)
            for a, b in zip(m, v)
        ]
        np.testing.assert_allclose(predictive_cdf(likelihood, np.full(2, y), m, v), expected, atol=1e-8)
    at = predictive_quantile(likelihood, 0.9, m, v)
    np.testing.assert_allclose(predictive_cdf(likelihood, at, m, v), 0.9, atol=1e-9)
    np.testing.assert_allclose(predictive_moments(likelihood, m, v)[1], np.exp(2 * m + 2 * v), rtol=1e-6)


def test_other_supports_and_places_far_away():
    # what is above 2 is exponential; narrow noise a million away from 0
    shifted = Custom(
        lambda y, f: -f - (y - 2.0) * jnp.exp(-f), support=Support("above", "more than 2", lower=2.0, open_lower=True)
    )
    mean, variance = conditional_moments(shifted, np.array([0.5]))
    np.testing.assert_allclose([mean[0], variance[0]], [2.0 + np.exp(0.5), np.exp(1.0)], rtol=1e-8)
    narrow = Custom(student, {"scale": 1e-3})
    mean, variance = conditional_moments(narrow, np.array([1e6]))
    np.testing.assert_allclose([mean[0], variance[0]], [1e6, 2e-6], rtol=1e-4)
    assert narrow.initial_latent(np.array([1e6]))[0] == pytest.approx(1e6, rel=1e-8)


def test_parameters_are_like_those_of_other_likelihoods():
    likelihood = Custom(student, {"scale": positive(0.5)}, name="student")
    assert likelihood.scale == 0.5
    assert likelihood.domains == {"scale": Interval(0.0)}
    assert likelihood.get_params()["scale"] == 0.5
    again = clone(likelihood)
    assert again is not likelihood
    assert repr(again) == repr(likelihood)
    assert again.set_params(scale=2.0) is again
    assert (again.scale, likelihood.scale) == (2.0, 0.5)
    assert again.params["scale"].lower == 0.0
    assert again.set_params(params={"scale": fixed(3.0)}).scale == 3.0
    assert again.replace(support="positive", scale=1.0).support.name == "positive"
    assert Custom(student, {"scale": bounded(0.0, -1.0, 1.0)}).domains["scale"] == Interval(-1.0, 1.0)
    with pytest.raises(ValueError, match=r"Custom has no parameter 'scales'; it has log_prob, .*, scale"):
        likelihood.set_params(scales=1.0)
    with pytest.raises(AttributeError, match="has no attribute 'scales'"):
        _ = likelihood.scales
    model = npvi.GPRegressor(likelihood).set_params(likelihood__scale=0.1)
    assert model.get_params()["likelihood__scale"] == 0.1


def test_leaves_are_the_parameters():
    likelihood = Custom(student, {"scale": positive(0.5)})
    assert [float(leaf) for leaf in jax.tree.leaves(likelihood)] == [0.5]
    doubled = jax.tree.map(lambda leaf: 2.0 * leaf, likelihood)
    assert float(doubled.scale) == 1.0
    y = np.zeros(10)
    expectations(likelihood, y, y, np.full(10, 0.01))
    before = _by_rule._cache_size()
    expectations(likelihood.replace(scale=0.7), y, y, np.full(10, 0.01))
    assert _by_rule._cache_size() == before
    y, m, v = np.array([0.3, -2.0]), np.array([0.1, 0.2]), np.array([0.5, 0.1])
    slope = parameter_gradient(likelihood, y, m, v)["scale"]
    known = parameter_gradient(StudentT(0.5, 4.0), y, m, v)["scale"]
    assert slope == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (Custom(student, {"scale": -1.0}), r"Custom \(student\): scale must be positive, got -1.0 .*bounded"),
        (Custom(student, {"scale": bounded(3.0, 0.0, 1.0)}), "scale must be between 0 and 1, got 3.0"),
        (Custom(student, {"scale": "wide"}), "scale must be positive, got 'wide'"),
        (Custom(student, {"f": 1.0}), "a parameter cannot be called 'f'"),
        (Custom(student, {"params": 1.0}), "a parameter cannot be called 'params'"),
        (Custom(student), r"must be a function of y, f written with jax.numpy. It said: TypeError: .*scale"),
        (Custom(lambda y, f: jnp.zeros(2)), r"must return one number .* shape \(2,\)"),
        (Custom(lambda y, f: jnp.log(f), name="mine"), r"\(mine\): log_prob is nan at y=-3, f=-5"),
        (
            Custom(lambda y, f: jnp.where(f > 0, jnp.sqrt(f), 0.0) - y**2),
            "the derivative of log_prob in f is nan at y=-3, f=-5",
        ),
    ],
)
def test_what_makes_no_sense_is_said(likelihood, message):
    with pytest.raises(ValueError, match=message):
        likelihood.validate()


def test_responses_for_which_it_is_not_a_number():
    likelihood = Custom(lambda y, f: -0.5 * (y - f) ** 2 - 0.5 * jnp.log(2 * jnp.pi) + 0.0 * jnp.sqrt(50.0 - y))
    with pytest.raises(ValueError, match="log_prob is nan at y=60, f=-2"):
        likelihood.check_response([1.0, 60.0])


def test_what_is_not_normalised_is_warned_about():
    with pytest.warns(UserWarning, match="p.y | f. adds up to 2.507 over y at f=-1"):
        Custom(lambda y, f: -0.5 * (y - f) ** 2).validate()


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"params must map names to numbers, got 3.0"):
        Custom(student, 3.0)
    with pytest.raises(ValueError, match="support must be one of 'real', 'positive', 'counts', 'binary', 'unit'"):
        Custom(student, support="integers")


def test_functions_become_likelihoods():
    likelihood = as_likelihood(log_scale)
    assert isinstance(likelihood, Custom)
    assert likelihood.function is log_scale
    assert npvi.Likelihood is Custom


def test_no_rows():
    likelihood, nothing = Custom(student, {"scale": 0.5}), np.empty(0)
    assert likelihood.cdf(nothing, nothing).shape == (0,)
    assert likelihood.sample(np.random.default_rng(0), nothing).shape == (0,)
    assert predictive_quantile(likelihood, 0.3, nothing, nothing).shape == (0,)
    assert predictive_moments(likelihood, nothing, nothing)[0].shape == (0,)
    assert predictive_cdf(likelihood, nothing, nothing, nothing).shape == (0,)


def test_the_name_costs_no_import():
    code = "import npvi, sys; assert 'Likelihood' in dir(npvi); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
