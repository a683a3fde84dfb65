"""Reports of small real fits, whose columns have the worst of names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import npvi

#: names that a page must show, and never obey
EVIL = "<script>document.title='owned'</script>"
EVIL_COLUMN = "<img src=x onerror=\"document.title='owned'\"> 'é' $$x^2$$ {{x}} @v0"


@pytest.fixture(scope="session")
def survey():
    """Counts at longitudes and latitudes, with a covariate of an evil name."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"lon": rng.uniform(5.0, 11.0, 300), "lat": rng.uniform(45.0, 48.0, 300), EVIL_COLUMN: rng.normal(size=300)}
    )
    rate = np.exp(0.8 + np.sin(2.0 * X["lon"]) + 0.3 * X[EVIL_COLUMN])
    return X, rng.poisson(rate).astype(float)


@pytest.fixture(scope="session")
def counts(survey):
    """A model of the counts, with all its numbers given."""
    X, y = survey
    kernel = npvi.kernels.Matern32(1.0)
    model = npvi.GPRegressor("poisson", kernel, coords=["lon", "lat"], learn=False, n_neighbors=10)
    return model.fit(X[:240], y[:240])


@pytest.fixture(scope="session")
def map_page(counts, survey, tmp_path_factory):
    """A report with a map, judged by test rows."""
    X, y = survey
    path = tmp_path_factory.mktemp("report") / "map.html"
    npvi.report(counts, path, X[240:], y[240:], grid=0.1, exceed=[3], target=EVIL, title=f"{EVIL} & more")
    return path


@pytest.fixture(scope="session")
def flights():
    """A model of three inputs that are no places."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(size=(250, 3)), columns=["dep", EVIL_COLUMN, "age"])
    y = np.sin(6.0 * X["dep"]) + X["age"] ** 2 + 0.1 * rng.normal(size=250)
    return npvi.GPRegressor(npvi.likelihoods.Gaussian(0.01), npvi.kernels.RBF(0.5), learn=False).fit(X, y)


@pytest.fixture(scope="session")
def slices_page(flights, tmp_path_factory):
    """A report without a map."""
    path = tmp_path_factory.mktemp("report") / "slices.html"
    npvi.report(flights, path, target=EVIL)
    return path


@pytest.fixture(scope="session")
def observed():
    """A table for terms, whose levels have the worst of names too, and counts."""
    rng = np.random.default_rng(2)
    levels = [EVIL, EVIL_COLUMN, "a", "b"]
    table = pd.DataFrame(
        {
            "lon": rng.uniform(5.0, 11.0, 250),
            "lat": rng.uniform(45.0, 48.0, 250),
            "height": rng.normal(size=250),
            "observer": rng.choice(levels, 250, p=[0.4, 0.2, 0.2, 0.2]),
        }
    )
    effect = table["observer"].map(dict(zip(levels, (0.5, -0.5, 0.2, 0.0)))).astype(float)
    return table, rng.poisson(np.exp(0.5 + 0.5 * np.sin(table["lon"]) + 0.3 * table["height"] + effect)).astype(float)


@pytest.fixture(scope="session")
def summed(observed):
    """A sum of a field, a smooth and a group."""
    table, y = observed
    terms = [npvi.Field("lon", "lat"), npvi.Smooth("height"), npvi.Group("observer")]
    return npvi.GPRegressor("poisson", terms=terms, hyper="plug-in").fit(table[:200], y[:200])


@pytest.fixture(scope="session")
def terms_page(summed, observed, tmp_path_factory):
    """A report of a sum of terms."""
    table, y = observed
    path = tmp_path_factory.mktemp("report") / "terms.html"
    npvi.report(summed, path, table[200:], y[200:], grid=0.25, exceed=3, target=f"{EVIL} {EVIL_COLUMN}")
    return path
