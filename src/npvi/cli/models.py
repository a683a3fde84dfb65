"""What predict, score and diagnose share: a model from its file, and the rows of a table as it wants them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.cli.display import say
from npvi.cli.errors import InputError
from npvi.cli.options import EXTRAS, option_of
from npvi.cli.tables import Table, complete_rows, labels, numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ROWS", "Source", "check_extra", "check_target", "columns_of_fit", "open_model"]

ROWS = 100_000
"""Rows in memory at a time."""


@dataclass
class Source:
    """A model, the columns it needs, and the table that has them."""

    model: Any
    notes: dict[str, str]
    table: Table
    inputs: list[str]
    extras: dict[str, str]
    """Columns with more data per row, by what the library calls them."""
    drop: bool
    ones: tuple[str, ...] = ()
    """What the fit had per row and the table lacks, and counts as 1."""
    pipeline: Any = None
    """What the model is the last step of, where there are others before it."""

    def chunks(self) -> Iterator[pd.DataFrame]:
        """All columns of the table, some rows at a time."""
        return self.table.chunks(ROWS)

    def target_of(self, given: str | None, model: Path) -> str:
        """The column that was observed: that of the fit, unless another is given."""
        target = given or self.notes.get("target")
        if target is None:
            raise InputError(f"{model} does not say what its target was; name the column with --target")
        self.table.require([target])
        return str(target)

    def observed(self, frame: pd.DataFrame, target: str) -> NDArray:
        """The target, as numbers or as the model's labels."""
        classes = getattr(self.model, "classes_", None)
        path = self.table.path
        return numbers(frame, target, path) if classes is None else labels(frame, target, path, classes)

    def _column(self, frame: pd.DataFrame, name: str, number: int) -> NDArray:
        """An input: numbers, or words where the fit had words."""
        seen = getattr(getattr(self.model, "fitted_", None), "table", None)
        words = seen is not None and seen.iloc[:, number].dtype.kind not in "biuf"
        return labels(frame, name, self.table.path) if words else numbers(frame, name, self.table.path)

    def rows(
        self, frame: pd.DataFrame, more: dict[str, NDArray] | None = None, through: bool = True
    ) -> tuple[NDArray[np.bool_], Any, dict[str, NDArray]]:
        """Which rows are complete (also in `more`), and the inputs and the data per row of those; inputs have gone
        `through` the steps before the model."""
        import pandas as pd

        path = self.table.path
        columns = {name: self._column(frame, name, k) for k, name in enumerate(self.inputs)}
        columns |= {name: numbers(frame, name, path) for name in self.extras.values()}
        keep = complete_rows({**columns, **(more or {})}, path, self.drop)
        inputs = pd.DataFrame({name: columns[name][keep] for name in self.inputs})
        whole = self.model if self.pipeline is None else self.pipeline
        named = hasattr(whole, "feature_names_in_")
        if named:
            inputs.columns = pd.Index(whole.feature_names_in_)
        extras = {extra: columns[name][keep] for extra, name in self.extras.items()}
        for extra, values in extras.items():
            numbered = frame.index[keep].to_numpy()
            check_extra(self.model.likelihood_, extra, values, numbered, path, self.extras[extra])
        extras |= {extra: np.ones(int(keep.sum())) for extra in self.ones}  # said already, so not forgotten
        X = inputs if named else inputs.to_numpy()
        if through and self.pipeline is not None:
            from npvi.estimators.pipeline import transformed

            X = transformed(self.pipeline, X)
        return keep, X, extras


def check_target(likelihood: Any, y: NDArray, rows: NDArray, path: Path, name: str) -> None:
    """Raise where some of the target is outside the likelihood's support; `rows` are the table's row numbers."""
    wrong = np.flatnonzero(likelihood.support.invalid(y))
    if len(wrong):
        raise InputError(
            f"{path}: column {name!r} cannot be {type(likelihood).__name__} in {len(wrong):,} of {len(y):,} rows, "
            f"such as {y[wrong[0]]:g} in row {rows[wrong[0]] + 1}; allowed: {likelihood.support.description}"
        )


