"""Borders of countries and coasts to draw over maps: Natural Earth's, at 1:110m and 1:50m (public domain)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from npvi.maps.grid import Box
from npvi.maps.projections import is_geographic, transform

__all__ = ["borders"]

#: degrees across a map from which on the coarse lines are fine enough
_COARSE = 100.0
#: part of a map's extent by which lines may go on beyond it
_MARGIN = 0.5
#: places along each side of a map that say which longitudes and latitudes it has
_ALONG = 25


def borders(box: Box, crs: str) -> list[NDArray[np.float64]]:
    """Lines of borders and coasts in and around a rectangle, each (points, 2), in the rectangle's coordinate system.

    Parameters
    ----------
    box : left, bottom, right, top.
    crs : their coordinate system.

    Examples
    --------
    >>> lines = borders((5.0, 45.0, 11.0, 48.0), "EPSG:4326")  # Switzerland
    >>> any(np.any(np.hypot(*(line - [6.8, 45.9]).T) < 0.3) for line in lines)  # Mont Blanc
    True
    """
    left, bottom, right, top = _widened(box)
    if is_geographic(crs):
        west, south, east, north = left, bottom, right, top
    else:
        x = np.concatenate([np.linspace(left, right, _ALONG)] * 2 + [np.full(_ALONG, end) for end in (left, right)])
        y = np.concatenate([np.full(_ALONG, end) for end in (bottom, top)] + [np.linspace(bottom, top, _ALONG)] * 2)
        lon, lat = transform(x, y, crs, "EPSG:4326")
        known = np.isfinite(lon) & np.isfinite(lat)
        if not known.any():
            return []
        west, south, east, north = lon[known].min(), lat[known].min(), lon[known].max(), lat[known].max()
    found = []
    across = (east - west) / (1.0 + 2.0 * _MARGIN)
    for line in _lines("coarse" if across > _COARSE else "fine"):
        for turn in (-360.0, 0.0, 360.0):  # longitudes from 0 to 360 are the same places
            shifted = line + np.array([turn, 0.0])
            inside = _within(shifted, (west, south, east, north))
            found += [shifted[run] for run in _runs(inside)]
    if is_geographic(crs):
        return found
    moved = (_moved(line, crs) for line in found)
    return [line[run] for line in moved for run in _runs(_within(line, _widened(box)))]


def _moved(line: NDArray[np.float64], crs: str) -> NDArray[np.float64]:
    return np.column_stack(transform(line[:, 0], line[:, 1], "EPSG:4326", crs))


def _widened(box: Box) -> Box:
    left, bottom, right, top = box
    x, y = _MARGIN * (right - left), _MARGIN * (top - bottom)
    return left - x, bottom - y, right + x, top + y


def _within(line: NDArray[np.float64], box: Box) -> NDArray[np.bool_]:
    left, bottom, right, top = box
    with np.errstate(invalid="ignore"):  # a place that a projection doesn't have is infinite
        x, y = line.T
        return np.isfinite(x) & np.isfinite(y) & (x >= left) & (x <= right) & (y >= bottom) & (y <= top)


def _runs(inside: NDArray[np.bool_]) -> list[slice]:
    """Stretches of at least two points that are inside."""
    ends = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(np.int8)))
    return [slice(start, stop) for start, stop in zip(ends[::2], ends[1::2]) if stop - start > 1]


@cache
def _lines(scale: str) -> list[NDArray[np.float64]]:
    """All lines of a scale, in degrees; `tools/borders.py` wrote them."""
    with np.load(Path(__file__).with_name("borders.npz")) as file:
        steps = np.cumsum(file[scale], axis=0, dtype=np.int16)  # which flows over where the differences did
        starts = np.cumsum(file[f"{scale}_starts"], dtype=np.int64)
    return np.split(steps * [180.0 / 32767, 90.0 / 32767], starts[1:])
