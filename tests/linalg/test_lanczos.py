"""Inverse roots and logarithms of matrices near the identity, against dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from npvi.linalg import inverse_root


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.5])
def test_against_dense_functions(spread):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    M = (Q * np.exp(spread * rng.standard_normal(60))) @ Q.T
    x = rng.standard_normal((60, 4))
    found = inverse_root(M.dot, x, tolerance=1e-8, max_steps=60)
    root = scipy.linalg.inv(scipy.linalg.sqrtm(M)).real
    np.testing.assert_allclose(found.root, root @ x, atol=1e-6)
    np.testing.assert_allclose(found.logarithm, np.einsum("ij,ij->j", x, scipy.linalg.logm(M).real @ x), atol=1e-6)
    size = np.linalg.norm(x, axis=0)
    np.testing.assert_allclose(found.departure, np.linalg.norm(M @ x - x, axis=0) / size, atol=1e-10)


def test_a_looser_tolerance_takes_fewer_steps_and_keeps_it():
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    M = (Q * np.exp(0.5 * rng.standard_normal(200))) @ Q.T
    x = rng.standard_normal((200, 3))
    exact = scipy.linalg.inv(scipy.linalg.sqrtm(M)).real @ x
    steps = []
    for tolerance in (1e-2, 1e-6):
        found = inverse_root(M.dot, x, tolerance)
        error = np.linalg.norm(found.root - exact, axis=0) / np.linalg.norm(exact, axis=0)
        assert error.max() < 2.0 * tolerance
        steps.append(found.steps)
    assert steps[0] < steps[1]


@pytest.mark.parametrize("spread", [1e-3, 0.02, 0.2])
def test_a_tolerance_of_what_is_left_out_is_kept(spread):
    rng = np.random.default_rng(2)
    Q = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    M = (Q * np.exp(spread * rng.standard_normal(200))) @ Q.T
    x = rng.standard_normal((200, 3))
    exact = scipy.linalg.inv(scipy.linalg.sqrtm(M)).real @ x
    for tolerance in (1e-3, 1e-6):
        found = inverse_root(M.dot, x, tolerance, left=True)
        error = np.linalg.norm(found.root - exact, axis=0) / np.linalg.norm(exact, axis=0)
        assert error.max() < 2.0 * tolerance
        assert found.steps <= inverse_root(M.dot, x, tolerance).steps


@pytest.mark.parametrize("departure", [0.003, 0.008, 0.03])
def test_logarithms_of_many_rows_have_what_one_step_leaves_out(departure):
    """Half the square of the departure, times the number of rows: of a million, at a hundredth, 50 nats."""
    rng = np.random.default_rng(3)
    n = 1000
    noise = rng.standard_normal((n, n))
    M = np.eye(n) + departure * (noise + noise.T) / np.sqrt(2.0 * n)
    x = rng.standard_normal((n, 3))
    values, vectors = np.linalg.eigh(M)
    exact = np.log(values) @ (vectors.T @ x) ** 2
    assert np.abs(inverse_root(M.dot, x, 1e-2).logarithm - exact).max() < 0.02 * 0.5 * n * departure**2
