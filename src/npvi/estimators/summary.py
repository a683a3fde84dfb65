"""The table that `summary` returns, and what it says of the model as a whole."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pandas as pd

from npvi.components import Group as GroupComponent
from npvi.learning import TWO_SIDED
from npvi.model import FittedTerms, standard_errors
from npvi.terms import GroupPart, LinearPart

__all__ = ["Summary", "effects_of", "parts_of", "summary_of"]


class Summary(pd.DataFrame):
    """A table of numbers, with facts about the model as a whole in `attrs`, which are shown above it.

    Parts of it, and what is computed from it, are plain tables.

    Examples
    --------
    >>> table = Summary({"value": [0.5]}, index=["nugget"])
    >>> table.attrs = {"likelihood": "Poisson()", "rows": 20000, "bound": -31045.678}
    >>> table
    likelihood Poisson(), rows 20,000, bound -31,045.68
            value
    nugget    0.5
    """

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return f"{self._facts}\n{super().__repr__()}" if self.attrs else super().__repr__()

    def _repr_html_(self) -> str | None:
        table = super()._repr_html_()  # type: ignore[misc]
        return table if table is None or not self.attrs else f"<p>{escape(self._facts)}</p>\n{table}"

    @property
    def _facts(self) -> str:
        return ", ".join(f"{name} {_shown(value)}" for name, value in self.attrs.items())


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


# -- what a model made of terms has learned, as tables ----------------------------------------------------------------


#: standard deviations to either side that hold 90 %
_NINETY = 1.6449
_NOTHING = dict.fromkeys(("standard_error", "lower", "upper"), np.nan)


def summary_of(fitted: FittedTerms, with_errors: bool) -> pd.DataFrame:
    """Hyper-parameters of parts, in units of the table, of the likelihood, and coefficients."""
    known = {} if fitted.hyper is None else {row["parameter"]: row for row in fitted.hyper.table}
    if with_errors and not known and fitted.space is not None and len(fitted.space):
        known = _errors(fitted)
    rows: list[dict[str, Any]] = []
    for part in fitted.design.parts:
        for name in part.sought:
            full = f"{part.name}__{name}"
            values = fitted.values[fitted.design.same.get(full, full)]
            gone = part.name not in fitted.names
            rows += _rows_of(part, name, full, values, known, gone)
    prefix = "likelihood__"
    for name, value in fitted.values.items():
        if name.startswith(prefix):
            rows += [
                {"parameter": label, "value": number, **_NOTHING, **known.get(label, {})}
                for label, number in _numbered(name, value)
            ]
    found = Summary(pd.DataFrame(rows + _coefficients(fitted)).set_index("parameter"))
    found.attrs = {
        "likelihood": repr(fitted.likelihood),
        "rows": len(fitted.data.y),
        "bound": float(fitted.elbo),
    }
    return found


def _rows_of(part: Any, name: str, full: str, values: Any, known: dict[str, Any], gone: bool) -> list[dict[str, Any]]:
    """One parameter of a part, in the units of the table."""
    units = np.broadcast_to(np.asarray(part.units(name), dtype=np.float64), np.shape(values)).ravel()
    rows = []
    for (label, number), unit in zip(_numbered(full, values), units):
        there = known.get(label, _NOTHING)
        scaled = {key: float(there[key] * unit) for key in _NOTHING}
        if gone and name == "sd":
            number, scaled = 0.0, {**_NOTHING}
        rows.append({"parameter": _label(part, name, label), "value": number * unit, **scaled})
    return rows


def _label(part: Any, name: str, label: str) -> str:
    """With the names of effects instead of numbers."""
    if isinstance(part, GroupPart) and name == "sd" and label.endswith("]"):
        start = label.rindex("[")
        return f"{label[:start]}[{part.effect_names[int(label[start + 1 : -1])]}]"
    return label


def _numbered(name: str, value: Any) -> list[tuple[str, float]]:
    if np.ndim(value) == 0:
        return [(name, float(value))]
    return [(f"{name}[{entry}]", float(number)) for entry, number in enumerate(value)]


def _errors(fitted: FittedTerms) -> dict[str, dict[str, float]]:
    """Of what was learned, from second derivatives: intervals are symmetric on the scale of learning."""
    space: Any = fitted.space
    errors, z = standard_errors(fitted), space.vector()
    slopes = np.abs(space.slopes(z))
    ends = [space.numbers(np.clip(z + side * TWO_SIDED * errors, space.low, space.high)) for side in (-1.0, 1.0)]
    return {
        c.name if c.entry is None else f"{c.name}[{c.entry}]": {
            "standard_error": float(slope * error),
            "lower": float(low),
            "upper": float(high),
        }
        for c, slope, error, low, high in zip(space.coordinates, slopes, errors, *ends)
    }


def _coefficients(fitted: FittedTerms) -> list[dict[str, Any]]:
    """Of linear terms, for the columns as they came; of several models their mixture's."""
    shares = fitted.shares()
    found = [(_moments(one), share) for one, share in shares]
    if found[0][0] is None:
        return []
    names = found[0][0][0]
    weights = np.array([share for _, share in found])
    means = np.array([moments[1] for moments, _ in found])
    variances = np.array([moments[2] for moments, _ in found])
    mean = weights @ means
    error = np.sqrt(weights @ (variances + (means - mean) ** 2))
    return [
        {"parameter": name, "value": m, "standard_error": e, "lower": m - TWO_SIDED * e, "upper": m + TWO_SIDED * e}
        for name, m, e in zip(names, mean.tolist(), error.tolist())
    ]


