"""What predict and score share: a model from its file, and the rows of a table as it wants them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.cli.display import say
from npvi.cli.errors import InputError
from npvi.cli.tables import Table, complete_rows, numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ROWS", "Source", "check_exposure", "check_target", "open_model"]

ROWS = 100_000
"""Rows in memory at a time."""


@dataclass
class Source:
    """A model, the columns it needs, and the table that has them."""

    model: Any
    notes: dict[str, Any]
    table: Table
    inputs: list[str]
    exposure: str | None
    drop: bool

    def chunks(self) -> Iterator[pd.DataFrame]:
        """All columns of the table, some rows at a time."""
        return self.table.chunks(ROWS)

    def rows(self, frame: pd.DataFrame, more: dict[str, NDArray] | None = None) -> tuple[NDArray[np.bool_], Any, Any]:
        """Which rows are complete (also in `more`), and the inputs and the exposure of those."""
        import pandas as pd

        path = self.table.path
        columns = {name: numbers(frame, name, path) for name in self.inputs}
        if self.exposure is not None:
            columns[self.exposure] = numbers(frame, self.exposure, path)
        keep = complete_rows({**columns, **(more or {})}, path, self.drop)
        inputs = pd.DataFrame({name: columns[name][keep] for name in self.inputs})
        named = hasattr(self.model, "feature_names_in_")
        if named:
            inputs.columns = pd.Index(self.model.feature_names_in_)
        exposure = None if self.exposure is None else columns[self.exposure][keep]
        check_exposure(self.model.likelihood_, exposure, frame.index[keep].to_numpy(), path, self.exposure)
        return keep, inputs if named else inputs.to_numpy(), exposure


def check_target(likelihood: Any, y: NDArray, rows: NDArray, path: Path, name: str) -> None:
    """Raise where some of the target is outside the likelihood's support; `rows` are the table's row numbers."""
    wrong = np.flatnonzero(likelihood.support.invalid(y))
    if len(wrong):
        raise InputError(
            f"{path}: column {name!r} cannot be {type(likelihood).__name__} in {len(wrong):,} of {len(y):,} rows, "
            f"such as {y[wrong[0]]:g} in row {rows[wrong[0]] + 1}; allowed: {likelihood.support.description}"
        )


def check_exposure(likelihood: Any, exposure: NDArray | None, rows: NDArray, path: Path, name: str | None) -> None:
    """Raise where the likelihood takes no exposure, or not these values."""
    if exposure is None:
        return
    if "exposure" not in likelihood.extras:
        raise InputError(f"--exposure does not go with the {type(likelihood).__name__} likelihood; it is for counts")
    wrong = np.flatnonzero(~(exposure > 0))
    if len(wrong):
        raise InputError(
            f"{path}: column {name!r} must be positive to be an exposure, but {len(wrong):,} of {len(rows):,} rows "
            f"are not, such as {exposure[wrong[0]]:g} in row {rows[wrong[0]] + 1}"
        )


def open_model(
    path: Path, table: Path, inputs: str | None, exposure: str | None, drop: bool, same_exposure: bool = False
) -> Source:
    """Load the model and check that the table has its columns; `same_exposure`: that of the fit, where it is there."""
    from npvi.persistence import describe, load

    model, notes = load(path), describe(path)["notes"]
    if inputs is not None:
        names = [name.strip() for name in inputs.split(",")]
    elif hasattr(model, "feature_names_in_"):
        names = [str(name) for name in model.feature_names_in_]
    else:
        raise InputError(f"{path} does not know the names of its {model.n_features_in_} inputs; give --inputs a,b,…")
    if len(names) != model.n_features_in_:
        raise InputError(f"the model in {path} has {model.n_features_in_} inputs, but --inputs names {len(names)}")
    source = Table(table)
    source.require([*names, *([exposure] if exposure else [])])
    if same_exposure and exposure is None and notes.get("exposure") in source.columns:
        exposure = notes["exposure"]
        say(f"note: the column {exposure!r} is taken as exposure, as in the fit", style="yellow")
    if exposure is None and notes.get("exposure"):
        say(
            f"note: the model was fitted with an exposure; without --exposure {notes['exposure']} every row counts as "
            "exposure 1",
            style="yellow",
        )
    return Source(model, notes, source, names, exposure, drop)
