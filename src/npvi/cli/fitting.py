"""What npvi fit does once the table is read: search, fit, keep what was reached, and say how it went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from npvi.cli import settings
from npvi.cli.display import (
    describe_companion,
    describe_config,
    describe_noise,
    number,
    results,
    say,
    show_pairs,
    watching,
)
from npvi.cli.errors import INTERRUPTED
from npvi.cli.fit_table import Rows

__all__ = ["run", "save_model", "summarise"]


def run(
    model: Any, rows: Rows, tries: dict[str, list[float]], validation: float, save: Path | None, notes: dict[str, Any]
) -> Any:
    try:
        with watching(getattr(model, "model", model).tol):
            extras = {"sample_weight": rows.weight, **rows.extras}
            if tries:
                from npvi.selection import grid_search

                found = grid_search(model, rows.X, rows.y, tries, validation=validation, **extras)
                _show_grid(found, tries)
                model.set_params(**found.best_params)
            # after a search once more, with the best values: the rows that were held out belong to the data too
            return model.fit(rows.X, rows.y, **extras)
    except KeyboardInterrupt:
        _keep_last_state(model, save, notes)
        raise typer.Exit(INTERRUPTED) from None


def _keep_last_state(model: Any, save: Path | None, notes: dict[str, Any]) -> None:
    if not (hasattr(model, "posterior_") or hasattr(model, "model_")):
        say("npvi fit: interrupted before there was a result", style="bold red")
        return
    if hasattr(model, "model_"):
        reached = f"interrupted after {len(model.rounds_) - 1} rounds of learning the noise"
    else:
        reached = f"interrupted after {model.fit_info_['n_iter']} iterations, before the fit converged"
    if save is None:
        say(f"npvi fit: {reached}; with --save the state reached would have been kept", style="bold red")
        return
    save_model(model, save, notes)
    say(f"npvi fit: {reached}; the last good state is in {save}", style="bold red")


def save_model(model: Any, path: Path, notes: dict[str, Any]) -> None:
    from npvi.io import save

    save(model, path, notes)


def _show_grid(found: Any, tries: dict[str, list[float]]) -> None:
    from rich.table import Table as RichTable

    caption = "nlpd: minus the log density of the rows held out, per row; lower is better"
    shown = RichTable(title="Values tried", title_justify="left", title_style="bold", caption=caption)
    names = {long: short for short, long in settings.GRID_NAMES.items()}
    for column in found.table.columns:
        shown.add_column(names.get(str(column), str(column)).replace("_", " "), justify="right")
    shown.add_column()
    best = int(found.table["nlpd"].to_numpy().argmin())
    for place, row in enumerate(found.table.itertuples(index=False)):
        texts = [
            number(round(value, 2), 5) if name == "seconds" else number(value, 5)
            for name, value in row._asdict().items()
        ]
        shown.add_row(*texts, "← best" if place == best else "", style="bold green" if place == best else "")
    results().print(shown)
    for name, values in tries.items():
        edge = {min(values): "smallest", max(values): "largest"}.get(found.best_params[name])
        if edge and len(values) > 1:
            say(
                f"note: the best {names[name].replace('_', ' ')} is the {edge} that was tried; try further",
                style="yellow",
            )


def summarise(model: Any, rows: Rows, target: str, exposure: str | None, save: Path | None) -> None:
    from npvi.config import to_config

    rounds, noise = getattr(model, "rounds_", None), getattr(model, "noise_model_", None)
    model = getattr(model, "model_", model)
    info, n = model.fit_info_, len(rows.y)
    part = model.linear_part_
    columns = list(rows.X.columns)
    pairs = {
        "rows": f"{n:,}",
        "target": target + (f", per unit of {exposure}" if exposure else ""),
        "inputs": ", ".join(columns[j] for j in part.coords),
        "likelihood": describe_config(to_config(model.likelihood_)),
        "kernel": describe_config(to_config(model.kernel_)),
        "nugget": number(model.nugget_),
    }
    if rounds is not None:
        pairs["noise"] = describe_noise(rounds, None if noise is None else to_config(noise.kernel_))
    if noise is not None:
        pairs["likelihood"] = type(model.likelihood_).__name__
    if model.companion_ is not None:
        second = {"kernel": to_config(model.companion_.kernel_)}
        pairs |= describe_companion({"weight": model.companion_weight_, "model": second})
    if model.hyper_ is not None:
        pairs["mixed over"] = f"{len(model.fitted_.shares())} models, for what isn't known of these numbers"
    if hasattr(model, "classes_"):
        pairs["labels"] = ", ".join(str(label) for label in model.classes_)
    for name, (value, error) in model._coefficients().items():
        constant, effect = "constant mean" if len(part.names) == 1 else "constant", f"effect of {name}"
        label = name.replace("constant", constant, 1) if name.partition("[")[0] == "constant" else effect
        pairs[label] = f"{number(value)} ± {number(error, 2)}"
    if model.prior == "nngp":
        pairs["neighbours"] = number(model.prior_.graph.n_neighbors)
    else:
        pairs["inducing points"] = f"{len(model.structure_.points):,} ({model.prior})"
    pairs["posterior"] = _METHODS[model.method]
    learning = info.get("learning")
    pairs["numbers"] = f"learned, {learning['evaluations']} evaluations" if learning else "as given, not learned"
    pairs["ELBO"] = f"{model.elbo_:,.2f} ({model.elbo_ / model.graph_.n_points:.4f} per row)"
    longer = "--epochs" if info.get("optimizer") == "sgd" else "--max-iter"
    if "applicability" in info:
        found = info["applicability"]
        pairs["network"] = (
            f"{found['verdict']}: beside method full, means up to {found['mean_offset']:.2g} sd off, sd "
            f"{found['smallest_sd_ratio']:.2f} to {found['largest_sd_ratio']:.2f} times"
        )
    else:
        pairs["converged"] = "yes" if info["converged"] else f"NO: the result is not the optimum yet; raise {longer}"
    pairs["iterations"] = str(info["n_iter"])
    pairs["residuals"] = f"mean {info['mean_residual'][-1]:.1e}, covariance {info['covariance_residual'][-1]:.1e}"
    laps = info["seconds"]
    pairs["seconds"] = f"{sum(laps.values()):.1f} (" + ", ".join(f"{k} {v:.1f}" for k, v in laps.items()) + ")"
    pairs["saved to"] = str(save) if save is not None else "nowhere; keep it with --save model.npvi"
    show_pairs("Fitted", pairs)
    _warn_about_bounds(info)


_METHODS = {
    "full": "full, the best Gaussian",
    "npvi": "npvi, whose variances are too small where single rows say little",
    "npvi-nn": "npvi-nn, npvi's as a network recognises it",
}


def _warn_about_bounds(info: dict[str, Any]) -> None:
    from npvi.diagnostics.advice import about_bounds

    sentence = about_bounds(info)
    if sentence:
        say(
            f"note: {sentence}: learning would have gone further, so the data say little about it there",
            style="yellow",
        )
