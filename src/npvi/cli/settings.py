"""From options to settings: numbers and grids out of text, and the words that are allowed."""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path
from typing import Any

from npvi.cli.errors import InputError, unknown_name
from npvi.runtime.catalogue import read_names

__all__ = [
    "GRID_NAMES",
    "check_choices",
    "check_varying_noise",
    "kernel_names",
    "likelihood_names",
    "make_network",
    "make_optimizer",
    "parse_coefficient_scale",
    "parse_fixed",
    "parse_grid",
    "parse_numbers",
]

GRID_NAMES = {
    "length_scale": "kernel__length_scale",
    "variance": "kernel__variance",
    "nugget": "nugget",
    "noise": "likelihood__variance",
}
"""What --grid may name, and what the model calls it."""

_ROOT = Path(__file__).parents[1]

_CHOICES = {
    "--mean": ["constant", "zero", "linear"],
    "--method": ["full", "npvi", "npvi-nn"],
    "--optimizer": ["closed", "sgd", "adam"],
    "--prior": ["nngp", "fitc", "nystrom"],
    "--rule": ["nearest", "paper"],
    "--order": ["maximin", "grid", "nested", "random", "given"],
}


def likelihood_names() -> str:
    """The names of likelihoods and what they are for, read off their files: help must not wait for the library.

    >>> likelihood_names()[:49]
    'Counts: negative_binomial, poisson. Counts with m'
    """
    names = read_names(_ROOT / "likelihoods" / "families")
    about = [*((what, name) for name, what in names.items()), ("labels", "softmax (or --classify)")]
    groups = groupby(sorted(about), key=lambda pair: pair[0])
    return " ".join(f"{what[:1].upper()}{what[1:]}: {', '.join(name for _, name in group)}." for what, group in groups)


def kernel_names() -> str:
    """The same of kernels.

    >>> kernel_names()[:46]
    'constant (one level), linear (straight), mater'
    """
    return ", ".join(f"{name} ({about})" for name, about in read_names(_ROOT / "kernels" / "families").items()) + "."


def parse_numbers(text: str, option: str) -> list[float]:
    """Numbers separated by commas.

    >>> parse_numbers("0.5,1", "--length-scale")
    [0.5, 1.0]
    """
    values = _floats(text, option)
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise InputError(f"{option} must be positive numbers, got {text!r}")
    return values


def parse_grid(options: list[str]) -> dict[str, list[float]]:
    """``["length_scale=0.1,0.5", …]`` as the grid of `npvi.grid_search`.

    >>> parse_grid(["length_scale=0.1,0.5", "nugget=0.01"])
    {'kernel__length_scale': [0.1, 0.5], 'nugget': [0.01]}
    """
    grid = {}
    for option in options:
        name, values = _name_and_values(option, "--grid", "length_scale=0.05,0.1,0.5")
        if name not in GRID_NAMES:
            raise unknown_name("--grid cannot vary", name, list(GRID_NAMES))
        grid[GRID_NAMES[name]] = parse_numbers(values, f"--grid {name}")
    return grid


def parse_coefficient_scale(text: str) -> float | str | None:
    """A positive number, "weak", or None for a flat prior.

    >>> parse_coefficient_scale("flat"), parse_coefficient_scale("2.5")
    (None, 2.5)
    """
    if text in ("weak", "flat"):
        return "weak" if text == "weak" else None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise InputError(f"--coefficient-scale must be a positive number, weak or flat; got {text!r}")
    return number


def parse_fixed(options: list[str]) -> dict[str, list[float]]:
    """``["length_scale=0.5", …]`` as names and numbers.

    >>> parse_fixed(["length-scale=0.5,2", "nugget=0"])
    {'length_scale': [0.5, 2.0], 'nugget': [0.0]}
    """
    named = (_name_and_values(option, "--fix", "length_scale=0.5") for option in options)
    return {name: _floats(values, f"--fix {name}") for name, values in named}


def _name_and_values(option: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, values = option.partition("=")
    if not equals or not values.strip():
        raise InputError(f"{flag} must look like {example}; got {option!r}")
    return name.strip().replace("-", "_"), values


def _floats(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} must be numbers separated by commas, such as 0.5,1.0; got {text!r}") from None


def check_choices(options: dict[str, str]) -> None:
    """Raise where a word is not one of those allowed, before anything is read."""
    for option, value in options.items():
        if value not in _CHOICES[option]:
            raise unknown_name(f"{option} cannot be", value, _CHOICES[option])


def check_varying_noise(wanted: bool, likelihood: str, learn: bool, noise_variance: str | None) -> None:
    """Raise where noise can't be learned from place to place."""
    if not wanted:
        return
    if likelihood not in ("gaussian", "lognormal"):
        raise InputError(f"--varying-noise goes with --likelihood gaussian or lognormal, not {likelihood}")
    if not learn:
        raise InputError("--varying-noise learns how large the noise is: leave --no-learn and --grid out")
    if noise_variance is not None:
        raise InputError("--varying-noise learns how large the noise is: leave --noise-variance out")


def make_network(name: str, refine: int, method: str) -> Any:
    """What the estimators call `network`: a name, or the recognizer in a file.

    >>> make_network("pretrained", 0, "npvi-nn")
    'pretrained'
    """
    if method != "npvi-nn":
        if name != "sites" or refine:
            raise InputError(f"--network and --refine go with --method npvi-nn, not {method}")
        return name
    if name in ("sites", "pretrained", "gcn"):
        return name
    from npvi.amortized import Recognizer, RecognizerError  # rarely needed

    try:
        return Recognizer.load(name)
    except RecognizerError as error:
        raise InputError(f"--network must be sites, pretrained, gcn or a file with a recognizer: {error}") from error


def make_optimizer(name: str, method: str, epochs: int | None, checkpoint: Path | None) -> Any:
    """What the estimators call `optimizer`.

    >>> make_optimizer("closed", "full", None, None)
    'closed'
    """
    if name == "closed":
        if epochs is not None or checkpoint is not None:
            raise InputError("--epochs and --checkpoint go with --optimizer sgd or adam")
        return name
    if method != "npvi":
        raise InputError(f"--optimizer {name} goes with --method npvi, not {method}")
    from npvi.inference.stochastic import SGD

    settings = SGD("adagrad" if name == "sgd" else name, checkpoint=checkpoint)
    return settings if epochs is None else settings.replace(epochs=epochs)
