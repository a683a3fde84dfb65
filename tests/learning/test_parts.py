"""Learning predictors made of parts: against published numbers, and dense oracles of the same bound."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import linalg, optimize, special

from npvi.components import Coefficients
from npvi.components.spline import Spline
from npvi.inference import Data
from npvi.kernels import Matern12, Matern32
from npvi.learning import parts as parts_module
from npvi.learning.parts import GroupModel, Held, PartsObjective, ProcessModel, SplineModel, learn_parts
from npvi.learning.space import learnable
from npvi.likelihoods import Bernoulli, Binomial, Gamma, Gaussian, NegativeBinomial, Poisson, StudentT
from npvi.parameters import Parameter, PenalisedComplexity, bounded, fixed
from tests.support.oracle import matern32

FOLDER = Path(os.environ.get("NPVI_DATA", ""), "models")
needs_data = pytest.mark.skipif(
    not (FOLDER / "sleepstudy.csv").exists(), reason="NPVI_DATA names no folder with the data"
)

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def binomial(y, n):
    """log p(y | f), its slope and minus its curvature."""
    y, n = y[:, None], n[:, None]
    constant = special.gammaln(n + 1.0) - special.gammaln(y + 1.0) - special.gammaln(n - y + 1.0)

    def terms(f):
        p = special.expit(f)
        return constant + y * f - n * np.logaddexp(0.0, f), y - n * p, n * p * (1.0 - p)

    return terms


def poisson(y):
    y = y[:, None]
    return lambda f: (y * f - np.exp(f) - special.gammaln(y + 1.0), y - np.exp(f), np.exp(f))


def dense_bound(A, P, terms, z=None):
    """The bound of the best N(z, V) for z ~ N(0, P⁻¹), flat where P is zero, by Newton's method and fixed points."""
    n = len(P)
    proper = np.flatnonzero(np.diag(P) > 0.0)
    z = np.zeros(n) if z is None else z
    v, last = np.full(len(A), 0.1), -np.inf
    for _ in range(300):
        value, slope, w = (part @ WEIGHTS for part in terms((A @ z)[:, None] + np.sqrt(v)[:, None] * NODES))
        V = linalg.inv(P + A.T @ (w[:, None] * A))
        v = np.einsum("ij,jk,ik->i", A, V, A)
        step = V @ (A.T @ slope - P @ z)
        z = z + step * min(1.0, 2.0 / np.abs(A @ step).max(initial=1e-300))
        value = terms((A @ z)[:, None] + np.sqrt(v)[:, None] * NODES)[0] @ WEIGHTS
        logdets = np.linalg.slogdet(P[np.ix_(proper, proper)])[1] + np.linalg.slogdet(V)[1]
        flat = n - len(proper)
        bound = value.sum() + 0.5 * (logdets - z @ P @ z - np.sum(P * V) + n + flat * np.log(2.0 * np.pi))
        if abs(bound - last) < 1e-11 * abs(bound) and np.abs(A @ step).max() < 1e-8:
            break
        last = bound
    return bound, z


def best(A, precision, terms, start):
    """The logarithms of parameters with the largest `dense_bound`, and that."""
    warm = [None]

    def loss(x):
        bound, warm[0] = dense_bound(A, precision(np.exp(x)), terms, warm[0])
        return -bound

    found = optimize.minimize(loss, np.log(start), method="BFGS", jac="3-point", options={"gtol": 1e-5})
    return np.exp(found.x), -found.fun


def indicators(at):
    return np.eye(int(at.max()) + 1)[at]


@needs_data
def test_reaction_times_and_their_correlated_slopes():
    """lmer(Reaction ~ Days + (Days | Subject)): with Gaussian noise the bound is the restricted likelihood."""
    table = pd.read_csv(FOLDER / "sleepstudy.csv")
    H = np.column_stack([np.ones(len(table)), table["Days"]])
    at = np.unique(table["Subject"], return_inverse=True)[1]
    models = [GroupModel("subject", 18, at, [20.0, 5.0], H), Held("fixed", Coefficients(H))]
    found = learn_parts(models, Data(Gaussian(variance=1000.0), table["Reaction"].to_numpy(float)))
    assert found.value == pytest.approx(-871.8141, abs=1e-3)
    variances = np.square(found.values["subject__sd"])
    np.testing.assert_allclose(variances, [612.10, 35.07], rtol=1e-3)
    assert found.values["subject__correlation"][0] == pytest.approx(0.066, abs=1e-3)
    assert found.values["likelihood__variance"] == pytest.approx(654.94, rel=1e-4)
    coefficients = found.fit.stack.split(found.fit.posterior.mean)[1]
    np.testing.assert_allclose(coefficients, [251.4051, 10.4673], atol=1e-3)
    assert not found.dropped
    assert all(np.abs(slopes).max() < 1e-2 for slopes in found.gradient.values())


