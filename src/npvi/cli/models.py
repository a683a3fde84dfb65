"""What predict and score share: a model from its file, and the rows of a table as it wants them."""

from __future__ import annotations

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

__all__ = ["ROWS", "Source", "open_model"]

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
        return keep, inputs if named else inputs.to_numpy(), exposure


def open_model(
    path: Path, table: Path, inputs: str | None, exposure: str | None, drop: bool, same_exposure: bool = False
) -> Source:
    """Load the model and check that the table has its columns; `same_exposure`: use that of the fit where it is there."""
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
