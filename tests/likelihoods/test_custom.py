"""A user's own log-density: it gives what SciPy's distribution of the same formula gives."""

from __future__ import annotations

import inspect
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy import special, stats
from sklearn.base import clone

import npvi
from npvi.likelihoods import (
    Bernoulli,
    Beta,
    Custom,
    Poisson,
    StudentT,
    as_likelihood,
    expectations,
)
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.expectations import _by_rule
from npvi.likelihoods.integrals.learning import parameter_gradient
from npvi.likelihoods.integrals.moments import conditional_moments, predictive_moments
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from npvi.likelihoods.support import Support
from npvi.parameters import Interval, bounded, fixed, positive
from npvi.predictive import Predictive
from tests.support import likelihood_references as references
from tests.support.likelihood_cases import integrals, normal_nodes


def student(y, f, scale):
    z = (y - f) / scale
    return jnp.log(0.375) - jnp.log(scale) - 2.5 * jnp.log1p(z**2 / 4.0)


def gamma(y, f, shape):
    return shape * (jnp.log(shape) - f) + (shape - 1.0) * jnp.log(y) - shape * y * jnp.exp(-f) - gammaln(shape)


def beta(y, f, c):
    return Beta(c).log_prob(y, f)  # log Γ of f itself: JAX's own takes minutes to compile with its derivatives


def power(y, f):
    return f + jnp.expm1(f) * jnp.log(y)


def poisson(y, f):
    return y * f - jnp.exp(f) - gammaln(y + 1.0)


def bernoulli(y, f):
    return jax.nn.log_sigmoid(jnp.where(y > 0.0, f, -f))


def zero_inflated(y, f, zeros):
    counts = jnp.log1p(-zeros) + poisson(y, f)
    return jnp.where(y > 0.0, counts, jnp.logaddexp(jnp.log(zeros), counts))


def log_scale(y, f):
    """f is the logarithm of the standard deviation: P(Y ≤ y | f) doesn't fall with f."""
    return -0.5 * jnp.log(2.0 * jnp.pi) - f - 0.5 * y**2 * jnp.exp(-2.0 * f)


#: a formula as a user writes it, the distribution of SciPy that it is, and responses
PAIRS = {
    "student": (Custom(student, {"scale": 0.4}), lambda f: stats.t(4.0, f, 0.4), [-1.0, 0.3, 400.0]),
    "gamma": (
        Custom(gamma, {"shape": 0.7}, "positive"),
        lambda f: stats.gamma(0.7, scale=np.exp(f) / 0.7),
        [0.01, 1.0, 40.0],
    ),
    "beta": (
        Custom(beta, {"c": 9.0}, "unit"),
        lambda f: stats.beta(9.0 * special.expit(f), 9.0 * special.expit(-f)),
        [0.1, 0.5, 0.99],
    ),
    "power": (Custom(power, support="unit"), lambda f: stats.beta(np.exp(f), 1.0), [0.1, 0.5, 0.99]),
    "poisson": (Custom(poisson, support="counts"), lambda f: stats.poisson(np.exp(f)), [0.0, 3.0, 100.0]),
    "bernoulli": (Custom(bernoulli, support="binary"), lambda f: stats.bernoulli(special.expit(f)), [0.0, 1.0]),
    "zero-inflated": (
        Custom(zero_inflated, {"zeros": 0.3}, "counts"),
        lambda f: references.WithZeros(0.3, stats.poisson(np.exp(f))),
        [0.0, 1.0, 200.0],
    ),
}
every_pair = pytest.mark.parametrize(("custom", "given", "y"), PAIRS.values(), ids=PAIRS)
#: an interval, counts, the whole line: what takes numerical inversion, seconds each
_SLOW = ("power", "zero-inflated", "student")
some_pairs = pytest.mark.parametrize(("custom", "given", "y"), [PAIRS[name] for name in _SLOW], ids=_SLOW)
F = np.array([-6.0, -1.5, 0.1, 0.7, 4.0])
M, V = np.array([-1.0, 0.5, 2.0]), np.array([0.01, 1.0, 3.0])


@pytest.mark.slow
@some_pairs
def test_given_f(custom, given, y):
    custom.validate()
    mean, variance = conditional_moments(custom, F)
    np.testing.assert_allclose(mean, given(F).mean(), rtol=1e-4)
    np.testing.assert_allclose(variance, given(F).var(), rtol=1e-4)
    at = np.array([-1.0, *y, 2.5])[:, None]
    np.testing.assert_allclose(custom.cdf(at, F), given(F).cdf(at), atol=1e-4)
    draws = custom.sample(np.random.default_rng(0), np.full(4096, 0.7))
    assert draws.dtype == np.float64
    assert not custom.support.invalid(draws).any()
    known = given(0.7)
    if custom.support.discrete:
        assert abs(draws.mean() - known.mean()) < 5 * np.sqrt(known.var() / len(draws))
    else:
        assert stats.kstest(draws, known.cdf).pvalue > 1e-4


