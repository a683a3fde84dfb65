"""The parts of a model from what was given, and from the data where nothing was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.cli.display import number
from npvi.cli.errors import InputError, unknown_name

__all__ = ["Given", "Parts", "check_given", "given_parts", "make_likelihood", "make_parts"]

#: the latent surface of these is in the units of the target, of those in its logarithm's
_IN_UNITS = ("gaussian", "censored_gaussian", "student_t", "laplace")
_IN_LOGARITHMS = ("lognormal", "censored_lognormal")


@dataclass
class Given:
    """What the user said about the numbers of the model."""

    length_scale: list[float] | None = None
    variance: float | None = None
    noise: float | None = None
    nugget: float | None = None
    fixed: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class Parts:
    """What a model is made of."""

    kernel: Any
    likelihood: Any
    nugget: Any
    length_scale: float | None = None
    """The one that was taken from the data, where one was."""
    chosen: list[str] = field(default_factory=list)
    """What was taken from the data, in words."""


def make_parts(
    given: Given,
    kernel: str,
    likelihood: Any,
    name: str,
    X: NDArray[np.float64],
    y: NDArray,
    row: dict[str, NDArray],
    learn: bool,
    choose_link: bool = False,
) -> Parts:
    """The parts of the model: given numbers, and for the rest the data's own scales.

    Parameters
    ----------
    kernel : its name.
    likelihood, name : the object, with the numbers that were given, and its name.
    X, y, row : what the process sees, the target, and the data per row.
    learn : whether these numbers are only a start.
    choose_link : whether the data say which link, if nothing else was said of the likelihood of counts.
    """
    from npvi.likelihoods.families.rates import Rates

    kernel_values, likelihood_values, nugget = _sorted_out(given, kernel, likelihood)
    parts = Parts(None, likelihood, nugget)
    if learn and not kernel_values:
        parts.kernel = kernel  # a name: learning finds its own start
    else:
        _complete_kernel(parts, kernel_values, kernel, name, X, y)
        parts.kernel = _kernel_class(kernel)(**kernel_values)
    found = {key: _plain(value) for key, value in likelihood.initial_parameters(y, **row).items()}
    if not learn and name in _IN_UNITS + _IN_LOGARITHMS and "variance" in found:
        found["variance"] = _rounded(0.1 * _spread(name, y)[0])
    found = {key: value for key, value in found.items() if key not in likelihood_values}
    parts.chosen += [_in_words(key, value, name) for key, value in found.items()]
    parts.likelihood = likelihood.replace(**found, **likelihood_values)
    if learn and choose_link and not likelihood_values and isinstance(likelihood, Rates):
        parts.likelihood = name
    if nugget is None and not learn:
        parts.nugget = 1e-4 * _spread(name, y)[0] if name in _IN_UNITS + _IN_LOGARITHMS else 0.01
    return parts


def given_parts(given: Given, kernel: str, likelihood: Any, name: str, learn: bool, choose_link: bool) -> Parts:
    """The same without having seen the data, whose own scales are learning's to find.

    Raises
    ------
    InputError
        Where nothing is learned, and numbers are missing.
    """
    from npvi.likelihoods.families.rates import Rates

    kernel_values, likelihood_values, nugget = _sorted_out(given, kernel, likelihood)
    missing = [] if learn else [n for n in ("length_scale", "variance") if n in _kernel_parameters(kernel)]
    missing = [n for n in missing if n not in kernel_values]
    if missing:
        raise InputError(f"with --store and --no-learn give --{missing[0].replace('_', '-')} too")
    parts = Parts(kernel, likelihood, nugget)
    if kernel_values:
        parts.kernel = _kernel_class(kernel)(**kernel_values)
    if likelihood_values:
        parts.likelihood = likelihood.replace(**likelihood_values)
    elif learn and (choose_link or not isinstance(likelihood, Rates)):
        parts.likelihood = name
    return parts


def _kernel_parameters(name: str) -> list[str]:
    """The parameters of a kernel by its name."""
    return _kernel_class(name)._get_param_names()


def make_likelihood(name: str, link: str | None) -> Any:
    """The likelihood object, with its own numbers."""
    from npvi.likelihoods import LIKELIHOODS

    if name not in LIKELIHOODS:
        raise unknown_name("--likelihood cannot be", name, list(LIKELIHOODS))
    cls = LIKELIHOODS[name]
    if link is None:
        return cls()
    if "link" not in cls._get_param_names():
        raise InputError(f"--link does not go with the {name} likelihood")
    if link not in cls.links:
        raise unknown_name(f"--link of the {name} likelihood cannot be", link, list(cls.links))
    return cls(link=link)  # type: ignore[call-arg]


def check_given(given: Given, kernel: str, likelihood: Any) -> None:
    """Raise where a number has no place in the model, before anything is read."""
    _sorted_out(given, kernel, likelihood)


def _kernel_class(name: str) -> Any:
    from npvi.kernels import KERNELS

    if name not in KERNELS:
        raise unknown_name("--kernel cannot be", name, list(KERNELS))
    return KERNELS[name]


def _sorted_out(given: Given, kernel: str, likelihood: Any) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """What was given for the kernel, the likelihood and the nugget; fixed numbers as `npvi.fixed`."""
    from npvi.parameters import fixed

    of_kernel = [name for name in _kernel_parameters(kernel) if name != "smoothness"]
    of_likelihood = [name for name in likelihood._get_param_names() if name not in likelihood.static]
    named = {
        name: value
        for name in ("length_scale", "variance", "noise", "nugget")
        if (value := getattr(given, name)) is not None
    }
    places: dict[str, dict[str, Any]] = {"kernel": {}, "likelihood": {}, "nugget": {}}
    for name, value, wrap in [
        *((name, value, None) for name, value in named.items()),
        *((name, value, fixed) for name, value in given.fixed.items()),
    ]:
        place, key = "kernel", name
        if name == "nugget":
            place = "nugget"
        elif name == "noise" and "variance" in of_likelihood:
            place, key = "likelihood", "variance"
        elif name not in of_kernel and name in of_likelihood:
            place = "likelihood"
        elif name not in of_kernel:
            _refuse(name, wrap is not None, kernel, likelihood, [*of_kernel, "nugget", *of_likelihood])
        if key in places[place]:
            raise InputError(f"--fix {name} and --{name.replace('_', '-')} are both given; one of them will do")
        if isinstance(value, list):
            value = value[0] if len(value) == 1 and key != "cuts" else value
        places[place][key] = value if wrap is None else wrap(value)
    return places["kernel"], places["likelihood"], places["nugget"].get("nugget")


def _refuse(name: str, is_fixed: bool, kernel: str, likelihood: Any, names: list[str]) -> None:
    if is_fixed:
        raise unknown_name("--fix does not know", name, list(dict.fromkeys(names)))
    if name == "length_scale":
        raise InputError(f"the {kernel} kernel has no length scale; leave --length-scale out")
    if name == "noise":
        raise InputError(f"--noise does not go with the {type(likelihood).__name__} likelihood")
    raise InputError(f"--{name} does not go with the {kernel} kernel")


def _complete_kernel(parts: Parts, values: dict[str, Any], kernel: str, name: str, X: NDArray, y: NDArray) -> None:
    """Fill what wasn't given with values of the data's own size; sensible to start from, not the best."""
    known = _kernel_parameters(kernel)
    scale = values.get("length_scale")
    plain = getattr(scale, "value", scale)
    if isinstance(plain, list) and len(plain) != X.shape[1]:
        raise InputError(
            f"length_scale has {len(plain)} numbers for {X.shape[1]} inputs of the process; give one, or one per input"
        )
    if scale is None and "length_scale" in known:
        extent = np.ptp(X, axis=0)
        extent = np.where(extent > 0, extent, extent.max() or 1.0)
        if extent.max() > 10 * extent.min():  # different units: no single number can be right for all
            values["length_scale"] = [_rounded(0.1 * size) for size in extent]
            parts.chosen.append(f"length scales {number(values['length_scale'])} (a tenth of each input's extent)")
        else:
            values["length_scale"] = parts.length_scale = _rounded(0.1 * float(extent.max()))
            parts.chosen.append(f"length scale {number(parts.length_scale)} (a tenth of the inputs' largest extent)")
    if "variance" not in values and "variance" in known:
        spread, of_what = _spread(name, y)
        values["variance"] = spread
        if of_what:
            parts.chosen.append(f"variance {number(spread)} (that of {of_what})")


def _spread(name: str, y: NDArray) -> tuple[float, str]:
    """The variance of f that the target suggests, and whose it is."""
    if name in _IN_LOGARITHMS:
        return _rounded(float(np.var(np.log(y)))) or 1.0, "the logarithm of the target"
    if name in _IN_UNITS:
        return _rounded(float(np.var(y))) or 1.0, "the target"
    return 1.0, ""


def _in_words(key: str, value: Any, name: str) -> str:
    if key == "variance":
        return f"noise variance {number(value)} (a tenth of that of {_spread(name, np.ones(1))[1]})"
    return f"{key.replace('_', ' ')} {number(value)}"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _rounded(value: float) -> float:
    """To three digits: a number that a person can type again."""
    return float(f"{value:.3g}")
