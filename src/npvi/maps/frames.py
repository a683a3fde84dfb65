"""Tables of geopandas: their points as columns, and the system that these are in."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from npvi.checks import rows_text
from npvi.maps.projections import check_degrees, is_geographic, same_system, system_text

__all__ = ["PLACES", "geometry_columns", "is_geo_frame", "place_names"]

PLACES = {True: ("longitude", "latitude"), False: ("x", "y")}
"""Names of the columns that points become, by whether these are degrees."""


def is_geo_frame(X: Any) -> bool:
    """Whether it is a GeoDataFrame; nothing is imported to find out."""
    geopandas = sys.modules.get("geopandas")
    return geopandas is not None and isinstance(X, geopandas.GeoDataFrame)


def place_names(crs: str) -> tuple[str, str]:
    """What the columns of points in this system are called."""
    return PLACES[is_geographic(crs)]


def geometry_columns(X: Any, crs: str | None = None) -> tuple[Any, str]:
    """A pandas table with the points' coordinates first, other columns after them; and the coordinate system.

    Parameters
    ----------
    X : GeoDataFrame of points.
    crs : the system that coordinates are wanted in; the table's own where None.

    Raises
    ------
    ValueError
        Where the table has no system, or rows are no points.
    """
    if X.crs is None:
        raise ValueError(
            "X has no coordinate reference system: whether its coordinates are degrees or metres isn't known. Say so "
            "with X = X.set_crs('EPSG:4326') (longitude and latitude), or another code"
        )
    wrong = np.flatnonzero((X.geometry.geom_type != "Point").to_numpy() | X.geometry.is_empty.to_numpy())
    if len(wrong):
        raise ValueError(
            f"X must have a point in each row, which lacks in {len(wrong)} of {len(X)} {rows_text(wrong)}. Of "
            "polygons, X.set_geometry(X.representative_point()) makes points"
        )
    own = system_text(X.crs)
    assert own is not None
    if crs is not None and not same_system(own, crs):
        X, own = X.to_crs(crs), crs
    names = place_names(own)
    x, y = X.geometry.x.to_numpy(), X.geometry.y.to_numpy()
    if names == PLACES[True]:
        check_degrees(x, y, "X")
    rest = X.drop(columns=X.geometry.name)
    taken = [name for name in names if name in rest.columns]
    if taken:
        raise ValueError(f"X has a column {taken[0]!r}, which is what its geometry becomes: drop or rename it")
    table = rest.copy()
    for position, (name, values) in enumerate(zip(names, (x, y))):
        table.insert(position, name, values)
    import pandas as pd

    return pd.DataFrame(table), own
