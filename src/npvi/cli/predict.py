"""npvi predict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from npvi.cli.display import say, watching
from npvi.cli.errors import InputError, guarded
from npvi.cli.mapping import Mapping, map_model, numbers_of
from npvi.cli.models import Source, open_model
from npvi.cli.options import Censored, Exposure, NoiseVariance, Trials, described
from npvi.cli.tables import check_output, writing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["predict"]

_map = partial(described, panel="Maps")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model saved by npvi fit or model.save.")],
    table: Annotated[
        Path | None,
        typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file with the model's input columns; or a map."),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="File to write: .csv, .tsv, .parquet; maps .tif, .nc, .zarr, .png too.")
    ],
    interval: Annotated[
        float, typer.Option(metavar="SHARE", help="Probability that the interval from lower to upper holds.")
    ] = 0.9,
    exposure: Exposure = None,
    trials: Trials = None,
    noise_variance: NoiseVariance = None,
    censored: Censored = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Input columns, where they have other names than in the fit.")
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Put before the names of the new columns.")] = "",
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")] = False,
    exceed: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Probability that a new observation exceeds each: 5,10.")
    ] = None,
    grid: Annotated[float | None, _map("SIZE", "Size of a cell, in the units of the inputs.")] = None,
    bbox: Annotated[str | None, _map("L,B,R,T", "Left, bottom, right, top; of the data by default.")] = None,
    like: Annotated[Path | None, _map("RASTER", "Take the cells and the coordinate system of this one.")] = None,
    polygons: Annotated[Path | None, _map("FILE", "GeoJSON and the like: the map is within these.")] = None,
    total: Annotated[bool, _map(None, "Totals and means of each polygon instead of a grid.", "--total")] = False,
    covariates: Annotated[Path | None, _map("RASTER", "Inputs that are no places: bands by their names.")] = None,
    at: Annotated[
        list[str] | None, _map("NAME=VALUE", "One number or label for such an input; may be repeated.")
    ] = None,
    crs: Annotated[str | None, _map("EPSG:CODE", "Coordinate system of the model's inputs.")] = None,
) -> None:
    """Predict the target for the rows of a table, or map it.

    The output has the table's columns and six new ones: [bold]mean[/bold] and [bold]std[/bold] of a
    new observation, and [bold]lower[/bold] and [bold]upper[/bold], between which it falls with the
    probability of --interval; [bold]reach_distance[/bold], how far away the nearest row of the fit
    is, in length scales, and [bold]prior_share[/bold], how much of the variance before the data is
    left: near 1 the prediction is nothing but the prior. Large tables are handled in pieces.

    For a classifier there are also [bold]label[/bold], the likelier of the two, and its
    [bold]probability[/bold]; the first four are about the probability of the second label.
    With three or more labels there is a column with the probability of each instead of the
    four, such as [bold]p_oak[/bold].

    Without a table the cells of a grid are predicted: --grid, --like or --polygons say which. A
    GeoTIFF has a band for each number, named as the columns; the ends of the interval are its
    quantiles, such as [bold]q5[/bold] and [bold]q95[/bold]. Maps are per unit of exposure, unless
    --exposure is a number.

    \b
    [bold]Examples[/bold]
    npvi predict birds.npvi places.csv --output map.csv
    npvi predict birds.npvi places.parquet --output map.parquet --interval 0.95
    npvi predict birds.npvi visits.csv --output expected.csv --exposure hours
    npvi predict seeds.npvi plots.csv --output germinated.csv --trials sown
    npvi predict birds.npvi --grid 0.1 --exceed 5 --output map.tif
    npvi predict birds.npvi --grid 0.1 --output map.png
    npvi predict cod.npvi --like depth.tif --covariates depth.tif --output map.nc
    npvi predict birds.npvi --polygons counties.geojson --total --output counties.csv
    """
    with guarded("predict"):
        if not 0.0 < interval < 1.0:
            raise InputError(f"--interval must be between 0 and 1, got {interval}")
        extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
        thresholds = numbers_of(exceed, "--exceed")
        wanted = Mapping(grid, bbox, like, polygons, total, covariates, at or [], crs)
        if wanted.wanted:
            if table is not None:
                raise InputError(f"either a table ({table}) or a map, not both")
            map_model(model, output, wanted, interval, thresholds, extras)
            return
        if table is None:
            raise InputError("give a TABLE to predict the rows of, or --grid SIZE for a map")
        check_output(output, inputs=[model, table])
        source = open_model(model, table, inputs, extras, drop_missing)
        shown = _Shown(interval, thresholds, prefix, output.suffix.lower() not in (".parquet", ".pq"))
        new = [prefix + name for name in _names(source.model, thresholds)]
        taken = [name for name in new if name in source.table.columns]
        if taken:
            raise InputError(f"{table} already has a column {taken[0]!r}; give the new ones another name with --prefix")
        read, written = 0, 0
        with watching(), writing(output) as writer:
            for frame in source.chunks():
                done = _predict_rows(source, frame, shown)
                writer.write(done)
                read, written = read + len(frame), written + len(done)
            if written == 0:
                raise InputError(f"{table} has no {'complete ' if read else ''}rows")
        left_out = f", {read - written:,} with missing values left out" if read > written else ""
        say(f"{written:,} rows predicted{left_out}: {output}")


@dataclass(frozen=True)
class _Shown:
    """What the new columns are, and how they are written."""

    level: float
    exceed: list[float]
    prefix: str
    as_text: bool


def _names(model: Any, exceed: list[float]) -> list[str]:
    from npvi.maps import exceed_name, label_names

    names = ["mean", "std", "lower", "upper", *map(exceed_name, exceed)]
    if len(getattr(model, "classes_", ())) > 2:
        names = label_names(model.classes_)
    return [*names, *(("label", "probability") if hasattr(model, "classes_") else ()), "reach_distance", "prior_share"]


def _predict_rows(source: Source, frame: pd.DataFrame, shown: _Shown) -> pd.DataFrame:
    from npvi.maps import surfaces

    keep, X, extras = source.rows(frame)
    frame = frame[keep].copy()
    prefix, as_text = shown.prefix, shown.as_text
    if not as_text:  # text that was read as numbers is written as numbers
        for name in [*source.inputs, *source.extras.values()]:
            if name not in X or X[name].dtype.kind in "biuf":
                frame[name] = frame[name].astype(np.float64)
    names = _names(source.model, shown.exceed)
    if len(frame) == 0:
        return frame.assign(**{prefix + name: [] for name in names})
    ends = [0.5 * (1.0 - shown.level), 0.5 * (1.0 + shown.level)]
    classes = getattr(source.model, "classes_", None)
    columns = surfaces(source.model.predict_dist(X, **extras), ends, shown.exceed, classes)
    for name, values in zip(names, columns.values()):
        # eight digits are more than any model knows
        frame[prefix + name] = [f"{value:.8g}" for value in values] if as_text and values.dtype.kind == "f" else values
    return frame
