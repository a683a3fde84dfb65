"""The coarse level against dense matrices; and files of numbers that are read in parts."""

import numpy as np
import pytest

from npvi.graph import build_graph
from npvi.kernels import Matern
from npvi.linalg import Noise
from npvi.priors import NNGP
from npvi.tiled.coarse import Interpolation
from npvi.tiled.store import Store, StoreError

THIN = np.arange(12)


@pytest.fixture(scope="module")
def prior():
    X = np.random.default_rng(0).random((150, 2))
    return NNGP(Matern(0.3, 1.0, smoothness=1.5), 0.01, X, build_graph(X, 8, order="given"))


@pytest.fixture(scope="module")
def dense(prior):
    """Z that costs the prior least: −P_rr⁻¹ P_rc at the other rows."""
    P = prior.block(np.arange(150))
    Z = np.eye(150)[:, : len(THIN)]
    Z[len(THIN) :] = -np.linalg.solve(P[len(THIN) :, len(THIN) :], P[len(THIN) :, : len(THIN)])
    return P, Z


def test_others_are_what_costs_the_prior_least(prior, dense):
    z, (_, Z) = Interpolation(prior.root, THIN), dense
    rng = np.random.default_rng(1)
    c, v = rng.standard_normal(len(THIN)), rng.standard_normal(150)
    assert np.allclose(z.spread(c), Z @ c)
    assert np.allclose(z.collected(v), Z.T @ v)


def test_the_thin_rows_by_themselves_are_the_coarse_system(prior, dense):
    P, Z = dense
    by_themselves = NNGP(prior.kernel, prior.nugget, prior.X[THIN], build_graph(prior.X[THIN], 8, order="given"))
    assert np.allclose(Z.T @ P @ Z, by_themselves.block(np.arange(len(THIN))))


def test_weights_are_added_up_row_by_row(prior, dense):
    P, Z = dense
    w = np.random.default_rng(2).random(150)
    weight, variance = Interpolation(prior.root, THIN).lumped(w, Noise(np.arange(150)))
    assert np.allclose(weight, (Z.T * w) @ Z.sum(axis=1))
    known = np.zeros(150)
    known[len(THIN) :] = np.diag(np.linalg.inv(P[len(THIN) :, len(THIN) :]))
    exact = Z.T @ (w * Z.sum(axis=1) * known)
    # by draws, and a mean over many rows
    assert variance.sum() == pytest.approx(exact.sum(), rel=0.2)


def test_rows_that_are_not_a_beginning_of_the_order_may_be_thin(prior):
    at = np.array([3, 40, 77, 149])
    z = Interpolation(prior.root, at)
    c = np.array([1.0, -2.0, 0.5, 3.0])
    assert np.array_equal(z.spread(c)[at], c)
    v = np.random.default_rng(3).standard_normal(150)
    assert z.collected(v) @ c == pytest.approx(v @ z.spread(c))


def test_parts_of_vectors_are_read(tmp_path):
    store, values = Store(tmp_path), np.arange(12.0).reshape(6, 2)
    store.write_vectors("tiles/00000/x", values)
    assert np.array_equal(store.read_vectors("tiles/00000/x", 6), values)
    assert np.array_equal(store.read_vectors("tiles/00000/x", 6, 2, 4), values[2:4])
    store.write_vectors("none", np.zeros((6, 0)))
    assert store.read_vectors("none", 6).shape == (6, 0)
    path = tmp_path / "tiles/00000/x.f64"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(StoreError, match="cut off"):
        store.read_vectors("tiles/00000/x", 6)
    path.unlink()
    with pytest.raises(StoreError, match="missing"):
        store.read_vectors("tiles/00000/x", 6)
