"""What a model is before it has seen data: everything that was said about it, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from npvi.checks import POSITIVE, SCALE, check_choice, check_count, check_flag, check_jobs, check_number
from npvi.graph import ORDERS, RULES
from npvi.inference import FAMILIES, Data
from npvi.inference.stochastic import SGD
from npvi.kernels import Kernel, as_kernel
from npvi.learning import unwrapped
from npvi.likelihoods import Likelihood, Softmax
from npvi.model.linear_part import columns_of
from npvi.parameters import Parameter, check_nugget, inside
from npvi.priors import LOW_RANK
from npvi.priors.low_rank import WAYS

__all__ = ["Spec", "check_settings", "plain_parts", "spec_of"]

_CHOICES = {
    "mean": ("zero", "constant", "linear"),
    "method": tuple(FAMILIES),
    "prior": ("nngp", *LOW_RANK),
    "learn": (True, False, "grid"),
    "hyperprior": ("weak", None),
    "hyper": ("auto", "plug-in", "integrate"),
}
#: of several labels: all of them are certain long before, and the iteration has no end
_LARGEST_NUGGET = 1000.0
#: neighbours, unless they are given; twice as many up to so many rows with more inputs than these
_NEIGHBORS, _ROWS, _INPUTS = 20, 10_000, 3


@dataclass(frozen=True, eq=False)
class Spec:
    """Everything that defines a model and how its posterior is found; learning and the last fit have it from here.

    `spec_of` makes one from settings and checks them; here they are trusted. What isn't described is as in
    `npvi.GPRegressor`.

    Attributes
    ----------
    kernel, likelihood, nugget : with plain numbers inside; no nugget where none was given.
    said : what the user said about numbers, by full name.
    named : those of "kernel" and "likelihood" that were only named: learning starts them from the data.
    coords : columns of X that the process sees.
    names : of the columns of X, if they have any.
    learn : whether numbers are learned.
    seed : for all that is random.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Poisson
    >>> [Spec(RBF(), Poisson(), np.arange(inputs)).neighbors(500, inputs) for inputs in (2, 8)]
    [20, 40]
    """

    kernel: Kernel
    likelihood: Likelihood
    coords: NDArray[np.int64]
    nugget: float | None = None
    said: Mapping[str, Parameter] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    names: tuple[str, ...] | None = None
    mean: str = "constant"
    method: str = "full"
    prior: str = "nngp"
    optimizer: str | SGD = "closed"
    n_neighbors: int | str = "auto"
    rule: Literal["paper", "nearest"] = "nearest"
    order: Any = "maximin"
    inducing: Any = "kmeans"
    n_inducing: int = 200
    network: Any = "sites"
    solve: str = "cg"
    refine: int = 0
    learn: bool = True
    coefficient_scale: Any = "weak"
    hyperprior: str | None = "weak"
    hyper: str = "auto"
    tol: float = 1e-7
    max_iter: int = 200
    seed: int = 0

    def data(self, y: Any, row: Mapping[str, Any], weight: NDArray[np.float64] | None = None) -> Data:
        """Responses and what there is per row, checked by the likelihood."""
        y = self.likelihood.check_response(y)
        return Data(self.likelihood, y, self.likelihood.check_row(dict(row), len(y), y), weight)

    def neighbors(self, rows: int, inputs: int) -> int:
        """K for so many rows and inputs of the process."""
        if not self._automatic:
            return int(self.n_neighbors)
        few = rows <= _ROWS and inputs > _INPUTS and self.method == "full"  # others have what the paper has
        return 2 * _NEIGHBORS if few else _NEIGHBORS

    def fewest_neighbors(self, rows: int, inputs: int) -> int:
        """Fewer than these, and a model can't grow: all of its points are neighbours, and new ones have too few."""
        neighbors = self.neighbors(rows, inputs)
        return min(neighbors, _NEIGHBORS) if self._automatic else neighbors

    @property
    def _automatic(self) -> bool:
        return isinstance(self.n_neighbors, str)


