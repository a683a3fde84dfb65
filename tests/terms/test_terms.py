"""Models made of terms: published numbers, what parts say, files, more data, and bad input."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import linalg
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import npvi
from npvi.components.spline import Spline
from npvi.likelihoods import Gaussian
from npvi.priors import NotPositiveDefiniteError
from npvi.terms.design import check_terms

FOLDER = Path(os.environ.get("NPVI_DATA", ""), "models")
needs_data = pytest.mark.skipif(
    not (FOLDER / "sleepstudy.csv").exists(), reason="NPVI_DATA names no folder with the data"
)
PLAIN = {"hyperprior": None, "coefficient_scale": None, "hyper": "plug-in"}


def survey(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    place = rng.uniform(size=(40, 2))
    at, site = rng.integers(40, size=rows), rng.integers(10, size=rows)
    depth = rng.uniform(0.0, 100.0, size=rows)
    eta = 1.0 + np.sin(6.0 * place[at, 0]) + 0.4 * rng.standard_normal(10)[site] + 0.5 * np.cos(depth / 15.0)
    return pd.DataFrame(
        {
            "x": place[at, 0],
            "y": place[at, 1],
            "depth": depth,
            "site": [f"s{number}" for number in site],
            "year": 2000 + rng.integers(4, size=rows),
            "forest": rng.uniform(size=rows),
            "hours": rng.uniform(1.0, 3.0, size=rows),
            "count": rng.poisson(np.exp(eta)),
        }
    )


def visits():
    """By many observers, of places along a covariate."""
    rng = np.random.default_rng(4)
    x, y = rng.uniform(size=(2, 90))
    t = pd.DataFrame({"x": x, "y": y, "z": 3.0 * x + 0.3 * rng.standard_normal(90), "who": rng.integers(40, size=90)})
    t["count"] = rng.poisson(np.exp(2.0 * x - 1.0 + 1.3 * rng.standard_normal(40)[t["who"]]))
    return t


FORMULA = "count ~ forest + s(depth) + (1|site) + gp(x, y) + offset(log(hours))"


@pytest.fixture(scope="module")
def fitted():
    t = survey()
    return npvi.GPRegressor("poisson", formula=FORMULA).fit(t), t


# -- published numbers ------------------------------------------------------------------------------------------------


@needs_data
def test_reaction_times():
    """lmer(Reaction ~ Days + (Days | Subject)), by REML."""
    table = pd.read_csv(FOLDER / "sleepstudy.csv")
    model = npvi.GPRegressor(formula="Reaction ~ Days + (1 + Days|Subject)", **PLAIN).fit(table)
    assert model.elbo_ == pytest.approx(-871.8141, abs=1e-3)
    values = model.summary()["value"]
    assert values["1 + Days|Subject__sd[intercept]"] ** 2 == pytest.approx(612.10, rel=1e-3)
    assert values["1 + Days|Subject__sd[Days]"] ** 2 == pytest.approx(35.07, rel=1e-3)
    assert values["1 + Days|Subject__correlation[0]"] == pytest.approx(0.066, abs=1e-3)
    assert values["likelihood__variance"] == pytest.approx(654.94, rel=1e-4)
    assert values["constant"] == pytest.approx(251.4051, abs=1e-2)
    assert values["Days"] == pytest.approx(10.4673, abs=1e-3)


@needs_data
def test_presence_of_cod_without_space():
    """The GLM of sdmTMB's article: a posterior mean is the likeliest value where every row is seen 10,000 times."""
    table = pd.read_csv(FOLDER / "pcod.csv")
    names, often = ["constant", "depth_scaled", "depth_scaled2"], np.full(len(table), 1e4)
    model = npvi.GPRegressor("bernoulli", formula="present ~ depth_scaled + depth_scaled2", **PLAIN)
    found = model.fit(table, sample_weight=often).summary().loc[names]
    np.testing.assert_allclose(found["value"], [0.56599, -1.03590, -0.99259], atol=1e-4)
    np.testing.assert_allclose(100.0 * found["standard_error"], [0.05979, 0.07266, 0.06066], atol=1e-4)
    once = model.fit(table).summary().loc[names]
    assert np.abs((once["value"] - found["value"]) / once["standard_error"]).max() < 0.1


@needs_data
def test_miles_per_gallon_at_the_penalties_of_mgcv():
    """gam(city.mpg ~ fuel + drive + s(weight) + s(hp)): effects, effective numbers of them, fitted values."""
    table = pd.read_csv(FOLDER / "mpg.csv")
    mgcv = json.loads((FOLDER / "mpg_mgcv_reference.json").read_text())["mpg_bs"]
    table = table[["city.mpg", "fuel", "drive", "weight", "hp"]].dropna().reset_index(drop=True)
    smooths = [
        npvi.Smooth(name, k=k, smoothing=strength / mgcv["sig2"], knots="quantiles")
        for name, k, strength in zip(("weight", "hp"), (12, 10), mgcv["sp"])
    ]
    noise = Gaussian(npvi.fixed(mgcv["sig2"]))
    model = npvi.GPRegressor(noise, terms=[*smooths, npvi.Linear("fuel", "drive")], **PLAIN).fit(table, "city.mpg")
    np.testing.assert_allclose(model.parts_["edf"][:2], mgcv["edf"], rtol=1e-4)
    residuals = table["city.mpg"] - model.predict(table)
    assert float(residuals @ residuals) == pytest.approx(mgcv["deviance"], rel=1e-6)
    coefficients = model.summary().iloc[-4:]
    np.testing.assert_allclose(coefficients["value"], mgcv["p_coeff"], rtol=1e-4)
    np.testing.assert_allclose(coefficients["standard_error"], mgcv["se"][:4], rtol=1e-4)


