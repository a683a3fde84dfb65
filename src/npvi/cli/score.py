"""npvi score."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from npvi.cli.display import number, say, show_json, show_pairs, watching
from npvi.cli.errors import InputError, guarded
from npvi.cli.models import Source, check_target, open_model
from npvi.cli.options import Censored, Exposure, NoiseVariance, Trials

if TYPE_CHECKING:
    from npvi.diagnostics import Means

__all__ = ["score"]

_LEVELS = (0.5, 0.9, 0.95)


def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model saved by npvi fit or model.save.")],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file with the inputs and what was observed.")
    ],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that was observed; that of the fit unless given.")
    ] = None,
    exposure: Exposure = None,
    trials: Trials = None,
    noise_variance: NoiseVariance = None,
    censored: Censored = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Input columns, where they have other names than in the fit.")
    ] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Score predictions against observations that the model has not seen.

    [bold]log density[/bold] rewards predictions that put probability where the observations
    fell: higher is better, and only models of the same target can be compared.
    [bold]RMSE[/bold] is the typical error of the mean, beside that of a constant and of the mean of
    the 20 nearest rows. [bold]Sum[/bold]: what the means add up to, and what was observed.
    [bold]Intervals[/bold] of 90% should hold 90% of the observations. More columns are those of the
    fit, where the table has them.

    \b
    [bold]Examples[/bold]
    npvi score birds.npvi test.csv --target count
    npvi score birds.npvi test.csv --target count --exposure hours --json
    """
    with guarded("score"):
        extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
        source = open_model(model, table, inputs, extras, drop_missing, as_in_the_fit=True)
        totals = _Totals(source, source.target_of(target, model))
        with watching():
            for frame in source.chunks():
                totals.add(frame)
        if totals.rows == 0:
            raise InputError(f"{table} has no {'complete ' if totals.left_out else ''}rows")
        if totals.left_out:
            say(f"{table}: left out {totals.left_out:,} rows with missing values")
        if as_json:
            show_json(totals.scores())
        else:
            show_pairs(f"{model} on {table}", totals.shown())


class _Totals:
    """Sums over the rows seen so far."""

    def __init__(self, source: Source, target: str) -> None:
        from npvi.diagnostics.means import MeansTally
        from npvi.predictive.calibration import numbers_of_our_own

        self.source, self.target = source, target
        self.rows, self.left_out = 0, 0
        self.log_density, self.squared_error, self.right = 0.0, 0.0, 0
        self.inside = np.zeros(len(_LEVELS))
        self.classes = getattr(source.model, "classes_", None)
        self.several = self.classes is not None and len(self.classes) > 2
        self.rng = numbers_of_our_own(0)
        self.tally = None if self.several else MeansTally(source.model)

    def add(self, frame: Any) -> None:
        from npvi.predictive.calibration import coverage, randomised_pit

        path = self.source.table.path
        y: NDArray = self.source.observed(frame, self.target)
        keep, X, extras = self.source.rows(frame, {self.target: y})
        self.left_out += int((~keep).sum())
        if not keep.any():
            return
        y = y[keep]
        prediction = self.source.model.predict_dist(X, **extras)
        if self.several:
            self._add_labels(prediction, y)
            return
        if self.classes is None:
            check_target(prediction.likelihood, y, frame.index[keep].to_numpy(), path, self.target)
            pit = randomised_pit(prediction, y, self.rng)
            self.inside += [coverage(pit, level) * len(y) for level in _LEVELS]
        else:
            y = (y == self.classes[-1]).astype(np.float64) if len(self.classes) > 1 else np.zeros(len(y))
            self.right += int(((prediction.mean > 0.5) == (y > 0.5)).sum())
        self.rows += len(y)
        self.log_density += float(prediction.log_prob(y).sum())
        assert self.tally is not None
        self.tally.add(X, y, prediction)

    def _add_labels(self, prediction: Any, y: NDArray) -> None:
        """Of three or more labels."""
        y = y.astype(prediction.classes.dtype)
        self.rows += len(y)
        self.right += int((prediction.mode == y).sum())
        self.log_density += float(prediction.log_prob(y).sum())
        self.squared_error += float(((prediction.probabilities - (y[:, None] == prediction.classes)) ** 2).sum())

    @cached_property
    def means(self) -> Means:
        """Of numbers and two labels."""
        assert self.tally is not None
        return self.tally.result()

    @property
    def warning(self) -> str | None:
        """What to do where means can't be used."""
        from npvi.diagnostics.advice import about_means

        model = getattr(self.source.model, "model_", self.source.model)
        return about_means(self.means, model.likelihood_, getattr(model, "hyperprior", None) is not None)

    def scores(self) -> dict[str, Any]:
        scores: dict[str, Any] = {"rows": self.rows, "mean_log_density": self.log_density / self.rows}
        if self.several:
            return {**scores, "accuracy": self.right / self.rows, "brier": self.squared_error / self.rows}
        means = self.means
        errors = {"": means.rmse, "_constant": means.rmse_constant, "_neighbors": means.rmse_neighbors}
        if self.classes is not None:
            scores["accuracy"] = self.right / self.rows
            scores |= {f"brier{name}": error**2 for name, error in errors.items()}
        else:
            scores |= {f"rmse{name}": error for name, error in errors.items()}
            scores |= {f"coverage_{level:g}": total / self.rows for level, total in zip(_LEVELS, self.inside)}
        lower, upper = means.sum_interval
        scores |= {"sum_seen": means.sum_seen, "sum_predicted": means.sum_predicted, "sum_lower": lower}
        scores |= {"sum_upper": upper, "sum_rows_together": means.together}
        return {**scores, "warnings": [self.warning] if self.warning else []}

    def shown(self) -> dict[str, str]:
        scores = self.scores()
        pairs = {"rows": number(self.rows), "mean log density": f"{scores['mean_log_density']:.4f} (higher is better)"}
        if self.classes is not None:
            pairs["right label"] = f"{scores['accuracy']:.1%}"
            what = "probability" if not self.several else "probabilities, summed over the labels"
            pairs["Brier score"] = f"{scores['brier']:.4f} (mean squared error of the {what}; lower is better)"
            if self.several:
                return pairs
            pairs["… of simpler means"] = (
                f"{scores['brier_constant']:.4f} a constant, {scores['brier_neighbors']:.4f} the mean of the 20 "
                "nearest rows"
            )
            return pairs | self._sum()
        pairs["RMSE"] = f"{scores['rmse']:.4g} (typical error of the mean, in the target's units)"
        pairs["… of simpler means"] = (
            f"{scores['rmse_constant']:.4g} a constant, {scores['rmse_neighbors']:.4g} the mean of the 20 nearest rows"
        )
        pairs |= self._sum()
        for level in _LEVELS:
            pairs[f"{level:.0%} intervals"] = f"hold {scores[f'coverage_{level:g}']:.1%} of the observations"
        if self.source.model.likelihood_.support.discrete:
            pairs["about intervals"] = "randomised at their ends, because whole numbers cannot fill 90 % exactly"
        return pairs

    def _sum(self) -> dict[str, str]:
        lower, upper = (number(end) for end in self.means.sum_interval)
        how = "" if self.means.together else ", rows taken as independent"
        what = f"{number(self.means.sum_predicted)}, observed {number(self.means.sum_seen)}"
        pairs = {"sum of means": f"{what} (expected between {lower} and {upper}: 90 %{how})"}
        return pairs | ({"take care": self.warning} if self.warning else {})
