"""Every component of the linear predictor answers the same questions, as dense matrices answer them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from npvi.components import Coefficients, Component, Process, Rows
from tests.support.linalg_cases import prior
from tests.support.oracle import dense_triangular

ROWS = 70


class Case(NamedTuple):
    component: Component
    A: np.ndarray
    P: np.ndarray
    widest: float = 1e3


def process(at=None, weight=None, n=ROWS):
    made = prior(n, 8)
    rows = None if at is None else Rows(n, at, weight)
    T = dense_triangular(made.root)
    A = np.eye(n) if at is None else np.zeros((len(at), n))
    if at is not None:
        A[np.arange(len(at)), at] = 1.0 if weight is None else weight
    return Case(Process(made, rows), A, T.T @ T)


def coefficients(precision):
    H = np.random.default_rng(3).standard_normal((ROWS, len(precision)))
    return Case(Coefficients(H, np.array(precision)), H, np.diag(np.array(precision)))


def several_rows_a_position():
    return np.random.default_rng(1).integers(0, 40, ROWS)


CASES = {
    "process": process,
    "process, several rows a position": lambda: process(several_rows_a_position(), n=40),
    "process, weights": lambda: process(several_rows_a_position(), np.random.default_rng(2).standard_normal(ROWS), 40),
    "coefficients": lambda: coefficients([0.5, 2.0, 1.0]),
    "coefficients, one flat": lambda: coefficients([0.0, 2.0]),
    "no coefficients": lambda: coefficients([]),
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
    flat = np.diag(case.P) == 0.0
    covariance = np.linalg.inv(case.P + np.diag(np.where(flat, 1.0 / case.widest, 0.0)))
    # a nearest-neighbour prior says k(x, x), which its own P⁻¹ has only nearly
    variance = np.einsum("ij,jk,ik->i", case.A, covariance, case.A)
    np.testing.assert_allclose(case.component.row_variance(case.widest), variance, rtol=0.05)
    proper = case.P[np.ix_(~flat, ~flat)]
    expected = -np.linalg.slogdet(proper)[1] - np.log(2.0 * np.pi) * flat.sum()
    assert case.component.logdet == pytest.approx(expected, rel=1e-9, abs=1e-12)