@needs_data
def test_warblers_by_observers():
    table = pd.read_csv(FOLDER / "bbs.csv")
    for name in ("bio2", "bio8", "bio18", "forest", "devel", "day", "tod"):
        table[name] = (table[name] - table[name].mean()) / table[name].std()
    formula = "HOWA ~ bio2 + bio8 + bio18 + forest + devel + day + I(day**2) + tod + (1|obs)"
    model = npvi.GPRegressor("poisson", formula=formula).fit(table)
    found = model.summary()["value"].iloc[-9:]
    mean = np.array([-0.2307, -0.2743, -0.0837, 0.0744, 0.7173, -0.1723, -0.5673, -0.3732, 1.4681])
    sd = np.array([0.3418, 0.1144, 0.1597, 0.1259, 0.1454, 0.1381, 0.1561, 0.1384, 0.3777])
    assert np.abs((found - mean) / sd).max() < 1.0
    assert abs(model.summary()["value"]["1|obs__sd"] ** 2 - 3.0363) < 1.131


@needs_data
def test_prevalence_of_loa_loa():
    """The variance of a field of known range, which spaMM's dense Laplace approximation has as 1.515."""
    table = pd.read_csv(FOLDER / "loaloa.csv")
    field = npvi.Field("longitude", "latitude", kernel="matern12", range=npvi.fixed(1.4), n_neighbors=200)
    linear = npvi.Linear("elev1", "elev2", "elev3", "elev4", "maxNDVI1", "seNDVI")
    model = npvi.GPRegressor("binomial", terms=[field, linear], **PLAIN)
    model.fit(table, "npos", trials=table["ntot"])
    assert model.summary()["value"]["gp(longitude, latitude)__sd"] ** 2 == pytest.approx(1.515, rel=0.01)


# -- what is said -----------------------------------------------------------------------------------------------------


def test_parts_and_effects(fitted):
    model, _ = fitted
    parts = model.parts_
    assert list(parts.index) == ["s(depth)", "1|site", "gp(x, y)", "linear"]
    assert parts["share"].sum() == pytest.approx(1.0)
    assert (parts["edf"] > 0.0).all()
    assert (parts["edf"] < parts["numbers"]).all()
    effects = model.effects("1|site")
    assert list(effects["level"]) == [f"s{number}" for number in range(10)]
    assert effects["mean"].abs().max() < 3.0
    assert (effects["lower"] < effects["mean"]).all()
    assert model.effects().equals(model.effects(npvi.Group("site")))
    summary = model.summary()
    assert {"gp(x, y)__range", "gp(x, y)__sd", "1|site__sd", "s(depth)__sd", "constant", "forest"} <= set(summary.index)
    assert (summary["lower"] <= summary["value"] + 1e-9).all()


def test_parts_add_up(fitted):
    model, t = fitted
    one = model.fitted_.shares()[0][0]
    assert one.hyper is None
    dist = model.predict_dist(t[:20])
    alone = [model.predict_dist(t[:20], terms=[name]).parts[0].latent_mean for name in model.parts_.index]
    np.testing.assert_allclose(sum(alone), dist.parts[0].latent_mean, atol=1e-10)  # hours multiply the rate
    with pytest.raises(ValueError, match="there is no part 'depth'"):
        model.predict_dist(t, terms=["depth"])
    smooth = model.predict_dist(t[["depth"]], terms=["s(depth)"])  # needs no other column
    assert len(smooth) == len(t)


def test_files_keep_everything(fitted, tmp_path):
    model, t = fitted
    model.save(tmp_path / "model.npvi")
    again = npvi.load(tmp_path / "model.npvi")
    one, other = model.predict_dist(t), again.predict_dist(t)
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.std, other.std)
    pd.testing.assert_frame_equal(model.summary(), again.summary())
    np.testing.assert_array_equal(model.loo(), again.loo())
    np.testing.assert_array_equal(clone(again).fit(t).predict(t[:5]), model.predict(t[:5]))
    terms = [npvi.Field("x", "y", range=npvi.pc(below=0.1), by=npvi.AR1("year")), npvi.Group("site", slope="forest")]
    model = npvi.GPRegressor("poisson", terms=terms, learn=False).fit(t, "count")
    model.save(tmp_path / "terms.npvi")
    again = npvi.load(tmp_path / "terms.npvi")
    np.testing.assert_array_equal(model.predict(t), again.predict(t))
    assert again.terms == terms


def test_more_data_are_as_a_fit_to_all(fitted):
    _, t = fitted
    terms = [
        npvi.Field("x", "y", range=0.5, sd=0.8, n_neighbors=200),
        npvi.Group("site", sd=0.5),
        npvi.Linear("forest", scale=1.0),
    ]
    settings = {"learn": False, "hyper": "plug-in"}
    first = npvi.GPRegressor("poisson", terms=terms, **settings).fit(t[:120], "count")
    first.update(t[120:])
    whole = npvi.GPRegressor("poisson", terms=terms, **settings).fit(t, "count")
    np.testing.assert_allclose(first.predict(t), whole.predict(t), rtol=1e-4)
    assert len(first.loo()) == len(t)


