"""A healthy model gets no warnings; each thing that can be wrong gets its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import npvi
from npvi import GPClassifier, GPRegressor, likelihoods
from npvi.diagnostics import advice, correlogram, range_of, refit_with_more_neighbors, scores
from npvi.kernels import RBF, Constant, Matern12, Matern32, Periodic, Sphere, Subset
from npvi.likelihoods import Bernoulli, Gaussian, LogNormal, Poisson
from npvi.predictive.base import Predictive

NOISE = 0.1
TRAIN, TEST = slice(0, 300), slice(300, 600)


def surface(X):
    return np.sin(5.0 * X[:, 0]) + np.cos(4.0 * X[:, 1])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(600, 2))
    return X, surface(X) + np.sqrt(NOISE) * rng.standard_normal(600)


def gaussian(X, y, noise=NOISE, kernel=None, **settings):
    settings = {"nugget": 1e-4, "n_neighbors": 12, "learn": False, **settings}
    return GPRegressor(Gaussian(noise), kernel or Matern32(0.5, 1.0), **settings).fit(X[TRAIN], y[TRAIN])


@pytest.fixture(scope="module")
def model(data):
    return gaussian(*data)


@pytest.fixture(scope="module")
def healthy(data, model):
    X, y = data
    return npvi.diagnose(model, X[TEST], y[TEST], refit=(X[TRAIN], y[TRAIN]))


def diagnose(model, data, **settings):
    X, y = data
    return npvi.diagnose(model, X[TEST], y[TEST], **settings)


def warned(diagnosis, words):
    return any(words in sentence for sentence in diagnosis.warnings)


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_predictions(data, model, healthy):
    X, y = data
    prediction, y = model.predict_dist(X[TEST]), y[TEST]
    assert healthy.rows == 300
    assert healthy.log_density == pytest.approx(model.log_score(X[TEST], y))
    np.testing.assert_allclose(healthy.pit, stats.norm.cdf(y, prediction.mean, prediction.std))
    assert healthy.pit_pvalue == pytest.approx(stats.kstest(healthy.pit, "uniform").pvalue)
    lower, upper = prediction.interval(0.9)
    assert healthy.coverage[0.9] == pytest.approx(np.mean((lower <= y) & (y <= upper)))
    assert list(healthy.coverage) == [0.5, 0.8, 0.9, 0.95]
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    assert healthy.interval_score == pytest.approx(np.mean(upper - lower + 20.0 * outside))


def test_chunks_change_nothing(data, model, healthy, monkeypatch):
    monkeypatch.setattr(scores, "_ROWS", 64)
    again = diagnose(model, data)
    assert again.log_density == pytest.approx(healthy.log_density)
    assert again.crps == pytest.approx(healthy.crps)
    np.testing.assert_allclose(again.pit, healthy.pit)


def test_crps_of_draws_agrees_with_the_closed_form():
    rng = np.random.default_rng(0)
    prediction = Predictive(Gaussian(0.3), rng.normal(size=400), rng.uniform(0.1, 1.0, size=400))
    y = prediction.sample(1, seed=1)[0]
    exact = scores.crps(prediction, y, draws=2)
    z = (y - prediction.mean) / prediction.std
    by_hand = prediction.std * (z * (2.0 * stats.norm.cdf(z) - 1.0) + 2.0 * stats.norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    np.testing.assert_allclose(exact, by_hand)
    drawn = scores.crps_of_draws(prediction, y, 1000, seed=2)
    np.testing.assert_allclose(drawn, exact, atol=0.15)
    assert drawn.mean() == pytest.approx(exact.mean(), abs=0.005)


@pytest.mark.parametrize("likelihood", [LogNormal(0.2), Poisson(), Bernoulli()], ids=repr)
def test_crps_of_draws_is_the_integral(likelihood):
    prediction = Predictive(likelihood, np.full(2, 0.3), np.full(2, 0.2))
    y = np.array([0.0, 1.0]) if likelihood.support.discrete else np.array([0.5, 2.0])
    grid = np.linspace(-0.9995, 40.0, 41_000)
    for row in range(2):
        cdf = Predictive(likelihood, np.full(len(grid), 0.3), np.full(len(grid), 0.2)).cdf(grid)
        integral = np.sum((cdf - (grid >= y[row])) ** 2) * (grid[1] - grid[0])
        assert scores.crps(prediction, y, 20_000)[row] == pytest.approx(integral, abs=0.02)


def counts():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(250, 2)), columns=["east", "north"])
    hours = rng.uniform(0.5, 4.0, size=250)
    y = rng.poisson(hours * np.exp(1.0 + np.sin(5.0 * X["east"])))
    model = GPRegressor("poisson", Matern32(0.5), learn=False).fit(X[:125], y[:125], exposure=hours[:125])
    return model, X, y, hours


def test_data_simulated_with_the_same_seed_are_no_structure():
    """Places from default_rng(0), and labels that don't depend on them: residuals are broken by other numbers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(400, 1))
    model = npvi.GPClassifier(kernel=npvi.kernels.RBF(1.0), learn=False).fit(X, rng.uniform(size=400) < 0.5)
    found = npvi.diagnose(model, seed=0)
    assert not [warning for warning in found.warnings if "correlated" in warning]
    assert abs(stats.spearmanr(found.pit, X[:, 0]).statistic) < 0.15


