"""Data that have no best model, or only just: separable labels, no events at all, levels that were never seen."""

from __future__ import annotations

import numpy as np
import pytest

import npvi
from npvi.likelihoods import Bernoulli, Ordinal


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).uniform(size=(1200, 2))


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_labels_that_a_line_separates(X, link):
    y = X[:200, 0] > 0.5
    model = npvi.GPClassifier(Bernoulli(link=link), n_neighbors=10).fit(X[:200], y)
    assert model.fit_info_["converged"]
    assert 1.0 < model.kernel_.variance <= 50.0 + 1e-6
    right = model.predict(X[400:]) == (X[400:, 0] > 0.5)
    assert right.mean() > 0.97
    # at the border nobody knows
    assert 0.2 < model.predict_proba([[0.5, 0.5]])[0, 1] < 0.8


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial", "zero_inflated_poisson"])
def test_counts_that_are_all_zero(X, likelihood):
    with pytest.warns(UserWarning, match="all counts are 0"):
        model = npvi.GPRegressor(likelihood).fit(X, np.zeros(len(X)))
    assert model.fit_info_["converged"]
    dist = model.predict_dist(X[:5])
    # nearly nothing; where zeros are nine tenths inflation they say the less about the rest
    assert np.all((dist.mean > 0.0) & (dist.mean < 0.1))
    assert np.all(np.isfinite(dist.latent_var))


@pytest.mark.parametrize("estimator", [npvi.GPRegressor("poisson"), npvi.GPClassifier()], ids=["counts", "labels"])
def test_a_single_event(X, estimator):
    y = np.zeros(len(X))
    y[7] = 1.0
    model = estimator.fit(X, y)
    assert model.fit_info_["converged"]
    assert model.predict_dist(X).mean.sum() == pytest.approx(1.0, rel=0.02)


def test_levels_that_were_never_seen(X):
    y = np.digitize(X[:300, 0], [0.3, 0.6])
    model = npvi.GPRegressor(Ordinal(cuts=[-0.5, 0.5]), mean="zero", n_neighbors=10, learn=False).fit(X[:300], y)
    with pytest.raises(ValueError, match="cannot be Ordinal"):
        model.log_score(X[300:302], [1, 3])
    with pytest.raises(ValueError, match="cannot be Ordinal"):
        model.update(X[300:302], [1, 3])
    labels = npvi.GPClassifier(learn=False, n_neighbors=10).fit(X[:300], np.where(y > 0, "wet", "dry"))
    with pytest.raises(ValueError, match=r"weren't in the training data.*'damp'"):
        labels.update(X[300:302], ["wet", "damp"])