def test_leaving_one_out_is_as_fitting_without(fitted):
    _, t = fitted
    t = t[:60]
    terms = [npvi.Field("x", "y", range=0.5, sd=0.8), npvi.Group("site", sd=0.5)]
    model = npvi.GPRegressor("poisson", terms=terms, learn=False).fit(t, "count")
    found = model.loo()
    for row in (0, 7, 31):
        rest = t.drop(index=row)
        without = npvi.GPRegressor("poisson", terms=terms, learn=False).fit(rest, "count")
        exact = without.predict_dist(t.iloc[[row]]).log_prob(t["count"].iloc[[row]])[0]
        assert found[row] == pytest.approx(exact, abs=0.03)


def test_compare_says_which_model_predicts_better(fitted):
    model, t = fitted
    poorer = npvi.GPRegressor("poisson", formula="count ~ forest + offset(log(hours))").fit(t)
    found = npvi.compare(model, poorer)
    assert found.difference > 2.0 * found.standard_error > 0.0
    assert found.difference == pytest.approx(model.loo().sum() - poorer.loo().sum())
    assert npvi.compare(poorer, model).difference == -found.difference


def test_rows_shuffled_are_the_same_model(fitted):
    model, t = fitted
    again = npvi.GPRegressor("poisson", formula=FORMULA).fit(t.sample(frac=1.0, random_state=3))
    np.testing.assert_allclose(again.predict(t), model.predict(t), rtol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_shuffled_are_the_same_model_where_next_to_nothing_is_noise(seed):
    """Two fields that see the same, 10⁶ to 10¹² times as sure of their sum as of each: numbers that rounding decides
    would lead learning, and what is integrated, elsewhere."""
    rng = np.random.default_rng(seed)
    n = 150
    table = pd.DataFrame({"x": rng.uniform(size=n), "z": rng.uniform(size=n), "year": rng.integers(4, size=n)})
    level = 0.2 * rng.standard_normal(4)[table["year"]]
    table["y"] = np.sin(3.0 * table["x"]) + np.cos(3.0 * table["z"]) + level + 1e-3 * rng.standard_normal(n)
    new = table.drop(columns="y").sample(20, random_state=1).assign(x=rng.uniform(size=20))

    def fit(rows):
        model = npvi.GPRegressor(Gaussian(variance=1e-6), formula="y ~ gp(x, z) + gp(x, z, by=year)").fit(rows)
        return model.fit_info_["hyper"], model.elbo_, model.predict_dist(new)

    hyper, bound, dist = fit(table)
    again, other, shuffled = fit(table.sample(frac=1.0, random_state=seed))
    assert again == hyper
    assert other == pytest.approx(bound, abs=1e-5)
    np.testing.assert_allclose(shuffled.mean, dist.mean, rtol=0, atol=1e-5 * dist.std.max())
    np.testing.assert_allclose(shuffled.std, dist.std, rtol=1e-4)


def test_scikit_learns_tools_take_them():
    t = survey(90)
    model = npvi.GPRegressor("poisson", terms=[npvi.Group("site"), npvi.Linear("forest")])
    scores = cross_val_score(model, t, t["count"], scoring=npvi.log_score_scorer, cv=3)
    assert np.isfinite(scores).all()


def test_levels_without_variation_are_an_answer():
    rng = np.random.default_rng(1)
    t = pd.DataFrame({"site": np.tile(np.arange(20), 10), "x": rng.standard_normal(200)})
    y = np.sort(rng.standard_normal(200)).reshape(10, 20).ravel()  # each site has some of each size
    terms = [npvi.Group("site"), npvi.Linear("x")]
    weak = npvi.GPRegressor(terms=terms).fit(t, y).summary()
    assert weak["value"]["1|site__sd"] < 0.2
    model = npvi.GPRegressor(terms=terms, **PLAIN).fit(t, y)
    assert model.parts_["left_out"]["1|site"]
    assert model.summary()["value"]["1|site__sd"] == 0.0
    assert model.effects()["mean"].abs().max() == 0.0


def test_two_covariates_and_a_circle():
    rng = np.random.default_rng(2)
    t = pd.DataFrame({"a": rng.uniform(size=400), "b": rng.uniform(size=400), "day": rng.uniform(0, 365, size=400)})
    truth = np.sin(5.0 * t["a"]) * np.cos(4.0 * t["b"]) + np.sin(2.0 * np.pi * t["day"] / 365.0)
    y = truth + 0.1 * rng.standard_normal(400)
    terms = [npvi.Smooth("a", "b", k=7), npvi.Smooth("day", cyclic=True, period=(0.0, 365.0))]
    model = npvi.GPRegressor(terms=terms).fit(t, y)
    assert np.sqrt(np.mean((model.predict(t) - truth) ** 2)) < 0.05
    ends = pd.DataFrame({"day": [0.0, 365.0, 10.0, 375.0]})
    found = model.predict_dist(ends, terms=[terms[1]]).mean
    np.testing.assert_allclose(found[[0, 2]], found[[1, 3]], atol=1e-8)


def test_smooths_by_levels_and_by_numbers():
    rng = np.random.default_rng(3)
    t = pd.DataFrame({"x": rng.uniform(size=500), "f": np.tile(["a", "b"], 250), "z": rng.standard_normal(500)})
    truth = np.where(t["f"] == "a", np.sin(6.0 * t["x"]), -t["x"]) + t["z"] * np.cos(3.0 * t["x"])
    y = truth + 0.1 * rng.standard_normal(500)
    model = npvi.GPRegressor(formula="y ~ f + z + s(x, by=f) + s(x, by=z)").fit(t.assign(y=y))
    assert np.sqrt(np.mean((model.predict(t) - truth) ** 2)) < 0.04


def test_a_smooth_costs_nothing_where_the_effect_is_straight():
    rng = np.random.default_rng(4)
    t = pd.DataFrame({"x": rng.uniform(-1.0, 1.0, size=200)})
    y = t["x"] + 0.5 * rng.standard_normal(200)
    curved = npvi.GPRegressor(terms=[npvi.Smooth("x")]).fit(t, y)
    straight = npvi.GPRegressor(terms=[npvi.Linear("x")]).fit(t, y)
    new = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 50)})
    off, best = (np.sqrt(np.mean((model.predict(new) - new["x"]) ** 2)) for model in (curved, straight))
    assert off < best + 0.05