def check_extra(likelihood: Any, extra: str, values: NDArray, rows: NDArray, path: Path, name: str) -> None:
    """Raise where the likelihood takes no such data per row, or not these values."""
    from npvi.likelihoods.support import POSITIVE

    if extra not in likelihood.extras:
        raise InputError(
            f"{option_of(extra)} does not go with the {type(likelihood).__name__} likelihood; it is for {_FOR[extra]}"
        )
    allowed = likelihood.extra_supports.get(extra, POSITIVE)
    wrong = np.flatnonzero(allowed.invalid(values))
    if len(wrong):
        what = "positive" if allowed is POSITIVE else allowed.description
        raise InputError(
            f"{path}: column {name!r} must be {what} to be {_AS[extra]}, but {len(wrong):,} of {len(rows):,} rows "
            f"are not, such as {values[wrong[0]]:g} in row {rows[wrong[0]] + 1}"
        )


_FOR = {
    "exposure": "counts",
    "trials": "binomial and beta_binomial",
    "noise_variance": "gaussian and lognormal",
    "censored": "censored_gaussian and censored_lognormal",
}
_AS = {
    "exposure": "an exposure",
    "trials": "numbers of trials",
    "noise_variance": "variances",
    "censored": "--censored",
}
#: what a prediction means without the column; of a censored one, as of any, it is the true value that is predicted
_WITHOUT = {
    "exposure": "every row counts as exposure 1",
    "trials": "every row counts as one trial",
    "noise_variance": "predictions are of measurements without an error of their own",
}


def columns_of_fit(path: Path) -> dict[str, str]:
    """Columns that a model was fitted from, as ``npvi fit`` notes them; notes of other kinds are somebody's own."""
    from npvi.io import describe

    return {name: value for name, value in describe(path)["notes"].items() if isinstance(value, str)}


def open_model(
    path: Path,
    table: Path,
    inputs: str | None,
    extras: dict[str, str | None],
    drop: bool,
    as_in_the_fit: bool = False,
) -> Source:
    """Load the model and check that the table has its columns.

    Parameters
    ----------
    extras : columns with more data per row, None where not given.
    as_in_the_fit : take those of the fit where they are there and no other is given.
    """
    from npvi.estimators.predicting import forgotten
    from npvi.io import load

    model, notes = load(path), columns_of_fit(path)
    if inputs is not None:
        names = [name.strip() for name in inputs.split(",")]
    elif hasattr(model, "feature_names_in_"):
        names = [str(name) for name in model.feature_names_in_]
    else:
        raise InputError(f"{path} does not know the names of its {model.n_features_in_} inputs; give --inputs a,b,…")
    if len(names) != model.n_features_in_:
        raise InputError(f"the model in {path} has {model.n_features_in_} inputs, but --inputs names {len(names)}")
    source = Table(table)
    found = {extra: name for extra, name in extras.items() if name is not None}
    source.require([*names, *found.values()])
    for extra in EXTRAS:
        before = notes.get(extra)
        if extra in found or not before:
            continue
        if as_in_the_fit and before in source.columns:
            found[extra] = before
            say(f"note: the column {before!r} is taken as {extra.replace('_', ' ')}, as in the fit", style="yellow")
        elif extra in _WITHOUT:
            article = "an" if extra == "exposure" else "a" if extra == "noise_variance" else "numbers of"
            say(
                f"note: the model was fitted with {article} {extra.replace('_', ' ')}; without {option_of(extra)} "
                f"{before} {_WITHOUT[extra]}",
                style="yellow",
            )
    ones = tuple(extra for extra in forgotten(model, found) if notes.get(extra))
    last, pipeline = (model.steps[-1][1], model) if hasattr(model, "steps") else (model, None)
    return Source(last, notes, source, names, found, drop, ones, pipeline)
