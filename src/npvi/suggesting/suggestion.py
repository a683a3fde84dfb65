"""A model for a table, proposed and never applied by itself."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.checks import check_path, refuse_masked, refuse_repeated_names
from npvi.estimators import GPClassifier, GPRegressor
from npvi.suggesting.columns import Roles, find_target, numbers_of, roles_of
from npvi.suggesting.comparing import Compared, candidates, compare

__all__ = ["Suggestion", "suggest"]

#: more different labels than this are no categories
_LABELS = 100


@dataclass(frozen=True)
class Suggestion:
    """What `suggest` proposes; ``print`` it.

    Attributes
    ----------
    target : the column to model.
    likelihood : name of the likelihood; "softmax" for three or more labels.
    places : the two columns that say where; empty where there are none.
    exposure, trials : columns with effort behind counts, and with how many could have succeeded; or None.
    covariates : other columns of numbers that may have an effect. Without places they are all inputs.
    classify : whether the target holds labels, not numbers.
    drop_missing : whether rows with missing values must be left out.
    scores : nats per row of each likelihood that was compared, best first; empty where there was one only.
    reasons : for each of these, in words.
    command : what to type in a shell.
    """

    target: str
    likelihood: str
    places: list[str]
    exposure: str | None
    trials: str | None
    covariates: list[str]
    classify: bool
    drop_missing: bool
    scores: dict[str, float]
    reasons: dict[str, str]
    command: str

    @property
    def inputs(self) -> list[str]:
        """Columns that the model is given."""
        return [*self.places, *self.covariates]

    def model(self) -> GPRegressor | GPClassifier:
        """An estimator of this kind, not fitted: ``fit(table[found.inputs], table[found.target])``.

        Exposure or trials, where they are proposed, go to ``fit`` as well.
        """
        coords = self.places if self.places and self.covariates else None
        if self.classify:
            return GPClassifier(coords=coords)
        return GPRegressor(self.likelihood, coords=coords, mean="zero" if self.likelihood == "ordinal" else "constant")

    def __str__(self) -> str:
        return "\n".join([*(f"{name}: {why}" for name, why in self.reasons.items()), "", self.command])


def suggest(table: Any, target: str | None = None, *, path: str | Path = "table.csv") -> Suggestion:
    """Look at a table and propose a model: which columns, which likelihood, and why. Nothing is fitted to keep.

    Places and effort are found by the names of columns and by their numbers, likelihoods by what values the target
    has; where several allow them, small models of each predict rows that they haven't seen.

    Parameters
    ----------
    table : data frame (pandas, polars, …) or mapping of names to columns.
    target : the column to model; guessed unless given.
    path : the table's file, as it appears in `command`.

    Returns
    -------
    Suggestion

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"lon": rng.uniform(size=50), "lat": rng.uniform(size=50), "seen": rng.integers(0, 2, 50)})
    >>> found = suggest(table)
    >>> found.likelihood, found.places
    ('bernoulli', ['lon', 'lat'])
    >>> print(found.command)
    npvi fit table.csv --target seen --inputs lon,lat --likelihood bernoulli
    """
    check_path(path)
    frame = _frame(table)
    if target is not None and not isinstance(target, str):
        raise TypeError(f"target must be the name of a column, got {target!r}")
    if target is not None and target not in frame.columns:
        raise ValueError(f"target: there is no column {target!r}; there are {_listed(list(frame.columns))}")
    numbers = {name: values for name in frame.columns if (values := numbers_of(frame[name])) is not None}
    why = "as given"
    if target is None:
        if not numbers:
            raise ValueError(f"table: no column holds numbers; there are {_listed(list(frame.columns))}")
        target, why = find_target(frame, numbers)
    y, classify = _response(frame[target], numbers.get(target), target)
    roles = roles_of(numbers, target, None if classify else numbers[target])
    _leave_out_unsayable(roles)
    inputs = [*roles.places, *roles.covariates]
    if not inputs:
        raise ValueError(f"table: no column of numbers is left to model {target!r} by; add places or covariates")
    extras = {name: column for name in ("exposure", "trials") if (column := getattr(roles, name)) is not None}
    used = np.column_stack([numbers[name] for name in [*inputs, *extras.values()]])
    keep = y["there"] & np.isfinite(used).all(axis=1)
    if keep.sum() < 2:
        raise ValueError(f"table has {int(keep.sum())} complete row(s); a model needs at least two")
    likelihood, compared, reason = _likelihood(roles, y["values"], classify, keep, numbers)
    reasons = {"target": f"{target}, {why}", "likelihood": f"{likelihood}: {reason}", **roles.reasons}
    drop = not bool(keep.all())
    if drop:
        reasons["missing values"] = f"{int((~keep).sum()):,} of {len(keep):,} rows lack some value and are left out"
    return Suggestion(
        target=target,
        likelihood=likelihood,
        places=roles.places,
        exposure=roles.exposure,
        trials=roles.trials,
        covariates=roles.covariates,
        classify=classify,
        drop_missing=drop,
        scores={} if compared is None else compared.scores,
        reasons=reasons,
        command=_command(path, target, likelihood, roles, classify, drop),
    )


def _frame(table: Any) -> pd.DataFrame:
    """The table as pandas has it, each name once and text."""
    if isinstance(table, Mapping):
        try:
            table = pd.DataFrame(dict(table))
        except (ValueError, TypeError) as error:
            raise ValueError(f"table is no mapping of names to columns of one length: {error}") from None
    if isinstance(table, pd.DataFrame):
        frame = table
    else:
        refuse_masked(table, "table")
        refuse_repeated_names(table, "table")
        found = nw.from_native(table, eager_only=True, pass_through=True)
        if not isinstance(found, nw.DataFrame):
            raise TypeError(f"table must be a data frame, or a mapping of names to columns; got {type(table).__name__}")
        frame = found.to_pandas()
    frame = frame.reset_index(drop=True).set_axis([str(name) for name in frame.columns], axis=1)
    refuse_repeated_names(frame, "table")
    if len(frame) < 2:
        raise ValueError(f"table has {len(frame)} row(s); a model needs at least two")
    return frame


def _response(column: pd.Series, numbers: NDArray[np.float64] | None, target: str) -> tuple[dict[str, NDArray], bool]:
    """The response, where it is there, and whether it is labels."""
    if numbers is not None:
        values, there, classify = numbers, np.isfinite(numbers), False
    else:
        if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
            raise ValueError(f"target: column {target!r} holds dates, not numbers; turn them into days or years first")
        values, there, classify = column.astype(str).to_numpy(dtype=object), ~column.isna().to_numpy(), True
    different = len(set(values[there].tolist()))
    if different < 2:
        what = "has no values" if different == 0 else f"is {values[there][0]!s:.40} in every row"
        raise ValueError(f"target: column {target!r} {what}; there is nothing to model")
    if classify and different > _LABELS:
        raise ValueError(
            f"target: column {target!r} is text with {different:,} different values; labels may have {_LABELS}, and "
            "numbers must be numbers in every row"
        )
    return {"values": values, "there": there}, classify


def _likelihood(
    roles: Roles, values: NDArray, classify: bool, keep: NDArray[np.bool_], numbers: Mapping[str, NDArray[np.float64]]
) -> tuple[str, Compared | None, str]:
    y = values[keep]
    if classify:
        labels = len(set(y.tolist()))
        return ("bernoulli" if labels == 2 else "softmax"), None, f"{labels} different labels"
    names, what = candidates(y, trials=roles.trials is not None)
    row = {}
    for name in ("exposure", "trials"):
        column = getattr(roles, name)
        if column is not None:
            row[name] = numbers[column][keep]
    if len(names) == 1:
        return names[0], None, what
    X = np.column_stack([numbers[name][keep] for name in [*roles.places, *roles.covariates]])
    compared = compare(names, X, y, row, len(roles.places))
    if compared is None:
        return names[0], None, f"{what}; too few rows to compare it with {', '.join(names[1:])}"
    best, *others = compared.scores
    ahead = ", ".join(f"{other} by {compared.scores[best] - compared.scores[other]:.3g}" for other in others)
    spread = _dispersion(y) if "poisson" in names and "exposure" not in row else ""
    gain = f"; in {compared.rows:,} rows, part of them left out, ahead of {ahead} nats per row" if ahead else ""
    return best, compared, f"{what}{spread}{gain}"


def _dispersion(y: NDArray[np.float64]) -> str:
    return f", variance {np.var(y) / np.mean(y):.2g} times the mean, {100 * np.mean(y == 0.0):.0f} % zeros"


def _leave_out_unsayable(roles: Roles) -> None:
    """Lists of columns are separated by commas, so that names with one can't be in them."""
    odd = [name for name in roles.covariates if "," in name or name != name.strip() or not name]
    if odd:
        roles.covariates = [name for name in roles.covariates if name not in odd]
        roles.reasons["covariates"] += f"; not {', '.join(map(repr, odd[:6]))}: rename what has commas or outer spaces"


def _command(path: str | Path, target: str, likelihood: str, roles: Roles, classify: bool, drop: bool) -> str:
    options: dict[str, str | None] = {"--target": target, "--inputs": ",".join([*roles.places, *roles.covariates])}
    if roles.places and roles.covariates:
        options["--coords"] = ",".join(roles.places)
    if not classify:
        options["--likelihood"] = likelihood
    options |= {"--exposure": roles.exposure, "--trials": roles.trials}
    words = ["npvi", "fit", os.fspath(path)]
    for option, value in options.items():
        if value is not None:  # a value that looks like an option has to be tied to its own
            words += [f"{option}={value}"] if value.startswith("-") else [option, value]
    words += [*(["--classify"] if classify else []), *(["--drop-missing"] if drop else [])]
    return shlex.join(words)


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:20]) or "none"
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
