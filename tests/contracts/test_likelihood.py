"""What every likelihood that has a name must do, from nothing but its own log p(y | f).

A new file in `likelihoods/families` is here by itself. Distributions of SciPy, where there is one, are in
`tests/likelihoods`, other parameters than the default ones too.
"""

from __future__ import annotations

import json
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from npvi.config import from_config, to_config
from npvi.likelihoods import LIKELIHOODS, expectations
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.moments import conditional_moments, predictive_moments
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from npvi.runtime.precision import float64

every_name = pytest.mark.parametrize("name", sorted(LIKELIHOODS))
LATENTS = np.array([-1.5, 0.0, 0.7, 2.0])
M, V = 0.3, 0.6


def row_of(likelihood):
    """A number for each of the extras: one that it may be."""
    return {
        name: next(
            number
            for number in (2.0, 0.5, 0.0)
            if not (name in likelihood.extra_supports and likelihood.extra_supports[name].invalid(number))
        )
        for name in likelihood.extras
    }


def log_probs(likelihood, y, f):
    """log p(y | f), which is written for one observation, of all pairs."""
    row = row_of(likelihood)
    y, f = jnp.broadcast_arrays(y, f)
    each = jax.vmap(lambda y, f: likelihood.log_prob(y, f, **row))
    return each(y.ravel(), f.ravel()).reshape(y.shape)


def moments(likelihood):
    """Mean and variance of y at each of `LATENTS`."""
    row = {extra: np.full(len(LATENTS), number) for extra, number in row_of(likelihood).items()}
    return conditional_moments(likelihood, LATENTS, row)


@cache
def mass(name):
    """Responses, and the probability of each (of a stretch around it) for every one of `LATENTS`."""
    likelihood = LIKELIHOODS[name]()
    support, row = likelihood.support, row_of(likelihood)
    if support.discrete:
        y = np.arange(2000.0)
        y = y[: 1 + np.argmax(likelihood.cdf(y, LATENTS.max(), **row) > 1.0 - 1e-14)][:, None] + 0.0 * LATENTS
        width = np.ones(y.shape)
    else:
        t = np.linspace(-36.0, 36.0, 6_001)[:, None]
        if np.isfinite(support.upper):
            y = support.lower + (support.upper - support.lower) / (1.0 + np.exp(-t))
            slope = (support.upper - support.lower) / (2.0 + np.exp(t) + np.exp(-t))
        elif np.isfinite(support.lower):
            y, slope = support.lower + np.exp(t), np.exp(t)
        else:
            scale = np.sqrt(moments(likelihood)[1])
            y, slope = LATENTS + scale * np.sinh(t), scale * np.cosh(t)
        y, width = y + 0.0 * LATENTS, slope * (t[1] - t[0]) + 0.0 * LATENTS
        inside = ~support.invalid(y).any(axis=1)
        y, width = y[inside], width[inside]
    if support.atom is not None:
        y, width = (
            np.vstack([np.full(len(LATENTS), first), rest]) for first, rest in ((support.atom, y), (1.0, width))
        )
    with float64():
        log_prob = np.asarray(log_probs(likelihood, y, LATENTS))
    return y, np.exp(log_prob) * width


@every_name
def test_probabilities_sum_to_one(name):
    np.testing.assert_allclose(mass(name)[1].sum(axis=0), 1.0, rtol=5e-5)


@every_name
def test_cdf_is_the_sum_of_probabilities(name):
    likelihood = LIKELIHOODS[name]()
    y, p = mass(name)
    here = likelihood.cdf(y, LATENTS, **row_of(likelihood))
    atoms = likelihood.support.discrete | (y == likelihood.support.atom)
    np.testing.assert_allclose(here, np.cumsum(p, axis=0) - np.where(atoms, 0.0, 0.5 * p), atol=5e-4)
    there = likelihood.cdf(y[:, :1], LATENTS, **row_of(likelihood))
    assert np.all(np.diff(there, axis=1) <= 1e-15)  # it never increases with f
    assert np.all(likelihood.cdf(np.array([[-1e300]]), LATENTS, **row_of(likelihood)) == 0.0)


@every_name
def test_moments_are_those_of_the_density(name):
    likelihood = LIKELIHOODS[name]()
    y, p = mass(name)
    mean, variance = moments(likelihood)
    np.testing.assert_allclose(mean, (y * p).sum(axis=0), rtol=5e-5, atol=1e-9)
    np.testing.assert_allclose(variance, ((y - mean) ** 2 * p).sum(axis=0), rtol=1e-4)


@every_name
def test_draws_follow_the_cdf(name):
    likelihood = LIKELIHOODS[name]()
    row = row_of(likelihood)
    draws = likelihood.sample(np.random.default_rng(0), np.full(20_000, 0.7), **row)
    assert draws.dtype == np.float64
    assert not likelihood.support.invalid(draws).any()
    places = np.quantile(draws, np.linspace(0.02, 0.98, 25))
    share = (draws[:, None] <= places).mean(axis=0)
    np.testing.assert_allclose(share, likelihood.cdf(places, 0.7, **row), atol=0.02)


FAR = np.array([-800.0, -40.0, -36.0, 36.0, 300.0])
NEAR = np.linspace(-30.0, 30.0, 81)


def some_responses(likelihood):
    # as many for each likelihood: JAX's operations, one by one, are then compiled once for all of them
    return np.sort(likelihood.sample(np.random.default_rng(1), LATENTS, **row_of(likelihood)))