@needs_data
def test_matings_of_salamanders_crossed():
    table = pd.read_csv(FOLDER / "salamander.csv")
    female, male = (np.unique(table[name], return_inverse=True)[1] for name in ("Female", "Male"))
    F, M = ((table[name] == "W").to_numpy(float) for name in ("TypeF", "TypeM"))
    H = np.column_stack([np.ones(len(table)), F, M, F * M])
    y = table["Mate"].to_numpy(float)
    models = [
        GroupModel("female", 60, female, 0.5),
        GroupModel("male", 60, male, 0.5),
        Held("fixed", Coefficients(H)),
    ]
    found = learn_parts(models, Data(Bernoulli(), y))
    A = np.hstack([indicators(female), indicators(male), H])

    def precision(sd):
        return np.diag(np.concatenate([np.full(60, sd[0] ** -2), np.full(60, sd[1] ** -2), np.zeros(4)]))

    sd, bound = best(A, precision, binomial(y, np.ones(len(y))), [1.0, 1.0])
    assert found.value == pytest.approx(bound, abs=1e-3)
    np.testing.assert_allclose([found.values["female__sd"], found.values["male__sd"]], sd, atol=1e-3)


@needs_data
def test_herds_with_a_disease():
    table = pd.read_csv(FOLDER / "cbpp.csv")
    herd = np.unique(table["herd"], return_inverse=True)[1]
    period = np.unique(table["period"], return_inverse=True)[1]
    H = np.column_stack([np.ones(len(table)), indicators(period)[:, 1:]])
    y, n = table["incidence"].to_numpy(float), table["size"].to_numpy(float)
    models = [GroupModel("herd", 15, herd, 0.3), Held("period", Coefficients(H))]
    found = learn_parts(models, Data(Binomial(), y, {"trials": n}))
    A = np.hstack([indicators(herd), H])
    sd, bound = best(A, lambda sd: np.diag(np.append(np.full(15, sd[0] ** -2), np.zeros(4))), binomial(y, n), [1.0])
    assert found.value == pytest.approx(bound, abs=1e-3)
    assert found.values["herd__sd"] == pytest.approx(sd[0], abs=1e-3)


@needs_data
@pytest.mark.slow
def test_presence_of_cod_and_depth():
    """sdmTMB's present ~ depth + depth² + a field (Matérn of smoothness 1 on a mesh): within its standard errors."""
    table = pd.read_csv(FOLDER / "pcod.csv")
    H = np.column_stack([np.ones(len(table)), table["depth_scaled"], table["depth_scaled2"]])
    models = [
        ProcessModel("space", table[["X", "Y"]].to_numpy(float), Matern32(15.0, 2.0), fixed(1e-3), 15),
        Held("fixed", Coefficients(H)),
    ]
    found = learn_parts(models, Data(Bernoulli(), table["present"].to_numpy(float)))
    coefficients = found.fit.stack.split(found.fit.posterior.mean)[1]
    errors = np.array([0.44, 0.21, 0.13])
    assert np.abs((coefficients - [1.14, -2.17, -1.59]) / errors).max() < 1.0
    np.testing.assert_allclose(np.sqrt(found.fit.posterior.variances.numbers[1]), errors, rtol=0.2)
    assert 2.0 * found.values["space__kernel__length_scale"] == pytest.approx(43.54, rel=0.25)
    assert np.sqrt(found.values["space__kernel__variance"]) == pytest.approx(1.65, rel=0.1)


