"""Site precisions beyond all numbers, and steps that lead nowhere."""

from __future__ import annotations

import contextlib
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize, root
from scipy.spatial.distance import cdist

from npvi import GPRegressor
from npvi.components import Process, SolverLog, Stack
from npvi.graph import build_graph
from npvi.inference import FAMILIES, Start, fit_posterior, newton
from npvi.inference.data import Data
from npvi.inference.dense_newton import DenseStep, dense_step
from npvi.inference.loop import ascend
from npvi.inference.newton import Problem, State, _agreeing, _Given
from npvi.kernels import RBF, Linear, Matern32, RationalQuadratic
from npvi.likelihoods import CensoredGaussian, Poisson, StudentT, Weibull
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


def test_a_constant_that_nothing_holds_stays_among_the_data():
    """Between Student t's outliers log p bends upwards: Newton's step, which took that for nothing, went to 1e15."""
    places = [
        [0.00837374, 0.00330279],
        [0.00568329, 0.00870456],
        [0.00693843, 0.00512704],
        [0.02120672, 0.00427977],
        [0.00654257, 0.01936923],
        [0.00110076, 0.00933853],
        [0.02177369, 0.01929707],
    ]
    y = np.array([111.08268841, 181.21163528, 188.68675795, 234.32850331, 54.10491559, 146.09915027, -30.90067894])
    kernel = Matern32(0.03334138139318648)
    model = GPRegressor("student_t", kernel=kernel, n_neighbors=5, learn=False).fit(places, y)
    assert model.fit_info_["converged"]
    assert y.min() < model.posterior_.mean.mean() < y.max()
    assert model.elbo_ > -200.0  # at 1e15 it is below -1,000


def test_outliers_that_share_what_is_not_known():
    """Of a row's variance all but a millionth is that of the constant: a difference of the two was some other number,
    which held the fit at a residual of 10⁻³."""
    places, y = [[0.01941085, 0.00795433], [0.10834244, 0.01435968]], np.array([2344.31591902, -1235.8402043])
    kernel = Matern32(0.0087) * RationalQuadratic(0.0261)
    settings = {"prior": "nystrom", "n_inducing": 1, "nugget": 0.096, "learn": False}
    model = GPRegressor("student_t", kernel, **settings).fit(places, y)
    assert model.fit_info_["converged"]


