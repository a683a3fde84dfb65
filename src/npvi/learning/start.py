"""Where learning starts: from the data, so that units don't matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.kernels import Kernel
from npvi.learning.objective import Model, with_values
from npvi.likelihoods import BINARY, Gaussian, Likelihood, LogNormal, Softmax, hardly_varies
from npvi.parameters import Parameter, PenalisedComplexity

__all__ = [
    "identifies_nugget",
    "in_units_of_data",
    "limits",
    "limits_of_noise",
    "starting_model",
    "weak_priors",
    "wider",
]

Vector = NDArray[np.float64]

#: variance of f beyond which a yes or no is certain nearly everywhere
_DECIDED = 50.0
#: the standard deviation of a nugget, in units of f, at which its prior is highest
_FRESH = 1.0 / 3.0


def starting_model(
    kernel: Kernel,
    named: bool,
    nugget: float | None,
    likelihood: Likelihood,
    X: NDArray,
    y: Vector,
    row: dict[str, Any],
) -> Model:
    """The model to start from: what the user gave, and the data's own scales for what was only named.

    Parameters
    ----------
    kernel : plain numbers inside; those of a kernel that was only `named` don't count.
    nugget : None where the user gave none.
    likelihood : what it says about itself by `initial_parameters` counts if `named` does not.
    """
    spread = _spread(likelihood, y, row)
    if named:
        kernel = kernel.replace(**{name: lengths.tolist() for name, lengths in kernel.start(X).items()})
        kernel = kernel.replace(**({kernel.amplitude: _share(likelihood) * spread} if kernel.amplitude else {}))
    if nugget is None:
        # with Gaussian noise the two can't be told apart, and the noise is the one that is learned
        nugget = spread * (1e-6 if isinstance(likelihood, Gaussian | LogNormal) else 0.1)
        if not identifies_nugget(likelihood):
            nugget = 1e-3 * spread
    return Model(kernel, nugget, likelihood)


def in_units_of_data(model: Model, said: Mapping[str, Parameter], X: NDArray, y: Vector, row: dict[str, Any]) -> Model:
    """The same model at the data's own scales: far from them the bound is flat, and nothing would be learned.

    Parts that see the same inputs keep the ratios of their length scales, terms of a sum those of their variances.
    What the user said more of than a number stays as it is.

    >>> from npvi.kernels import RBF
    >>> X, y = np.linspace(0.0, 2e3, 50)[:, None], 1e3 * np.arange(50.0)
    >>> found = in_units_of_data(Model(RBF() + RBF(0.1), 0.0, Gaussian()), {}, X, y, {}).kernel
    >>> bool(found.k1.length_scale > 100.0), round(found.k1.length_scale / found.k2.length_scale, 6)
    (True, 10.0)
    """
    likelihood, kernel = model.likelihood, model.kernel
    own = {k: v for k, v in likelihood.initial_parameters(y, **row).items() if f"likelihood__{k}" not in said}
    likelihood = likelihood.replace(**own)
    parts = list(kernel.parts(X))
    values: dict[str, Any] = {}
    longest: dict[bytes, float] = {}  # relative to what is typical, of the inputs that are seen
    for part in parts:
        for name, typical in part.kernel.start(part.X).items():
            ratio = float(np.max(np.asarray(getattr(part.kernel, name)) / typical))
            longest[part.X.tobytes()] = max(ratio, longest.get(part.X.tobytes(), 0.0))
    for part in parts:
        for name in part.kernel.start(part.X):
            lengths = np.asarray(getattr(part.kernel, name)) / longest[part.X.tobytes()]
            values[f"{part.name}{name}"] = lengths.tolist()
    variances = {
        f"{part.name}{part.kernel.amplitude}": float(getattr(part.kernel, part.kernel.amplitude))
        for part in parts
        if part.kernel.amplitude and not part.factor
    }
    total = sum(variances.values())
    for name, variance in variances.items():
        values[name] = _share(likelihood) * _spread(likelihood, y, row) * variance / total
    values = {name: value for name, value in values.items() if f"kernel__{name}" not in said}
    return replace(model, kernel=with_values(kernel, values), likelihood=likelihood)


def _spread(likelihood: Likelihood, y: Vector, row: dict[str, Any]) -> float:
    """The variance of f, about."""
    latent = likelihood.initial_latent(y, **row)
    spread = 1.0 if hardly_varies(latent) else float(np.var(latent))
    # where nearly all counts are 0 the scale of f is that of a logarithm all the same
    return max(spread, 0.1) if likelihood.support.discrete else spread


def _share(likelihood: Likelihood) -> float:
    """Of the variance of f, what is the kernel's at the start."""
    return 0.9 if isinstance(likelihood, Gaussian | LogNormal) else 0.5


