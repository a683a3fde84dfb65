"""What limits say of f, against integrals over many panels."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import special

from npvi.likelihoods import CensoredGaussian, CensoredLogNormal, curvatures, expectations
from npvi.likelihoods.integrals.learning import parameter_gradient
from npvi.likelihoods.integrals.probit_normal import expected_log_normal_cdf, expected_slopes
from npvi.runtime.precision import float64

MEANS, DEVIATIONS = (-3000.0, -40.0, -5.0, 0.0, 3.0, 20.0), (1e-4, 0.1, 1.0, 10.0, 1e3, 1e6)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def by_panels(m, s):
    """E log Φ(g), and E of its first two derivatives, under g ~ N(m, s²)."""
    bend = np.concatenate([-np.geomspace(0.5, 1e7, 60), [0.0], np.geomspace(0.5, 1e7, 60)])
    ends = np.unique(np.concatenate([np.linspace(-12.0, 12.0, 25), np.clip((bend - m) / s, -12.0, 12.0)]))
    half = 0.5 * np.diff(ends)[:, None]
    z = (ends[:-1, None] + half * (NODES + 1.0)).ravel()
    weight = (half * WEIGHTS).ravel() * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    t = m + s * z
    value = special.log_ndtr(t)
    left = np.sqrt(2.0 / np.pi) / special.erfcx(-np.minimum(t, 0.0) / np.sqrt(2.0))
    slope = np.where(t < 0.0, left, np.exp(-0.5 * t * t - value) / np.sqrt(2.0 * np.pi))
    x = np.maximum(-t, 30.0)
    above = np.where(t < -30.0, 1.0 / x - 2.0 / x**3 + 10.0 / x**5 - 74.0 / x**7 + 706.0 / x**9, slope + t)
    return [weight @ part for part in (value, slope, -slope * above)]


def test_against_panels():
    with float64():

        @jax.jit
        def all_of(m, v):
            slopes = jax.grad(expected_log_normal_cdf, argnums=(0, 1))(m, v)
            return expected_log_normal_cdf(m, v), slopes[0], 2.0 * slopes[1]

        for m in MEANS:
            for s in DEVIATIONS:
                np.testing.assert_allclose(all_of(m, s**2), by_panels(m, s), rtol=5e-9, atol=1e-12, err_msg=f"{m} {s}")


@pytest.mark.parametrize("kind", [CensoredGaussian, CensoredLogNormal])
def test_limits_under_tiny_noise(kind):
    # with a noise of 1e-12 equal steps would have to be 10⁶ times as many as there are
    y = np.array([0.7, 1.3, 2.0])
    centre = np.log(y) if kind is CensoredLogNormal else y
    row, mean, sd = {"censored": np.array([1.0, -1.0, 0.0])}, centre + 0.3, np.array([0.5, 2.0, 1.0])
    at = expectations(kind(1e-12), y, mean, sd**2, row)
    z = row["censored"][:2] * 0.3e6
    limits = np.array([by_panels(m, s) for m, s in zip(z, sd[:2] * 1e6)])
    np.testing.assert_allclose(at.value[:2], limits[:, 0], rtol=1e-9)
    np.testing.assert_allclose(at.gradient[:2], row["censored"][:2] * limits[:, 1] * 1e6, rtol=1e-9)
    np.testing.assert_allclose(at.precision, [*(-limits[:, 2] * 1e12), 1e12], rtol=1e-9)
    curves = curvatures(kind(1e-12), y, mean, sd, row)
    np.testing.assert_allclose(curves.in_mean_mean, -at.precision, rtol=1e-9)
    # that of an observation is (E(y − f)²/variance − 1)/(2 variance)
    of_observed = 0.5 * ((0.3**2 + 1.0) / 1e-12 - 1.0) / 1e-12
    slope = parameter_gradient(kind(1e-12), y[2:], mean[2:], sd[2:] ** 2, {"censored": np.zeros(1)})["variance"]
    np.testing.assert_allclose(slope, of_observed, rtol=1e-9)


def test_in_numpy_it_is_the_same():
    m, s = (grid.ravel() for grid in np.meshgrid(MEANS, DEVIATIONS))
    value, first, second, third, fourth = expected_slopes(m, s**2)
    with float64():

        def of_sd(m, s):
            return expected_log_normal_cdf(m, s**2)

        slopes = jax.vmap(jax.value_and_grad(of_sd, argnums=(0, 1)))(m, s)
        bends = jax.vmap(jax.hessian(of_sd, argnums=(0, 1)))(m, s)
    np.testing.assert_allclose(value, slopes[0], rtol=5e-9, atol=1e-12)
    np.testing.assert_allclose(first, slopes[1][0], rtol=5e-9, atol=1e-12)
    np.testing.assert_allclose(s * second, slopes[1][1], rtol=5e-9, atol=1e-8)
    np.testing.assert_allclose(s * third, bends[0][1], rtol=1e-7, atol=1e-6)
    np.testing.assert_allclose(second + s**2 * fourth, bends[1][1], rtol=1e-7, atol=1e-6)


def test_a_row_is_the_same_whatever_is_beside_it():
    rng = np.random.default_rng(0)
    m, v = rng.normal(size=500) * 10.0 ** rng.uniform(-2.0, 4.0, 500), 10.0 ** rng.uniform(-6.0, 8.0, 500)
    together = expected_slopes(m, v)
    alone = [expected_slopes(m[[i]], v[[i]]) for i in range(500)]
    np.testing.assert_array_equal(np.array(together), np.array(alone)[:, :, 0].T)
    assert np.isnan(expected_slopes(np.array([np.nan, np.inf]), np.ones(2))[0]).all()
