"""Options, and those that several commands share: columns with data of each row besides the target and the inputs."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

__all__ = ["EXTRAS", "Censored", "Exposure", "NoiseVariance", "Trials", "described", "option_of"]


def described(metavar: str | None, text: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """An option with a line of help in one of its panels; named as the argument, unless `names` say otherwise.

    >>> described("COLUMN", "Column to model.", panel="Data").help
    'Column to model.'
    """
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **more)


_column = partial(described, "COLUMN", panel="More columns")

Exposure = Annotated[str | None, _column("Effort behind counts: hours, area.", "--exposure")]
Trials = Annotated[str | None, _column("Of how many the target succeeded.", "--trials")]
NoiseVariance = Annotated[
    str | None, _column("Known variance of each measurement (gaussian; of log y: lognormal).", "--noise-variance")
]
Censored = Annotated[
    str | None,
    _column(
        "1 where the true value is larger than the target, -1 where it is smaller, 0 where it was seen.", "--censored"
    ),
]

EXTRAS = ("exposure", "trials", "noise_variance", "censored")
"""What the library calls them."""


def option_of(extra: str) -> str:
    """
    >>> option_of("noise_variance")
    '--noise-variance'
    """
    return f"--{extra.replace('_', '-')}"