def identifies_nugget(likelihood: Likelihood) -> bool:
    """Whether responses can tell noise of f that is fresh for every row from none: a single yes or no can't."""
    return likelihood.support is not BINARY and not isinstance(likelihood, Softmax)


def limits(model: Model, X: NDArray) -> dict[str, tuple[Any, Any]]:
    """How far learning may go: beyond, all points are independent, or all are equal, and nothing changes any more."""
    found: dict[str, tuple[Any, Any]] = {"nugget": (1e-3 * model.nugget, np.inf)}
    found |= {f"kernel__{name}": ends for name, ends in model.kernel.limits(X).items()}
    if model.likelihood.support is BINARY:  # where labels can be told apart without error nothing else would stop it
        for part in model.kernel.parts(X):
            if part.kernel.amplitude:
                name = f"kernel__{part.name}{part.kernel.amplitude}"
                low, high = found[name]
                found[name] = (low, min(high, _DECIDED))
    return found | limits_of_noise(model.likelihood)


def limits_of_noise(likelihood: Likelihood) -> dict[str, tuple[Any, Any]]:
    """How far learning may go with what a likelihood starts from.

    Rows that count several times, as equal ones do, say that there is no noise; only its floor stops it then.

    >>> limits_of_noise(Gaussian(variance=2.0))
    {'likelihood__variance': (2e-12, inf)}
    """
    found: dict[str, tuple[Any, Any]] = {}
    for name, (low, high) in likelihood.limits.items():
        start = float(getattr(likelihood, name))
        found[f"likelihood__{name}"] = (min(low, start), max(high, 1e3 * start))
    for name, share in likelihood.floors.items():
        found[f"likelihood__{name}"] = (share * float(getattr(likelihood, name)), np.inf)
    return found


def wider(some: Mapping[str, tuple[Any, Any]], others: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Limits that hold what both hold.

    >>> wider({"nugget": (1.0, 2.0)}, {"nugget": (0.5, 1.5)})
    {'nugget': (0.5, 2.0)}
    """
    return {
        name: (np.minimum(low, others[name][0]).tolist(), np.maximum(high, others[name][1]).tolist())
        for name, (low, high) in some.items()
    }


def weak_priors(model: Model, X: NDArray, y: Vector, unit: float) -> dict[str, list[Any]]:
    """Penalised complexity for each length scale and for the standard deviation, in the data's own units.

    Highest where learning starts for the lengths (a ninth of that is reached from above with probability .95), and at
    one `unit` of f for the standard deviation (which is below three of them with probability .95); at a third of one
    for that of the nugget, so that what may be either is f rather than fresh for every row. Normal ones of those
    parameters of the likelihood that the responses leave open.

    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Poisson
    >>> found = weak_priors(Model(RBF(), 0.1, Poisson()), np.array([[0.0], [4.0]]), np.ones(2), 1.0)
    >>> found["kernel__length_scale"], found["kernel__variance"]  # doctest: +NORMALIZE_WHITESPACE
    ([PenalisedComplexity(exponent=-0.5, mode=1.0, weight=1.0)],
     [PenalisedComplexity(exponent=0.5, mode=1.0, weight=1.0)])
    """
    found: dict[str, list[Any]] = {f"likelihood__{k}": priors for k, priors in model.likelihood.unseen(y).items()}
    for part in model.kernel.parts(X):
        for name, lengths in part.kernel.start(part.X).items():
            lengths = lengths if np.ndim(getattr(part.kernel, name)) else lengths.max(keepdims=True)
            found[f"kernel__{part.name}{name}"] = [PenalisedComplexity(-0.5, float(length)) for length in lengths]
        if part.kernel.amplitude:
            scale = 1.0 if part.factor else unit
            found[f"kernel__{part.name}{part.kernel.amplitude}"] = [PenalisedComplexity(0.5, scale**2)]
    return found | {"nugget": [PenalisedComplexity(0.5, (_FRESH * unit) ** 2)]}
