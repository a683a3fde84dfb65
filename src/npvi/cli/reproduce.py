"""npvi reproduce."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from npvi.cli.display import messages, results, say
from npvi.cli.errors import FAILED, INTERRUPTED, InputError, guarded, unknown_name
from npvi.runtime.interrupts import safe_point

if TYPE_CHECKING:
    from npvi.paper.experiments import Cell, Plan, Report
    from npvi.paper.experiments.tables import Table

__all__ = ["reproduce"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def reproduce(
    experiment: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPERIMENT...",
            help="bird-counts, nightlight, flights, precipitation, ordering, length-scale, speed, surfaces, or all.",
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="The same in small: 2,000 rows, one split, fewer candidates.")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time for a cell, such as 90s, 10m or 2h; 10m unless given.")
    ] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder for tables, figures and finished cells.")] = Path(
        "results"
    ),
    seeds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Splits to average over; 0,1,2 unless given.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Only these, out of svgp,savigp,dgp,npvi,npvi-nn,gcn,full."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="Take so many rows of each data set; all unless given.", min=100)
    ] = None,
) -> None:
    """Make the paper's tables and figures again, with its numbers beside ours.

    [bold]bird-counts[/bold], [bold]nightlight[/bold], [bold]flights[/bold], [bold]precipitation[/bold]:
    tables of scores of test rows, of three methods with M inducing points
    (SVGP, SAVIGP, DGP) and four with K neighbours (NPVI, NPVI-NN, NPVI-NN as
    published, full). One table has the length scale chosen on validation rows,
    as in the paper, and a second one variance and nugget too.
    [bold]ordering[/bold]: does the order of the rows matter?
    [bold]length-scale[/bold]: which one does each method choose?
    [bold]speed[/bold]: how soon is each as good as it gets?
    [bold]surfaces[/bold]: maps of the birds.

    Each cell of a table is stored when it is finished. Stop whenever you like:
    the same command goes on from there. A cell has the time that --budget says;
    then what it has is what counts, and the table shows a †. With a larger
    --budget those cells are done again, and no others.

    Data are in the folder that NPVI_DATA names; npvi data says how to get them.
    A set that isn't there is skipped.

    \b
    [bold]Examples[/bold]
    npvi reproduce all --quick
    npvi reproduce precipitation --seeds 0 --budget 60s
    npvi reproduce flights --methods npvi,npvi-nn --rows 50000 --output small
    npvi reproduce all --budget 10m
    """
    with guarded("reproduce"):
        names = _names(experiment)
        plan = _plan(quick, budget, seeds, methods, rows)
        output = _folder(output)
        report = _run(names, plan, output)
        _show(report, output)


def _names(asked: list[str]) -> list[str]:
    from npvi.paper.experiments import NAMES

    for name in asked:
        if name != "all" and name not in NAMES:
            raise unknown_name("there is no experiment", name, [*NAMES, "all"])
    return [name for name in NAMES if name in asked or "all" in asked]


def _plan(quick: bool, budget: str | None, seeds: str | None, methods: str | None, rows: int | None) -> Plan:
    from npvi.paper.experiments import plan

    changed: dict[str, Any] = {}
    if budget is not None:
        changed["budget"] = _seconds(budget)
    if seeds is not None:
        changed["seeds"] = _seeds(seeds)
    if methods is not None:
        changed["methods"] = _methods(methods)
    if rows is not None:
        changed["rows"] = rows
    return replace(plan.QUICK if quick else plan.FULL, **changed)


def _seconds(text: str) -> float:
    """
    >>> _seconds("90s"), _seconds("1.5m"), _seconds("2h")
    (90.0, 90.0, 7200.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if found is None or float(found[1]) == 0.0:
        raise InputError(f"--budget must be a time such as 90s, 10m or 2h, got {text}")
    return float(found[1]) * _UNITS[found[2]]


def _seeds(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--seeds must be whole numbers with commas between them, such as 0,1,2; got {text}")
    return tuple(dict.fromkeys(map(int, parts)))


def _methods(text: str) -> tuple[str, ...]:
    from npvi.paper.experiments.methods import METHODS

    parts = [part.strip().lower() for part in text.split(",")]
    for part in parts:
        if part not in METHODS:
            raise unknown_name("--methods: there is no method", part, list(METHODS))
    return tuple(method for method in METHODS if method in parts)


def _folder(output: Path) -> Path:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output: cannot make the folder {output}: {error.strerror or error}") from None
    return output


def _run(names: list[str], plan: Plan, output: Path) -> Report:
    from npvi.paper.experiments import running

    command = shlex.join(["npvi", *sys.argv[1:]])
    with _Bar() as bar:
        try:
            return running.reproduce(names, plan, output, command, bar)
        except FileNotFoundError as error:  # no data at all: the message says what to do
            raise InputError(str(error)) from None
        except KeyboardInterrupt:
            bar.stop()
            say(
                f"npvi reproduce: interrupted; {bar.kept:,} of {bar.total:,} cells are kept in {output / 'cells'}, and "
                f"the same command goes on from there:\n{command}",
                style="bold red",
            )
            raise typer.Exit(INTERRUPTED) from None


class _Bar:
    """One line for a person, or a line per cell where there is no terminal."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = messages()
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        # cells take seconds or minutes: what is left is told from all of them
        self._bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal, speed_estimate_period=86_400.0
        )
        self._task = self._bar.add_task("starting", total=None)
        self._lines = not console.is_terminal
        self._cell = ""
        self.total, self.kept = 0, 0

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def start(self, total: int, stored: int) -> None:
        self.total, self.kept = total, stored
        self._bar.update(self._task, total=total - stored)
        if stored:
            say(f"{stored:,} of {total:,} cells are stored already; {total - stored:,} to do")

    def begin(self, cell: Cell) -> None:
        safe_point()
        self._cell = _describe(cell)
        self._bar.update(self._task, description=self._cell)

    def notice(self, text: str) -> None:
        safe_point()
        self._bar.update(self._task, description=f"{self._cell}: {text}")

    def end(self, cell: Cell, result: dict[str, Any] | None) -> None:
        self._bar.advance(self._task)
        if result is None:
            return
        self.kept += 1
        if self._lines:
            told = result.get("error") or (f"{result['test']:.3f}" if "test" in result else "done")
            say(f"[{self.kept}/{self.total}] {_describe(cell)}: {told}")


def _describe(cell: Cell) -> str:
    from npvi.paper.experiments.methods import RIVALS

    letter = "M" if cell.method in RIVALS else "K"
    return f"{cell.experiment}, {cell.data.replace('_', ' ')}, {cell.method}, {letter} = {cell.size}, seed {cell.seed}"


def _show(report: Report, output: Path) -> None:
    for table in report.tables:
        results().print(_grid(table))
    results().print("\n".join(f"wrote {path}" for path in report.files), soft_wrap=True)
    for data, reason in report.skipped.items():
        say(f"skipped {data}: {reason}", style="yellow")
    for cell, reason in report.failed.items():
        say(f"failed: {_describe(cell)}: {reason}", style="yellow")
    if report.failed:
        say(f"{len(report.failed)} cells failed; the same command tries those again", style="yellow")
        if len(report.failed) == len(report.computed) and not report.stored:
            raise typer.Exit(FAILED)


def _grid(table: Table) -> Grid:
    header, *rows = table.short
    grid = Grid(title=table.title, title_justify="left", title_style="bold")
    for name in header:
        grid.add_column(name)
    for row in rows:
        grid.add_row(*row)
    return grid
