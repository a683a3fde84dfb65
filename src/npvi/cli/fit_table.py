"""The table of a fit: what each column is for, and the rows, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.cli.display import say
from npvi.cli.errors import InputError, unknown_name
from npvi.cli.models import check_extra, check_target
from npvi.cli.tables import Table, complete_rows, labels, numbers

__all__ = ["Columns", "Rows", "read_rows", "split_names"]

#: more categories or labels than this are surely something else
_CATEGORIES = 100


@dataclass
class Columns:
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


@dataclass
class Rows:
    """The data of one fit."""

    X: Any
    y: NDArray
    extras: dict[str, NDArray[np.float64]]
    """More data per row, by what the library calls them."""
    weight: NDArray[np.float64] | None


def split_names(columns: str, option: str) -> list[str]:
    """Names of columns, separated by commas.

    >>> split_names("lon, lat", "--inputs")
    ['lon', 'lat']
    """
    names = [name.strip() for name in columns.split(",") if name.strip()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise InputError(f"{option} names {twice[0]!r} twice" if twice else f"{option} names no column")
    return names


def read_rows(path: Path, wanted: Columns, likelihood: Any, classify: bool, drop: bool) -> tuple[Rows, Any]:
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
        likelihood = likelihood.sized_for(y)
        check_target(likelihood, y, numbered, path, target)
    X = pd.DataFrame({name: columns[name] for name in wanted.inputs})
    row = {extra: columns[name] for extra, name in extras.items()}
    return Rows(X, y, row, None if wanted.weight is None else columns[wanted.weight]), likelihood