def test_exposure_tables_and_seeds():
    model, X, y, hours = counts()
    training = (X[:125], y[:125], {"exposure": hours[:125]})
    found = npvi.diagnose(model, X[125:], y[125:], exposure=hours[125:], refit=training)
    assert found.warnings == []
    assert found.log_density == pytest.approx(model.log_score(X[125:], y[125:], exposure=hours[125:]))
    assert found.refit.rows == 125
    with pytest.warns(UserWarning, match="fitted with exposure, and none is given"):
        forgotten = npvi.diagnose(model, X[125:], y[125:])
    assert warned(forgotten, "predictions are too low")
    again, other = (npvi.diagnose(model, X[125:], y[125:], exposure=hours[125:], seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.pit, found.pit)
    assert again.crps == found.crps
    assert not np.array_equal(other.pit, found.pit)


def test_classifier_with_labels():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(240, 1))
    y = np.where(np.sin(X[:, 0]) + 0.3 * rng.standard_normal(240) > 0.0, "yes", "no")
    model = GPClassifier(kernel=Matern32(1.0, 4.0), learn=False).fit(X[:120], y[:120])
    found = npvi.diagnose(model, X[120:], y[120:], refit=True)
    assert found.log_density == pytest.approx(model.log_score(X[120:], y[120:]))
    assert found.refit is not None
    assert refit_with_more_neighbors(model, X[:40], np.full(40, "yes"), {}) is None
    with pytest.raises(ValueError, match="labels that weren't in the training data"):
        npvi.diagnose(model, X[120:], np.full(120, "perhaps"))


# -- residual correlation ---------------------------------------------------------------------------------------------


def test_correlogram_finds_the_correlation():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 2))
    covariance = npvi.kernels.matrix(Matern12(0.08), X)
    draws = np.linalg.cholesky(covariance + 1e-9 * np.eye(500)) @ rng.standard_normal((500, 20))
    tables = [correlogram(X, draws[:, i], seed=i) for i in range(20)]
    mean = np.mean([table.correlation for table in tables], axis=0)
    # the mean of each draw is subtracted, which takes away what all places have in common
    common = covariance.mean()
    expected = (np.exp(-tables[0].distance / 0.08) - common) / (1.0 - common)
    np.testing.assert_allclose(mean, expected, atol=0.08)
    assert all(np.all(table.error >= table.pairs**-0.5) for table in tables)
    # one draw is off by about its standard error
    off = np.array([(table.correlation - expected) / table.error for table in tables])
    assert 0.4 < np.sqrt(np.mean(off[:, :4] ** 2)) < 2.0