@needs_data
@pytest.mark.parametrize("space", [False, True])
def test_counts_of_warblers_by_observers_and_in_space(space):
    """Hooded warblers of spAbundance's vignette: posterior means, with standard deviations, of its 60,000 draws."""
    table = pd.read_csv(FOLDER / "bbs.csv")
    columns = [(table[name] - table[name].mean()) / table[name].std() for name in ("bio2", "bio8", "bio18")]
    columns += [(table[name] - table[name].mean()) / table[name].std() for name in ("forest", "devel", "day", "tod")]
    H = np.column_stack([np.ones(len(table)), *columns[:6], columns[5] ** 2, columns[6]])
    at = np.unique(table["obs"], return_inverse=True)[1]
    models = [GroupModel("observer", 59, at, 1.0), Held("fixed", Coefficients(H, np.full(9, 1.0 / 2.72)))]
    published = {
        False: "-.2307 -.2743 -.0837 .0744 .7173 -.1723 -.5673 -.3732 1.4681",
        True: "-.1236 .0306 -.0696 -.0608 .8874 .1285 -.5628 -.2963 1.0473",
    }
    deviation = {
        False: ".3418 .1144 .1597 .1259 .1454 .1381 .1561 .1384 .3777",
        True: ".3074 .1939 .2031 .1988 .2337 .2021 .2165 .1924 .3391",
    }
    mean, sd = (np.array(one[space].split(), dtype=float) for one in (published, deviation))
    if space:  # the published range; with one that is free, and no prior, a far longer one is likelier
        X = table[["X", "Y"]].to_numpy(float)
        models.append(ProcessModel("space", X, Matern12(fixed(1.0 / 1.26), 1.0), fixed(1e-4), 15))
    found = learn_parts(models, Data(Poisson("exp"), table["HOWA"].to_numpy(float)))
    coefficients = found.fit.stack.split(found.fit.posterior.mean)[1]
    assert np.abs((coefficients - mean) / sd).max() < 0.5
    spread = np.sqrt(found.fit.posterior.variances.numbers[1])
    np.testing.assert_allclose(spread, sd, rtol=0.25)
    if space:
        assert abs(found.values["observer__sd"] ** 2 - 1.061) < 0.836
        assert abs(found.values["space__kernel__variance"] - 1.087) < 0.436
    else:
        assert abs(found.values["observer__sd"] ** 2 - 3.0363) < 1.131


def survey(rows=300, places=60, levels=25, seed=0):
    """Counts at places, by observers, along a covariate; the models, and what the oracle needs."""
    rng = np.random.default_rng(seed)
    X, place = rng.uniform(size=(places, 2)), np.append(np.arange(places), rng.integers(places, size=rows - places))
    observer, x = rng.integers(levels, size=rows), rng.uniform(size=rows)
    surface = linalg.cholesky(matern32(X, X, 0.3, 0.5) + 1e-3 * np.eye(places), lower=True)
    eta = 1.0 + (surface @ rng.standard_normal(places))[place] + 0.4 * rng.standard_normal(levels)[observer]
    eta += np.sin(6.0 * x)
    spline = Spline.of(x, 9)
    models = [
        ProcessModel("space", X, Matern32(0.2, 1.0), fixed(1e-3), places - 1, place),
        GroupModel("observer", levels, observer, 1.0),
        SplineModel("depth", spline, x, 0.1, 1e-2),
        Held("mean", Coefficients(np.ones((rows, 1)), np.array([0.01]))),
    ]
    A = np.hstack([indicators(place), indicators(observer), spline.functions(x), np.ones((rows, 1))])

    def precision(at):
        length, variance, sd, smoothing = at
        return linalg.block_diag(
            linalg.inv(matern32(X, X, length, variance) + 1e-3 * np.eye(places)),
            np.eye(levels) / sd**2,
            smoothing * spline.penalty + 1e-2 * np.outer(spline.linear, spline.linear),
            np.array([[0.01]]),
        )

    return models, A, precision, rng.poisson(np.exp(eta)).astype(float)


