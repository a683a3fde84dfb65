"""From options to a model: parsing, and values taken from the data where none were given."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.cli.display import number
from npvi.cli.errors import InputError, unknown_name

__all__ = [
    "GRID_NAMES",
    "Hyperparameters",
    "check_choices",
    "choose",
    "make_kernel",
    "make_likelihood",
    "parse_grid",
    "parse_numbers",
]

GRID_NAMES = {
    "length_scale": "kernel__length_scale",
    "variance": "kernel__variance",
    "nugget": "nugget",
    "noise_variance": "likelihood__variance",
}
"""What --grid may name, and what the model calls it."""


def parse_numbers(text: str, option: str) -> list[float]:
    """Numbers separated by commas.

    >>> parse_numbers("0.5,1", "--length-scale")
    [0.5, 1.0]
    """
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} must be numbers separated by commas, such as 0.5,1.0; got {text!r}") from None
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
        name, equals, values = option.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not values.strip():
            raise InputError(f"--grid must look like length_scale=0.05,0.1,0.5; got {option!r}")
        if name not in GRID_NAMES:
            raise unknown_name("--grid cannot vary", name, list(GRID_NAMES))
        grid[GRID_NAMES[name]] = parse_numbers(values, f"--grid {name}")
    return grid


@dataclass
class Hyperparameters:
    """The numbers of the model; None where neither the user nor the data said anything."""

    length_scale: float | list[float] | None = None
    variance: float | None = None
    noise_variance: float | None = None
    nugget: float | None = None
    chosen: list[str] = field(default_factory=list)
    """What was taken from the data, in words."""


def choose(given: Hyperparameters, kernel: str, likelihood: str, X: NDArray[np.float64], y: NDArray) -> Hyperparameters:
    """Fill what wasn't given with values of the data's own size; sensible to start from, not the best."""
    values = Hyperparameters(given.length_scale, given.variance, given.noise_variance, given.nugget)
    if values.length_scale is None and "length_scale" in kernel_parameters(kernel):
        extent = np.ptp(X, axis=0)
        extent = np.where(extent > 0, extent, extent.max() or 1.0)
        if extent.max() > 10 * extent.min():  # different units: no single number can be right for all
            values.length_scale = [_rounded(0.1 * size) for size in extent]
            values.chosen.append(f"length scales {number(values.length_scale)} (a tenth of each input's extent)")
        else:
            values.length_scale = _rounded(0.1 * float(extent.max()))
            values.chosen.append(f"length scale {number(values.length_scale)} (a tenth of the inputs' largest extent)")
    if likelihood in ("gaussian", "lognormal"):
        spread = _rounded(float(np.var(np.log(y) if likelihood == "lognormal" else y))) or 1.0
        of_what = "the logarithm of the target" if likelihood == "lognormal" else "the target"
        if values.variance is None:
            values.variance = spread
            values.chosen.append(f"variance {number(spread)} (that of {of_what})")
        if values.noise_variance is None:
            values.noise_variance = _rounded(0.1 * spread)
            values.chosen.append(f"noise variance {number(values.noise_variance)} (a tenth of that of {of_what})")
        if values.nugget is None:
            values.nugget = 1e-4 * values.variance
    values.variance = 1.0 if values.variance is None else values.variance
    values.nugget = 0.01 if values.nugget is None else values.nugget
    return values


def kernel_parameters(name: str) -> list[str]:
    """The parameters of a kernel by its name."""
    from npvi.kernels.registry import KERNELS

    if name not in KERNELS:
        raise unknown_name("--kernel cannot be", name, list(KERNELS))
    return KERNELS[name]._get_param_names()


def check_choices(options: dict[str, str]) -> None:
    """Raise where a word is not one of those allowed, before anything is read."""
    for option, value in options.items():
        if value not in _CHOICES[option]:
            raise unknown_name(f"{option} cannot be", value, _CHOICES[option])


_CHOICES = {
    "--mean": ["constant", "zero"],
    "--rule": ["nearest", "paper"],
    "--order": ["maximin", "grid", "random", "given"],
}


def make_kernel(name: str, values: Hyperparameters, n_inputs: int) -> Any:
    """The kernel object."""
    from npvi.kernels.registry import KERNELS

    parameters = {"variance": values.variance}
    if "length_scale" in kernel_parameters(name):
        scale = values.length_scale
        if isinstance(scale, list) and len(scale) not in (1, n_inputs):
            raise InputError(
                f"--length-scale has {len(scale)} numbers for {n_inputs} inputs; give one, or one per input"
            )
        parameters["length_scale"] = scale[0] if isinstance(scale, list) and len(scale) == 1 else scale  # type: ignore
    elif values.length_scale is not None:
        raise InputError(f"the {name} kernel has no length scale; leave --length-scale out")
    return KERNELS[name](**parameters)


def make_likelihood(name: str, link: str | None, noise_variance: float | None) -> Any:
    """The likelihood object."""
    from npvi.likelihoods.registry import LIKELIHOODS

    if name not in LIKELIHOODS:
        raise unknown_name("--likelihood cannot be", name, list(LIKELIHOODS))
    cls = LIKELIHOODS[name]
    allowed = cls._get_param_names()
    parameters: dict[str, Any] = {"link": link, "variance": noise_variance}
    for parameter, option in (("link", "--link"), ("variance", "--noise-variance")):
        if parameters[parameter] is not None and parameter not in allowed:
            raise InputError(f"{option} does not go with the {name} likelihood")
    if link is not None and link not in cls.links:
        raise unknown_name(f"--link of the {name} likelihood cannot be", link, list(cls.links))
    return cls(**{key: value for key, value in parameters.items() if value is not None})


def _rounded(value: float) -> float:
    """To three digits: a number that a person can type again."""
    return float(f"{value:.3g}")