def test_correlogram_of_noise_is_zero_within_its_errors():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1000, 2))
    off = []
    for seed in range(6):
        table = correlogram(X, rng.standard_normal(1000), max_pairs=1000, seed=seed)
        assert np.all(table.pairs <= 1000)
        assert np.all(np.diff(table.distance) > 0.0)
        off.append(table.correlation / table.error)
    assert 0.6 < np.std(off) < 1.3


def test_correlogram_where_there_is_nothing_to_see():
    assert len(correlogram(np.zeros((2, 1)), np.array([0.0, 1.0]))) == 0
    assert len(correlogram(np.zeros((50, 1)), np.arange(50.0))) == 0
    assert len(correlogram(np.arange(50.0)[:, None], np.ones(50))) == 0


def test_correlogram_with_repeated_places():
    rng = np.random.default_rng(0)
    sites = rng.uniform(size=(100, 2))
    site = np.repeat(np.arange(100), 4)
    table = correlogram(sites[site], rng.standard_normal(100)[site] + 0.1 * rng.standard_normal(400))
    assert table.distance[0] == 0.0
    assert table.pairs[0] == 600
    assert table.correlation[0] > 0.9
    assert np.all(np.abs(table.correlation[1:]) < 0.2)


# -- range ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF(0.3), 0.3 * np.sqrt(2.0 * np.log(20.0))),
        (Matern12(0.3, 5.0), 0.3 * np.log(20.0)),
        (2.0 * Matern12(0.3) * Matern12(0.6), 0.2 * np.log(20.0)),
        (Matern12(0.3) + Constant(1.0), np.inf),
        (Subset(RBF(0.3), [0, 1]), 0.3 * np.sqrt(2.0 * np.log(20.0))),
    ],
    ids=repr,
)
def test_range_is_found_numerically(kernel, expected):
    X = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2) / 10.0
    found = range_of(kernel, np.vstack([X, X]))  # repeated places don't count
    assert found.distance == pytest.approx(expected, rel=1e-4)
    assert found.spacing == pytest.approx(0.1)
    assert found.ratio == pytest.approx(expected / 0.1, rel=1e-4)


def test_range_with_a_length_scale_per_input_is_in_length_scales():
    X = np.random.default_rng(0).uniform(size=(200, 2)) * [1.0, 1000.0]
    found = range_of(RBF([0.1, 100.0]), X)
    assert found.distance == pytest.approx(np.sqrt(2.0 * np.log(20.0)), rel=1e-4)


def test_range_on_the_sphere_is_in_kilometres():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-180.0, 180.0, 2000), np.rad2deg(np.arcsin(rng.uniform(-0.9, 0.9, 2000)))])
    assert range_of(Sphere(Matern12(100.0)), X).distance == pytest.approx(100.0 * np.log(20.0), rel=0.05)


def test_range_of_other_kernels():
    X = np.linspace(0.0, 1.0, 50)[:, None]
    assert np.isinf(range_of(Periodic(length_scale=2.0, period=0.5), X).distance)
    assert np.isnan(range_of(RBF(), np.zeros((5, 1))).ratio)


# -- warnings, each with a model that deserves it and one that doesn't ------------------------------------------------


def test_a_healthy_model_gets_no_warnings(healthy):
    assert healthy.warnings == []


def test_warns_about_bounds(data, model):
    X, y = data
    bound = gaussian(X, y)
    bound.fit_info_["at_bound"] = ["kernel__length_scale"]
    assert "the length scale is at its bound" in diagnose(bound, data).warnings
    assert advice.about_bounds({"at_bound": ["kernel__k1__length_scale"]}) == (
        "the length scale (kernel__k1__length_scale) is at its bound"
    )


def test_does_not_warn_about_bounds_of_a_healthy_model(model):
    assert advice.about_bounds(model.fit_info_) is None
    assert advice.about_bounds({"at_bound": []}) is None


def test_warns_about_convergence(data):
    stopped = gaussian(*data)
    stopped.fit_info_["converged"] = False
    assert warned(diagnose(stopped, data), "the fit did not converge")