def test_penalties_are_those_of_splines():
    """A fit at a smoothing parameter is ridge regression with the spline's own penalty."""
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(size=80))
    y = np.sin(6.0 * x) + 0.2 * rng.standard_normal(80)
    model = npvi.GPRegressor(Gaussian(npvi.fixed(0.04)), terms=[npvi.Smooth("x", k=9, smoothing=3.0)], **PLAIN)
    model.fit(pd.DataFrame({"x": x}), y)
    spline = Spline.of(x, 9)
    A = np.hstack([spline.functions(x), np.ones((80, 1))])
    S = linalg.block_diag(3.0 * spline.mgcv_scale(x) * spline.penalty, 0.0)
    exact = A @ np.linalg.solve(A.T @ A / 0.04 + S, A.T @ y / 0.04)
    np.testing.assert_allclose(model.predict(pd.DataFrame({"x": x})), exact, atol=1e-6)


def test_totals_by_level_are_those_of_each():
    t = survey()
    model = npvi.GPRegressor("poisson", formula=FORMULA).fit(t)
    dist = model.predict_dist(t)
    found = dist.total(by="year", of="mean", seed=0, n=2000)
    assert list(found) == [2000, 2001, 2002, 2003]
    for year, total in found.items():
        alone = dist.total((t["year"] == year).to_numpy(float), of="mean", seed=1, n=2000)
        assert total.mean == pytest.approx(alone.mean, rel=1e-9)
        assert total.std == pytest.approx(alone.std, rel=0.05)
    assert sum(total.mean for total in found.values()) == pytest.approx(dist.total(of="mean", n=100).mean)
    by_array = dist.total(by=t["year"].to_numpy(), of="mean", seed=0, n=2000)
    assert repr(by_array) == repr(found)
    assert found.frame().loc[2001, "lower"] < found[2001].mean
    normal = npvi.GPRegressor(terms=[npvi.Group("site")], hyper="plug-in").fit(t, t["depth"]).predict_dist(t)
    whole = normal.total(by="year")
    np.testing.assert_allclose(whole[2000].std, normal.total((t["year"] == 2000).to_numpy(float)).std)
    with pytest.raises(ValueError, match="no column 'month'"):
        dist.total(by="month")
    with pytest.raises(ValueError, match="one label per row"):
        dist.total(by=[1, 2])


# -- bad input --------------------------------------------------------------------------------------------------------

