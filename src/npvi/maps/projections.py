"""Coordinate reference systems, as text (WKT or "EPSG:4326"); pyproj knows what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.runtime.extras import needed

__all__ = ["axis_unit", "check_degrees", "is_geographic", "same_system", "system_text", "transform"]


def system_text(crs: Any, name: str = "crs") -> str | None:
    """A coordinate reference system as text; None stays None.

    >>> system_text("EPSG:4326")
    'EPSG:4326'
    """
    if crs is None:
        return None
    pyproj = needed("pyproj", "geo", "coordinate reference systems")
    try:
        found = pyproj.CRS.from_user_input(crs)
    except Exception as error:
        raise ValueError(
            f"{name} must be a coordinate reference system such as 'EPSG:4326'; got {crs!r}: {error}"
        ) from None
    authority = found.to_authority(min_confidence=100)
    return ":".join(authority) if authority else found.to_wkt()


def is_geographic(crs: str) -> bool:
    """Whether coordinates are longitudes and latitudes in degrees.

    >>> is_geographic("EPSG:4326"), is_geographic("EPSG:32609")
    (True, False)
    """
    return bool(needed("pyproj", "geo", "coordinate reference systems").CRS.from_user_input(crs).is_geographic)


def axis_unit(crs: str) -> str:
    """What coordinates are counted in.

    >>> axis_unit("EPSG:4326"), axis_unit("EPSG:32609")
    ('degrees', 'metres')
    """
    axes = needed("pyproj", "geo", "coordinate reference systems").CRS.from_user_input(crs).axis_info
    name = str(axes[0].unit_name) if axes else "unit"
    return f"{name}s" if name.isalpha() else name


def same_system(one: str, other: str) -> bool:
    """Whether two of them give the same coordinates, axes in the order x, y."""
    pyproj = needed("pyproj", "geo", "coordinate reference systems")
    return bool(pyproj.CRS.from_user_input(one).equals(pyproj.CRS.from_user_input(other), ignore_axis_order=True))


def transform(
    x: NDArray[np.float64], y: NDArray[np.float64], source: str, target: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same places in another system, x (or longitude) first.

    >>> x, y = transform(np.array([-129.0]), np.array([0.0]), "EPSG:4326", "EPSG:32609")
    >>> x.round(3), y.round(3)
    (array([500000.]), array([0.]))
    """
    if same_system(source, target):
        return x, y
    pyproj = needed("pyproj", "geo", "coordinate reference systems")
    found = pyproj.Transformer.from_crs(source, target, always_xy=True).transform(x, y)
    return np.asarray(found[0]), np.asarray(found[1])


def check_degrees(x: NDArray[np.float64], y: NDArray[np.float64], what: str) -> None:
    """Raise ValueError where longitudes and latitudes are out of range, or swapped."""
    if not len(y) or (np.all(np.abs(y) <= 90.0) and np.all(np.abs(x) <= 360.0)):
        return
    swapped = "; are longitude and latitude swapped?" if np.all(np.abs(x) <= 90.0) else ""
    raise ValueError(
        f"{what}: longitudes must be from -180 to 360 degrees and latitudes from -90 to 90; got {x.min():g} to "
        f"{x.max():g} and {y.min():g} to {y.max():g}{swapped}"
    )
