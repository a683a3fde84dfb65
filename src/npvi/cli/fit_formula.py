"""npvi fit --formula: a predictor that is a sum of parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from npvi.cli.display import describe_config, number, say, show_pairs, watching
from npvi.cli.errors import INTERRUPTED, InputError
from npvi.cli.fitting import save_model
from npvi.cli.models import check_extra, check_target
from npvi.cli.tables import Table, complete_rows, labels, numbers

__all__ = ["FormulaColumns", "fit_formula", "is_numeric", "show_parts"]


@dataclass(frozen=True)
class FormulaColumns:
    """What columns of the table are for.

    Attributes
    ----------
    formula : as it was given.
    extras : columns with more data per row, None where not given.
    weight : column of weights.
    drop : whether rows with missing values are left out.
    """

    formula: str
    extras: Mapping[str, str | None]
    weight: str | None
    drop: bool


def fit_formula(
    path: Path,
    columns: FormulaColumns,
    others: Mapping[str, Any],
    likelihood: str,
    options: Mapping[str, Any],
    save: Path | None,
) -> None:
    """Fit, keep and show a model; `others` are options that don't go with a formula, None where not given."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise InputError(f"{given[0]} doesn't go with --formula, which says what the model is made of: leave it out")
    from npvi.estimators import GPRegressor
    from npvi.likelihoods import as_likelihood
    from npvi.terms import parse

    target = parse(columns.formula).response
    if target is None:
        raise InputError(f"--formula has no target: write 'count ~ {columns.formula.strip(' ~')}'")
    frame, row, weight = _rows(path, target, columns)
    kind = as_likelihood(likelihood).sized_for(frame[target].to_numpy())
    every = np.arange(len(frame))
    check_target(kind, frame[target].to_numpy(), every, path, target)
    for extra, values in row.items():
        check_extra(kind, extra, values, every, path, str(columns.extras[extra]))
    model = GPRegressor(likelihood, formula=columns.formula, **options)
    try:
        with watching(model.tol):
            model.fit(frame, sample_weight=weight, **row)
    except KeyboardInterrupt:
        say("npvi fit: interrupted before there was a result", style="bold red")
        raise typer.Exit(INTERRUPTED) from None
    if save is not None:
        given_extras = {extra: name for extra, name in columns.extras.items() if name is not None}
        save_model(model, save, {"table": path.name, "target": target, "weight": columns.weight, **given_extras})
    _summarise(model, target, columns.extras.get("exposure"), save)


def _rows(path: Path, target: str, wanted: FormulaColumns) -> tuple[Any, dict[str, NDArray], NDArray | None]:
    """The columns that the formula names, complete; numbers where they are, else words."""
    from npvi.model import columns_of
    from npvi.terms import parse

    table = Table(path)
    import pandas as pd

    used = columns_of(parse(wanted.formula).terms, table.columns)
    extras = {extra: name for extra, name in wanted.extras.items() if name is not None}
    more = [*extras.values(), *([wanted.weight] if wanted.weight is not None else [])]
    frame = table.read([target, *used, *more])
    columns: dict[str, NDArray] = {name: numbers(frame, name, path) for name in [target, *more]}
    for name in used:
        columns[name] = numbers(frame, name, path) if is_numeric(frame[name]) else labels(frame, name, path)
    keep = complete_rows(columns, path, wanted.drop)
    if not keep.all():
        say(f"{path}: left out {int((~keep).sum()):,} of {len(keep):,} rows with missing values")
    if keep.sum() < 2:
        raise InputError(f"{path} has {int(keep.sum())} complete row(s); a model needs at least two")
    found = pd.DataFrame({name: columns[name][keep] for name in dict.fromkeys([target, *used])})
    row = {extra: columns[name][keep] for extra, name in extras.items()}
    return found, row, None if wanted.weight is None else columns[wanted.weight][keep]


def is_numeric(column: Any) -> bool:
    """Whether a column as it was read holds numbers."""
    return bool(isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf")


def show_parts(rows: Any) -> dict[str, str]:
    """Numbers and coefficients of a summary, each with its interval where that is known."""
    shown = {}
    for row in rows.reset_index().to_dict("records"):
        text = number(row["value"])
        if np.isfinite(row["standard_error"]):
            text += f" ({number(row['lower'], 3)} to {number(row['upper'], 3)})"
        shown[str(row["parameter"]).replace("__", " ")] = text
    return shown


def _summarise(model: Any, target: str, exposure: str | None, save: Path | None) -> None:
    from npvi.config import to_config

    fitted, info = model.fitted_, model.fit_info_
    summary = model.summary()
    parts = summary[~summary.index.str.startswith("likelihood__")]
    learning, mixed = info.get("learning"), len(fitted.shares())
    gone = [name for name in fitted.design.names if name not in fitted.names]
    pairs = {
        "rows": f"{len(fitted.data.y):,}",
        "target": target + (f", per unit of {exposure}" if exposure else ""),
        "likelihood": describe_config(to_config(model.likelihood_)),
        **show_parts(parts),
        **({"left out": f"{', '.join(gone)}: no variation"} if gone else {}),
        **({"mixed over": f"{mixed} models, for what isn't known of these numbers"} if mixed > 1 else {}),
        "numbers": f"learned, {learning['evaluations']} evaluations" if learning else "as given, not learned",
        "ELBO": f"{model.elbo_:,.2f} ({model.elbo_ / len(fitted.data.y):.4f} per row)",
        "converged": "yes" if info["converged"] else "NO: the result is not the optimum yet",
        "saved to": str(save) if save is not None else "nowhere; keep it with --save model.npvi",
    }
    show_pairs("Fitted", pairs)
