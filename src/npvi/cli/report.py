"""npvi report."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from npvi.cli.display import say, watching
from npvi.cli.errors import InputError, guarded
from npvi.cli.mapping import Mapping, covariates_of, numbers_of, raster_of
from npvi.cli.models import check_target, columns_of_fit, open_model
from npvi.cli.options import Censored, Exposure, NoiseVariance, Trials, described
from npvi.cli.tables import check_output

__all__ = ["report"]

_map = partial(described, panel="Map")


def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model saved by npvi fit or model.save.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: .html.")],
    data: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Rows that the model has not seen, to judge it by.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that was observed; that of the fit unless given.")
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the page.")] = None,
    interval: Annotated[float, typer.Option(metavar="SHARE", help="Its ends are the quantiles that are mapped.")] = 0.9,
    exceed: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Probability that a new observation exceeds each: 5,10.")
    ] = None,
    grid: Annotated[float | None, _map("SIZE", "Size of a cell, in the units of the inputs.")] = None,
    bbox: Annotated[str | None, _map("L,B,R,T", "Left, bottom, right, top; of the data by default.")] = None,
    like: Annotated[Path | None, _map("RASTER", "Take the cells and the coordinate system of a raster.")] = None,
    covariates: Annotated[Path | None, _map("RASTER", "Bands with the inputs that are no places.")] = None,
    at: Annotated[
        list[str] | None, _map("NAME=VALUE", "The same number or label in all cells; may be repeated.")
    ] = None,
    crs: Annotated[str | None, _map("SYSTEM", "Of the model's coordinates, such as EPSG:32633.")] = None,
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
    """Write a page about a model that a colleague can open.

    One HTML file: a map with its uncertainty (or effects and slices), whether the model can be
    trusted, what was learned, and what is left in the residuals. It opens from disk without a
    network. Without --data each row of the fit is predicted from all others.

    \b
    [bold]Examples[/bold]
    npvi report birds.npvi -o birds.html
    npvi report birds.npvi --data test.csv --grid 0.25 --exceed 5,20 -o birds.html
    """
    with guarded("report"):
        if output.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--output must end in .html, got {output}")
        check_output(output, table=False, inputs=[one for one in (model, data, like, covariates) if one is not None])
        if like is not None and (grid is not None or bbox is not None):
            raise InputError("--like says where cells are: leave out --grid and --bbox")
        levels = [0.5 * (1.0 - interval), 0.5 * (1.0 + interval)]
        what = Mapping(grid, bbox, like, None, False, covariates, list(at or []), crs)
        extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
        settings: dict[str, Any] = {
            "grid": grid if like is None else raster_of(like),
            "bbox": None if bbox is None else numbers_of(bbox, "--bbox", 4),
            "exceed": numbers_of(exceed, "--exceed"),
            "quantiles": levels,
            "covariates": covariates_of(what),
            "crs": crs,
            "title": title,
            "seed": seed,
        }
        if data is None:
            given = [name for name, value in {**extras, "inputs": inputs}.items() if value is not None]
            if given:
                raise InputError(f"--{given[0].replace('_', '-')} names a column of a table: give --data TABLE")
            from npvi.io import load

            fitted = load(model)
            rows: dict[str, Any] = {}
            target = target or columns_of_fit(model).get("target")
        else:
            fitted, target, rows = _test_rows(model, data, inputs, extras, drop_missing, target)
        from npvi.reporting import report as write

        with watching():
            write(fitted, output, target="response" if target is None else target, **rows, **settings)
        say(f"report: {output} ({output.stat().st_size / 1e6:.1f} MB)")


def _test_rows(
    path: Path, data: Path, inputs: str | None, extras: dict[str, str | None], drop: bool, target: str | None
) -> tuple[Any, str, dict[str, Any]]:
    """The model, the target's name, and the rows that it hasn't seen."""
    source = open_model(path, data, inputs, extras, drop, as_in_the_fit=True)
    target = source.target_of(target, path)
    frame = source.table.read([*source.inputs, *source.extras.values(), target])
    y = source.observed(frame, target)
    keep, X, row = source.rows(frame, {target: y}, through=False)
    if keep.sum() < 2:
        raise InputError(f"{data} has {int(keep.sum())} complete row(s); judging a model takes at least two")
    if not keep.all():
        say(f"{data}: left out {int((~keep).sum()):,} rows with missing values")
    y = y[keep]
    model = source.pipeline or source.model
    if not hasattr(model, "classes_") and source.pipeline is None:
        check_target(model.likelihood_, y, frame.index[keep].to_numpy(), data, target)
    return model, target, {"X": X, "y": y, "test_row": row}
