"""What the three methods find for counts on the same inducing points: one optimum, that of the dense bound."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from npvi.kernels import Matern32
from npvi.likelihoods import Poisson
from npvi.paper.rivals import DGP, SAVIGP, SVGP
from npvi.paper.rivals.posteriors import marginals
from npvi.paper.rivals.process import Places
from tests.support import oracle
from tests.support.dense_rivals import LENGTH, NUGGET, VARIANCE, Dense, poisson_case

X, Y = poisson_case()
BATCHES = {"batch_size": len(X), "epochs": 500}
#: settings of each, and how far it may be off: by draws there is an error that doesn't go away
METHODS = {
    "SVGP": (SVGP, BATCHES, 1e-4),
    "DGP": (DGP, {**BATCHES, "n_covariance": 8}, 1e-4),
    "SAVIGP": (SAVIGP, {"samples": 100}, 1e-2),
}


@lru_cache
def optimum(rows):
    """The largest bound with those rows as inducing points, and the marginals of f at all rows."""
    return Dense.of(X, np.array(rows), oracle.poisson_softplus(Y)).maximum()


@pytest.mark.parametrize("name", METHODS)
def test_optimum(name):
    method, settings, tolerance = METHODS[name]
    model = method(
        Poisson("softplus"), Matern32(LENGTH, VARIANCE), nugget=NUGGET, mean="constant", n_inducing=8, **settings
    ).fit(X, Y)
    posterior = model.posterior_
    points = (posterior.basis if name == "DGP" else posterior.inducing).points
    largest, (mean, variance) = optimum(tuple(np.asarray(points.rows).tolist()))
    assert model.elbo_ == pytest.approx(largest, abs=tolerance)
    assert model.elbo_ <= largest + 1e-6
    found = marginals(posterior, Places(X, np.arange(len(X))))[0]
    np.testing.assert_allclose(found, [mean, variance], atol=3.0 * np.sqrt(tolerance) / 10.0)
