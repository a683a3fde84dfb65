"""The eBird Basic Dataset: checklists with and without a species.

A file of observations says where a species was seen; the file of sampling events lists all checklists. What a complete
checklist doesn't report was not there: its count is 0.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import warnings
from collections.abc import Callable, Collection
from datetime import date
from typing import TYPE_CHECKING, Any

from npvi.datasets.regions import CONTIGUOUS, in_region
from npvi.datasets.sampling import Sample
from npvi.datasets.text import Delimited, PathLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PAPER_ZEROS", "read_ebird"]

#: checklists without the species in the paper's set, 15,085 less the 6,477 with it
PAPER_ZEROS = 8_608

#: the columns that say which checklist a line is of, and whether it is wanted
_CHECKLIST = (
    "SAMPLING EVENT IDENTIFIER",
    "GROUP IDENTIFIER",
    "ALL SPECIES REPORTED",
    "COUNTRY CODE",
    "STATE CODE",
    "OBSERVATION DATE",
)
_EFFORT = (
    "LONGITUDE",
    "LATITUDE",
    "TIME OBSERVATIONS STARTED",
    "DURATION MINUTES",
    "EFFORT DISTANCE KM",
    "NUMBER OBSERVERS",
)
_COLUMNS = (
    "checklist",
    "lon",
    "lat",
    "year",
    "day_of_year",
    "start_hour",
    "minutes",
    "distance_km",
    "observers",
    "count",
)

_Count = tuple[int, float]


def read_ebird(
    observations: PathLike,
    sampling: PathLike,
    *,
    species: str = "Savannah Sparrow",
    months: Collection[int] = (2,),
    years: Collection[int] = (2012, 2013, 2014, 2015, 2016),
    region: str = CONTIGUOUS,
    zeros: int | None = PAPER_ZEROS,
    seed: int = 0,
) -> pd.DataFrame:
    """Counts of a species on complete checklists, zeros included; the paper's selection unless you ask for another.

    Both files are read line by line. Memory is needed for the checklists with the species and for the zeros kept.

    Parameters
    ----------
    observations, sampling : path
        ``ebd_….txt`` and ``ebd_…sampling….txt`` of the same download, as they are or with .gz.
    species : str
        English or scientific name.
    months, years : collection of int
    region : str
        "contiguous US", or codes such as "US-CA,US-OR,MX".
    zeros : int, optional
        How many checklists without the species to keep, drawn at random; None keeps all.
    seed : int
        Another seed, another draw. It doesn't depend on the order of the lines.

    Returns
    -------
    pandas.DataFrame
        checklist, lon, lat, year, day_of_year, start_hour, minutes, distance_km, observers (NaN where not given) and
        count, a row per checklist. Copies of a shared checklist are one row. Checklists that report the species without
        a number ("X") are left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> names = (*_CHECKLIST, *_EFFORT)
    >>> lists = [f"S{n}\\t\\t1\\tUS\\tUS-TX\\t2014-02-0{n}\\t-97.7\\t30.3\\t07:30:00\\t60\\t2.5\\t1" for n in (1, 2)]
    >>> _ = (folder / "ebd_sampling.txt").write_text("\\n".join(["\\t".join(names), *lists]))
    >>> seen = lists[1] + "\\tSavannah Sparrow\\tPasserculus sandwichensis\\t12"
    >>> names = (*names, "COMMON NAME", "SCIENTIFIC NAME", "OBSERVATION COUNT")
    >>> _ = (folder / "ebd.txt").write_text("\\n".join(["\\t".join(names), seen]))
    >>> read_ebird(folder / "ebd.txt", folder / "ebd_sampling.txt")[["checklist", "start_hour", "count"]]
      checklist  start_hour  count
    0        S2         7.5     12
    1        S1         7.5      0
    """
    wanted = _Wanted(frozenset(months), frozenset(years), in_region(region))
    counts = _read_counts(observations, species, wanted)
    lines = Delimited(sampling, (*_CHECKLIST, *_EFFORT), "\t")
    seen, unseen = Sample(_COLUMNS), Sample(_COLUMNS, zeros)
    found = set()
    for fields in lines:
        day = wanted(lines, fields)
        if day is None:
            continue
        name, event = _checklist(lines, fields)
        _, count = counts.get(name, (0, 0.0))
        if name in counts:
            found.add(name)
        if not math.isnan(count):
            row = (name, *_place_and_effort(lines, fields[len(_CHECKLIST) :], day), count)
            (seen if count else unseen).add(_key(name, seed), event, row)
    if len(found) < len(counts):
        warnings.warn(
            f"{len(counts) - len(found):,} of {len(counts):,} checklists with the species are not in {lines.path}; "
            "take both files from the same download",
            stacklevel=2,
        )
    return _join(seen.table(), unseen.table())


class _Wanted:
    """Which lines of either file are of complete checklists of the right time and place."""

    def __init__(self, months: frozenset[int], years: frozenset[int], inside: Callable[[str, str], bool]) -> None:
        self._months, self._years, self._inside = months, years, inside

    def __call__(self, lines: Delimited, fields: tuple[str, ...]) -> date | None:
        """The date of a line that is wanted, or None."""
        _, _, complete, country, state, text = fields[: len(_CHECKLIST)]
        day = lines.date("OBSERVATION DATE", text)
        if lines.code("ALL SPECIES REPORTED", complete, ("0", "1")) == "0":
            return None
        in_time = day.month in self._months and day.year in self._years
        return day if in_time and self._inside(country, state) else None


def _read_counts(path: PathLike, species: str, wanted: _Wanted) -> dict[str, _Count]:
    """For each checklist with the species, the copy that counts and its number of birds (NaN for "X")."""
    lines = Delimited(path, (*_CHECKLIST, "COMMON NAME", "SCIENTIFIC NAME", "OBSERVATION COUNT"), "\t")
    counts: dict[str, _Count] = {}
    names: set[str] = set()
    folded = species.strip().lower()
    for fields in lines:
        common, scientific, number = fields[-3:]
        if folded not in (common.lower(), scientific.lower()):
            names.update((common, scientific))
            continue
        names.add(folded)
        if wanted(lines, fields) is None:
            continue
        checklist, event = _checklist(lines, fields)
        count = math.nan if number == "X" else lines.whole("OBSERVATION COUNT", number)
        copy, before = counts.get(checklist, (event, 0))
        if event == copy:  # subspecies have lines of their own
            counts[checklist] = event, before + count
        elif event < copy:
            counts[checklist] = event, count
    if folded not in names:
        close = difflib.get_close_matches(species, names, n=1, cutoff=0.7)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(sorted(names)[:6]) or 'no observations'}"
        raise ValueError(f"species must be in {lines.path}, which has no {species!r}; {hint}")
    return counts


def _checklist(lines: Delimited, fields: tuple[str, ...]) -> tuple[str, int]:
    """What copies of a shared checklist have in common, and the number of this copy."""
    event, group = fields[:2]
    if event[:1] != "S":
        raise lines.broken(f"{event[:40]!r} in column {_CHECKLIST[0]}, where a code such as S10137630 should be")
    return group or event, lines.whole(_CHECKLIST[0], event[1:])


def _place_and_effort(lines: Delimited, fields: tuple[str, ...], day: date) -> tuple[Any, ...]:
    lon, lat, start, *effort = fields
    return (
        lines.number("LONGITUDE", lon, -180, 180),
        lines.number("LATITUDE", lat, -90, 90),
        day.year,
        day.timetuple().tm_yday,
        _hour(lines, start),
        *(lines.number(name, text, 0) if text else math.nan for name, text in zip(_EFFORT[3:], effort)),
    )


def _hour(lines: Delimited, text: str) -> float:
    if not text:
        return math.nan
    hours, _, rest = text.partition(":")
    return lines.whole(_EFFORT[2], hours) + lines.whole(_EFFORT[2], rest[:2]) / 60


def _key(name: str, seed: int) -> int:
    """A number that is random, but always the same for the same checklist: its copies can be told without a list."""
    digest = hashlib.blake2b(name.encode(), digest_size=7, salt=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little")


def _join(seen: pd.DataFrame, unseen: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    filled = [table for table in (seen, unseen) if len(table)]
    table = pd.concat(filled, ignore_index=True) if filled else seen
    return table.astype({"count": "int64"})
