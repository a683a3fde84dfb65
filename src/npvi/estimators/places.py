"""Tables of geopandas among the inputs: columns for the model, and what a coordinate system says of its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npvi.kernels import Sphere, as_kernel
from npvi.maps import geometry_columns, is_geo_frame, is_geographic, place_names
from npvi.parameters import Parametrised

__all__ = ["settings_on_map", "with_places"]


def with_places(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X, or of a GeoDataFrame a table with its points as columns; the estimator remembers their system if `reset`."""
    if not is_geo_frame(X):
        if reset:
            vars(estimator).pop("crs_", None)
        return X
    if not getattr(estimator, "_takes_points", False):
        raise ValueError(
            f"X is a GeoDataFrame, which {type(estimator).__name__} doesn't take: give a table with its coordinates as "
            "columns, X.get_coordinates()"
        )
    known = getattr(estimator, "crs_", None)
    if not reset and known is None:
        raise ValueError(
            "X is a GeoDataFrame, but the model was fitted to a table that has no coordinate system: give its columns, "
            "or fit a GeoDataFrame"
        )
    table, crs = geometry_columns(X, None if reset else known)
    if reset:
        estimator.crs_ = crs
    return table


def settings_on_map(settings: Mapping[str, Any], crs: str) -> dict[str, Any]:
    """Settings for places in the system `crs`: the process sees these alone unless `coords` says more, other columns
    are covariates; with longitudes and latitudes its kernel is on the sphere, in kilometres.

    >>> found = settings_on_map({"coords": None, "kernel": "matern32"}, "EPSG:4326")
    >>> found["coords"], found["kernel"]
    (['longitude', 'latitude'], Sphere(kernel=Matern32()))
    """
    names = list(place_names(crs))
    coords = names if settings["coords"] is None else settings["coords"]
    kernel = settings["kernel"]
    if is_geographic(crs) and not _has_sphere(kernel):
        if list(coords) != names:
            raise ValueError(
                "kernel: with inputs besides longitude and latitude say how distances on the Earth go together with "
                "them, such as Sphere(Matern()) * Subset(Matern(), ['year'])"
            )
        kernel = Sphere(as_kernel(kernel))
    return {**settings, "coords": coords, "kernel": kernel}


def _has_sphere(kernel: Any) -> bool:
    if not isinstance(kernel, Parametrised):
        return False
    return isinstance(kernel, Sphere) or any(isinstance(part, Sphere) for part in kernel.get_params(deep=True).values())