def test_does_not_warn_about_convergence_of_a_healthy_model(model):
    assert advice.about_convergence(model.fit_info_) is None


def test_warns_about_shared_places(data):
    X, y = data
    model = gaussian(X, y, kernel=Matern12(0.5), nugget=0.0)
    rows = np.r_[300:600, 300:321]
    found = npvi.diagnose(model, X[rows], y[rows])
    assert warned(found, "13 % of rows share a location and the nugget is 0")
    assert not warned(npvi.diagnose(model, X[TEST], y[TEST]), "share a location")


def test_does_not_warn_about_shared_places_with_a_nugget(data, model):
    X, y = data
    rows = np.r_[300:600, 300:321]
    assert not warned(npvi.diagnose(model, X[rows], y[rows]), "share a location")


def test_warns_about_seen_rows(data, model):
    X, y = data
    found = npvi.diagnose(model, X[:400], y[:400])
    assert warned(found, "75 % of these rows have the inputs of training rows")


def test_does_not_warn_about_new_rows(data, model):
    X, _ = data
    assert advice.about_seen_rows(model.prior_.X, X[TEST]) is None


def test_warns_about_coverage(data):
    X, y = data
    narrow = diagnose(gaussian(X, y, noise=0.02), data)
    assert warned(narrow, f"90 % intervals contain only {100 * narrow.coverage[0.9]:.0f} % of the responses")
    wide = diagnose(gaussian(X, y, noise=1.0), data)
    assert warned(wide, "90 % intervals contain 99.7 % of the responses") or warned(wide, "contain 100 %")


def test_does_not_warn_about_coverage_of_a_healthy_model(healthy):
    assert advice.about_coverage(healthy.coverage, healthy.rows) is None
    assert advice.about_coverage({0.9: 0.8}, rows=20) is None  # chance
    assert advice.about_coverage({0.9: 0.88}, rows=10**6) is None  # not chance, but good enough


def test_warns_about_bias(data, model):
    X, y = data
    assert warned(npvi.diagnose(model, X[TEST], y[TEST] + 0.3), "predictions are too low: ")
    assert warned(npvi.diagnose(model, X[TEST], y[TEST] - 0.3), "predictions are too high: ")


def test_does_not_warn_about_bias_of_a_healthy_model(healthy):
    assert advice.about_bias(healthy.pit) is None


def test_warns_about_residuals(data):
    X, y = data
    blind = gaussian(X, y, noise=0.9, kernel=Matern32(0.5, 1e-4))
    found = diagnose(blind, data)
    assert warned(found, "residuals are still correlated at distance")
    assert found.correlogram.correlation[0] > 0.5


def test_does_not_warn_about_residuals_of_a_healthy_model(healthy):
    assert advice.about_residuals(healthy.correlogram) is None
    nothing = np.empty(0)
    assert advice.about_residuals(npvi.diagnostics.Correlogram(nothing, nothing, nothing, nothing)) is None


def test_warns_about_the_range(data):
    X, y = data
    assert warned(diagnose(gaussian(X, y, kernel=Matern32(0.015)), data), "the range of the kernel")


def test_does_not_warn_about_the_range_of_a_healthy_model(healthy):
    assert advice.about_range(healthy.range) is None
    assert advice.about_range(npvi.diagnostics.KernelRange(np.nan, np.nan, np.nan)) is None


def test_warns_about_neighbors(data):
    X, y = data
    few = gaussian(X, y, noise=0.01, kernel=RBF(0.5), n_neighbors=2)
    found = diagnose(few, (X, surface(X)), refit=True)
    assert found.refit.n_neighbors == 4
    assert warned(found, "K is small for this smooth kernel: K=4 changes the log density by ")
    assert diagnose(few, data).refit is None


def test_does_not_warn_about_neighbors_of_a_healthy_model(healthy):
    assert healthy.refit.n_neighbors == 24
    assert healthy.refit.rows == 300
    assert advice.about_neighbors(healthy.refit) is None
    assert advice.about_neighbors(None) is None


