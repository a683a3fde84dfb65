"""What is in a report's file, as far as that can be seen without a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re

import geopandas
import numpy as np
import pandas as pd
import pytest
import rioxarray  # noqa: F401 - which gives arrays their systems
import xarray
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import npvi
from npvi.estimators.leaving_out import left_out
from npvi.maps import borders, training_inputs
from npvi.reporting import page
from npvi.reporting.map_panel import Observations
from npvi.reporting.parts import numbers_of, parts_of
from npvi.reporting.pipelines import PipelineStudy
from npvi.reporting.study import Study
from npvi.reporting.summed import TermsStudy
from tests.reporting.conftest import EVIL, EVIL_COLUMN
from tests.support.full_disk import full_disk  # noqa: F401 - a fixture


def data_of(path, key):
    """What the page's script reads."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(rf'<script type="application/json" id="{key}">(.*?)</script>', text).group(1))


def test_file_is_small_and_whole(map_page, slices_page):
    for path in (map_page, slices_page):
        text = path.read_text(encoding="utf-8")
        assert len(text.encode()) < 10e6
        outside = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)  # Bokeh's own code names addresses
        assert not re.search(r"(src|href|action)\s*=\s*[\"']?(https?:)?//", outside)


def test_policy_has_the_hash_of_every_script_and_allows_nothing_else(map_page):
    text = map_page.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts}
    assert set(rules["script-src"].split()) == hashes
    assert len(re.findall(r"<script", text)) == len(scripts) + 2  # and two that hold data


def test_names_are_escaped(map_page):
    text = map_page.read_text(encoding="utf-8")
    assert EVIL not in text
    assert EVIL_COLUMN not in text
    assert html.escape(EVIL) in text
    assert html.escape(EVIL_COLUMN) in text


def test_characters_that_turn_writing_around_are_left_out():
    assert page.text("a\u202eb\x00c\n<d>") == "a b c &lt;d&gt;"
    assert len(page.plain("x" * 1000)) == 200


def test_leaving_out_is_fitting_without_the_row():
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 4.0, size=(40, 1))
    y = rng.poisson(np.exp(np.sin(X[:, 0]) + 0.5)).astype(float)

    def fit(rows):
        kernel = npvi.kernels.Matern32(1.0)
        return npvi.GPRegressor("poisson", kernel, nugget=0.05, mean="zero", learn=False, n_neighbors=38).fit(
            X[rows], y[rows]
        )

    whole = fit(np.arange(40))
    found = left_out(whole)
    off = []
    for row in range(0, 40, 4):
        dist = fit(np.delete(np.arange(40), row)).predict_dist(X[row : row + 1])
        sd = np.sqrt(dist.latent_var[0] + float(dist.nugget))
        off.append(
            (
                (found.latent_mean[row] - dist.latent_mean[0]) / sd,
                np.log(found.latent_var[row] / sd**2),
                found.log_prob(y)[row] - dist.log_prob(y[row : row + 1])[0],
            )
        )
    # a site is a Gaussian, where the likelihood isn't; of Gaussian noise it is exact (the doctest of latent_left_out)
    assert np.abs(off).max() < 0.1
    assert np.abs(np.mean(off, axis=0)).max() < 0.03
    assert left_out(whole, [7, 31]).latent_mean == pytest.approx(found.latent_mean[[7, 31]])


def test_many_observations_are_averaged_and_counted():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(30_000, 2))
    value = X[:, 0]
    residual = np.where(rng.uniform(size=30_000) < 0.5, np.nan, 1.0)
    seen = Observations(X, value, residual, np.arange(30_000))
    assert seen.words == f"30,000 observations, averaged in {len(seen.X):,} cells"
    assert seen.count.sum() == 30_000
    assert float(seen.count @ seen.value) == pytest.approx(value.sum())
    assert np.all((seen.residual == 1.0) | np.isnan(seen.residual))
    few = Observations(X[:100], value[:100], residual[:100], np.arange(100))
    assert few.words == "100 observations"
    assert np.array_equal(few.value, value[:100])


