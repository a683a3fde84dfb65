"""npvi fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from npvi.cli import settings
from npvi.cli.display import number, say
from npvi.cli.errors import InputError, guarded
from npvi.cli.fitting import Rows, run, save_model, summarise
from npvi.cli.models import check_exposure, check_target
from npvi.cli.tables import Table, check_output, complete_rows, labels, numbers

__all__ = ["fit"]

_DATA, _MODEL, _SEARCH, _RUN = "Data", "Model", "Choosing values by validation", "Running"


def fit(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file with one row per observation.")
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Column to model.", rich_help_panel=_DATA)],
    inputs: Annotated[
        str, typer.Option(metavar="COLUMNS", help="Columns to model it by, such as lon,lat.", rich_help_panel=_DATA)
    ],
    exposure: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of effort for counts: hours, area, population.", rich_help_panel=_DATA
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of weights of the rows.", rich_help_panel=_DATA),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with missing values.", rich_help_panel=_DATA)
    ] = False,
    likelihood: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="gaussian (unless given), lognormal, poisson (counts) or bernoulli (0/1)",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    classify: Annotated[
        bool, typer.Option("--classify", help="The target is one of two labels, of any kind.", rich_help_panel=_MODEL)
    ] = False,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="poisson: exp or softplus; bernoulli: logit or probit.", rich_help_panel=_MODEL
        ),
    ] = None,
    noise_variance: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Variance of gaussian noise, or of log y for lognormal.",
            min=0,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="matern12, matern32, matern52 or rbf, from rough to smooth.", rich_help_panel=_MODEL
        ),
    ] = "matern32",
    length_scale: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Distance over which values resemble each other, in the units of the inputs; one number, or one per "
            "input such as 0.5,1.0.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    variance: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="How much the surface varies (on the scale of the log for counts).",
            min=0,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    nugget: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Variation of single rows that neighbours don't share.",
            min=0,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    mean: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Level far from all data: constant (estimated) or zero.", rich_help_panel=_MODEL
        ),
    ] = "constant",
    neighbors: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Neighbours each point looks at; more is slower and closer to exact.",
            min=1,
            rich_help_panel=_MODEL,
        ),
    ] = 20,
    rule: Annotated[
        str, typer.Option(metavar="NAME", help="How neighbours are chosen: nearest or paper.", rich_help_panel=_MODEL)
    ] = ("nearest"),
    order: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Order of the points: maximin, grid, random or given.", rich_help_panel=_MODEL
        ),
    ] = "maximin",
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Values to try, such as length_scale=0.05,0.1,0.5; repeat it for variance=…, nugget=… and "
            "noise_variance=….",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    validation: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the rows to validate on.", rich_help_panel=_SEARCH)
    ] = 0.125,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same result.", min=0, rich_help_panel=_RUN)] = 0,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="Processor cores to use; all unless given.", min=1, rich_help_panel=_RUN),
    ] = None,
    max_iter: Annotated[int, typer.Option(metavar="N", help="Most iterations.", min=1, rich_help_panel=_RUN)] = 200,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to save the model to, such as model.npvi.", rich_help_panel=_RUN),
    ] = None,
) -> None:
    """Fit a model to a table.

    Numbers that you don't give are taken from the data and shown, so that you can change them.

    \b
    [bold]Examples[/bold]
    Counts of a bird at places on a map, with hours of watching:
      npvi fit survey.csv --target count --inputs lon,lat --likelihood poisson \\
          --exposure hours --length-scale 0.5 --save birds.npvi
    Let validation choose the length scale and the nugget:
      npvi fit survey.csv --target count --inputs lon,lat --likelihood poisson \\
          --grid length_scale=0.1,0.5,2 --grid nugget=0.01,0.1 --save birds.npvi
    Present or absent:
      npvi fit survey.parquet --target present --inputs lon,lat --classify

    \b
    [bold]Exit status[/bold]
    0 fitted (a fit that has not converged says so); 1 the computation failed;
    2 wrong usage or input; 130 interrupted (with --save the last good state is kept)
    """
    with guarded("fit"):
        if save is not None:
            check_output(save, table=False, inputs=[table])
        name = _likelihood_name(likelihood, classify)
        scale = None if length_scale is None else settings.parse_numbers(length_scale, "--length-scale")
        tries = settings.parse_grid(grid or [])
        settings.kernel_parameters(kernel)
        settings.check_choices({"--mean": mean, "--rule": rule, "--order": order})
        noise = settings.make_likelihood(name, link, noise_variance)
        rows = _read(table, _split(inputs), target, exposure, weight, noise, classify, drop_missing)
        given = settings.Hyperparameters(scale, variance, noise_variance, nugget)
        values = settings.choose(given, kernel, name, rows.X.to_numpy(), rows.y)
        _say_what_was_chosen(values, tries)
        model = _estimator(classify)(
            likelihood=settings.make_likelihood(name, link, values.noise_variance),
            kernel=settings.make_kernel(kernel, values, rows.X.shape[1]),
            nugget=values.nugget,
            mean=mean,
            n_neighbors=neighbors,
            rule=rule,
            order=order,
            random_state=seed,
            n_jobs=threads,
            max_iter=max_iter,
        )
        notes = {"table": table.name, "target": target, "exposure": exposure, "weight": weight}
        model = run(model, rows, tries, validation, save, notes)
        if save is not None:
            save_model(model, save, notes)
        summarise(model, rows, target, exposure, save)


def _likelihood_name(likelihood: str | None, classify: bool) -> str:
    if classify and likelihood not in (None, "bernoulli"):
        raise InputError(f"--classify goes with the bernoulli likelihood, not {likelihood}")
    return likelihood or ("bernoulli" if classify else "gaussian")


def _split(inputs: str) -> list[str]:
    names = [name.strip() for name in inputs.split(",") if name.strip()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise InputError(f"--inputs names {twice[0]!r} twice" if twice else "--inputs names no column")
    return names


def _estimator(classify: bool) -> Any:
    from npvi.estimators import GPClassifier, GPRegressor

    return GPClassifier if classify else GPRegressor


def _read(
    path: Path,
    inputs: list[str],
    target: str,
    exposure: str | None,
    weight: str | None,
    likelihood: Any,
    classify: bool,
    drop: bool,
) -> Rows:
    import pandas as pd

    if target in inputs:
        raise InputError(f"column {target!r} is both the target and an input")
    extra = [name for name in (exposure, weight) if name is not None]
    frame = Table(path).read([*inputs, target, *extra])
    columns: dict[str, NDArray] = {name: numbers(frame, name, path) for name in [*inputs, *extra]}
    columns[target] = labels(frame, target, path) if classify else numbers(frame, target, path)
    keep = complete_rows(columns, path, drop)
    if not keep.all():
        say(f"{path}: left out {int((~keep).sum()):,} of {len(keep):,} rows with missing values")
    if keep.sum() < 2:
        raise InputError(f"{path} has {int(keep.sum())} complete row(s); a model needs at least two")
    columns = {name: values[keep] for name, values in columns.items()}
    y, hours = columns[target], None if exposure is None else columns[exposure]
    numbered = np.flatnonzero(keep)
    check_exposure(likelihood, hours, numbered, path, exposure)
    if classify:
        y = np.array(y.tolist())
        if len(np.unique(y)) > 2:
            raise InputError(
                f"{path}: column {target!r} has {len(np.unique(y)):,} different labels; --classify takes two"
            )
    else:
        check_target(likelihood, y, numbered, path, target)
    X = pd.DataFrame({name: columns[name] for name in inputs})
    return Rows(X, y, hours, None if weight is None else columns[weight])


def _say_what_was_chosen(values: settings.Hyperparameters, tries: dict[str, list[float]]) -> None:
    chosen = [
        text for text in values.chosen if not (text.startswith("length scale") and "kernel__length_scale" in tries)
    ]
    if chosen:
        say(f"Taken from the data: {'; '.join(chosen)}.")
    if chosen and not tries and isinstance(values.length_scale, float):
        options = ",".join(number(factor * values.length_scale, 3) for factor in (0.25, 0.5, 1.0, 2.0))
        say(f"These are only a start. To let validation choose: --grid length_scale={options}", style="dim")