def test_a_refit_that_fails_is_a_warning(data):
    X, y = data
    model = gaussian(X, y, kernel=Matern12(0.5), nugget=0.0)
    rows = np.r_[300:600, 300:400]
    found = npvi.diagnose(model, X[rows], y[rows], refit=True)
    assert warned(found, "the fit with K=24 fails, because the kernel matrix is nearly singular: add a nugget")
    assert "Neighbours" not in str(found)


def test_the_refit_uses_a_patch_of_a_large_table(data, model, monkeypatch):
    X, y = data
    monkeypatch.setattr("npvi.diagnostics.refit._ROWS", 100)
    assert refit_with_more_neighbors(model, X, y, {}).rows == 100
    monkeypatch.setattr("npvi.diagnostics.refit._ROWS", 12)
    assert refit_with_more_neighbors(model, X, y, {}) is None  # all are neighbours already


# -- what a user sees -------------------------------------------------------------------------------------------------


def test_report(data, healthy):
    text = str(healthy)
    for part in ("on 300 rows", "mean log density", "CRPS", "promise", "distance ", "K=24", "0.05 at", "No warnings"):
        assert part in text
    assert repr(healthy).endswith("on 300 rows, 0 warnings)")
    X, y = data
    text = str(diagnose(gaussian(X, y, noise=0.02, kernel=Matern32(0.5) + Constant(1.0)), data))
    assert "Warnings\n  * 90 % intervals contain only" in text
    assert "never falls to 0.05" in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("name", ["a.xyz", "a.tar.gz"])
def test_kinds_of_pictures_that_do_not_exist(healthy, tmp_path, name):
    with pytest.raises(ValueError, match=r"path must end in one of \.png, \.pdf, \.svg"):
        healthy.plot(tmp_path / name)
    assert not list(tmp_path.iterdir())
    healthy.plot(tmp_path / "upper.PNG")


def test_plot(healthy, data, model, tmp_path):
    figure = healthy.plot()
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "Intervals",
        "Is the PIT flat?",
        "What is left in the residuals",
        "Observed against predicted",
        "Residuals on the map",
        "",  # the bar of its colours
    ]
    assert "(units of the inputs)" in figure.axes[2].get_xlabel()
    path = tmp_path / "diagnosis.png"
    diagnose(gaussian(*data, noise=0.02), data).plot(path)
    assert path.read_bytes()[1:4] == b"PNG"
    X, y = data
    npvi.diagnose(model, X[300:303], y[300:303]).plot(path)  # too few rows for a correlogram
    rows = np.repeat(np.arange(300, 400), 2)
    ticks = npvi.diagnose(model, X[rows], y[rows]).plot().axes[2].get_xticklabels()
    assert ticks[0].get_text() == "0"  # rows at the same place


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda m, X, y: npvi.diagnose("model", X, y),
            TypeError,
            "model must be a GPRegressor or a GPClassifier, got str",
        ),
        (lambda m, X, y: npvi.diagnose(GPRegressor(), X, y), ValueError, "not fitted yet"),
        (lambda m, X, y: npvi.diagnose(m, X, y[:5]), ValueError, "inconsistent numbers of samples"),
        (lambda m, X, y: npvi.diagnose(m, X[:, :1], y), ValueError, "expecting 2 features"),
        (lambda m, X, y: npvi.diagnose(m, X, np.full(len(y), np.nan)), ValueError, "y contains NaN"),
        (lambda m, X, y: npvi.diagnose(m, X, y, refit=(X,)), ValueError, "refit must be True, False, "),
        (lambda m, X, y: npvi.diagnose(m, X, y, refit=20), ValueError, "refit must be True, False, "),
        (lambda m, X, y: npvi.diagnose(m, X, y, draws=1), ValueError, "draws must be a whole number of at least 2"),
        (lambda m, X, y: npvi.diagnose(m, X, y, n_bins=0), ValueError, "n_bins must be"),
    ],
)
def test_mistakes_are_explained(data, model, change, error, message):
    X, y = data
    with pytest.raises(error, match=message):
        change(model, X[TEST], y[TEST])


