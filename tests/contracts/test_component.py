"""Every component of the linear predictor answers the same questions, as dense matrices answer them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from npvi.components import Coefficients, Component, Dense, Group, Process, Rows
from npvi.components.spline import Spline
from tests.support.linalg_cases import prior
from tests.support.oracle import dense_triangular

ROWS = 70


class Case(NamedTuple):
    component: Component
    A: np.ndarray
    P: np.ndarray
    widest: float = 1e3


def process(at=None, weight=None, n=ROWS):
    made = prior(n, n - 1)  # whose factor is exact
    rows = None if at is None else Rows(n, at, weight)
    T = dense_triangular(made.root)
    A = np.eye(n) if at is None else np.zeros((len(at), n))
    if at is not None:
        A[np.arange(len(at)), at] = 1.0 if weight is None else weight
    return Case(Process(made, rows), A, T.T @ T)


def coefficients(precision):
    H = np.random.default_rng(3).standard_normal((ROWS, len(precision)))
    return Case(Coefficients(H, np.array(precision)), H, np.diag(np.array(precision)))


def group(covariance, weight=None, levels=15):
    at = np.random.default_rng(4).integers(levels, size=ROWS)
    a = np.ones((ROWS, 1)) if weight is None else weight
    A = np.zeros((ROWS, levels * a.shape[1]))
    for j in range(a.shape[1]):
        A[np.arange(ROWS), at * a.shape[1] + j] = a[:, j]
    P = np.kron(np.eye(levels), np.linalg.inv(np.atleast_2d(covariance)))
    return Case(Group(levels, at, covariance, weight), A, P)


def intercepts_and_slopes():
    x = np.random.default_rng(5).standard_normal(ROWS)
    return group(np.array([[0.5, 0.2], [0.2, 0.3]]), np.column_stack([np.ones(ROWS), x]))


def smooth(line_precision):
    x = np.random.default_rng(6).uniform(size=ROWS)
    spline = Spline.of(x, 9)
    P = 0.1 * spline.penalty + line_precision * np.outer(spline.linear, spline.linear)
    return Case(spline.part(x, 0.1, line_precision), spline.functions(x), P)


def dense():
    rng = np.random.default_rng(7)
    A, root = rng.standard_normal((ROWS, 6)), rng.standard_normal((6, 6))
    return Case(Dense(A, root @ root.T), A, root @ root.T)


def several_rows_a_position():
    return np.random.default_rng(1).integers(0, 40, ROWS)


CASES = {
    "process": process,
    "process, several rows a position": lambda: process(several_rows_a_position(), n=40),
    "process, weights": lambda: process(several_rows_a_position(), np.random.default_rng(2).standard_normal(ROWS), 40),
    "coefficients": lambda: coefficients([0.5, 2.0, 1.0]),
    "coefficients, one flat": lambda: coefficients([0.0, 2.0]),
    "no coefficients": lambda: coefficients([]),
    "group": lambda: group(0.7),
    "group with slopes": intercepts_and_slopes,
    "smooth": lambda: smooth(0.3),
    "smooth, a flat line": lambda: smooth(0.0),
    "dense": dense,
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


@pytest.mark.parametrize("columns", [(), (3,)])
def test_products(case, columns):
    rng = np.random.default_rng(0)
    z, x = rng.standard_normal((case.A.shape[1], *columns)), rng.standard_normal((ROWS, *columns))
    assert case.component.size == len(z)
    np.testing.assert_allclose(case.component.times(z), case.A @ z, rtol=0, atol=1e-12)
    np.testing.assert_allclose(case.component.transpose_times(x), case.A.T @ x, rtol=0, atol=1e-12)
    size = np.abs(case.P).max(initial=1.0)
    np.testing.assert_allclose(case.component.matvec(z), case.P @ z, rtol=0, atol=1e-10 * size)
    if not columns:
        assert case.component.quadratic(z) == pytest.approx(z @ case.P @ z, rel=1e-10)


def test_prior_variances_and_determinant(case):
    values, vectors = np.linalg.eigh(case.P)
    flat = values <= 1e-10 * values.max(initial=1.0)
    covariance = (vectors / np.where(flat, 1.0 / case.widest, values)) @ vectors.T
    variance = np.einsum("ij,jk,ik->i", case.A, covariance, case.A)
    np.testing.assert_allclose(case.component.row_variance(case.widest), variance, rtol=1e-7)
    expected = -np.log(values[~flat]).sum() - np.log(2.0 * np.pi) * flat.sum()
    assert case.component.logdet == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_matrices(case):
    np.testing.assert_allclose(case.component.matrix().toarray(), case.A, rtol=0, atol=1e-14)
    size = np.abs(case.P).max(initial=1.0)
    np.testing.assert_allclose(case.component.precision_matrix(), case.P, rtol=0, atol=1e-11 * size)
    root = case.component.precision_root()
    np.testing.assert_allclose(root.T @ root, case.P, rtol=0, atol=1e-11 * size)


def test_a_factor_of_its_precision_with_sites(case):
    w = np.random.default_rng(8).exponential(size=ROWS)
    factor = case.component.factor(w)
    whole = case.P + case.A.T @ (w[:, None] * case.A)
    for columns in ((), (3,)):
        x = np.random.default_rng(9).standard_normal((len(whole), *columns))
        found = factor.half_transpose(factor.half(x))
        np.testing.assert_allclose(found, np.linalg.solve(whole, x), rtol=0, atol=1e-8 * np.abs(found).max(initial=1.0))
    assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(whole)[1], rel=1e-9, abs=1e-12)
    inverse = np.linalg.inv(whole)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(inverse), rtol=1e-7)
    variance = np.einsum("ij,jk,ik->i", case.A, inverse, case.A)
    np.testing.assert_allclose(case.component.within_rows(factor), variance, rtol=1e-7, atol=1e-14)


def test_no_precision_is_no_factor(case):
    if case.component.size:
        assert case.component.factor(np.full(ROWS, -1e9)) is None


def test_noise_has_the_precision_for_covariance(case):
    n = 4000
    x = case.component.precision_noise(np.random.default_rng(10), n)
    assert x.shape == (case.component.size, n)
    scale = np.sqrt(np.maximum(np.diag(case.P), 1e-300))
    off = (x @ x.T / n - case.P) / np.outer(scale, scale)
    assert np.abs(np.where(np.diag(case.P) > 0.0, off, 0.0)).max(initial=0.0) < 6.0 * np.sqrt(2.0 / n)
