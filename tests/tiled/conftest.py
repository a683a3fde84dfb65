"""Surveys in Parquet files, and a model of them in tiles."""

import numpy as np
import pandas as pd
import pytest

import npvi

KERNEL = npvi.kernels.Matern(0.2, 1.0, smoothness=1.5)


def survey(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    forest = rng.standard_normal(n)
    hours = rng.uniform(0.5, 2.0, n)
    f = 0.5 + np.sin(7.0 * X[:, 0]) + np.cos(5.0 * X[:, 1]) + 0.4 * forest
    return pd.DataFrame(
        {"lon": X[:, 0], "lat": X[:, 1], "forest": forest, "hours": hours, "count": rng.poisson(hours * np.exp(f))}
    )


def write(table, folder, files=3):
    folder.mkdir(exist_ok=True)
    for k in range(files):
        table.iloc[k::files].to_parquet(folder / f"{k}.parquet", row_group_size=500)
    return str(folder / "*.parquet")


def tiled(store, **settings):
    settings = {
        "likelihood": "poisson",
        "kernel": KERNEL,
        "nugget": 0.01,
        "coords": ["lon", "lat"],
        "learn": False,
        "tile_rows": 800,
        "n_neighbors": 10,
        "n_jobs": 1,
        "client": None,
        **settings,
    }
    return npvi.TiledRegressor(store=store, **settings)


FIT = {"target": "count", "exposure": "hours"}


@pytest.fixture(scope="session")
def table():
    return survey()


@pytest.fixture(scope="session")
def files(table, tmp_path_factory):
    return write(table, tmp_path_factory.mktemp("survey") / "files")


@pytest.fixture(scope="session")
def model(files, tmp_path_factory):
    return tiled(tmp_path_factory.mktemp("store") / "birds.npvi").fit(files, **FIT)


@pytest.fixture(scope="session")
def places(table):
    rng = np.random.default_rng(9)
    new = pd.DataFrame(rng.random((300, 2)), columns=["lon", "lat"])
    return new.assign(forest=rng.standard_normal(300))
