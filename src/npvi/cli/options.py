"""Options that several commands share: columns with data of each row besides the target and the inputs."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["EXTRAS", "Censored", "Exposure", "NoiseVariance", "Trials", "option_of"]

_PANEL = "More columns"

Exposure = Annotated[
    str | None,
    typer.Option("--exposure", metavar="COLUMN", help="Effort behind counts: hours, area.", rich_help_panel=_PANEL),
]
Trials = Annotated[
    str | None,
    typer.Option("--trials", metavar="COLUMN", help="Of how many the target succeeded.", rich_help_panel=_PANEL),
]
NoiseVariance = Annotated[
    str | None,
    typer.Option(
        "--noise-variance",
        metavar="COLUMN",
        help="Known variance of each measurement (gaussian).",
        rich_help_panel=_PANEL,
    ),
]
Censored = Annotated[
    str | None,
    typer.Option(
        "--censored",
        metavar="COLUMN",
        help="1 where the true value is larger than the target, -1 where it is smaller, 0 where it was seen.",
        rich_help_panel=_PANEL,
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
