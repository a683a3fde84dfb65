"""Verdicts on recognised posteriors, against the full posterior by dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.accuracy.verdicts import far, judged, rare, sets
from numpy.testing import assert_allclose

import npvi
from npvi.amortized.api import simulate
from npvi.amortized.recognition import applicability, distance, full_marginals, recognise
from npvi.amortized.recognizer import Recognizer, pretrained
from npvi.inference import AllCovariances, fit_posterior
from npvi.inference.families.factored import FactoredCovariances
from npvi.kernels import RBF, Matern12, Matern32
from npvi.likelihoods import Bernoulli, Poisson


def dense(one):
    prior = one.stack.prior
    return fit_posterior(AllCovariances(prior), *one).posterior


SETS = dict(sets(250))


@pytest.mark.parametrize("name", SETS)
def test_trust_is_only_said_where_it_is_true(name):
    found = judged(SETS[name], "pretrained")
    if found.verdict == "trust":
        assert found.true.mean_offset <= 0.5
        assert found.true.smallest_sd_ratio >= 0.85
        assert found.true.largest_sd_ratio <= 1 / 0.85


@pytest.mark.parametrize("name", ["rare: yes or no", "rare: counts", "far: variance 30", "far: thousands", "Poisson 2"])
def test_trained_on_the_data_themselves(name):
    found = judged(SETS[name], "trained")
    assert (found.verdict == "trust") == found.true.near


@pytest.mark.parametrize("name", ["rare: yes or no, rough", "far: 1 spacing", "far: thousands"])
def test_trust_is_said(name):
    """A verdict that never says yes would be of no use."""
    found = judged(SETS[name], "pretrained")
    assert found.true.near
    assert found.verdict == "trust"


@pytest.mark.parametrize("seed", range(3))
def test_rare_events_are_for_the_full_posterior(seed):
    """NPVI's own standard deviations are far too small there, so that no finishing sweep would do."""
    one = rare(RBF(8.0, 1.5), 0.05, Poisson(), 0.02, 400, seed)
    found = judged(one, "pretrained")
    assert found.verdict == "full"
    assert found.true.smallest_sd_ratio < 0.6
    assert_allclose(found.seen["smallest_sd_ratio"], found.true.smallest_sd_ratio, rtol=0.2)
    assert_allclose(found.seen["mean_offset"], found.true.mean_offset, rtol=0.4)


@pytest.mark.parametrize("family", ["Poisson", "Bernoulli", "StudentT"])
def test_nearly_the_full_posterior(family):
    """From a start that is a standard deviation off."""
    one = simulate(family, 40_000_003, 300)
    best = dense(one)
    start = recognise(pretrained(one.data.likelihood), *one).posterior
    shifted = type(start)(start.mean + np.sqrt(start.variance), start.factor, start.site_precision)
    found, settled = full_marginals(*one, shifted)
    assert settled
    assert np.abs(found.mean - best.mean).max() < 0.1 * np.sqrt(best.variance).min()
    near = np.abs(np.log(found.variance / best.variance))
    assert np.median(near) < 0.03


def test_a_finishing_sweep_is_advised_where_it_helps():
    one = far(Matern12(3.0, 1.0), 0.3, Poisson(), 1.0, 400)
    recognizer = pretrained(Poisson())
    *others, (weights, biases) = recognizer.layers
    shifted = Recognizer(**{**vars(recognizer), "layers": [*others, (weights, biases + np.array([0.0, 1.5]))]})
    fit = recognise(shifted, *one)
    assert fit.info["applicability"]["verdict"] == "refine"
    refined = recognise(shifted, *one, refine=1)
    assert refined.info["applicability"]["verdict"] == "trust"
    assert distance(refined.posterior, dense(one)).near
    assert applicability(fit, one.data, refinable=False)["verdict"] == "retrain"


def test_warnings_say_what_to_do(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = (rng.uniform(size=200) < 0.03).astype(float)
    settings = {"kernel": Matern32(0.3), "nugget": 0.01, "learn": False, "method": "npvi-nn", "network": "pretrained"}
    with pytest.warns(UserWarning, match=r"100% of the rows.*use method='full'; neither"):
        npvi.GPRegressor(Bernoulli(), **settings).fit(X, y)
    monkeypatch.setattr(FactoredCovariances, "covariance", lambda *_: None)
    with pytest.warns(UserWarning, match="can't be compared with that of method='full'"):
        npvi.GPRegressor(Bernoulli(), **settings).fit(X, y)