# -- means ------------------------------------------------------------------------------------------------------------


def nearest_by_hand(training, y, units, new, k=20):
    """The mean of the k nearest rows at other places, places one after the other; rows of a place count alike."""
    out = []
    for point in new:
        distance = np.round(np.linalg.norm(training - point, axis=1), 12)
        total, size, left = 0.0, 0.0, k
        for step in np.unique(distance[distance > 0.0]):
            rows = distance == step
            share = min(1.0, left / rows.sum())
            total, size, left = total + share * y[rows].sum(), size + share * units[rows].sum(), left - rows.sum()
            if left <= 0:
                break
        out.append(total / size)
    return np.array(out)


def test_means_beside_a_constant_and_neighbours():
    rng = np.random.default_rng(3)
    places = np.repeat(rng.uniform(size=(60, 2)), rng.integers(1, 9, 60), axis=0)
    exposure = rng.uniform(0.5, 4.0, len(places))
    y = rng.poisson(exposure * np.exp(2.0 * places[:, 0]))
    test = rng.permutation(len(y))[:80]  # some of whose places are in the fit
    train = np.setdiff1d(np.arange(len(y)), test)
    kernel = Matern32([0.3, 0.8])
    model = npvi.GPRegressor("poisson", kernel, nugget=0.1, n_neighbors=10, learn=False)
    model.fit(places[train], y[train], exposure=exposure[train])
    means = npvi.diagnose(model, places[test], y[test], exposure=exposure[test]).means
    predicted = model.predict(places[test], exposure=exposure[test])
    assert means.rows == 80
    assert means.sum_seen == y[test].sum()
    assert means.sum_predicted == pytest.approx(predicted.sum())
    assert means.rmse == pytest.approx(np.sqrt(np.mean((predicted - y[test]) ** 2)))
    constant = y[train].sum() / exposure[train].sum() * exposure[test]
    assert means.rmse_constant == pytest.approx(np.sqrt(np.mean((constant - y[test]) ** 2)))
    scaled = places / [0.3, 0.8]
    near = nearest_by_hand(scaled[train], y[train], exposure[train], scaled[test]) * exposure[test]
    assert means.rmse_neighbors == pytest.approx(np.sqrt(np.mean((near - y[test]) ** 2)), rel=1e-9)
    assert means.together
    assert (
        means.sum_interval == model.predict_dist(places[test], exposure=exposure[test]).total(n=200, seed=0).interval()
    )
    assert not means.sum_off
    assert not means.worse_than_neighbors


def test_the_interval_of_many_rows_takes_them_as_independent(model, data, monkeypatch):
    X, _ = data
    monkeypatch.setattr("npvi.diagnostics.means._TOGETHER", 10)
    found = diagnose(model, data)
    dist = model.predict_dist(X[TEST])
    half = 1.6448536 * np.sqrt(dist.var.sum())
    assert not found.means.together
    np.testing.assert_allclose(found.means.sum_interval, dist.mean.sum() + np.array([-half, half]))
    assert "rows taken as independent" in str(found)


def test_means_in_the_report(healthy):
    lines = str(healthy).splitlines()
    first = lines.index("Means")
    assert lines[first + 1].startswith("  their sum ")
    assert (
        f"RMSE                 {healthy.means.rmse:>10.4g}   a constant {healthy.means.rmse_constant:.4g}"
        in lines[first + 2]
    )


def test_censored_rows_have_no_mean_to_compare():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    y, censored = rng.standard_normal(80), np.tile([0.0, 1.0], 40)
    model = npvi.GPRegressor(likelihoods.CensoredGaussian(1.0), Matern32(0.3), learn=False, n_neighbors=10)
    model.fit(X[:60], y[:60], censored=censored[:60])
    means = npvi.diagnose(model, X[60:], y[60:], censored=censored[60:]).means
    assert means.rows == 10
    assert means.sum_seen == pytest.approx(y[60::2].sum())
    constant = y[:60:2].mean()
    assert means.rmse_constant == pytest.approx(np.sqrt(np.mean((y[60::2] - constant) ** 2)))
    none = npvi.diagnose(model, X[61::2], y[61::2], censored=censored[61::2])
    assert none.means.rows == 0
    assert "Means" not in str(none)


