"""NOAA's 1981-2010 climate normals: monthly precipitation."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from npvi.datasets.regions import LOWER_48
from npvi.datasets.text import FixedWidth, PathLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_precipitation"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: complete, standard, representative, provisional, estimated, or not said
_FLAGS = ("C", "S", "R", "P", "Q", "")
#: missing, undefined, inconsistent with another value
_NO_VALUE = (-9999, -6666, -5555)
#: more than nothing, but less than half a hundredth of an inch
_TRACE = -7777
_NO_ELEVATION = -999.9


def read_precipitation(normals: PathLike, stations: PathLike, *, states: Collection[str] = LOWER_48) -> pd.DataFrame:
    """Mean precipitation of each month at the stations of some states.

    Parameters
    ----------
    normals, stations : path
        ``mly-prcp-normal.txt`` and ``allstations.txt``.
    states : collection of str
        Two-letter codes; the contiguous US unless given.

    Returns
    -------
    pandas.DataFrame
        station, lat, lon, elev_m (NaN where not given), state, name, prcp_jan to prcp_dec in inches (NaN where there is
        no value) and may_flag, how complete the records of May are: C complete, S standard, R representative, P
        provisional, Q estimated.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> months = "".join(f"{value:5d}S " for value in (530, 507, 580, 377, 382, 520, 594, 463, 353, 311, 461, 473))
    >>> _ = (folder / "mly-prcp-normal.txt").write_text(f"USC00010008       {months}")
    >>> _ = (folder / "allstations.txt").write_text("USC00010008  31.5703  -85.2483  139.0 AL ABBEVILLE")
    >>> table = read_precipitation(folder / "mly-prcp-normal.txt", folder / "allstations.txt")
    >>> table[["lon", "lat", "prcp_may"]].to_numpy().tolist()
    [[-85.2483, 31.5703, 3.82]]
    """
    import pandas as pd

    places = _read_stations(stations)
    layout = [(1, 11), *((19 + 7 * month, 23 + 7 * month) for month in range(12))]
    flags = [(24 + 7 * month, 24 + 7 * month) for month in range(12)]
    lines = FixedWidth(normals, [*layout, *flags], shortest=100)
    rows = []
    for station, *fields in lines:
        if station not in places:
            raise lines.broken(f"station {station!r} is not in {stations}; take both files from the same release")
        lat, lon, elevation, state, name = places[station]
        if state in states:
            inches = [_inches(lines, month, text) for month, text in zip(_MONTHS, fields)]
            checked = [lines.code(f"flag of {month}", text, _FLAGS) for month, text in zip(_MONTHS, fields[12:])]
            rows.append((station, lat, lon, elevation, state, name, *inches, checked[_MONTHS.index("may")]))
    names = ("station", "lat", "lon", "elev_m", "state", "name", *(f"prcp_{month}" for month in _MONTHS), "may_flag")
    return pd.DataFrame(rows, columns=list(names))


def _read_stations(path: PathLike) -> dict[str, tuple[float, float, float, str, str]]:
    lines = FixedWidth(path, [(1, 11), (13, 20), (22, 30), (32, 37), (39, 40), (42, 71)], shortest=37)
    places = {}
    for station, lat, lon, height, state, name in lines:
        elevation = lines.number("elevation", height)
        places[station] = (
            lines.number("latitude", lat, -90, 90),
            lines.number("longitude", lon, -180, 180),
            math.nan if elevation == _NO_ELEVATION else elevation,
            state,
            name,
        )
    return places


def _inches(lines: FixedWidth, month: str, text: str) -> float:
    hundredths = lines.whole(month, text)
    if hundredths in _NO_VALUE:
        return math.nan
    if hundredths == _TRACE:
        return 0.0
    if hundredths < 0:
        known = ", ".join(map(str, (_TRACE, *_NO_VALUE)))
        raise lines.broken(f"{hundredths} in {month}, where hundredths of an inch or one of {known} should be")
    return hundredths / 100
