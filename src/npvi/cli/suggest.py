"""npvi suggest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npvi.cli.display import clean, results, show_json, show_pairs, watching
from npvi.cli.errors import guarded
from npvi.cli.tables import Table

__all__ = ["suggest"]

#: what is printed as JSON
_FIELDS = ("target", "likelihood", "places", "exposure", "trials", "covariates", "scores", "reasons", "command")


def suggest(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file with one row each.")],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column to model; guessed unless given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Propose a model for a table, with the reason for each part, and the command that fits it.

    Looks for columns of places and of effort, and for the likelihood: small models of each that is
    possible predict rows that they have not seen. Nothing is applied: run the command, or change it.

    \b
    [bold]Examples[/bold]
    npvi suggest survey.csv
    npvi suggest survey.csv --target count --json
    """
    with guarded("suggest"):
        source = Table(table)
        if target is not None:
            source.require([target])
        frame = source.read(source.columns)

        from npvi.suggesting import suggest as look_at

        with watching():
            found = look_at(frame, target, path=table)
        if as_json:
            show_json({name: getattr(found, name) for name in _FIELDS})
            return
        show_pairs(f"Suggested for {table}", found.reasons)
        results().print(clean(found.command), soft_wrap=True)
