"""The North American Breeding Bird Survey: routes, their runs, and what was counted on them."""

from __future__ import annotations

import datetime
import math
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from npvi.datasets.text import Delimited, PathLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SPECIES", "read_bbs"]

#: the survey's numbers of some birds (column AOU)
SPECIES = {
    "savannah_sparrow": 5420,
    "grasshopper_sparrow": 5460,
    "vesper_sparrow": 5400,
    "song_sparrow": 5810,
    "horned_lark": 4740,
    "western_meadowlark": 5011,
    "eastern_meadowlark": 5010,
    "american_robin": 7610,
    "northern_cardinal": 5930,
    "mourning_dove": 3160,
}

_UNITED_STATES = "840"
_ALASKA, _PUERTO_RICO = 3, 74
#: routes of 50 stops drawn at random, within a degree block or within a park or refuge
_RANDOM = ("1", "2")
_ROUTE = ("CountryNum", "StateNum", "Route")
#: what tells one run of a route from all others
_RUN = (*_ROUTE, "RPID", "Year")
#: 50 stops of three minutes, one observer
_STANDARD = "101"

_Run = tuple[int, int, int]


def read_bbs(
    routes: PathLike,
    weather: PathLike,
    counts: Iterable[PathLike],
    *,
    species: Mapping[str, int] = SPECIES,
    years: Collection[int] = range(2003, 2010),
) -> pd.DataFrame:
    """Counts on the survey's routes in the contiguous US, zeros included.

    A row is one run of one route in one year, of those that keep to the survey's standards (run type 1, protocol 101,
    routes of 50 stops drawn at random). A species with no line for a run was not there: its count is 0.

    Parameters
    ----------
    routes, weather : path
        ``Routes.csv`` and ``Weather.csv`` of a release, or .zip files with one of them in it.
    counts : paths
        Counts by state, ``States/Alabama.csv`` and so on, .csv or .zip. Only runs that have a line there become rows,
        so that states that you left out are not zeros.
    species : mapping of str to int
        Names of columns and the survey's numbers, column AOU of its ``SpeciesList``; ten common birds unless given.
    years : collection of int

    Returns
    -------
    pandas.DataFrame
        state_num, route, year, day_of_year, start_hour (local; NaN where not given), bcr, lat, lon (of the start) and a
        column of counts for each species, sorted by year, state and route.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "Routes.csv").write_text(
    ...     "CountryNum,StateNum,Route,Latitude,Longitude,BCR,RouteTypeDetailID\\n840,02,001,34.87,-87.60,27,1\\n"
    ... )
    >>> _ = (folder / "Weather.csv").write_text(
    ...     "CountryNum,StateNum,Route,RPID,Year,Month,Day,StartTime,RunType\\n840,02,001,101,2003,6,15,0506,1\\n"
    ... )
    >>> _ = (folder / "Alabama.csv").write_text(
    ...     "CountryNum,StateNum,Route,RPID,Year,AOU,SpeciesTotal\\n840,02,001,101,2003,05460,3\\n"
    ... )
    >>> table = read_bbs(folder / "Routes.csv", folder / "Weather.csv", [folder / "Alabama.csv"])
    >>> table[["route", "year", "day_of_year", "start_hour", "savannah_sparrow", "grasshopper_sparrow"]]
       route  year  day_of_year  start_hour  savannah_sparrow  grasshopper_sparrow
    0      1  2003          166         5.1                 0                    3
    """
    import pandas as pd

    places = _read_routes(routes)
    runs = _read_runs(weather, places, frozenset(years))
    found = _read_counts(counts, runs, {number: column for column, number in enumerate(species.values())}, len(species))
    states = {state for state, _, _ in found}
    lost = sum(run not in found and run[0] in states for run in runs)
    if lost:
        warnings.warn(
            f"{lost:,} runs have no line in the counts of their state and are left out; are its files whole?",
            stacklevel=2,
        )
    rows = []
    for run in sorted(found, key=lambda run: (run[2], run[0], run[1])):
        state, route, year = run
        lat, lon, bcr = places[state, route]
        rows.append((state, route, year, *runs[run], bcr, lat, lon, *found[run]))
    names = ("state_num", "route", "year", "day_of_year", "start_hour", "bcr", "lat", "lon", *species)
    return pd.DataFrame(rows, columns=list(names))


def _read_routes(path: PathLike) -> dict[tuple[int, int], tuple[float, float, int]]:
    lines = Delimited(path, (*_ROUTE, "Latitude", "Longitude", "BCR", "RouteTypeDetailID"))
    places = {}
    for country, state, route, lat, lon, bcr, kind in lines:
        code = lines.code("RouteTypeDetailID", kind, ("1", "2", "3", "4", "5", "6", ""))
        if country == _UNITED_STATES and code in _RANDOM:
            number = lines.whole("StateNum", state)
            if number not in (_ALASKA, _PUERTO_RICO):
                places[number, lines.whole("Route", route)] = (
                    lines.number("Latitude", lat, -90, 90),
                    lines.number("Longitude", lon, -180, 180),
                    lines.whole("BCR", bcr),
                )
    return places


def _read_runs(
    path: PathLike, places: Mapping[tuple[int, int], Any], years: frozenset[int]
) -> dict[_Run, tuple[int, float]]:
    """Day of the year and hour of the start of each run that counts."""
    lines = Delimited(path, (*_RUN, "Month", "Day", "StartTime", "RunType"))
    runs = {}
    for country, state, route, protocol, year, month, day, start, kind in lines:
        lines.code("RunType", kind, ("0", "1"))
        run = _run(lines, country, state, route, protocol, year)
        if run is None or kind == "0" or run[:2] not in places or run[2] not in years:
            continue
        try:
            when = datetime.date(run[2], lines.whole("Month", month), lines.whole("Day", day))
        except ValueError:
            raise lines.broken(f"month {month!r} and day {day!r}, which are no day of {year}") from None
        runs[run] = when.timetuple().tm_yday, _hour(lines, start)
    return runs


def _read_counts(
    paths: Iterable[PathLike], runs: Mapping[_Run, Any], columns: Mapping[int, int], width: int
) -> dict[_Run, list[int]]:
    found: dict[_Run, list[int]] = {}
    for path in paths:
        lines = Delimited(path, (*_RUN, "AOU", "SpeciesTotal"))
        for country, state, route, protocol, year, bird, total in lines:
            run = _run(lines, country, state, route, protocol, year)
            if run is None or run not in runs:
                continue
            birds = found.setdefault(run, [0] * width)
            column = columns.get(lines.whole("AOU", bird))
            if column is not None:
                birds[column] += lines.whole("SpeciesTotal", total)
    if not found:
        raise ValueError(
            "counts have no line for any run that is wanted; give the files of the states, and other years"
        )
    return found


def _run(lines: Delimited, country: str, state: str, route: str, protocol: str, year: str) -> _Run | None:
    """State, route and year of a run in the US by the standard protocol."""
    if country != _UNITED_STATES or protocol != _STANDARD:
        return None
    return lines.whole("StateNum", state), lines.whole("Route", route), lines.whole("Year", year)


def _hour(lines: Delimited, text: str) -> float:
    """Hours from a clock time such as 0506; NaN where there is none."""
    if text.upper() in ("", "NULL", "NA"):
        return math.nan
    hours, minutes = divmod(lines.whole("StartTime", text), 100)
    if not (0 <= hours < 24 and 0 <= minutes < 60):
        raise lines.broken(f"{text!r} in column StartTime, where a clock time such as 0506 should be")
    return hours + minutes / 60
