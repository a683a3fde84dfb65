"""npvi info."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from npvi.cli.display import (
    describe_coefficients,
    describe_companion,
    describe_config,
    describe_noise,
    number,
    show_json,
    show_pairs,
)
from npvi.cli.errors import InputError, guarded
from npvi.cli.options import EXTRAS
from npvi.cli.tiles import show_store

__all__ = ["info"]


def info(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="Model saved by npvi fit or model.save, or the folder of one in tiles."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print all that is known as JSON.")] = False,
) -> None:
    """Show what is in a model file, after checking that it is whole.

    \b
    [bold]Examples[/bold]
    npvi info birds.npvi
    npvi info birds.npvi --json
    """
    with guarded("info"):
        if model.is_dir() and not as_json:
            show_store(model)
            return
        from npvi.io import describe

        about = describe(model)
        if as_json:
            show_json(about)
            return
        try:
            pairs = (_of_terms if "summed" in about else _of_model)(about, model)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"{model} cannot be shown: it says of its model what no npvi writes ({type(error).__name__}: {error}); "
                "--json prints it as it is"
            ) from error
        show_pairs(str(model), pairs)


def _of_model(about: dict[str, Any], path: Path) -> dict[str, str]:
    """What there is to say of a model, or of a pipeline that ends with one."""
    fitted, names = about["fit_info"], about["feature_names_in"]
    pairs = {
        "estimator": about["estimator"],
        **_steps(about.get("pipeline")),
        "rows": f"{about['n_rows']:,}",
        "target": str(about["notes"].get("target") or "not recorded"),
        "inputs": ", ".join(names) if names else f"{about['n_features_in']}, without names",
        "likelihood": describe_config(about["likelihood"]) if _one_variance(about) else about["likelihood"]["type"],
        "kernel": describe_config(about["kernel"]),
        **describe_companion(about.get("companion")),
        **_noise(about.get("noise")),
        "nugget": number(about["nugget"]),
        "mean": _mean(about),
        "learned": _learned(about),
        "method": str(about["parameters"]["method"]),
        "neighbours": f"{about['parameters']['n_neighbors']}, {about['parameters']['rule']}",
        "ELBO": f"{about['elbo']:,.2f} ({about['elbo'] / about['n_rows']:.4f} per row)",
        "converged": f"{'yes' if fitted['converged'] else 'NO'}, after {fitted['n_iter']} iterations",
        "saved by": f"npvi {about['npvi']}, {path.stat().st_size / 1e6:,.1f} MB",
    }
    if about.get("labels"):
        pairs["labels"] = ", ".join(about["labels"])
    return pairs | _noted(about["notes"])


def _of_terms(about: dict[str, Any], path: Path) -> dict[str, str]:
    """What there is to say of a model that is a sum of parts."""
    summed, notes, fitted = about["summed"], about["notes"], about["fit_info"]
    numbers = {
        name.replace("__", " "): ", ".join(number(one) for one in (value if isinstance(value, list) else [value]))
        for name, value in summed["values"].items()
        if not name.startswith("likelihood__")
    }
    return {
        "estimator": about["estimator"],
        "rows": f"{about['n_rows']:,}",
        "target": str(notes.get("target") or summed["response"] or "not recorded"),
        **({"formula": about["parameters"]["formula"]} if about["parameters"].get("formula") else {}),
        "parts": ", ".join(summed["names"]),
        "inputs": ", ".join(about["feature_names_in"]),
        "likelihood": describe_config(about["likelihood"]),
        **numbers,
        "learned": _learned(about),
        "ELBO": f"{about['elbo']:,.2f} ({about['elbo'] / about['n_rows']:.4f} per row)",
        "converged": f"{'yes' if fitted['converged'] else 'NO'}, after {fitted['n_iter']} iterations",
        "saved by": f"npvi {about['npvi']}, {path.stat().st_size / 1e6:,.1f} MB",
        **_noted(notes),
    }


def _noted(notes: dict[str, Any]) -> dict[str, str]:
    """Which columns and table the rows came from."""
    return {name.replace("_", " "): str(notes[name]) for name in (*EXTRAS, "weight", "table") if notes.get(name)}


def _steps(pipeline: dict[str, Any] | None) -> dict[str, str]:
    """What comes before the model in a pipeline."""
    if pipeline is None:
        return {}
    return {"steps": ", ".join([*(step["type"] for step in pipeline["steps"]), pipeline["estimator"]])}


def _one_variance(about: dict[str, Any]) -> bool:
    """Not so where the noise is a model of its own, and the likelihood's variance next to nothing."""
    return about.get("noise") is None or about["noise"]["model"] is None


def _noise(noise: dict[str, Any] | None) -> dict[str, str]:
    if noise is None:
        return {}
    return {"noise": describe_noise(noise["rounds"], noise["model"] and noise["model"]["kernel"])}


def _mean(about: dict[str, Any]) -> str:
    return describe_coefficients(about["coefficients"]) or "zero"


def _learned(about: dict[str, Any]) -> str:
    learning = about["fit_info"].get("learning")
    return f"yes, in {learning['evaluations']} evaluations" if learning else "no"