def test_numbers_have_names_units_and_intervals():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"lon": rng.uniform(5, 8, 150), "lat": rng.uniform(45, 48, 150), "height": rng.normal(size=150)})
    y = np.sin(X["lon"]) + 0.2 * X["height"] + 0.1 * rng.normal(size=150)
    model = npvi.GPRegressor(coords=["lon", "lat"], kernel=npvi.kernels.Sphere(npvi.kernels.RBF(100.0))).fit(X, y)
    study = Study(model, target="rain")
    numbers = dict(numbers_of(study))
    summary = model.summary(standard_errors=True)
    length = numbers["kernel__kernel__length_scale"]
    assert (length.name, length.unit) == ("length scale", "km")
    assert (length.value, length.lower) == (summary.value.iloc[1], summary.lower.iloc[1])
    assert numbers["likelihood__variance"].unit == "rain²"
    assert numbers["mean__height"].unit == "f per unit of height"
    assert [part.name for part in parts_of(study)] == ["Surface", "Mean", "Noise"]


def test_labels_and_single_inputs_have_pages_too(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, size=(120, 2))
    f = np.sin(2.0 * X[:, 0])
    labels = np.where(f > 0.5, "a", np.where(f < -0.5, "<b>", "c"))
    several = npvi.GPClassifier(kernel=npvi.kernels.RBF(1.0), learn=False).fit(X, labels)
    two = npvi.GPClassifier(kernel=npvi.kernels.RBF(1.0), learn=False).fit(X, f > 0.0)
    single = npvi.GPRegressor(kernel=npvi.kernels.RBF(1.0), learn=False).fit(X[:, :1], f)
    noise = npvi.VaryingNoiseRegressor(npvi.GPRegressor("gaussian")).fit(X, f + 0.1 * X[:, 1] * rng.normal(size=120))
    for model, keys in (
        (several, {"map"}),
        (two, {"map", "pit"}),
        (single, {"effect-0", "pit"}),
        (noise, {"map", "pit", "coverage"}),
    ):
        npvi.report(model, tmp_path / "page.html", grid=1.0)
        assert keys <= set(data_of(tmp_path / "page.html", "plots"))
    npvi.report(several, tmp_path / "page.html", grid=1.0)
    assert "probability of &lt;b&gt;" not in (tmp_path / "page.html").read_text(encoding="utf-8").split("<main>")[0]


def test_what_cannot_be_is_said(counts, survey, tmp_path):
    X, _ = survey
    with pytest.raises(TypeError, match="model must be a GPRegressor"):
        npvi.report("birds.npvi", tmp_path / "x.html")
    with pytest.raises(ValueError, match="X and y go together"):
        npvi.report(counts, tmp_path / "x.html", X)
    with pytest.raises(ValueError, match="the model has no input 'rain'"):
        npvi.report(counts, tmp_path / "x.html", covariates={"rain": 1.0})
    with pytest.raises(OSError, match=r"the folder .* does not exist"):
        npvi.report(counts, tmp_path / "no" / "x.html")
    with pytest.raises(ValueError, match="grid"):
        npvi.report(counts, tmp_path / "x.html", grid=1e-9)
    assert not list(tmp_path.iterdir())


def test_borders_are_where_they_are():
    for lines in (borders((5.0, 45.0, 11.0, 48.0), "EPSG:4326"), borders((365.0, 45.0, 371.0, 48.0), "EPSG:4326")):
        places = np.vstack(lines)
        places[:, 0] = np.mod(places[:, 0], 360.0)
        lake = np.hypot(*(places - [6.14, 46.2]).T)  # Geneva is 5 km from France
        assert lake.min() < 0.15
    metres = np.vstack(borders((280_000.0, 5_000_000.0, 700_000.0, 5_350_000.0), "EPSG:32632"))
    assert np.hypot(*(metres - [279_500.0, 5_120_000.0]).T).min() < 15_000.0
    world = borders((-180.0, -90.0, 180.0, 90.0), "EPSG:4326")
    assert max(np.abs(np.diff(line[:, 0])).max() for line in world) < 30.0  # none goes around the Earth