@pytest.mark.slow
@some_pairs
def test_with_f_integrated_out(custom, given, y):
    f, weights = normal_nodes(M, V)
    known = given(f)
    mean, variance = predictive_moments(custom, M, V)
    expected = np.sum(known.mean() * weights, axis=1)
    np.testing.assert_allclose(mean, expected, rtol=1e-4)
    spread = np.sum((known.mean() - expected[:, None]) ** 2 * weights, axis=1)
    np.testing.assert_allclose(variance, np.sum(known.var() * weights, axis=1) + spread, rtol=1e-4)

    def below(at):
        return np.sum(known.cdf(at) * weights, axis=1)

    for level in y:
        np.testing.assert_allclose(predictive_cdf(custom, np.full(3, level), M, V), below(level), atol=2e-5)
    for q in (0.02, 0.9):
        got = predictive_quantile(custom, q, M, V)
        if custom.support.discrete:
            np.testing.assert_array_equal(got, np.floor(got))
            assert np.all(below(got[:, None]) >= q - 1e-9)
            assert np.all(below(got[:, None] - 1.0) < q)
        else:
            # a ten-thousandth to either side, as far as the response's own scale goes
            beside = 1e-4 * np.maximum(np.abs(got), 1e-8)[:, None]
            assert np.all(below(got[:, None] - beside) < q)
            assert np.all(below(got[:, None] + beside) > q)


@every_pair
def test_inference(custom, given, y):
    y = np.array(y)
    m, v = np.full(len(y), 0.4), np.full(len(y), 0.8)

    def log_density(f):
        known = given(f)
        return known.logpmf(y[:, None]) if custom.support.discrete else known.logpdf(y[:, None])

    f, weights = normal_nodes(m, v)
    z = (f - 0.4) / np.sqrt(0.8)
    value, gradient, precision = expectations(custom, y, m, v)
    at = log_density(f) * weights
    np.testing.assert_allclose(value, np.sum(at, axis=1), rtol=1e-8)
    # derivatives in m and v by those of the normal density
    np.testing.assert_allclose(gradient, np.sum(at * z, axis=1) / np.sqrt(0.8), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(precision, -np.sum(at * (z**2 - 1.0), axis=1) / 0.8, rtol=1e-8, atol=1e-12)
    expected = integrals(log_density, m, v, custom.initial_latent(y)[:, None])
    np.testing.assert_allclose(predictive_log_prob(custom, y, m, v), expected, rtol=1e-8)
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
        (Custom(student, {"wide": 1.0}), r"must be a function of y, f and of params \(wide\) written with"),
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


def test_the_base_class_of_likelihoods_is_at_hand_and_points_to_custom():
    assert npvi.Likelihood is npvi.likelihoods.Likelihood
    assert all(isinstance(as_likelihood(one), npvi.Likelihood) for one in ("poisson", "gaussian", log_scale))
    for wrong in ((log_scale,), (log_scale, {"scale": 1.0})):
        with pytest.raises(TypeError, match=r"base class.*write npvi\.likelihoods\.Custom\(log_prob, params\)"):
            npvi.Likelihood(*wrong)
    # what help and completion show is the subclass's own
    assert list(inspect.signature(npvi.likelihoods.StudentT).parameters)[:1] != ["args"]


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


def test_dir_has_what_users_need_and_nothing_else():
    code = "import npvi; npvi.GPRegressor; print(*(name for name in dir(npvi) if not name.startswith('__')))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert shown == sorted(npvi.__all__)
    assert "__version__" in dir(npvi)


def _cauchy(y, f, scale):
    return -jnp.log(jnp.pi * scale) - jnp.log1p(((y - f) / scale) ** 2)


def _student(y, f, df):
    size = gammaln((df + 1.0) / 2.0) - gammaln(df / 2.0) - 0.5 * jnp.log(df * jnp.pi)
    return size - 0.5 * (df + 1.0) * jnp.log1p((y - f) ** 2 / df)


@pytest.mark.parametrize(
    ("likelihood", "std"),
    [
        (Custom(_cauchy, {"scale": 0.5}), np.inf),
        (Custom(_student, {"df": 2.0}), np.inf),
        (Custom(_student, {"df": 3.0}), np.sqrt(3.0 + 0.2)),
    ],
    ids=["cauchy", "two degrees of freedom", "three"],
)
def test_moments_that_do_not_exist(likelihood, std):
    dist = Predictive(likelihood, [0.5], [0.2])
    np.testing.assert_allclose(dist.std, std, rtol=1e-5)
    np.testing.assert_allclose(dist.mean, 0.5, rtol=1e-6)