@pytest.mark.slow
def test_a_surface_a_group_and_a_smooth():
    models, A, precision, y = survey()
    found = learn_parts(models, Data(Poisson("exp"), y))
    names = ["space__kernel__length_scale", "space__kernel__variance", "observer__sd", "depth__smoothing"]
    learned = np.array([found.values[name] for name in names])
    at, bound = best(A, precision, poisson(y), [0.4, 0.4, 0.5, 0.02])
    assert found.value == pytest.approx(bound, abs=1e-3)
    np.testing.assert_allclose(np.log(learned), np.log(at), atol=5e-3)
    assert dense_bound(A, precision(learned), poisson(y))[0] == pytest.approx(found.value, abs=1e-5)


def test_factors_and_draws_learn_about_the_same():
    """Without dense matrices: as likely as what is learned with them, within what draws leave."""
    models, _, _, y = survey()
    data = Data(Poisson("exp"), y)
    exact = learn_parts(models, data)
    near = learn_parts(models, data, dense=0)
    value, _ = PartsObjective(models, data)(near.values)
    assert value > exact.value - 0.02
    assert near.evaluations < 20


def test_many_rows_begin_with_some_of_them(monkeypatch):
    """And end where they would without."""
    models, _, _, y = survey(900, 200, 70, seed=1)
    data = Data(Poisson("exp"), y)
    whole = learn_parts(models, data, dense=0)
    monkeypatch.setattr(parts_module, "_SIZES", (200, 400))
    begun = learn_parts(models, data, dense=0)
    assert begun.value > whole.value - 0.1
    assert begun.evaluations < whole.evaluations


def test_a_part_of_some_rows():
    """What they see of it has the variance that it has among all rows."""
    rng = np.random.default_rng(0)
    models, _, _, _ = survey(300, 60, 25)
    weight = np.column_stack([np.ones(300), rng.standard_normal(300)])
    models.append(GroupModel("slopes", 25, models[1].at, [1.0, 0.5], weight, 0.2))
    models.append(ProcessModel("trend", rng.uniform(size=(300, 2)), Matern32(0.2), 0.1, 12, weight=weight[:, 1]))
    rows = np.sort(rng.choice(300, 80, replace=False))
    for model in models:
        values = {name: sought.value for name, sought in model.sought.items()}
        every, some = model.component(values), model.of_rows(rows).component(values)
        assert some.size <= every.size
        np.testing.assert_allclose(some.row_variance(10.0), every.row_variance(10.0)[rows], rtol=1e-10)
        assert model.alike is None or len(model.alike) == 300


