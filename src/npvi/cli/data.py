"""npvi data."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npvi.cli.display import results, say, show_pairs, watching
from npvi.cli.errors import InputError, guarded, unknown_name
from npvi.cli.options import described
from npvi.cli.tables import check_output, writing

if TYPE_CHECKING:
    from npvi.datasets import Source

__all__ = ["data"]

_write, _select = (partial(described, panel=panel) for panel in ("Making a table", "Which part of the originals"))


def data(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A data set; without it, all are listed.", show_default=False)
    ] = None,
    originals: Annotated[Path, _write("FOLDER", "Folder with the files that you downloaded.", "--from")] = Path(
        "originals"
    ),
    output: Annotated[Path | None, _write("FILE", "Table to write: .csv, .tsv or .parquet.")] = None,
    species: Annotated[str | None, _select("NAME", "English or scientific name (ebird).")] = None,
    months: Annotated[str | None, _select("NUMBERS", "Such as 2 or 1-4 or 1,2,12 (ebird, flights).")] = None,
    years: Annotated[str | None, _select("NUMBERS", "Such as 2012-2016 (ebird, bird_counts).")] = None,
    region: Annotated[str | None, _select("CODES", "Such as US-CA,US-OR,MX (ebird).")] = None,
    states: Annotated[str | None, _select("CODES", "Such as CA,OR (precipitation).")] = None,
    zeros: Annotated[str | None, _select("N", "Checklists without the bird to keep, or all (ebird).")] = None,
    rows: Annotated[str | None, _select("N", "Flights to keep, or all (flights).")] = None,
    corners: Annotated[
        str | None, _select("W,N,E,S", "Edges of the image in degrees; the world's (nightlight).")
    ] = None,
    box: Annotated[str | None, _select("W,N,E,S", "The part wanted; the contiguous US (nightlight).")] = None,
    shape: Annotated[str | None, _select("ROWS,COLUMNS", "Cells in that part (nightlight).")] = None,
    seed: Annotated[int | None, _select("N", "Another seed, another draw (ebird, flights).", min=0)] = None,
) -> None:
    """Say where real data are published and how to get them, and turn the originals into tables.

    Nothing is downloaded for you: some publishers want to know who uses their data.
    With a name and nothing else, it prints the terms and what to type, from download to fit.

    \b
    [bold]Examples[/bold]
    npvi data
    npvi data precipitation
    npvi data precipitation --from originals --output rain.parquet
    npvi data ebird --species "Horned Lark" --months 1-2 --region US-KS,US-NE --output larks.csv
    npvi data flights --months 1-4 --rows 100000 --output flights.parquet
    npvi data nightlight --box=-10,60,3,49 --shape 110,130 --output britain.parquet

    \b
    [bold]Exit status[/bold]
    0 done; 2 wrong usage, or a file that is broken: the message names file and line
    """
    with guarded("data"):
        from npvi.datasets.sources import SOURCES

        given = {
            "species": species,
            "months": months,
            "years": years,
            "region": region,
            "states": states,
            "zeros": zeros,
            "rows": rows,
            "corners": corners,
            "box": box,
            "shape": shape,
            "seed": seed,
        }
        given = {option: value for option, value in given.items() if value is not None}
        if name is None:
            if given or output is not None:
                raise InputError(f"name the data set too: one of {', '.join(SOURCES)}")
            show_pairs("npvi data NAME explains each", {source.name: source.what for source in SOURCES.values()})
            return
        if name not in SOURCES:
            raise unknown_name("there is no data set", name, list(SOURCES))
        source = SOURCES[name]
        chosen = _check_options(source, given)
        if output is None:
            if chosen:
                raise InputError("--output FILE is missing: where to write the table")
            _explain(source)
        else:
            _convert(source, originals, output, chosen)


def _check_options(source: Source, given: dict[str, Any]) -> dict[str, Any]:
    for option in given:
        if option not in source.options:
            takes = ", ".join(f"--{name}" for name in source.options) or "none of these options"
            raise InputError(f"--{option} is not for {source.name}, which takes {takes}")
    return {option: _parse(option, value) for option, value in given.items()}


def _parse(option: str, value: Any) -> Any:
    if option == "months":
        return _whole_numbers(value, option, 1, 12)
    if option == "years":
        return _whole_numbers(value, option, 1900, 2100)
    if option in ("zeros", "rows"):
        if value != "all" and not value.isdecimal():
            raise InputError(f"--{option} must be a whole number or all, got {value}")
        return None if value == "all" else int(value)
    if option == "states":
        return frozenset(code.strip().upper() for code in value.split(","))
    if option == "shape":
        return _several(value, option, 2, int)
    if option in ("corners", "box"):
        return _several(value, option, 4, float)
    return value


def _whole_numbers(text: str, option: str, low: int, high: int) -> tuple[int, ...]:
    """
    >>> _whole_numbers("1-3,12", "months", 1, 12)
    (1, 2, 3, 12)
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last if dash else first)
        if not all(end.strip().isdecimal() and low <= int(end) <= high for end in ends):
            raise InputError(
                f"--{option} must be whole numbers from {low} to {high} such as {low} or {low}-{low + 3}, got {text}"
            )
        numbers += range(int(ends[0]), int(ends[1]) + 1)
    if not numbers:
        raise InputError(f"--{option} names no number, got {text}")
    return tuple(numbers)


def _several(text: str, option: str, count: int, kind: type) -> tuple[Any, ...]:
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != count:
        raise InputError(f"--{option} must be {count} numbers with commas between them, got {text}")
    return values


def _explain(source: Source) -> None:
    from npvi.datasets.loading import TABLES

    table = f"{source.name}.parquet"
    convert = f"npvi data {source.name}" + (" --from originals" if source.originals else "")
    lines = [
        f"{source.name}: {source.what}",
        f"published by {source.published}",
        f"terms: {source.terms}",
        "",
        "1. Get the originals:",
        *(f"     {step}" for step in source.steps),
        "2. Make a table of them:",
        f"     {convert} --output {table}",
        "3. Fit a model:",
        f"     npvi fit {table} {source.fit}",
    ]
    if source.name in TABLES:
        path = Path(TABLES[source.name])
        lines += [
            f'For npvi.datasets.load("{source.name}") in Python, with the folder of your choice:',
            "     export NPVI_DATA=~/npvi-data",
            f"     mkdir -p $NPVI_DATA/{path.parent}",
            f"     {convert}{source.as_published} --output $NPVI_DATA/{path}",
        ]
    _print("\n".join(lines))


def _convert(source: Source, folder: Path, output: Path, options: dict[str, Any]) -> None:
    from npvi import datasets
    from npvi.datasets.sources import find_originals

    found = find_originals(source, folder) if source.originals else {}
    inputs = [path for paths in found.values() for path in (paths if isinstance(paths, list) else [paths])]
    check_output(output, inputs=inputs)
    try:
        with watching():
            table = getattr(datasets, source.reader)(**found, **options)
    except ImportError as error:
        raise InputError(str(error)) from None
    if table.empty:
        raise InputError("the originals have no rows of the part that was asked for; ask for more")
    with writing(output) as file:
        file.write(table)
    say(f"wrote {len(table):,} rows to {output}: {', '.join(table.columns)}")
    _print(f"npvi fit {shlex.quote(str(output))} {source.fit}")


def _print(text: str) -> None:
    # whole lines, so that they can be copied
    results().print(text, soft_wrap=True)
