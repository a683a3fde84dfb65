"""npvi fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from npvi.cli import settings
from npvi.cli.display import number, say
from npvi.cli.errors import InputError, guarded, unknown_name
from npvi.cli.fitting import Rows, run, save_model, summarise
from npvi.cli.models import check_extra, check_target
from npvi.cli.options import Censored, Exposure, NoiseVariance, Trials
from npvi.cli.tables import Table, check_output, complete_rows, labels, numbers

__all__ = ["fit"]

_DATA, _MODEL, _NUMBERS = "Data", "Model", "Numbers of the model"
_SEARCH, _RUN = "Choosing numbers by validation", "Running"
#: more categories or labels than this are surely something else
_CATEGORIES = 100


def fit(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file with one row per observation.")
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Column to model.", rich_help_panel=_DATA)],
    inputs: Annotated[
        str, typer.Option(metavar="COLUMNS", help="Columns to model it by, such as lon,lat.", rich_help_panel=_DATA)
    ],
    coords: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="The inputs that say where, such as lon,lat; the others become covariates with a linear effect.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of weights of the rows.", rich_help_panel=_DATA),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with missing values.", rich_help_panel=_DATA)
    ] = False,
    exposure: Exposure = None,
    trials: Trials = None,
    noise_variance: NoiseVariance = None,
    censored: Censored = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the target is; gaussian unless given. "
            + " ".join(f"{what.capitalize()}: {names}." for what, names in settings.LIKELIHOOD_NAMES.items()),
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    classify: Annotated[
        bool, typer.Option("--classify", help="The target is a label, of any kind.", rich_help_panel=_MODEL)
    ] = False,
    link: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Counts: exp or softplus; 0/1: logit or probit.", rich_help_panel=_MODEL),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="matern (smoothness learned), matern12, matern32, matern52, rbf (from rough to smooth), "
            "rational_quadratic, periodic, linear or constant.",
            rich_help_panel=_MODEL,
        ),
    ] = "matern",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="full: the best Gaussian posterior; npvi: the paper's, faster, whose variances are too small where "
            "single rows say little; npvi-nn: as npvi, but recognised by a network.",
            rich_help_panel=_MODEL,
        ),
    ] = "full",
    network: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="With --method npvi-nn: sites (trained on patches of the table), pretrained (comes with npvi), gcn "
            "(the paper's), or a file that Recognizer.save wrote.",
            rich_help_panel=_MODEL,
        ),
    ] = "sites",
    refine: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="With --method npvi-nn: finishing sweeps.",
            min=0,
            max=3,
            rich_help_panel=_MODEL,
        ),
    ] = 0,
    optimizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How the posterior of --method npvi is found: closed (by closed forms, fast), sgd (by stochastic "
            "gradients, the paper's AdaGrad) or adam.",
            rich_help_panel=_MODEL,
        ),
    ] = "closed",
    prior: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="nngp: each point looks at its neighbours; fitc or nystrom: all points share inducing points, which "
            "follow broad, smooth surfaces only.",
            rich_help_panel=_MODEL,
        ),
    ] = "nngp",
    inducing: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Inducing points of --prior fitc and nystrom; more is slower and closer to exact.",
            min=1,
            rich_help_panel=_MODEL,
        ),
    ] = 200,
    mean: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Level far from all data: constant (unless given), zero, or linear in the inputs.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    coefficient_scale: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Prior standard deviation of the covariates' coefficients; flat unless given.",
            min=0,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    learn: Annotated[
        bool | None,
        typer.Option(
            "--learn/--no-learn",
            help="Learn the numbers of the model (unless --grid is given), or take them as they are.",
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A number that is not learned, such as length_scale=0.5; repeat it for variance=…, nugget=…, noise=… "
            "or a number of the likelihood such as dispersion=….",
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    length_scale: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Distance over which values resemble each other, in the units of the inputs; one number, or one per "
            "input such as 0.5,1.0. Like the next three it is where learning starts.",
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    variance: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="How much the surface varies (on the scale of the log for counts).",
            min=0,
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Variance of gaussian noise, or of log y for lognormal.",
            min=0,
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    nugget: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Variation of single rows that neighbours don't share.",
            min=0,
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
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
            help="Values to try instead of learning, such as length_scale=0.05,0.1,0.5; repeat it for variance=…, "
            "nugget=… and noise=….",
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
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="With --optimizer sgd or adam: passes through the table.", min=1, rich_help_panel=_RUN
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --optimizer sgd or adam: file that keeps where training is; the same command goes on from it.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to save the model to, such as model.npvi.", rich_help_panel=_RUN),
    ] = None,
) -> None:
    """Fit a model to a table.

    The numbers of the model are learned from the data, unless you fix them, and shown at the end.

    \b
    [bold]Examples[/bold]
    Counts of a bird at places on a map, with hours of watching:
      npvi fit survey.csv --target count --inputs lon,lat --likelihood poisson \\
          --exposure hours --save birds.npvi
    The same with forest and height as covariates, and the length scale held:
      npvi fit survey.csv --target count --inputs lon,lat,forest,height --coords lon,lat \\
          --likelihood negative_binomial --exposure hours --fix length_scale=0.5
    Seeds that germinated, of those sown:
      npvi fit plots.csv --target germinated --trials sown --inputs x,y --likelihood binomial
    Let validation choose the length scale and the nugget:
      npvi fit survey.csv --target count --inputs lon,lat --likelihood poisson \\
          --grid length_scale=0.1,0.5,2 --grid nugget=0.01,0.1
    Present or absent, quickly, with numbers of your own:
      npvi fit survey.parquet --target present --inputs lon,lat --classify --no-learn --length-scale 0.5
    One of several species, with a probability for each:
      npvi fit trees.csv --target species --inputs x,y --classify --save trees.npvi

    \b
    [bold]Exit status[/bold]
    0 fitted (a fit that has not converged says so); 1 the computation failed;
    2 wrong usage or input; 130 interrupted (with --save the last good state is kept)
    """
    with guarded("fit"):
        if save is not None:
            check_output(save, table=False, inputs=[table])
        if likelihood == "softmax":  # what several labels have in any case
            likelihood, classify = None, True
        name = _likelihood_name(likelihood, classify)
        given = settings.Given(
            None if length_scale is None else settings.parse_numbers(length_scale, "--length-scale"),
            variance,
            noise,
            nugget,
            settings.parse_fixed(fix or []),
        )
        tries = settings.parse_grid(grid or [])
        if tries and learn:
            raise InputError("--grid tries values instead of learning them; leave --learn out")
        learn = not tries if learn is None else learn
        # the cuts of an ordinal likelihood are the level already
        mean = mean or ("zero" if name == "ordinal" else "constant")
        settings.check_choices(
            {"--mean": mean, "--rule": rule, "--order": order, "--method": method, "--optimizer": optimizer}
        )
        gradients = settings.make_optimizer(optimizer, method, epochs, checkpoint)
        settings.check_choices({"--prior": prior})
        noisy = settings.make_likelihood(name, link)
        settings.check_given(given, kernel, noisy)
        columns = _Columns(
            _split(inputs, "--inputs"),
            None if coords is None else _split(coords, "--coords"),
            target,
            {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored},
            weight,
        )
        rows, noisy = _read(table, columns, noisy, classify, drop_missing)
        seen = rows.X[columns.coords or columns.inputs].to_numpy()
        parts = settings.make_parts(given, kernel, noisy, name, seen, _codes(rows.y, classify), rows.extras, learn)
        if not learn:
            _say_what_was_chosen(parts, tries)
        model = _estimator(classify)(
            likelihood=parts.likelihood,
            kernel=parts.kernel,
            nugget=parts.nugget,
            mean=mean,
            method=method,
            network=settings.make_network(network, refine, method),
            refine=refine,
            optimizer=gradients,
            prior=prior,
            n_inducing=inducing,
            learn=learn,
            coords=columns.coords,
            coefficient_scale=coefficient_scale,
            n_neighbors=neighbors,
            rule=rule,
            order=order,
            random_state=seed,
            n_jobs=threads,
            max_iter=max_iter,
        )
        notes = {"table": table.name, "target": target, "weight": weight, **columns.extras}
        model = run(model, rows, tries, validation, save, notes)
        if save is not None:
            save_model(model, save, notes)
        summarise(model, rows, target, exposure, save)


@dataclass
class _Columns:
    """What each column is for."""

    inputs: list[str]
    coords: list[str] | None
    target: str
    extras: dict[str, str | None]
    weight: str | None

    def __post_init__(self) -> None:
        if self.target in self.inputs:
            raise InputError(f"column {self.target!r} is both the target and an input")
        for name in self.coords or ():
            if name not in self.inputs:
                raise unknown_name("--coords must be among the inputs;", name, self.inputs)


def _likelihood_name(likelihood: str | None, classify: bool) -> str:
    if classify and likelihood not in (None, "bernoulli"):
        raise InputError(f"--classify goes with the bernoulli likelihood (or softmax), not {likelihood}")
    return likelihood or ("bernoulli" if classify else "gaussian")


def _split(columns: str, option: str) -> list[str]:
    names = [name.strip() for name in columns.split(",") if name.strip()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise InputError(f"{option} names {twice[0]!r} twice" if twice else f"{option} names no column")
    return names


def _estimator(classify: bool) -> Any:
    from npvi.estimators import GPClassifier, GPRegressor

    return GPClassifier if classify else GPRegressor


def _read(path: Path, wanted: _Columns, likelihood: Any, classify: bool, drop: bool) -> tuple[Rows, Any]:
    """The rows, checked, and the likelihood, which may have to know how many categories there are."""
    import pandas as pd

    target = wanted.target
    extras = {extra: name for extra, name in wanted.extras.items() if name is not None}
    more = [*extras.values(), *([wanted.weight] if wanted.weight is not None else [])]
    frame = Table(path).read([*wanted.inputs, target, *more])
    columns: dict[str, NDArray] = {name: numbers(frame, name, path) for name in [*wanted.inputs, *more]}
    columns[target] = labels(frame, target, path) if classify else numbers(frame, target, path)
    keep = complete_rows(columns, path, drop)
    if not keep.all():
        say(f"{path}: left out {int((~keep).sum()):,} of {len(keep):,} rows with missing values")
    if keep.sum() < 2:
        raise InputError(f"{path} has {int(keep.sum())} complete row(s); a model needs at least two")
    columns = {name: values[keep] for name, values in columns.items()}
    y, numbered = columns[target], np.flatnonzero(keep)
    for extra, name in extras.items():
        check_extra(likelihood, extra, columns[name], numbered, path, name)
    if classify:
        y = np.array(y.tolist())
        if len(np.unique(y)) > _CATEGORIES:
            raise InputError(
                f"{path}: column {target!r} has {len(np.unique(y)):,} different labels; --classify takes {_CATEGORIES} "
                "at most"
            )
    else:
        likelihood = _with_categories(likelihood, y)
        check_target(likelihood, y, numbered, path, target)
    X = pd.DataFrame({name: columns[name] for name in wanted.inputs})
    row = {extra: columns[name] for extra, name in extras.items()}
    return Rows(X, y, row, None if wanted.weight is None else columns[wanted.weight]), likelihood


def _with_categories(likelihood: Any, y: NDArray) -> Any:
    """An ordinal likelihood with as many categories as there are."""
    if "cuts" not in likelihood._get_param_names() or not 1.0 <= y.max() < _CATEGORIES:
        return likelihood
    return likelihood.replace(cuts=np.arange(y.max()).tolist())


def _codes(y: NDArray, classify: bool) -> NDArray[np.float64]:
    return np.unique(y, return_inverse=True)[1].astype(np.float64) if classify else y


def _say_what_was_chosen(parts: settings.Parts, tries: dict[str, list[float]]) -> None:
    chosen = [
        text for text in parts.chosen if not (text.startswith("length scale") and "kernel__length_scale" in tries)
    ]
    if chosen:
        say(f"Taken from the data: {'; '.join(chosen)}.")
    if parts.length_scale is not None and not tries:
        options = ",".join(number(factor * parts.length_scale, 3) for factor in (0.25, 0.5, 1.0, 2.0))
        say(
            "These are only a start: leave --no-learn out, or let validation choose with --grid "
            f"length_scale={options}",
            style="dim",
        )