BAD = {
    "unknown column": (
        {"terms": [npvi.Smooth("deep")]},
        r"s\(deep\): there is no column 'deep': did you mean 'depth'\? There are x, y, depth, site",
    ),
    "unknown in a formula": ({"formula": "count ~ forrest"}, "there is no column 'forrest': did you mean 'forest'"),
    "unknown in an expression": ({"formula": "count ~ log(forrest)"}, "no column 'forrest': did you mean 'forest'"),
    "the responses": ({"formula": "count ~ forest + log(count)"}, "column 'count', are among the predictors"),
    "a date": ({"formula": "count ~ when"}, "linear: column 'when' has dates or durations: make it a number"),
    "missing words": ({"formula": "count ~ holes"}, r"linear: column 'holes' has NaN .* \(rows 0, 1\)"),
    "one level": ({"terms": [npvi.Group("one")]}, "there is one level"),
    "a constant": ({"terms": [npvi.Smooth("constant")]}, "1 different value"),
    "three values": ({"terms": [npvi.Smooth("three")]}, "3 different values"),
    "twice": ({"terms": [npvi.Smooth("depth"), npvi.Smooth("depth")]}, "is there twice"),
    "both": ({"terms": [npvi.Smooth("depth")], "formula": "count ~ forest"}, "give one of them"),
    "a kernel": ({"terms": [npvi.Smooth("depth")], "kernel": "rbf"}, "kernel doesn't go with"),
    "a method": ({"terms": [npvi.Smooth("depth")], "method": "npvi"}, "'npvi-nn' are for one surface"),
    "missing numbers": ({"terms": [npvi.Smooth("gaps")]}, r"'gaps' has NaN or no number in 2 of 150 rows \(rows"),
    "missing levels": ({"terms": [npvi.Group("holes")]}, "'holes' has NaN"),
    "words": ({"terms": [npvi.Smooth("site")]}, "has text"),
    "a log of nothing": ({"terms": [npvi.Linear("log(zero)")]}, "NaN or no number"),
    "no link": ({"terms": [npvi.Linear()], "link": "loglog"}, "link must be one of"),
    "link alone": ({"link": "exp"}, "link goes with terms"),
    "text": ({"terms": "s(depth)"}, "a list such as"),
    "texts": ({"terms": ["s(depth)"]}, "a formula is given as formula="),
    "one place": ({"terms": [npvi.Field("constant", "one")]}, "has text|at one place"),
    "shared first": ({"terms": [npvi.Field("x", "y", range="shared")]}, "that of the first field"),
    "a sphere": ({"terms": [npvi.Field("depth", "year", sphere=True)]}, "longitude .* and latitude"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    settings, words = BAD[name]
    t = survey().assign(one="a", constant=1.0, three=np.arange(150) % 3, zero=-1.0)
    t["gaps"] = t["depth"].where(t.index > 1)
    t["holes"] = t["site"].where(t.index > 1)
    t["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(t.index, unit="D")
    with pytest.raises(ValueError, match=words):
        npvi.GPRegressor("poisson", **settings).fit(t, "count")


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_without_rows(ordered):
    """As a part of a table has them; and other ones in another part."""
    t = survey()
    every = [f"s{number}" for number in range(12)]  # two of them nowhere
    t["site"] = pd.Categorical(t["site"], categories=every, ordered=ordered)
    few = t[t["site"].isin(every[:4])]
    model = npvi.GPRegressor("poisson", formula="count ~ forest + site", link="exp").fit(few)
    assert [name for name in model.summary().index if "site" in name] == ["site[s1]", "site[s2]", "site[s3]"]
    plain = npvi.GPRegressor("poisson", formula="count ~ forest + site", link="exp").fit(few.astype({"site": str}))
    np.testing.assert_allclose(
        model.predict(few.iloc[:3]), plain.predict(few.iloc[:3].astype({"site": str})), rtol=1e-6
    )
    assert model.predict(few.iloc[:1]).shape == (1,)


def test_bad_input_at_prediction(fitted):
    model, t = fitted
    with pytest.raises(ValueError, match=r"lacks the column 'depth'.*terms=\[…\]"):
        model.predict(t.drop(columns="depth"))
    words = npvi.GPRegressor("poisson", terms=[npvi.Linear("site")]).fit(t, "count")
    with pytest.raises(ValueError, match="has the level 'elsewhere', which the fit has not seen"):
        words.predict(t.assign(site="elsewhere"))
    by_year = npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y", by="year")], learn=False).fit(t, "count")
    with pytest.raises(ValueError, match=r"'2030'.*AR1"):
        by_year.predict(t.assign(year=2030))
    forecast = npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y", by=npvi.AR1("year"))], learn=False)
    later = forecast.fit(t, "count").predict_dist(t.assign(year=2030))
    assert (later.latent_var > 0.9 * 0.49).all()
    with pytest.raises(ValueError, match="this one has none"):
        npvi.GPRegressor("poisson", learn=False).fit(t[["x", "y"]], t["count"]).predict_dist(t[["x", "y"]], terms=["a"])
    with pytest.raises(AttributeError, match="see summary"):
        _ = model.kernel_


def test_a_field_may_be_constant_in_cells():
    t = survey()
    fine = npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y")], learn=False).fit(t, "count")
    coarse = npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y", cell=0.5)], learn=False).fit(t, "count")
    assert fine.parts_["numbers"]["gp(x, y)"] == len(t[["x", "y"]].drop_duplicates())
    assert coarse.parts_["numbers"]["gp(x, y)"] == 4
    same = pd.DataFrame({"x": [0.1, 0.4], "y": [0.1, 0.2]})
    assert np.ptp(coarse.predict(same)) < 1e-12
    rounded = t.assign(x=np.floor(t["x"] / 0.5) * 0.5 + 0.25, y=np.floor(t["y"] / 0.5) * 0.5 + 0.25)
    by_hand = npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y", range=0.4, sd=0.7)], learn=False)
    in_cells = npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y", range=0.4, sd=0.7, cell=0.5)], learn=False)
    expected = by_hand.fit(rounded, "count").predict(rounded)
    np.testing.assert_allclose(in_cells.fit(t, "count").predict(t), expected, rtol=1e-8)


def test_models_beside_the_best_one_have_no_wild_variances():
    """Where responses grow like exp η, means would be theirs alone."""
    formula = "count ~ s(depth) + (1|site) + gp(x, y)"
    model = npvi.GPRegressor("poisson", formula=formula, link="exp", hyper="integrate")
    shares = model.fit(survey(30)).fitted_.shares()
    assert len(shares) > 1
    best = model.fitted_.values
    for name in ("gp(x, y)__sd", "1|site__sd", "s(depth)__sd"):
        largest = max(node.values[name] for node, _ in shares)
        assert largest**2 <= best[name] ** 2 + 1.0 + 1e-9


def test_means_made_by_tails_are_said_to_be():
    t = survey()
    model = npvi.GPRegressor("poisson", formula="count ~ s(depth)", link="exp", hyper="plug-in").fit(t)
    far = t.head(3).assign(depth=1e4)
    with pytest.warns(UserWarning, match=r"in 3 of 3 rows.*quantile\(0.5\)"):
        model.predict(far)


def test_means_far_from_the_data_stay_within_reason():
    """With exp all the way, they are made by what is hardly possible; log scores can't tell the two apart."""
    t = visits()
    formula = "count ~ s(z) + (1|who) + gp(x, y)"
    seen, left_out = t[t["x"] < 0.4], t[t["x"] >= 0.4]
    default, plain = (npvi.GPRegressor("poisson", formula=formula, link=link).fit(seen) for link in (None, "exp"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        far, wild = default.predict_dist(left_out), plain.predict_dist(left_out)
    largest = t["count"].max()
    assert wild.mean.max() > 30.0 * largest
    assert far.mean.max() < 3.0 * largest
    assert far.log_prob(left_out["count"]).mean() > wild.log_prob(left_out["count"]).mean() - 0.05
    # where the data are the two are one model
    near = default.predict_dist(seen)
    assert np.abs(near.mean / plain.predict_dist(seen).mean - 1.0).mean() < 0.1


def test_an_offset_multiplies_rates_wherever_the_link_bends():
    t = survey()
    formula = "count ~ forest + s(depth) + (1|site)"
    by_offset = npvi.GPRegressor("poisson", formula=f"{formula} + offset(log(hours))", hyper="plug-in").fit(t)
    by_exposure = npvi.GPRegressor("poisson", formula=formula, hyper="plug-in").fit(t, exposure=t["hours"])
    assert by_offset.likelihood_.knee == pytest.approx(by_exposure.likelihood_.knee)
    new = t.head(10).assign(hours=1000.0)  # no warning that exposure is missing: it is the model's own
    np.testing.assert_allclose(by_offset.predict(new), by_exposure.predict(new, exposure=1000.0), rtol=1e-9)
    assert by_offset.elbo_ == pytest.approx(by_exposure.elbo_, abs=1e-9)
    joined = [
        by_offset.update(t[:5]).predict(new),
        by_exposure.update(t[:5], exposure=t["hours"][:5]).predict(new, exposure=1000.0),
    ]
    np.testing.assert_allclose(*joined, rtol=1e-9)


def test_iterations_end_though_integrals_are_rounded(monkeypatch):
    """Their errors differ from one variance to another, by which no step seemed to raise the bound any more."""
    from npvi.inference import fit

    iterations, ascend = [], fit.ascend

    def counted(*arguments):
        state, info = ascend(*arguments)
        iterations.append((info["n_iter"], info["converged"]))
        return state, info

    monkeypatch.setattr(fit, "ascend", counted)
    npvi.GPRegressor("poisson", formula="count ~ s(z) + (1|who) + gp(x, y)", hyper="integrate").fit(visits())
    assert len(iterations) > 30
    assert all(converged for _, converged in iterations)
    assert max(number for number, _ in iterations) <= 20


def test_iterations_on_the_way_to_hyper_parameters_count():
    """The last fit begins where learning has ended, and has hardly any of its own."""
    model = npvi.GPRegressor("poisson", formula="count ~ (1|who) + gp(x, y)", hyper="plug-in").fit(visits())
    assert model.n_iter_ == model.fit_info_["n_iter"] >= model.fit_info_["learning"]["evaluations"] > 1


def test_links_by_name():
    t = survey()
    formula = "count ~ forest + offset(log(hours))"
    found = {
        link: npvi.GPRegressor("poisson", formula=formula, link=link, hyper="plug-in").fit(t).likelihood_
        for link in (None, "exp", "softplus")
    }
    assert found["exp"].link == "exp"
    rates = t["count"] / t["hours"]
    assert found["softplus"].knee == pytest.approx(t["count"].sum() / t["hours"][t["count"] > 0].sum())
    assert found["softplus"].knee < found[None].knee <= 2.0 * rates.max()
    with pytest.raises(ValueError, match="link"):
        npvi.GPRegressor("poisson", formula=formula, link="log").fit(t)


@pytest.mark.parametrize("truth", ["multiplied", "added"])
def test_data_choose_a_link_where_they_tell(truth):
    rng = np.random.default_rng(0)
    t = pd.DataFrame(dict(zip("xyz", rng.uniform(size=(3, 400)))))
    t["who"] = rng.integers(20, size=400)
    eta = 2.0 + 1.2 * np.sin(6.0 * t["x"]) + 2.0 * t["z"] + 0.5 * rng.standard_normal(20)[t["who"]]
    t["count"] = rng.poisson(np.exp(eta) if truth == "multiplied" else 10.0 * np.logaddexp(0.0, eta - 1.5))
    model = npvi.GPRegressor("poisson", formula="count ~ z + (1|who) + gp(x, y)", hyper="plug-in").fit(t)
    link = model.fit_info_["link"]
    assert link["taken"] == (truth == "added")
    assert abs(link["gain"]) > 3.0
    assert (model.likelihood_.knee < t["count"].max()) == link["taken"]


def test_many_rows_choose_a_link_by_some(monkeypatch):
    from npvi.model import summed

    monkeypatch.setattr(summed, "_TELLING", 100)
    model = npvi.GPRegressor("poisson", formula=FORMULA, hyper="plug-in").fit(survey(250))
    assert model.fit_info_["link"]["rows"] == 100


def test_what_is_for_one_surface_says_so():
    t = survey(60)
    model = npvi.GPRegressor("poisson", formula="count ~ forest + gp(x, y)", hyper="plug-in")
    with pytest.raises(ValueError, match=r"npvi\.compare"):
        npvi.grid_search(model, t, t["count"])
    noisy = npvi.VaryingNoiseRegressor(npvi.GPRegressor(terms=[npvi.Smooth("x")]))
    with pytest.raises(ValueError, match="one surface"):
        noisy.fit(t[["x", "y"]], t["count"])
    assert len(model.partial_fit(t).predict(t[:2])) == 2
    with pytest.raises(ValueError, match=r"'forest' has NaN or no number"):
        model.fit(t.assign(forest=1e300))


def test_maps_know_where_the_data_are():
    pytest.importorskip("xarray")
    t = survey(60)
    model = npvi.GPRegressor("poisson", formula="count ~ forest + gp(x, y)", hyper="plug-in").fit(t)
    found = model.predict_grid(0.25, covariates={"forest": 0.5})
    assert found["mean"].shape == (4, 4)
    cell = pd.DataFrame({"x": [float(found["x"][1])], "y": [float(found["y"][2])], "forest": [0.5]})
    assert float(found["mean"][2, 1]) == pytest.approx(model.predict(cell)[0])


def test_warnings(fitted):
    _, t = fitted
    numbered = t.assign(row=np.arange(len(t)), twice=2.0 * t["forest"])
    with pytest.warns(UserWarning, match="every row has a level of its own"):
        npvi.GPRegressor("poisson", terms=[npvi.Group("row")], learn=False).fit(numbered, "count")
    with pytest.warns(UserWarning, match="follows from the other columns"):
        npvi.GPRegressor("poisson", terms=[npvi.Linear("forest", "twice")], learn=False).fit(numbered, "count")


@pytest.mark.filterwarnings("ignore:.*every row has a level of its own")
def test_settings_of_the_wrong_kind_are_named():
    X, y = np.random.default_rng(0).uniform(size=(30, 2)), np.arange(30.0)
    with pytest.raises(ValueError, match="slope must be a column"):
        npvi.Group("a", slope=1e300)
    with pytest.raises(ValueError, match="AR1: column must be"):
        npvi.AR1(float("nan"))
    with pytest.raises(ValueError, match=r"no factor: .* weights \(sample_weight\)"):
        npvi.GPRegressor(terms=[npvi.Smooth("x0"), npvi.Group("x1")]).fit(X, y, np.full(30, 1e30))
    model = npvi.GPRegressor(terms=[npvi.Linear("x0")]).fit(X, y)
    with pytest.raises(ValueError, match="terms must be terms of the model"):
        model.predict_dist(X, terms=10**30)
    with pytest.raises(ValueError, match="X must be a table"):
        model.predict_dist([[1.0, 2.0], [3.0]])
    with pytest.raises(ValueError, match="one place, in cells of 3"):
        npvi.GPRegressor(terms=[npvi.Field("x0", "x1", cell=3.0)]).fit(X, y)
    with pytest.raises(ValueError, match="by must be one label per row"):
        npvi.GPRegressor(learn=False).fit(X, y).predict_dist(X).total(by=[[1.0, 2.0], [3.0]])


@pytest.mark.parametrize("expression", ["0.9", "1e400", "x0 +", "'a'", "True", "nonsense"])
def test_expressions_that_are_no_numbers_of_rows(expression):
    terms = [npvi.Linear("x0"), npvi.Offset(expression)]
    with pytest.raises(ValueError, match=r"(?s)offset\(.*The expression must be|the expression must be .* it has text"):
        npvi.GPRegressor(terms=terms, learn=False).fit(np.arange(40.0)[:, None] % 7, np.arange(40.0))


def test_complex_numbers_in_columns():
    X = np.random.default_rng(0).uniform(size=(40, 1))
    model = npvi.GPRegressor(terms=[npvi.Smooth("x0", k=5)], learn=False).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="column 'x0' has complex numbers"):
        model.predict(X + 1j)


def test_smoothing_that_rounding_would_take_for_something_else():
    with pytest.raises(ValueError, match="smoothing must be a positive number from 1e-12 to 1e12, got 1e"):
        npvi.Smooth("x0", smoothing=1e20)


def test_names_of_parts_to_draw():
    X = np.random.default_rng(0).uniform(size=(40, 1))
    model = npvi.GPRegressor(terms=[npvi.Smooth("x0", k=5)], learn=False).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="parts must be terms of the model, or their names; got 3"):
        npvi.plot.terms(model, parts=3)


def test_terms_that_have_an_index_and_no_rows():
    """As lazy tables of polars: NumPy calls iterable what has an index."""

    class Lazy:
        def __getitem__(self, name):
            raise TypeError("not subscriptable")

    with pytest.raises(ValueError, match="terms must be a list"):
        check_terms(Lazy())


def test_a_field_may_be_on_a_mesh(tmp_path):
    t = survey()
    terms = [npvi.Field("x", "y", mesh=0.3), npvi.Field("x", "y", by="year", mesh=0.4, range="shared")]
    model = npvi.GPRegressor("poisson", terms=terms, hyper="plug-in").fit(t, "count")
    numbers = model.parts_["numbers"]
    assert numbers["gp(x, y, by=year)"] % t["year"].nunique() == 0
    said = "count ~ gp(x, y, mesh=0.3) + gp(x, y, by=year, mesh=0.4, range=shared)"
    by_formula = npvi.GPRegressor("poisson", formula=said, hyper="plug-in").fit(t)
    np.testing.assert_allclose(by_formula.predict(t), model.predict(t), rtol=1e-9)
    shuffled = t.sample(frac=1.0, random_state=3)
    again = npvi.GPRegressor("poisson", terms=terms, hyper="plug-in").fit(shuffled, "count")
    np.testing.assert_allclose(again.predict(t), model.predict(t), rtol=1e-3)
    model.save(tmp_path / "model.npvi")
    np.testing.assert_array_equal(npvi.load(tmp_path / "model.npvi").predict(t), model.predict(t))
    more = model.update(t.iloc[:20].assign(x=t["x"].iloc[:20] + 3.0), t["count"].iloc[:20])
    assert np.isfinite(more.predict(t)).all()
    far = model.predict_dist(pd.DataFrame({"x": [50.0], "y": [50.0], "year": t["year"].iloc[:1].to_numpy()}))
    assert np.isfinite(far.latent_var).all()


def test_a_mesh_of_ones_own(tmp_path):
    t = survey()
    nodes = np.random.default_rng(0).uniform(-0.5, 1.5, size=(50, 2))
    model = npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y", mesh=nodes)], learn=False).fit(t, "count")
    assert model.parts_["numbers"]["gp(x, y)"] == 50
    model.save(tmp_path / "model.npvi")
    np.testing.assert_array_equal(npvi.load(tmp_path / "model.npvi").predict(t), model.predict(t))


def test_meshes_that_are_refused():
    t = survey()
    for given, words in (
        ({"mesh": -1.0}, "mesh"),
        ({"mesh": [[0.0, 1.0]]}, "shape"),
        ({"mesh": [[0.0, np.nan]] * 3}, "finite"),
        ({"mesh": [[0.0, 1.0], [2.0]]}, "mesh is no array of numbers"),
        ({"mesh": [[0.0, "x"]] * 3}, "Field: mesh"),
        ({"mesh": [[0.0, 1j]] * 3}, "Field: mesh"),
        ({"mesh": 0.1, "kernel": "matern12"}, "kernel"),
        ({"mesh": 0.1, "cell": 0.1}, "cell"),
        ({"mesh": 0.1, "by": npvi.AR1("year")}, "by= is a column"),
        ({"mesh": 0.1, "range": "each"}, "one range"),
    ):
        with pytest.raises(ValueError, match=words):
            npvi.Field("x", "y", **given)
    for mesh, words in ((1e-6, "too fine"), ([[0, 0], [1, 1], [2, 2]], "on a line")):
        with pytest.raises(ValueError, match=words):
            npvi.GPRegressor("poisson", terms=[npvi.Field("x", "y", mesh=mesh)]).fit(t, "count")


def test_terms_that_go_on_for_no_step():
    """An array of JAX without dimensions has a method that says that it can't be gone through."""
    with pytest.raises(ValueError, match="terms must be a list"):
        check_terms(jnp.asarray(1.5))


def test_a_standard_deviation_that_leaves_no_factor_is_named():
    X = pd.DataFrame({"site": list("abcd") * 10})
    with pytest.raises(NotPositiveDefiniteError, match=r"standard deviations \(sd\) of terms"):
        npvi.GPRegressor("poisson", terms=[npvi.Group("site", sd=1e30)]).fit(X, np.arange(40.0) % 5)


@pytest.mark.parametrize("level", [1e7, -1e8])
def test_the_level_of_responses_does_not_matter(level):
    """But for what is lost of y in rounding, times some hundreds: 387 iterations ended with a warning."""
    rng = np.random.default_rng(31)
    t = pd.DataFrame({"x": rng.uniform(0.0, 10.0, 150), "a": rng.integers(0, 100, 150), "g": rng.integers(1, 6, 150)})
    t["y"] = np.sin(t["x"]) + 0.01 * t["a"] + 0.2 * t["g"] + 0.2 * rng.standard_normal(150)
    expected = npvi.GPRegressor(formula="y ~ a + s(x) + (1|g)", hyper="plug-in").fit(t).predict(t)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = t.assign(y=t["y"] + level)
        model = npvi.GPRegressor(formula="y ~ a + s(x) + (1|g)", hyper="plug-in").fit(far)
    assert model.fit_info_["converged"]
    assert model.n_iter_ < 20
    np.testing.assert_allclose(model.predict(t) - level, expected, rtol=0.0, atol=300.0 * np.spacing(abs(level)))


def test_outliers_of_students_t_leave_a_factor():
    """Site precisions below 0, for which a part alone has no factor, beyond what is dense from the start."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.uniform(0.0, 10.0, 1100), "y": rng.uniform(0.0, 10.0, 1100)})
    y = np.sin(table["x"]) + 0.5 * np.cos(table["y"]) + 0.3 * rng.standard_t(3, size=1100)
    y[::50] += 30.0
    terms = [npvi.Field("x", "y", range=npvi.fixed(4.0), sd=npvi.fixed(0.8))]
    model = npvi.GPRegressor(npvi.likelihoods.StudentT(0.1, 2.5), terms=terms, learn=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the model expects a sum")  # outliers are no part of it
        found = model.fit(table, y).predict_dist(table.iloc[1:50])
    truth = np.sin(table["x"][1:50]) + 0.5 * np.cos(table["y"][1:50])
    assert np.sqrt(np.mean((found.latent_mean - truth) ** 2)) < 0.3


@pytest.mark.parametrize("formula", ["y ~ s(x, by=g)", "y ~ gp(x, by=g)"])
def test_a_level_that_a_part_has_not_seen_is_named_in_plain_words(formula):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": rng.uniform(size=60), "g": list("abc") * 20, "y": rng.standard_normal(60)})
    model = npvi.GPRegressor(formula=formula, hyper="plug-in").fit(table)
    with pytest.raises(ValueError, match="column 'g' has the level 'zz', which the fit has not seen"):
        model.predict(table.assign(g="zz"))