def _moments(fitted: FittedTerms) -> Any:
    """Names, means and variances of linear coefficients."""
    for part, own, columns in zip(fitted.parts, fitted.prediction.split_mean, fitted.prediction.slices):
        if isinstance(part, LinearPart):
            mean, covariance = part.in_units(own, fitted.prediction.covariance_of_few(columns))
            return part.names, mean, np.diag(covariance)
    return None


def parts_of(fitted: FittedTerms) -> pd.DataFrame:
    """A row for each part: how much it varies over the data, and how much of it the data determine."""
    rows = []
    posterior, prediction = fitted.posterior, fitted.prediction
    moments = posterior.precision.moments()
    components = posterior.precision.parts.components
    for part, component, own, variance, held in zip(
        fitted.parts, components, prediction.split_mean, posterior.variances.parts, moments
    ):
        seen = component.times(own)
        spread = float(np.var(seen) + np.mean(variance))
        rows.append({"part": part.name, "sd": np.sqrt(spread), "numbers": component.size, "edf": _edf(component, held)})
    table = pd.DataFrame(rows)
    table["share"] = table["sd"] ** 2 / np.sum(table["sd"] ** 2)
    table["left_out"] = False
    nothing = {"sd": 0.0, "numbers": 0, "edf": 0.0, "share": 0.0, "left_out": True}
    gone = [{"part": part.name, **nothing} for part in fitted.design.parts if part.name not in fitted.names]
    if gone:
        table = pd.concat([table, pd.DataFrame(gone)], ignore_index=True)
    return table[["part", "sd", "share", "numbers", "edf", "left_out"]].set_index("part")


def _edf(component: Any, held: Any) -> float:
    """tr (I − V P), numbers that the data determine; unknown for a process whose V isn't dense."""
    columns = held.columns
    taken = float(np.sum(columns * component.matvec(columns)))
    if held.factor is not None:
        if not isinstance(component, GroupComponent):
            return float("nan")
        taken += float(np.einsum("lij,ji->", held.factor.inverse, component.precision))
    return component.size - taken


def effects_of(fitted: FittedTerms, name: str | None) -> pd.DataFrame:
    """The effects of the levels of a group."""
    groups = [part.name for part in fitted.design.parts if isinstance(part, GroupPart)]
    if name is None and len(groups) != 1:
        known = ", ".join(map(repr, groups)) or "none"
        raise ValueError(f"term must say which group's effects are wanted; there are {known}")
    name = groups[0] if name is None else name
    if name not in groups:
        raise ValueError(f"term: {name!r} has no levels; groups are {', '.join(map(repr, groups)) or 'none'}")
    weights = np.array([share for _, share in fitted.shares()])
    tables = [_effects(one, name) for one, _ in fitted.shares()]
    table = tables[0]
    means = np.array([one["mean"] for one in tables])
    table["mean"] = weights @ means
    table["sd"] = np.sqrt(weights @ (np.array([one["sd"] ** 2 for one in tables]) + (means - weights @ means) ** 2))
    table["lower"] = table["mean"] - _NINETY * table["sd"]
    table["upper"] = table["mean"] + _NINETY * table["sd"]
    return table


def _effects(fitted: FittedTerms, name: str) -> pd.DataFrame:
    for number, part in enumerate(fitted.parts):
        if part.name == name:
            mean, variance = fitted.prediction.split_mean[number], fitted.posterior.variances.numbers[number]
            return pd.DataFrame(part.effects(mean, variance))
    part = next(part for part in fitted.design.parts if part.name == name)
    nothing = np.zeros(len(part.levels) * len(part.effect_names))  # type: ignore[attr-defined]
    return pd.DataFrame(part.effects(nothing, nothing))
