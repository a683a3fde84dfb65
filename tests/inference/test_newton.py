"""Site precisions beyond all numbers."""

from __future__ import annotations

import numpy as np
import pytest

from npvi import GPRegressor
from npvi.components import Process, Stack
from npvi.graph import build_graph
from npvi.inference import FAMILIES
from npvi.inference.data import Data
from npvi.inference.newton import Problem, State, _agreeing, _Given
from npvi.kernels import Matern32
from npvi.likelihoods import Poisson, StudentT, Weibull
from npvi.priors import NNGP, NotPositiveDefiniteError

X = np.random.default_rng(0).uniform(size=(40, 2))


def test_bisection_begins_at_infinity():
    """Under a wide prior exp(m + v/2) is infinite at first; the w that agrees with its own v is an ordinary number."""
    data, others = Data(Poisson(), np.zeros(2)), np.full(2, 1e-4)
    for far in (1e300, np.inf):
        w = _agreeing(data, np.zeros(2), others, np.full(2, 1e-3), np.full(2, far), np.zeros(2))
        agreed = np.exp(0.5 / (others + w))  # falls with w, so that w is between itself and this
        np.testing.assert_array_less(np.abs(np.log(w)), 3.0)
        np.testing.assert_array_less(np.abs(np.log(agreed / w)), 3.0)


def test_likelihoods_of_which_no_factor_can_be_made():
    """Weibull's w is shape² exp(shape² v/2): the likelihood is named, and no NumPy warning comes before."""
    model = GPRegressor(Weibull(shape=1e70), kernel=Matern32(0.3), nugget=0.1, learn=False)
    with pytest.raises(NotPositiveDefiniteError, match=r"other parameters of the likelihood, Weibull\(shape=1e\+70\)"):
        model.fit(X, 1.0 + X[:, 0])


def test_residuals_of_a_mean_that_is_no_number():
    """Gradients may lead there; whoever takes the posterior refuses it, and no NumPy warning comes before."""
    prior = NNGP(Matern32(0.3), 0.1, X, build_graph(X, 5))
    data = Data(Poisson(), np.zeros(40))
    problem = Problem(FAMILIES["npvi"](prior), data, Stack(Process(prior)), (1e-6, 1e-6))
    given = _Given(np.ones(40), np.ones(40), None)
    state = State(np.full(40, 1e3), given, np.full(40, 1e3), data, 0.0)
    assert not np.isfinite(problem.certificate(state)["mean_residual"])


def test_second_derivatives_that_have_no_square():
    """Of a Student t with a scale of 10⁻¹⁵⁰: no step is made of them, and no NumPy warning comes."""
    prior = NNGP(Matern32(0.3), 0.1, X, build_graph(X, 5))
    data = Data(StudentT(1e-150), X[:, 0])
    problem = Problem(FAMILIES["full"](prior), data, Stack(Process(prior)), (1e-6, 1e-6))
    given = _Given(np.ones(40), np.full(40, 1e-290), None)
    assert problem._newton(State(X[:, 0], given, X[:, 0], data, 0.0)) is None


def test_sharp_likelihoods_start_within_what_they_resolve():
    """Weibull's shape² exp(shape² v/2) is beyond all bounds at the usual v = 10⁻⁶."""
    model = GPRegressor(Weibull(shape=1e5), kernel=Matern32(0.3), nugget=0.1, learn=False)
    y = 1.0 + X[:, 0]
    np.testing.assert_allclose(model.fit(X, y).posterior_.mean, np.log(y[model.graph_.order]), atol=1e-3)


def test_no_step_from_a_mean_that_is_far_astray():
    """As a network of odd weights leads to: exp(m) is infinite, and so is the precision."""
    prior = NNGP(Matern32(0.3), 0.1, X, build_graph(X, 5))
    data = Data(Poisson(), np.zeros(40))
    problem = Problem(FAMILIES["full"](prior), data, Stack(Process(prior)), (1e-6, 1e-6))
    state = State(np.full(40, 1e3), _Given(np.ones(40), np.ones(40), None), np.full(40, 1e3), data, 0.0)
    assert problem._improve_mean(state) is state