@pytest.mark.parametrize("likelihood", ["hurdle_poisson", "poisson"])
def test_expected_counts_beyond_all_numbers_are_refused_in_words(likelihood):
    """The spread of a constant was off by more than all numbers, and so was its singular value."""
    y = np.random.default_rng(0).poisson(0.7, len(X)).astype(float)
    model = GPRegressor(likelihood, Matern32(0.3, 1e8), nugget=0.1, learn=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        refused = pytest.raises(ValueError, match="variance of the kernel")
        with refused if likelihood == "hurdle_poisson" else contextlib.nullcontext():
            model.fit(X, y)


class _Still:
    """A climb whose steps change nothing that can be told."""

    log = SolverLog()
    steps = 0

    def complete(self, state):
        return True

    def certificate(self, state):
        return {"elbo": state.elbo, "mean_residual": 0.5, "covariance_residual": 0.0}

    def rounded(self, state):
        return False

    def improve(self, state):
        self.steps += 1
        return SimpleNamespace(elbo=state.elbo)


def test_a_climb_that_stands_still_ends():
    problem = _Still()
    _, info = ascend(problem, SimpleNamespace(elbo=-1.0), (1e-7, 1e-7))
    assert not info["converged"]
    assert problem.steps < 50


def test_sites_that_no_variance_changes_are_not_bisected(monkeypatch):
    """Those of responses that were observed, next to some that are limits."""
    rows = []
    monkeypatch.setattr(newton, "_agreeing", lambda data, mean, others, one, *_: rows.append(len(mean)) or one)
    prior = NNGP(Matern32(0.3), 0.1, X, build_graph(X, 5))
    data = Data(CensoredGaussian(1e-2), np.zeros(40), {"censored": np.where(np.arange(40) < 4, 1.0, 0.0)})
    problem = Problem(FAMILIES["full"](prior), data, Stack(Process(prior)), (1e-6, 1e-6))
    mean, v = np.zeros(40), np.full(40, 1e-2)
    proposed = data.expectations(mean, 4.0 * v).precision
    before = proposed.copy()
    problem._hold(proposed, mean, v, 4.0 * v, 1.0 / v, np.zeros(40))
    assert rows == [4]
    np.testing.assert_array_equal(proposed[4:], before[4:])


@pytest.mark.filterwarnings("error")
def test_sites_that_are_infinite_before_and_after_a_step():
    """Of a Weibull far beyond all y: no difference of two infinities reaches the user."""
    data, proposed, mean = Data(Weibull(2.0), np.ones(1)), np.full(1, np.inf), np.full(1, -800.0)
    Problem._hold(SimpleNamespace(data=data), proposed, mean, np.ones(1), 4.0 * np.ones(1), np.ones(1), np.zeros(1))
    assert proposed == np.inf


def test_one_response_far_from_all_others_under_laplace_noise():
    """Its scale is 10¹⁰ and slopes 10⁻¹¹: less than what rounding of f makes of them, so that no residual got small."""
    places, rng = np.random.default_rng(0).uniform(size=(40, 2)), np.random.default_rng(1)
    y = rng.normal(size=40)
    y[3] = 1e12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GPRegressor("laplace").fit(places, y)
    assert model.fit_info_["converged"]
    assert model.fit_info_["n_iter"] < 50


def test_a_step_that_crosses_a_limit_does_not_hold_back_variances():
    """Limits of noise 10⁻³ are walls; from narrow sites behind them every step ran into one, and a hundredth of each
    was taken, of variances as well."""
    places, rng = np.random.default_rng(0).uniform(size=(30, 2)), np.random.default_rng(1)
    prior = NNGP(Linear(10.0), 3.0, places, build_graph(places, 10))
    limits = np.where(np.arange(30) % 7 == 0, np.where(np.arange(30) % 2, -1.0, 1.0), 0.0)
    data, limited = Data(CensoredGaussian(7e-7), 2.5 * rng.normal(size=30), {"censored": limits}), limits != 0.0
    start = Start(data.y + 0.2 * limits, np.where(limited, 1e-3, 7e-7), np.where(limited, 1e3, 1.4e6))
    fit = fit_posterior(FAMILIES["full"](prior), data, Stack(Process(prior)), start)
    assert fit.info["converged"]
    assert fit.info["n_iter"] < 45  # 82 before


def test_mean_and_variances_that_hold_each_other_back():
    """Shares next to 1 and a smooth f: of the mean's step together with V's so little was taken, again and again, that
    the climb crawled; one after the other they get there."""
    rng = np.random.default_rng(3)
    places = rng.uniform(size=(12, 2))
    share = 1.0 / (1.0 + np.exp(-2.0 * np.sin(6.0 * places).sum(axis=1) - 1.0))
    y = np.clip(rng.beta(5.0 * share, 5.0 * (1.0 - share)), 1e-6, 1.0 - 1e-6)
    settings = {"kernel": RBF(3.0), "mean": "linear", "n_neighbors": 11, "order": "grid", "learn": False}
    info = GPRegressor("beta", **settings).fit(places, y).fit_info_
    assert info["converged"]
    assert info["n_iter"] < 20  # 55 before


@pytest.mark.parametrize("family", ["full", "npvi"])
@pytest.mark.parametrize("y", [np.zeros(12), np.eye(12)[3]], ids=["zeros", "a single one"])
def test_counts_under_a_wide_prior_whose_variances_answer_for_each_other(y, family):
    """Each variance found as if those of its neighbours stood still: 200 iterations weren't enough. The best bound is
    SciPy's, over means and site precisions."""
    places = X[:12]
    prior = NNGP(Matern32(0.3, 1e5), 1e-3, places, build_graph(places, 11))
    fit = fit_posterior(FAMILIES[family](prior), Data(Poisson(), y), Stack(Process(prior)))
    assert fit.info["converged"]
    assert fit.info["n_iter"] < 60  # 200 without an end before
    distance = np.sqrt(3.0) * cdist(places, places) / 0.3
    S = 1e5 * (1.0 + distance) * np.exp(-distance) + 1e-3 * np.eye(12)

    def falls_short(at):
        m, w = at[:12], np.exp(at[12:])
        V = S - S @ np.linalg.solve(S + np.diag(1.0 / w), S)
        divergence = 0.5 * (np.trace(np.linalg.solve(S, V)) + m @ np.linalg.solve(S, m) - 12.0)
        divergence += 0.5 * (np.linalg.slogdet(S)[1] - np.linalg.slogdet(V)[1])
        return divergence - float(np.sum(y * m - np.exp(np.minimum(m + 0.5 * np.diag(V), 300.0))))

    w = np.exp(fit.posterior.mean + 0.5 * fit.posterior.variance)  # at the optimum
    reached = np.concatenate([fit.posterior.mean, np.log(w)])
    assert fit.elbo == pytest.approx(-falls_short(reached), abs=1e-4)
    rng = np.random.default_rng(1)
    starts = [reached, reached + 0.03 * rng.normal(size=24)]
    best = max(-minimize(falls_short, start, method="BFGS", options={"maxiter": 400}).fun for start in starts)
    assert fit.elbo >= best - 1e-4


def test_zeros_under_a_low_rank_prior_converge():
    """Variances crept towards each other until rounding ended it."""
    settings = {"kernel": Matern32(0.3, 100.0), "prior": "fitc", "n_inducing": 10, "learn": False}
    with pytest.warns(UserWarning, match="all counts are 0"):
        info = GPRegressor("poisson", **settings).fit(X, np.zeros(40)).fit_info_
    assert info["converged"]
    assert info["n_iter"] < 30  # 55 before


def test_the_dense_step_is_newtons():
    """Of the bound in (m, v), by differences of what it says."""
    rng = np.random.default_rng(4)
    half = rng.normal(size=(4, 4))
    P, m, w, y = half @ half.T + 0.5 * np.eye(4), rng.normal(size=4), rng.uniform(0.5, 2.0, 4), np.array([0.0, 1, 2, 0])

    def sites(v):
        return root(lambda w: np.diag(np.linalg.inv(P + np.diag(w))) - v, w, tol=1e-13).x

    def bound(at):
        m, v = at[:4], at[4:]
        w = sites(v)
        said = np.sum(y * m - np.exp(m + 0.5 * v))
        return said - 0.5 * m @ P @ m + 0.5 * w @ v - 0.5 * np.linalg.slogdet(P + np.diag(w))[1]

    V = np.linalg.inv(P + np.diag(w))
    here, steps = np.concatenate([m, np.diag(V)]), 3e-4 * np.eye(8)
    slope = np.array([(bound(here + e) - bound(here - e)) / 6e-4 for e in steps])
    bend = np.array(
        [
            [bound(here + a + b) - bound(here + a - b) - bound(here - a + b) + bound(here - a - b) for b in steps]
            for a in steps
        ]
    ) / (4.0 * 3e-4**2)
    expected = -np.linalg.solve(bend, slope)
    step = dense_step(V, w, Data(Poisson(), y).curvatures(m, np.sqrt(np.diag(V))), P @ m)
    np.testing.assert_allclose(step.mean, expected[:4], rtol=1e-3, atol=1e-4)
    small = 1e-5
    moved = np.diag(np.linalg.inv(P + np.diag(w + small * step.site_precision)))
    np.testing.assert_allclose((moved - np.diag(V)) / small, expected[4:], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(step.from_sites(w, small), w + small * step.site_precision, rtol=1e-8)


def test_a_dense_step_from_sites_that_say_nothing():
    """Of a w next to 0, and of one below, with no NumPy warning; 1/w moves along the line, and w stays above 0."""
    step = DenseStep(np.zeros(4), np.array([-1e10, 1.0, -1.0, -3.0]))
    found = step.from_sites(np.array([1e-300, 1e-300, -0.5, 1.0]), 1.0)
    np.testing.assert_array_equal(found, [0.0, 1.0, -1.5, 0.25])


def test_no_dense_step_of_what_is_no_number():
    V, data = np.diag([1e-290, 1.0]), Data(StudentT(1e-150), np.array([0.0, 1.0]))
    at = data.curvatures(np.zeros(2), np.sqrt(np.diag(V)))
    assert dense_step(V, np.ones(2), at, np.zeros(2)) is None
