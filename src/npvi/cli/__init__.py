"""The command line: suggest, fit, predict, score, diagnose, report, info, data, demo and reproduce."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer

from npvi.cli.data import data
from npvi.cli.demo import demo
from npvi.cli.diagnose import diagnose
from npvi.cli.errors import INTERRUPTED
from npvi.cli.fit import fit
from npvi.cli.info import info
from npvi.cli.predict import predict
from npvi.cli.report import report
from npvi.cli.reproduce import reproduce
from npvi.cli.score import score
from npvi.cli.suggest import suggest
from npvi.runtime.files import remove_unfinished
from npvi.runtime.interrupts import interrupts_remembered

__all__ = ["app", "main"]

app = typer.Typer(
    name="npvi",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from npvi import __version__

        typer.echo(f"npvi {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Gaussian processes for large tables: maps of counts, measurements or yes/no, with their uncertainty.

    \b
    [bold]Examples[/bold]
    npvi demo
    npvi suggest survey.csv
    npvi fit survey.csv --target count --inputs lon,lat --likelihood poisson --save birds.npvi
    npvi predict birds.npvi places.csv --output map.csv
    npvi score birds.npvi test.csv
    npvi diagnose birds.npvi test.csv --plot diagnosis.png
    npvi report birds.npvi --grid 0.1 -o birds.html
    npvi info birds.npvi
    npvi data precipitation
    npvi reproduce all --quick

    npvi COMMAND --help explains each with examples.
    """


for _command in (suggest, fit, predict, score, diagnose, report, info, data, demo, reproduce):
    app.command()(_command)


def main() -> None:
    """Run the command line; what `npvi` in a shell calls."""
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, _terminate)
    try:
        with interrupts_remembered():
            app()
    except KeyboardInterrupt:  # while modules are still being imported
        _end(INTERRUPTED)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _end(INTERRUPTED)
        with suppress(ValueError):  # not the main thread, which alone is interrupted
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to stop but Python's own end
        raise


def _terminate(number: int, frame: object) -> None:
    """End as SIGTERM ends other programs, but leave no file behind that is half written."""
    remove_unfinished()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _end(code: int) -> None:
    """Leave at once: threads of compiled code may still run, and Python's own end would wait for them, or abort."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
