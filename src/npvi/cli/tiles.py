"""Tables larger than memory: npvi fit --store, and npvi info of what it has made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from npvi.cli.display import describe_coefficients, describe_config, number, say, show_pairs, watching
from npvi.cli.errors import InputError
from npvi.cli.fit_table import split_names
from npvi.cli.options import option_of
from npvi.cli.parts import Given, given_parts

if TYPE_CHECKING:
    from npvi.tiled import TiledRegressor

__all__ = ["fit_in_tiles", "show_store"]

#: options of npvi fit that go with --store
_SERVED = {
    *("table", "target", "inputs", "coords", "exposure", "trials"),
    *("likelihood", "link", "kernel", "mean", "coefficient_scale", "weak_priors", "neighbors"),
    *("learn", "fix", "length_scale", "variance", "noise", "nugget"),
    *("seed", "threads", "max_iter", "store", "memory"),
}


def fit_in_tiles(
    context: typer.Context,
    source: str,
    store: Path,
    memory: str,
    given: Given,
    likelihood: Any,
    kernel: str,
    name: str,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> None:
    """Fit and say what was found.

    Parameters
    ----------
    context : of the command.
    given, likelihood, kernel, name : the numbers that were given, the likelihood as an object and by name, the kernel's
        name.
    options : of the command by name, as they were given.
    settings : of the estimator.
    """
    _refuse_others(context)
    from npvi.tiled import TiledRegressor

    parts = given_parts(given, kernel, likelihood, name, bool(settings["learn"]), options["link"] is None)
    columns = {extra: options[extra] for extra in ("exposure", "trials") if options[extra] is not None}
    model = TiledRegressor(
        likelihood=parts.likelihood, kernel=parts.kernel, nugget=parts.nugget, store=store, memory=memory, **settings
    )
    with watching():
        model.fit(source, options["target"], split_names(options["inputs"], "--inputs"), **columns)
    show_pairs("Fitted", _pairs(model, options["target"]))
    say(f"The model is the folder {store}: npvi predict {store} places.csv --output map.csv", style="dim")


def show_store(folder: Path) -> None:
    """What is in a finished store."""
    from npvi.tiled import TiledRegressor

    model = TiledRegressor.load(folder)
    show_pairs(str(folder), _pairs(model, model.describe()["notes"]["target"]))


def _refuse_others(context: typer.Context) -> None:
    """Raise where an option was given that tiles know nothing of."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name not in _SERVED and source is not None and source.name == "COMMANDLINE":
            raise InputError(f"{option_of(str(parameter.name))} does not go with --store")


def _of_updates(updates: list[dict[str, Any]]) -> str:
    rows = sum(one["rows"] for one in updates)
    return f", {rows:,} of them by {len(updates)} update{'s' if len(updates) > 1 else ''}" if updates else ""


def _pairs(model: TiledRegressor, target: str) -> dict[str, str]:
    about = model.describe()
    certificate = about["certificate"]
    last = certificate["history"][-1]
    agreed = "alone, there is one tile" if "step" not in last else f"the last of {certificate['rounds']} rounds moved "
    if "step" in last:
        agreed += f"means by {last['step']:.1e} sd, at most {last['farthest']:.1e}"
    rows, seen = about["rows_of_tiles"], about["seen"]
    return {
        "rows": f"{about['n_rows']:,}" + _of_updates(about["updates"]),
        "tiles": f"{about['tiles']:,}, of {max(rows):,} rows at most; the largest sees {max(seen):,}",
        "target": target,
        "inputs": ", ".join(about["feature_names_in"]),
        **{extra: column for extra, column in about["notes"].items() if extra != "target"},
        "likelihood": describe_config(about["likelihood"]),
        "kernel": describe_config(about["kernel"]),
        "nugget": number(about["nugget"]),
        "mean": describe_coefficients(about["coefficients"]) or "zero",
        "learned": f"yes, from {about['learned_from']:,} rows" if about["learned"] else "no",
        "ELBO": f"{about['elbo']:,.2f} ({about['elbo'] / about['n_rows']:.4f} per row)",
        "tiles agree": ("" if certificate["certified"] else "NOT QUITE: ") + agreed,
        "saved by": f"npvi {about['npvi']}, {about['bytes'] / 1e6:,.1f} MB",
    }