RESPONSES = {
    "gaussian": (Gaussian(0.5), lambda rng, f: f + 0.7 * rng.standard_normal(len(f))),
    "negative binomial": (NegativeBinomial(2.0, link="exp"), lambda rng, f: rng.poisson(np.exp(f)) + 0.0),
    "gamma": (Gamma(2.0), lambda rng, f: rng.gamma(2.0, np.exp(f) / 2.0)),
    "student t": (StudentT(0.6, 5.0), lambda rng, f: f + 0.6 * rng.standard_t(5.0, len(f))),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_gradients_by_differences(name):
    """In every kind of parameter, priors included."""
    likelihood, respond = RESPONSES[name]
    rng = np.random.default_rng(3)
    rows = 120
    X, place, subject = rng.uniform(size=(40, 2)), rng.integers(40, size=rows), rng.integers(12, size=rows)
    x, weight = rng.uniform(size=rows), np.column_stack([np.ones(rows), rng.standard_normal((rows, 2))])
    kernel = Matern32(bounded(0.3, 0.01, 3.0), Parameter(0.5, prior=PenalisedComplexity(0.5, 1.0)))
    sd = Parameter([0.5, 0.4, 0.3], prior=(0.0, 2.0))
    models = [
        ProcessModel("space", X, kernel, 0.1, 12, place),
        ProcessModel("trend", X, Matern32([0.4, 0.6], 0.3), fixed(1e-3), 12, place, rng.standard_normal(rows)),
        GroupModel("subject", 12, subject, sd, weight, [0.3, -0.2, 0.4]),
        SplineModel("depth", Spline.of(x, 8), x, 0.05),
        Held("mean", Coefficients(np.ones((rows, 1)))),
    ]
    y = respond(rng, 0.6 * rng.standard_normal(12)[subject] + np.sin(5.0 * x))
    objective = PartsObjective(models, Data(likelihood, y), 0.1 * rng.standard_normal(rows))
    z = objective.space.vector()
    assert len(z) == 13 + len(learnable(likelihood, "likelihood"))
    _, gradient = objective.on_vector(z)
    for k, coordinate in enumerate(objective.space.coordinates):
        step = 1e-3 * np.eye(len(z))[k]
        ends = [objective.on_vector(z + sign * step)[0] for sign in (1.0, -1.0)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=1e-4, abs=1e-4), coordinate.name


@pytest.mark.parametrize(("levels", "dense"), [(20, None), (200, 0)])
def test_no_variation_between_levels_is_an_answer(levels, dense):
    """Levels that vary less than chance has it: the group is dropped, all else is as it would be without it."""
    rng = np.random.default_rng(5)
    rows = 10 * levels
    # every level has some of each size
    y = np.sort(rng.poisson(np.exp(1.0 + 0.5 * rng.standard_normal(rows)))).reshape(10, levels).T.ravel().astype(float)
    at, size = np.repeat(np.arange(levels), 10), np.tile(np.arange(10), levels) // 2
    rest = [GroupModel("size", 5, size, 1.0), Held("mean", Coefficients(np.ones((rows, 1))))]
    data = Data(Poisson("exp"), y)
    without = learn_parts(rest, data)
    found = learn_parts([GroupModel("level", levels, at, 1.0), *rest], data, dense=dense)
    assert found.dropped == ("level",)
    assert found.names == ("size", "mean")
    assert "level__sd" in found.at_bound
    assert found.values["level__sd"] == pytest.approx(1e-4)
    assert found.fit.elbo == pytest.approx(without.fit.elbo, abs=1e-5 if dense is None else 0.01)
    assert found.values["size__sd"] == pytest.approx(without.values["size__sd"], rel=1e-3 if dense is None else 0.05)
    # a user's bound is no variation that isn't there
    bound = learn_parts([GroupModel("level", levels, at, bounded(1.0, 0.2, 3.0)), *rest], data, dense=dense)
    assert bound.values["level__sd"] == pytest.approx(0.2)
    assert bound.dropped == ()
    assert "level__sd" in bound.at_bound


def test_a_straight_line_is_an_answer():
    rng = np.random.default_rng(6)
    x = np.linspace(0.0, 1.0, 80)
    y = 2.0 * x + np.tile([0.3, -0.3], 40)
    models = [SplineModel("x", Spline.of(x, 8), x, 1e-2), Held("mean", Coefficients(np.ones((80, 1))))]
    found = learn_parts(models, Data(Gaussian(1.0), y + 1e-3 * rng.standard_normal(80)))
    assert found.dropped == ()
    assert "x__smoothing" in found.at_bound
    eta = found.fit.stack.seen(found.fit.posterior.mean)
    assert np.abs(np.diff(eta, 2)).max() < 1e-5


def test_what_is_held_stays_and_priors_pull():
    models, _, _, y = survey(120, 30, 10)
    data, (space, _, depth, mean) = Data(Poisson("exp"), y), models
    group = GroupModel("observer", 10, models[1].at, 1.0)
    rate = 50.0  # of an exponential density of the standard deviation
    pulled = GroupModel("observer", 10, models[1].at, Parameter(1.0, prior=PenalisedComplexity(1.0, 1.0 / rate)))
    held = SplineModel("depth", depth.spline, depth.x, fixed(0.5), 1e-2)
    found = learn_parts([space, pulled, held, mean], data)
    assert found.values["depth__smoothing"] == 0.5
    assert "depth__smoothing" not in found.gradient
    assert found.values["space__nugget"] == 1e-3
    assert found.dropped == ()
    # the density of log sd is sd · exp(−rate · sd): where the bound's own slope is rate · sd − 1
    sd = found.values["observer__sd"]
    _, slopes = PartsObjective([space, group, held, mean], data)(found.values)
    assert sd * float(slopes["observer__sd"][0]) == pytest.approx(rate * sd - 1.0, abs=1e-2)
    assert rate * sd - 1.0 > 1.0


def test_two_parts_of_one_name_are_refused():
    part = Held("mean", Coefficients(np.ones((3, 1))))
    with pytest.raises(ValueError, match=r"names of their own.*\['mean', 'mean'\]"):
        learn_parts([part, part], Data(Gaussian(1.0), np.zeros(3)))