def test_a_full_disk_leaves_nothing(counts, tmp_path, full_disk):  # noqa: F811
    with pytest.raises(OSError, match="the disk is full"):
        npvi.report(counts, tmp_path / "x.html", grid=1.0)
    assert not list(tmp_path.iterdir())


def test_maps_in_metres_and_templates_in_degrees(tmp_path):
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(8.0, 16.0, 200), rng.uniform(46.0, 50.0, 200)
    frame = geopandas.GeoDataFrame({"height": lon}, geometry=geopandas.points_from_xy(lon, lat), crs=4326).to_crs(32633)
    model = npvi.GPRegressor(kernel=npvi.kernels.Matern32(80e3), learn=False).fit(frame, np.sin(lon))
    assert dict(numbers_of(Study(model)))["kernel__length_scale"].unit == "metres"
    template = xarray.Dataset(
        {"height": (("lat", "lon"), rng.normal(size=(6, 9)))},
        {"lat": np.linspace(50, 46, 6), "lon": np.linspace(8, 16, 9)},
    ).rio.write_crs(4326)
    for grid, words in ((None, "at the medians of the data: height = "), (template, "9 × 6 cells were predicted")):
        npvi.report(model, tmp_path / "page.html", grid=grid)
        assert words in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_sum_of_terms_is_judged_and_shown(summed, observed, terms_page):
    table, y = observed
    found = npvi.diagnose(summed)
    assert (found.rows, found.tested, found.axes) == (200, False, ("lon", "lat"))
    assert found.log_density == pytest.approx(summed.loo().mean())
    tested = npvi.diagnose(summed, table[200:], y[200:])
    assert tested.log_density == pytest.approx(summed.log_score(table[200:], y[200:]))
    np.testing.assert_allclose(tested.mean, summed.predict(table[200:]))
    assert found.means.rmse == pytest.approx(np.sqrt(np.mean((found.mean - y[:200]) ** 2)))
    study = TermsStudy(summed)
    assert study.typical == {"height": table["height"][:200].median(), "observer": EVIL}
    mapped, _, box, words = study.on_map
    assert "All other columns are as in a typical row" in words
    assert box == pytest.approx((*table[["lon", "lat"]][:200].min(), *table[["lon", "lat"]][:200].max()))
    places = table[["lon", "lat"]][:3]
    expected = summed.predict_dist(places.assign(**study.typical))
    np.testing.assert_allclose(mapped.predict_dist(places).mean, expected.mean)
    parts = {part.name: part for part in parts_of(study)}
    assert {"gp(lon, lat)", "s(height)", "1|observer", "Mean", "Noise"} == set(parts)
    summary = summed.summary()
    assert parts["gp(lon, lat)"].numbers[0].value == pytest.approx(summary.loc["gp(lon, lat)__range", "value"])
    assert {"map", "effect-1", "effect-2", "pit", "correlogram"} <= set(data_of(terms_page, "plots"))


def test_sums_of_terms_without_a_field_have_no_map(observed, tmp_path):
    table, y = observed
    model = npvi.GPRegressor(terms=[npvi.Smooth("height"), npvi.Linear("lon")], learn=False).fit(table, y)
    npvi.report(model, tmp_path / "page.html")
    assert {"effect-0", "pit"} <= set(data_of(tmp_path / "page.html", "plots"))
    assert "map" not in data_of(tmp_path / "page.html", "plots")


def test_what_cannot_be_of_terms_is_said(summed, observed, tmp_path):
    table, y = observed
    with pytest.raises(ValueError, match="covariates: no term uses 'rain'"):
        npvi.report(summed, tmp_path / "x.html", covariates={"rain": 1.0})
    with pytest.raises(ValueError, match="refit is for models of one surface"):
        npvi.diagnose(summed, table, y, refit=True)
    with pytest.raises(ValueError, match="without X, rows of the fit are left out"):
        npvi.diagnose(summed, exposure=1.0)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        npvi.diagnose(summed, table, y[:5])
    assert not list(tmp_path.iterdir())


