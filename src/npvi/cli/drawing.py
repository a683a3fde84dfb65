"""Pictures that commands write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npvi.cli.display import say, watching
from npvi.cli.errors import InputError
from npvi.cli.tables import check_output

__all__ = ["check_picture", "draw_model"]

_FORMATS = ("png", "pdf", "svg")


def check_picture(path: Path, inputs: Sequence[Path]) -> str:
    """The kind of picture that --plot asks for, which can be written and is none of the command's own files."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _FORMATS:
        raise InputError(f"--plot must end in .png, .pdf or .svg, got {path}")
    check_output(path, table=False, inputs=list(inputs))
    return kind


def draw_model(model: Any, path: Path, target: str) -> None:
    """A map of the means with the observations; where inputs are no places, how well each row is predicted from the
    others."""
    from npvi.runtime.files import replacing

    kind = path.suffix.lower().removeprefix(".")
    with watching():
        figure = _map(model, target)
        if figure is None:
            from npvi.diagnostics import diagnose

            figure = diagnose(model).plot()
    with replacing(path) as file:
        figure.savefig(file, format=kind, dpi=150)
    say(f"picture: {path}")


def _map(model: Any, target: str) -> Any:
    """A figure, or None where inputs are no places."""
    from matplotlib.figure import Figure

    from npvi.maps import inputs_of, training_inputs, with_medians
    from npvi.maps.drawing import verbatim
    from npvi.plot import figure_size
    from npvi.plot import map as plot_map

    try:
        places = inputs_of(model)
    except ValueError:
        return None
    covariates, said = with_medians(model, places, None)
    found = model.predict_grid(covariates=covariates)
    figure = Figure(figsize=figure_size(found), layout="compressed")  # of no window
    show = "label" if "label" in found and "mean" not in found else None
    title = f"{target}: {show or 'mean'} and observations"
    seen = training_inputs(model)[:, list(places.places)]
    plot_map(found, show, seen, ax=figure.add_subplot(), title=verbatim(title))
    if said:
        figure.supxlabel(said, fontsize="small")
    return figure
