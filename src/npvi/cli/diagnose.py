"""npvi diagnose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from npvi.cli.display import results, say, watching
from npvi.cli.drawing import check_picture
from npvi.cli.errors import InputError, guarded
from npvi.cli.models import check_target, open_model
from npvi.cli.options import Censored, Exposure, NoiseVariance, Trials

__all__ = ["diagnose"]


def diagnose(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model saved by npvi fit or model.save.")],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file with rows that the model has not seen.")
    ],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that was observed; that of the fit unless given.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Picture to write: .png, .pdf or .svg.")] = None,
    more_neighbors: Annotated[
        bool,
        typer.Option("--more-neighbors", help="Fit some rows again, with K and 2 K neighbours: does it matter?"),
    ] = False,
    exposure: Exposure = None,
    trials: Trials = None,
    noise_variance: NoiseVariance = None,
    censored: Censored = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Input columns, where they have other names than in the fit.")
    ] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same result.", min=0)] = 0,
) -> None:
    """Say whether a model can be trusted, from rows that it has not seen.

    Scores, whether intervals hold what they promise, what is left in the residuals, and
    warnings in words. Rows held out at random are best. More columns are those of the fit,
    where the table has them.

    \b
    [bold]Examples[/bold]
    npvi diagnose birds.npvi test.csv
    npvi diagnose birds.npvi test.csv --plot diagnosis.png
    npvi diagnose birds.npvi test.csv --target count --exposure hours --more-neighbors
    """
    with guarded("diagnose"):
        kind = "" if plot is None else check_picture(plot, [model, table])
        extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
        source = open_model(model, table, inputs, extras, drop_missing, as_in_the_fit=True)
        target = source.target_of(target, model)
        frame = source.table.read([*source.inputs, *source.extras.values(), target])
        y = source.observed(frame, target)
        keep, X, row = source.rows(frame, {target: y})
        if keep.sum() < 2:
            raise InputError(f"{table} has {int(keep.sum())} complete row(s); a diagnosis needs at least two")
        if not keep.all():
            say(f"{table}: left out {int((~keep).sum()):,} rows with missing values")
        y = y[keep]
        if not hasattr(source.model, "classes_"):
            check_target(source.model.likelihood_, y, frame.index[keep].to_numpy(), table, target)

        from npvi import diagnostics
        from npvi.runtime.files import replacing

        with watching():
            options: dict[str, Any] = {"refit": more_neighbors, "seed": seed, **row}
            found = diagnostics.diagnose(source.model, X, y, **options)
        if plot is not None:
            with replacing(plot) as file:
                found.plot().savefig(file, format=kind)
        results().print(str(found), soft_wrap=True)
        if plot is not None:
            say(f"picture: {plot}")
