"""Quantiles from a lattice that all rows share, against integrals of each row's own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from npvi.likelihoods import (
    Beta,
    BetaBinomial,
    Gamma,
    Laplace,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Tweedie,
    Weibull,
    ZeroInflatedNegativeBinomial,
)
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.lattice import lattice_quantile
from npvi.likelihoods.integrals.rows_cdf import Component

MODELS = {
    "counts": lambda scale: NegativeBinomial(1.5 * scale),
    "counts, softplus": lambda scale: Poisson("softplus", 2.0 * scale),
    "zeros": lambda scale: ZeroInflatedNegativeBinomial(0.3, 1.5 * scale),
    "successes": lambda scale: BetaBinomial(8.0 * scale),
    "ranks": lambda scale: Ordinal([-scale, scale]),
    "amounts": lambda scale: Gamma(2.0 * scale),
    "amounts and zeros": lambda scale: Tweedie(1.5 + 0.2 * (scale - 1.0), scale),
    "durations": lambda scale: Weibull(1.5 * scale),
    "shares": lambda scale: Beta(8.0 * scale),
    "errors": lambda scale: StudentT(0.3 * scale, 2.0 + 2.0 * scale),
}


def models(make, parts=4, rows=80, **row):
    """Models around one, whose noise differs too."""
    rng = np.random.default_rng(5)
    mean, variance = rng.normal(0.5, 1.0, rows), np.exp(rng.uniform(-5.0, 0.5, rows))
    row = {name: np.broadcast_to(value, rows).astype(float) for name, value in row.items()}
    return [
        Component(
            weight,
            make(np.exp(rng.normal(0.0, 0.2))),
            mean + np.sqrt(variance) * rng.normal(0.0, 0.4, rows),
            variance * np.exp(rng.normal(0.0, 0.3, rows)),
            row,
        )
        for weight in rng.dirichlet(np.full(parts, 2.0))
    ]


def cdf(parts, y):
    return sum(part.weight * predictive_cdf(part.likelihood, y, *part[2:]) for part in parts)


def check(parts, q, share=0.9):
    y, settled = lattice_quantile(parts, q)
    assert settled.mean() >= share
    parts, y = [part.of(settled) for part in parts], y[settled]
    support = parts[0].likelihood.support
    if support.discrete:
        assert np.all((cdf(parts, y) >= q - 1e-11) & (cdf(parts, y - 1.0) < q + 1e-11))
    elif support.atom is not None:
        assert np.all(cdf(parts, y) >= q - 1e-10)
        np.testing.assert_allclose(cdf(parts, y)[y > support.atom], q, rtol=0.0, atol=1e-10)
    else:
        inside = y < 1.0 - 1e-6 if np.isfinite(support.upper) else np.ones(len(y), dtype=bool)
        np.testing.assert_allclose(cdf(parts, y)[inside], q, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("q", [0.001, 0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("name", MODELS)
def test_mixtures(name, q):
    check(models(MODELS[name]), q, 0.75)


def test_noise_that_is_narrower_far_out():
    """Steps of f are those of the narrowest noise where the quantile is, not only at the mean of f."""
    rng, rows = np.random.default_rng(5), 80
    mean, variance = rng.normal(3.0, 0.5, rows), rng.uniform(0.5, 2.0, rows)
    pairs = ((0.05, Tweedie(1.1, 1.6)), (0.95, Tweedie(1.88, 1.6)))
    check([Component(weight, noise, mean, variance, {}) for weight, noise in pairs], 0.999, 0.5)


@pytest.mark.parametrize("trials", [1.0, 30.0, 10_000.0])
@pytest.mark.parametrize("q", [0.05, 0.95])
def test_trials_that_all_rows_have(trials, q):
    check(models(lambda scale: BetaBinomial(10.0 * scale), parts=2, trials=trials), q)


@pytest.mark.parametrize("make", [lambda scale: Poisson(), lambda scale: Tweedie(1.4)], ids=["counts", "amounts"])
def test_exposure_is_a_shift_of_f(make):
    exposure = np.geomspace(0.1, 50.0, 80)
    check(models(make, parts=2, exposure=exposure), 0.95, 0.75)


def test_steps_too_narrow_for_their_number_are_left_to_others():
    """Large counts take f so finely that wide rows would need more terms than a sum has: cut short they are off by
    4e-4."""
    rng, rows = np.random.default_rng(0), 1000
    mean, variance = rng.normal(0.5, 1.2, rows), np.exp(rng.uniform(-5.0, 0.5, rows))
    check([Component(1.0, Poisson(), mean, variance, {"exposure": np.full(rows, 1e3)})], 0.95, 0.7)


def test_what_no_lattice_serves():
    row = {"trials": np.arange(1.0, 81.0)}
    for parts in (models(lambda scale: Laplace(scale)), models(lambda scale: BetaBinomial(), **row)):
        assert not lattice_quantile(parts, 0.5)[1].any()
    assert not lattice_quantile(models(MODELS["counts"], rows=20), 0.5)[1].any()  # too few rows
    assert not lattice_quantile(models(MODELS["counts"]), 1e-4)[1].any()  # too far out


def test_a_row_is_the_same_among_others():
    parts = models(MODELS["amounts"], rows=200)
    some = np.arange(100)
    whole, few = lattice_quantile(parts, 0.9)[0], lattice_quantile([part.of(some) for part in parts], 0.9)[0]
    np.testing.assert_allclose(few, whole[:100], rtol=1e-9)


def test_shares_next_to_one():
    """P(Y ≤ y) of shares nearer to 1 than numbers can tell, by how far y is from 1."""
    x, f = np.array([-50.0, -1.0, 0.0, 2.0, 20.0, 50.0]), 1.5
    a, b = 8.0 * special.expit(f), 8.0 * special.expit(-f)
    got = Beta(8.0).cdf_at(x, f)
    np.testing.assert_allclose(1.0 - got, stats.beta.cdf(special.expit(-x), b, a), rtol=1e-8, atol=1e-15)


@pytest.mark.parametrize("power", [1.06, 1.107, 1.5, 1.8, 1.95])
def test_amounts_from_a_table(power):
    """P(Y ≤ y) of compound Poisson sums is that of the sum over their number."""
    rng, tweedie = np.random.default_rng(0), Tweedie(power, 1.3)
    f = rng.uniform(-6.0, 6.0, 2000)
    x = np.append(f[2:] + rng.normal(0.0, 1.5, 1998), [-700.0, 690.0])
    np.testing.assert_allclose(tweedie.cdf_at(x, f), tweedie.cdf(np.exp(x), f), rtol=0.0, atol=3e-13)