def test_pipelines_are_shown_in_the_inputs_of_their_first_step(survey, tmp_path):
    X, y = survey
    places = X[["lon", "lat"]]
    gp = npvi.GPRegressor("poisson", npvi.kernels.Matern32(1.0), learn=False, n_neighbors=8)
    model = make_pipeline(StandardScaler(), gp).fit(places[:200], y[:200])
    study = PipelineStudy(npvi.Pipeline(model.steps), (places[200:], y[200:], {}))
    np.testing.assert_allclose(study.X, places[:200])
    assert study.degrees
    assert study.inner[1] == ["lon after StandardScaler", "lat after StandardScaler"]
    np.testing.assert_allclose(study.inner[0].std(axis=0), 1.0)
    np.testing.assert_allclose(study.tested_places, places[200:])
    scaled = (places[200:] - places[:200].mean()) / places[:200].std(ddof=0)
    np.testing.assert_allclose(study.judged.mean, gp.predict_dist(scaled.to_numpy()).mean, rtol=1e-9)
    path = tmp_path / "page.html"
    npvi.report(model, path, places[200:], y[200:], grid=0.5)
    text = path.read_text(encoding="utf-8")
    assert "rows of lon, lat. Before it came StandardScaler." in text
    assert "length scale" in text
    assert {"map", "pit", "neighbourhood-plot"} <= set(data_of(path, "plots"))


@pytest.mark.parametrize("step", [PCA(1), PolynomialFeatures(2, include_bias=False)], ids=["fewer", "more"])
def test_pipelines_whose_steps_cannot_be_undone_are_shown_as_the_model_sees_them(step, survey, tmp_path):
    X, y = survey
    model = make_pipeline(step, npvi.GPRegressor("poisson", npvi.kernels.Matern32(100.0), learn=False)).fit(
        X[["lon", "lat"]][:150], y[:150]
    )
    with pytest.raises(ValueError, match="can't be undone"):
        training_inputs(model)
    npvi.report(model, tmp_path / "page.html", X[["lon", "lat"]][150:], y[150:])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    names = ", ".join(model[:-1].get_feature_names_out())
    assert f"rows of {names}. These are what {type(step).__name__} made of the columns." in text


def test_pipelines_of_labels_and_without_a_step(survey, tmp_path):
    X, y = survey
    for steps in (["passthrough"], [StandardScaler()]):
        model = make_pipeline(*steps, npvi.GPClassifier(learn=False)).fit(X[["lon", "lat"]], y > 1.0)
        npvi.report(model, tmp_path / "page.html", grid=0.5)
        assert "map" in data_of(tmp_path / "page.html", "plots")


def test_what_a_pipeline_cannot_be_is_said(survey, tmp_path):
    X, y = survey
    other = make_pipeline(StandardScaler(), LinearRegression()).fit(X[["lon", "lat"]], y)
    with pytest.raises(TypeError, match="a pipeline that ends in one; got Pipeline that ends in LinearRegression"):
        npvi.report(other, tmp_path / "x.html")
    with pytest.raises(NotFittedError):
        npvi.report(make_pipeline(StandardScaler(), npvi.GPRegressor()), tmp_path / "x.html")


def test_what_held_is_said_too(survey, tmp_path):
    X, y = survey
    model = npvi.GPRegressor("poisson", npvi.kernels.Matern32(1.0), coords=["lon", "lat"], learn=False).fit(X, y)
    npvi.report(model, tmp_path / "page.html", grid=0.5)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    study = Study(model)
    assert re.search(rf'<li class="good">90 % intervals hold {100 * study.judged.coverage[0.9]:.1f} %', text)
    assert re.search(rf"sum to {study.judged.means.sum_predicted:.4g} where {y.sum():.4g} was seen", text)
