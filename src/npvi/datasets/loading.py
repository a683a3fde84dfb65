"""The five sets of the benchmarks, from the folder that the environment variable NPVI_DATA names."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from npvi.checks import check_choice
from npvi.datasets.dataset import Dataset

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TABLES", "load"]

#: where each set's table is, in the folder that NPVI_DATA names
TABLES = {
    "bird_counts": "bbs_savannah_sparrow/bbs_savannah_sparrow.parquet",
    "nightlight": "nightlight/nightlight.parquet",
    "flights": "flight_delay/flight_delay.parquet",
    "precipitation": "noaa_precip_may/noaa_precip_may.parquet",
    "modis": "modis_lst/modis_lst.parquet",
}

#: degrees of longitude are shorter than those of latitude, by this much at 39° N, in the middle of the US
_SHRINK = math.cos(math.radians(39.0))
_FLIGHT_INPUTS = (
    "plane_age",
    "distance",
    "air_time",
    "dep_time",
    "arr_time",
    "day_of_week",
    "day_of_month",
    "month",
)


def load(name: str) -> Dataset:
    """A real data set, prepared as in published comparisons.

    The folder that the environment variable ``NPVI_DATA`` names must hold its table; ``npvi data NAME`` in a shell says
    where the data are published and how to make the table.

    Parameters
    ----------
    name : {"bird_counts", "nightlight", "flights", "precipitation", "modis"}

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import npvi.datasets
    >>> rain = npvi.datasets.load("precipitation")  # doctest: +SKIP
    >>> rain.X.shape, rain.inputs, rain.likelihood  # doctest: +SKIP
    ((8863, 2), ('east', 'north'), 'gamma')
    >>> split = rain.split(seed=0)  # doctest: +SKIP
    >>> npvi.datasets.load("rain")
    Traceback (most recent call last):
    ValueError: name must be one of 'bird_counts', 'nightlight', 'flights', 'precipitation', 'modis'; got 'rain'
    """
    check_choice(name, "name", TABLES)
    return _PREPARED[name](_table(name))


def _table(name: str) -> pd.DataFrame:
    import pandas as pd

    root = os.environ.get("NPVI_DATA")
    if not root:
        raise FileNotFoundError(
            f"the environment variable NPVI_DATA is not set: it should name the folder with {TABLES[name]}; "
            f"`npvi data {name}` says where the data come from and how to make that file"
        )
    path = Path(root) / TABLES[name]
    if not path.exists():
        raise FileNotFoundError(
            f"there is no file {path} (NPVI_DATA is {root}); `npvi data {name}` says where the data come from and how "
            "to make it"
        )
    return pd.read_parquet(path)


def _bird_counts(table: pd.DataFrame) -> Dataset:
    lon, lat = _single(table, "lon").astype(np.float64), _single(table, "lat")
    return Dataset(
        "bird_counts",
        _on_map(lon * _SHRINK, lat),
        table["savannah_sparrow"].to_numpy(np.float64),
        ("east", "north"),
        "Savannah Sparrows counted on a route",
        "negative_binomial",
        "Breeding Bird Survey, contiguous US, 2003-2009, a row per run of a route; places in units of 200 miles. A "
        "split keeps all rows with birds and about 5,350 of those without, to have the paper's share of zeros.",
        zeros=5350,
    )


def _nightlight(table: pd.DataFrame) -> Dataset:
    return Dataset(
        "nightlight",
        _places(table),
        (np.maximum(_single(table, "grey"), 1) / 255).astype(np.float64),
        ("east", "north"),
        "brightness from 1/255 to 1",
        "lognormal",
        "NASA Black Marble 2016 over the contiguous US, 158 x 359 pixels; places in units of 200 miles.",
    )


def _precipitation(table: pd.DataFrame) -> Dataset:
    rain = _single(table, "prcp_may")
    return Dataset(
        "precipitation",
        _places(table),
        (rain / rain.max()).astype(np.float64),
        ("east", "north"),
        "mean May precipitation as a share of the largest",
        "gamma",
        "NOAA 1981-2010 climate normals at stations of the contiguous US; places in units of 200 miles.",
    )


def _flights(table: pd.DataFrame) -> Dataset:
    delay = table["arr_delay"].to_numpy(np.float64)
    low, high = np.quantile(delay, [0.001, 0.99])
    usual = (delay > low) & (delay < high)
    X, delay = table.loc[usual, list(_FLIGHT_INPUTS)].to_numpy(np.float64), delay[usual]
    return Dataset(
        "flights",
        (X - X.mean(axis=0)) / X.std(axis=0),
        (delay - delay.min() + 1.0) / (delay.max() - delay.min() + 1.0),
        _FLIGHT_INPUTS,
        "arrival delay, shifted and scaled to (0, 1]",
        "lognormal",
        "US flights in 2008 with the inputs of Hensman et al. (2013), standardised; delays at or beyond the 0.1 % and "
        "99 % quantiles are left out. Published comparisons used split(seed=0, rows=50_000).",
    )


def _modis(table: pd.DataFrame) -> Dataset:
    return Dataset(
        "modis",
        table[["lon", "lat"]].to_numpy(np.float64),
        table["temp_c"].to_numpy(np.float64),
        ("lon", "lat"),
        "land surface temperature, degrees Celsius",
        "gaussian",
        "MODIS, 4 August 2016, the competition of Heaton et al. (2019), who trained on what is here both for training "
        "and for validation; its test cells are those behind clouds.",
        is_test=~table["is_train"].to_numpy(bool),
    )


_PREPARED: dict[str, Callable[[pd.DataFrame], Dataset]] = {
    "bird_counts": _bird_counts,
    "nightlight": _nightlight,
    "flights": _flights,
    "precipitation": _precipitation,
    "modis": _modis,
}

# The published arrays were computed partly in single precision, and not in the same way for every set. The same steps
# are taken here, so that they come out the same to the last bit.


def _single(table: pd.DataFrame, column: str) -> NDArray[np.float32]:
    return table[column].to_numpy(np.float32)


def _places(table: pd.DataFrame) -> NDArray[np.float64]:
    east = _single(table, "lon") * _SHRINK
    return _on_map(east.astype(np.float64), _single(table, "lat").astype(np.float64))


def _on_map(east: NDArray, lat: NDArray) -> NDArray[np.float64]:
    """Degrees of latitude, and of longitude shrunk to their length, in units of 200 miles: the paper's scale."""
    return np.column_stack([degrees * 69.17 / 200 for degrees in (east, lat)]).astype(np.float64)