def spec_of(
    settings: Mapping[str, Any],
    likelihood: Likelihood,
    n_columns: int,
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> Spec:
    """The model that an estimator's settings describe, for inputs of so many columns.

    Raises
    ------
    ValueError
        Where a setting is not allowed, or two don't go together.

    Examples
    --------
    >>> import npvi
    >>> model = npvi.GPRegressor(kernel="rbf", nugget=npvi.fixed(0.1), coords=["north"])
    >>> spec = spec_of(model.get_params(deep=False), npvi.likelihoods.Poisson(), 2, ["height", "north"])
    >>> spec.coords.tolist(), spec.nugget, spec.said["nugget"].fixed
    ([1], 0.1, True)
    """
    check_settings(settings)
    coords = columns_of(settings["coords"], names, n_columns)
    inputs = None if names is None else [str(names[column]) for column in coords]
    kernel, plain, nugget, said = plain_parts(settings["kernel"], likelihood, settings["nugget"], len(coords), inputs)
    if settings["hyper"] == "integrate" and isinstance(plain, Softmax):
        raise ValueError("hyper='integrate' doesn't go with three or more labels: use hyper='plug-in', or 'auto'")
    if isinstance(plain, Softmax) and nugget is not None and nugget > _LARGEST_NUGGET:
        raise ValueError(
            f"nugget must be at most {_LARGEST_NUGGET:g} with three or more labels, whose f are logarithms of odds; "
            f"got {nugget:g}"
        )
    found: dict[str, Any] = {one.name: settings[one.name] for one in fields(Spec) if one.name in settings}
    found |= {"kernel": kernel, "likelihood": plain, "nugget": nugget, "said": said, "coords": coords, "seed": seed}
    found["named"] = frozenset(name for name in ("kernel", "likelihood") if isinstance(settings[name], str))
    found["names"] = None if names is None else tuple(str(name) for name in names)
    return Spec(**found)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ValueError where a parameter of an estimator's constructor is not allowed.

    >>> import npvi
    >>> check_settings(npvi.GPRegressor(n_neighbors=0).get_params(deep=False))
    Traceback (most recent call last):
    ValueError: n_neighbors must be a whole number of at least 1, got 0
    """
    for name, choices in _CHOICES.items():
        check_choice(settings[name], name, choices)
    if settings["nugget"] is not None:
        check_nugget(settings["nugget"])
    scale = settings["coefficient_scale"]
    named = scale is None or (isinstance(scale, str) and scale == "weak")
    if not named:
        check_number(scale, "coefficient_scale", SCALE, "'weak', a number from 1e-50 to 1e50, or None for a flat prior")
    check_number(settings["tol"], "tol", POSITIVE)
    check_jobs(settings["n_jobs"])
    check_flag(settings["verbose"], "verbose")
    if settings["method"] == "npvi-nn":
        if settings["hyper"] == "integrate":
            raise ValueError("hyper='integrate' doesn't go with method='npvi-nn': use hyper='plug-in', or 'auto'")
        if settings["prior"] in LOW_RANK:
            raise ValueError(
                f"prior={settings['prior']!r} goes with method='full' or 'npvi'; 'npvi-nn' needs prior='nngp'"
            )
        from npvi.amortized.inference import check_network  # rarely needed

        check_network(settings["network"], settings["solve"], settings["refine"])
    _check_optimizer(settings["optimizer"], settings["method"])
    check_choice(settings["rule"], "rule", RULES)
    if isinstance(settings["order"], str):
        check_choice(settings["order"], "order", ORDERS, ", or an array with the row at each position")
    if isinstance(settings["inducing"], str):
        check_choice(settings["inducing"], "inducing", WAYS, ", or an array with a row per inducing point")
    for name in ("n_neighbors", "n_inducing", "max_iter"):
        value = settings[name]
        if not (name == "n_neighbors" and isinstance(value, str) and value == "auto"):
            check_count(value, name)


def _check_optimizer(optimizer: Any, method: str) -> None:
    if isinstance(optimizer, SGD):
        optimizer.validate()
    else:
        check_choice(optimizer, "optimizer", ("closed", "sgd"), ", or an npvi.SGD")
    if optimizer != "closed" and method != "npvi":
        raise ValueError(f"optimizer={optimizer!r} goes with method='npvi'; got method={method!r}")


def plain_parts(
    kernel: Any, likelihood: Likelihood, nugget: Any, n_inputs: int, names: Sequence[str] | None = None
) -> tuple[Kernel, Likelihood, float | None, dict[str, Parameter]]:
    """Kernel, likelihood and nugget with plain numbers inside, and what the user said about those, by full name.

    `names` are those of the kernel's inputs, by which it may call them.

    Raises
    ------
    ValueError
        Where a number is not allowed, or there are too many of them for so many inputs.

    Examples
    --------
    >>> from npvi.likelihoods import Poisson
    >>> from npvi.parameters import fixed
    >>> kernel, likelihood, nugget, said = plain_parts("rbf", Poisson(), fixed(0.1), n_inputs=2)
    >>> nugget, said["nugget"].fixed
    (0.1, True)
    """
    plain_kernel, said = unwrapped(as_kernel(kernel).with_numbered_columns(names), "kernel")
    plain_likelihood, more = unwrapped(likelihood, "likelihood")
    plain_kernel.validate(n_inputs)
    plain_likelihood.validate()
    said = {**said, **more}
    if isinstance(nugget, Parameter):
        said["nugget"], nugget = nugget, inside(nugget)
    return plain_kernel, plain_likelihood, None if nugget is None else float(nugget), said