def test_warns_about_means_that_explode():
    """A variance of f far above the data's, and rows away from all others."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = rng.poisson(np.exp(1.0 + np.sin(6.0 * X[:, 0])))
    train, test = X[:, 1] < 0.6, X[:, 1] > 0.75
    model = npvi.GPRegressor("poisson", Matern12(0.6, 20.0), nugget=0.01, learn=False, n_neighbors=10)
    model.fit(X[train], y[train])
    found = npvi.diagnose(model, X[test], y[test])
    sentence = next(warning for warning in found.warnings if "predicted means" in warning)
    assert "they explode where the variance of f is large" in sentence
    assert "quantile(0.5), or fit again with likelihoods.Poisson(link='softplus')" in sentence
    assert found.means.worse_than_neighbors
    assert found.means.rmse > 2.0 * found.means.rmse_constant


def test_advice_about_means():
    fine = npvi.diagnostics.Means(100, 50.0, 55.0, (40.0, 70.0), True, 1.0, 1.5, 1.0)
    assert advice.about_means(fine, likelihoods.Poisson()) is None
    sums = npvi.diagnostics.Means(100, 50.0, 80.0, (60.0, 90.0), True, 1.0, 1.5, 1.0)
    assert advice.about_means(sums, likelihoods.Poisson()).startswith(
        "predicted means sum to 80 where 50 was seen: they"
    )
    worse = npvi.diagnostics.Means(100, 50.0, 55.0, (40.0, 70.0), True, 1.2, 1.5, 1.0)
    assert "are off by 1.2 (RMSE; the mean of the 20 nearest rows 1)" in advice.about_means(
        worse, likelihoods.Gaussian()
    )
    assert "try another kernel" in advice.about_means(worse, likelihoods.Poisson("softplus"))
    assert "fit again" not in advice.about_means(worse, likelihoods.Gamma())
    endless = npvi.diagnostics.Means(100, 50.0, np.inf, (60.0, np.inf), False, np.inf, 1.5, 1.0)
    assert advice.about_means(endless, likelihoods.Poisson()).startswith("predicted means sum to inf")
    few = npvi.diagnostics.Means(5, 50.0, 55.0, (40.0, 70.0), True, 9.0, 1.5, 1.0)
    assert advice.about_means(few, likelihoods.Poisson()) is None


def test_without_rows_each_of_the_fit_is_left_out():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.uniform(0.0, 8.0, size=(160, 2)), columns=["east", "north"])
    hours = rng.uniform(0.5, 2.0, size=160)
    y = rng.poisson(hours * np.exp(np.sin(X["east"]))).astype(float)
    model = GPRegressor("poisson", kernel=Matern32(1.5), learn=False, n_neighbors=10).fit(X, y, exposure=hours)
    found = npvi.diagnose(model)
    assert (found.rows, found.tested, found.axes) == (160, False, ("east", "north"))
    assert np.array_equal(found.y, y)
    np.testing.assert_allclose(found.X, X)
    again = GPRegressor("poisson", kernel=Matern32(1.5), learn=False, n_neighbors=10)
    rows = np.arange(160) != 17
    again.fit(X[rows], y[rows], exposure=hours[rows])
    dist = again.predict_dist(X[~rows], exposure=hours[~rows])
    assert found.mean[17] == pytest.approx(dist.mean[0], rel=0.05)
    assert "160 rows of the fit, each predicted from all others" in " ".join(str(found).split())
    with pytest.raises(ValueError, match="X and y go together"):
        npvi.diagnose(model, X)
    with pytest.raises(ValueError, match="without X, rows of the fit are left out"):
        npvi.diagnose(model, refit=True)