@cache
def derivatives(name):
    """log p and its first two derivatives in f, for each of some responses, at `FAR` and `NEAR`."""
    likelihood = LIKELIHOODS[name]()
    y = some_responses(likelihood)[:, None]

    def total(f):  # each term has its own f: the gradient of the sum has all derivatives
        return log_probs(likelihood, y, f).sum()

    f = np.broadcast_to(np.concatenate([FAR, NEAR]), (len(y), len(FAR) + len(NEAR)))
    with float64():
        slope, bend = jax.jvp(jax.grad(total), (f,), (np.ones(f.shape),))
        value = log_probs(likelihood, y, f)
    return tuple(np.asarray(part) for part in (value, slope, bend))


@every_name
def test_derivatives(name):
    value, slope, bend = derivatives(name)
    assert not (np.isnan(slope) | np.isnan(bend)).any()
    likelihood = LIKELIHOODS[name]()
    y, f, h = some_responses(likelihood)[:, None], NEAR[30:51:2] + 0.011, 1e-5
    with float64():
        high, low = (np.asarray(log_probs(likelihood, y, f + step)) for step in (h, -h))
        along = jax.grad(lambda f: log_probs(likelihood, y, f).sum())(np.broadcast_to(f, high.shape))
    np.testing.assert_allclose(along, (high - low) / (2 * h), rtol=1e-6, atol=1e-5)
    assert (bend[:, len(FAR) :].max() <= 1e-9) == likelihood.log_concave
    try:
        written = likelihood.log_prob_slopes(y, NEAR, **row_of(likelihood))
    except NotImplementedError:
        return
    for ours, theirs in zip(written, (value, slope, bend), strict=True):
        np.testing.assert_allclose(
            np.broadcast_to(ours, slope[:, len(FAR) :].shape), theirs[:, len(FAR) :], rtol=1e-9, atol=1e-9
        )


@every_name
def test_derivatives_in_parameters(name):
    likelihood = LIKELIHOODS[name]()
    y = some_responses(likelihood)[:, None]
    leaves, structure = jax.tree.flatten(likelihood)

    def total(leaves):
        return log_probs(jax.tree.unflatten(structure, leaves), y, LATENTS).sum()

    with float64():
        found = jax.grad(total)(leaves)
        for i, leaf in enumerate(leaves):
            for j in np.ndindex(np.shape(leaf)):
                step = np.zeros(np.shape(leaf))
                step[j] = 1e-6
                high, low = (total([*leaves[:i], leaf + side, *leaves[i + 1 :]]) for side in (step, -step))
                np.testing.assert_allclose(found[i][j], (high - low) / 2e-6, rtol=1e-5, atol=1e-6)


@every_name
def test_integrals_over_f(name):
    likelihood = LIKELIHOODS[name]()
    number, y = row_of(likelihood), some_responses(likelihood)
    n = len(y)
    row = {extra: np.full(n, value) for extra, value in number.items()}

    # panels that end at the responses, where a density may have a kink
    z, weight = np.polynomial.legendre.leggauss(16)
    ends = M + np.sqrt(V) * np.linspace(-9.0, 9.0, 61)
    ends = np.sort([*ends, *np.clip(y, ends[0], ends[-1])])
    half = 0.5 * np.diff(ends)[:, None]
    f = (ends[:-1, None] + half * (1.0 + z)).ravel()
    weight = (half * weight).ravel() * stats.norm.pdf(f, M, np.sqrt(V))
    with float64():
        log_prob = np.asarray(log_probs(likelihood, y[:, None], f))
    mean_of_f, variance_of_f = conditional_moments(likelihood, f, {k: np.full(len(f), x) for k, x in number.items()})
    value, slope = log_prob @ weight, log_prob @ (weight * (f - M) / V)
    density, cdf = np.exp(log_prob) @ weight, likelihood.cdf(y[:, None], f, **number) @ weight
    mean, square = mean_of_f @ weight, (mean_of_f**2 + variance_of_f) @ weight
    m, v = np.full(n, M), np.full(n, V)
    found = expectations(likelihood, y, m, v, row)
    np.testing.assert_allclose(found.value, value, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.gradient, slope, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(predictive_log_prob(likelihood, y, m, v, row), np.log(density), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(predictive_cdf(likelihood, y, m, v, row), cdf, rtol=1e-7, atol=1e-9)
    found_mean, found_variance = predictive_moments(likelihood, m, v, row)
    np.testing.assert_allclose(found_mean, mean, rtol=1e-6)
    np.testing.assert_allclose(found_variance, square - mean**2, rtol=1e-6)
    one = {extra: each[:1] for extra, each in row.items()}
    median = predictive_quantile(likelihood, 0.5, m[:1], v[:1], one)
    before = median - 1.0 if likelihood.support.discrete else np.nextafter(median, -np.inf)
    below, at = (predictive_cdf(likelihood, there, m[:1], v[:1], one) for there in (before, median))
    assert below[0] - 1e-9 <= 0.5 <= at[0] + 1e-9


@every_name
def test_where_fits_start(name):
    likelihood = LIKELIHOODS[name]()
    row = row_of(likelihood)
    y = likelihood.sample(np.random.default_rng(2), np.repeat(LATENTS, 50), **row)
    assert np.all(np.isfinite(likelihood.initial_latent(y, **row)))
    assert likelihood.latent_unit(y, **row) > 0.0
    likelihood.replace(**likelihood.initial_parameters(y, **row)).validate()
    np.testing.assert_array_equal(likelihood.check_response(y), y)
    assert set(likelihood.check_row(row, len(y), y)) == set(likelihood.extras)


@every_name
def test_survives_json_and_clone(name):
    likelihood = LIKELIHOODS[name]()
    likelihood.validate()
    assert LIKELIHOODS[name].about
    plain = json.loads(json.dumps(to_config(likelihood)))
    assert to_config(from_config(plain)) == plain
    assert repr(clone(likelihood)) == repr(likelihood)
