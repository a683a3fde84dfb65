"""npvi predict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from npvi.cli.display import say, watching
from npvi.cli.errors import InputError, guarded
from npvi.cli.models import Source, open_model
from npvi.cli.options import Censored, Exposure, NoiseVariance, Trials
from npvi.cli.tables import check_output, writing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model saved by npvi fit or model.save.")],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file with the model's input columns.")
    ],
    output: Annotated[Path, typer.Option(metavar="FILE", help="File to write, .csv, .tsv or .parquet.")],
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
) -> None:
    """Predict the target for the rows of a table.

    The output has the table's columns and six new ones: [bold]mean[/bold] and [bold]std[/bold] of a
    new observation, and [bold]lower[/bold] and [bold]upper[/bold], between which it falls with the
    probability of --interval; [bold]reach_distance[/bold], how far away the nearest row of the fit
    is, in length scales, and [bold]prior_share[/bold], how much of the variance before the data is
    left: near 1 the prediction is nothing but the prior. Large tables are handled in pieces.

    For a classifier there are also [bold]label[/bold], the likelier of the two, and its
    [bold]probability[/bold]; the first four are about the probability of the second label.
    With three or more labels there is a column with the probability of each instead of the
    four, such as [bold]p_oak[/bold].

    \b
    [bold]Examples[/bold]
    npvi predict birds.npvi places.csv --output map.csv
    npvi predict birds.npvi places.parquet --output map.parquet --interval 0.95
    npvi predict birds.npvi visits.csv --output expected.csv --exposure hours
    npvi predict seeds.npvi plots.csv --output germinated.csv --trials sown
    """
    with guarded("predict"):
        if not 0.0 < interval < 1.0:
            raise InputError(f"--interval must be between 0 and 1, got {interval}")
        check_output(output, inputs=[model, table])
        extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
        source = open_model(model, table, inputs, extras, drop_missing)
        new = [prefix + name for name in _names(source.model)]
        taken = [name for name in new if name in source.table.columns]
        if taken:
            raise InputError(f"{table} already has a column {taken[0]!r}; give the new ones another name with --prefix")
        as_text = output.suffix.lower() not in (".parquet", ".pq")
        read, written = 0, 0
        with watching(), writing(output) as writer:
            for frame in source.chunks():
                done = _predict_rows(source, frame, interval, prefix, as_text)
                writer.write(done)
                read, written = read + len(frame), written + len(done)
            if written == 0:
                raise InputError(f"{table} has no {'complete ' if read else ''}rows")
        left_out = f", {read - written:,} with missing values left out" if read > written else ""
        say(f"{written:,} rows predicted{left_out}: {output}")


def _names(model: Any) -> list[str]:
    names = ["mean", "std", "lower", "upper"]
    if len(getattr(model, "classes_", ())) > 2:
        names = [f"p_{label}" for label in model.classes_]
    return [*names, *(("label", "probability") if hasattr(model, "classes_") else ()), "reach_distance", "prior_share"]


def _predict_rows(source: Source, frame: pd.DataFrame, level: float, prefix: str, as_text: bool) -> pd.DataFrame:
    keep, X, extras = source.rows(frame)
    frame = frame[keep].copy()
    if not as_text:  # text that was read as numbers is written as numbers
        for name in [*source.inputs, *source.extras.values()]:
            frame[name] = frame[name].astype(np.float64)
    if len(frame) == 0:
        return frame.assign(**{prefix + name: [] for name in _names(source.model)})
    prediction = source.model.predict_dist(X, **extras)
    if hasattr(source.model, "classes_"):
        columns = _probabilities(source.model, prediction, level)
    else:
        lower, upper = prediction.interval(level)
        columns = {"mean": prediction.mean, "std": prediction.std, "lower": lower, "upper": upper}
    columns |= {"reach_distance": prediction.reach.distance, "prior_share": prediction.reach.prior_share}
    for name, values in columns.items():
        # eight digits are more than any model knows
        frame[prefix + name] = [f"{value:.8g}" for value in values] if as_text and values.dtype.kind == "f" else values
    return frame


def _probabilities(model: Any, prediction: Any, level: float) -> dict[str, NDArray]:
    """The probability of the second label, how uncertain it is, and the likelier label; of several that of each."""
    from scipy.special import ndtri

    if len(model.classes_) > 2:
        p = prediction.probabilities
        return {**dict(zip(_names(model)[: p.shape[1]], p.T)), "label": prediction.mode, "probability": p.max(axis=1)}
    link = prediction.likelihood.links[prediction.likelihood.link].mean_numpy
    centre, sd, mean = prediction.latent_mean, np.sqrt(prediction.latent_var), prediction.mean
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    fresh = np.sqrt(prediction.nugget)

    def probability_at(f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the second label where the surface is f: whatever the nugget of a row."""
        if not np.any(fresh > 0.0):
            return link(f)
        return np.sum([w * link(f + fresh * node) for node, w in zip(nodes, weights)], axis=0)

    square = sum(w * probability_at(centre + sd * node) ** 2 for node, w in zip(nodes, weights))
    half = ndtri(0.5 * (1.0 + level)) * sd
    columns = {
        "mean": mean,
        "std": np.sqrt(np.maximum(square - mean**2, 0.0)),
        "lower": probability_at(centre - half),
        "upper": probability_at(centre + half),
    }
    if len(model.classes_) == 1:
        label, probability = np.zeros(len(mean), dtype=int), np.ones(len(mean))
    else:
        label, probability = (mean > 0.5).astype(int), np.maximum(mean, 1.0 - mean)
    return {**columns, "label": model.classes_[label], "probability": probability}
