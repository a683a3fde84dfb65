"""The linear part of a model: which columns the process sees, which only enter the mean, and their prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference import Data
from npvi.likelihoods import Poisson, Rates
from npvi.runtime.warn import warn

__all__ = [
    "LinearPart",
    "coefficient_precision",
    "columns_of",
    "constant_precision",
    "constant_scale",
    "linear_part",
]

#: standard deviation of the constant where all counts are 0, which otherwise would have no end; and where these say
#: nothing of f, so that nothing else would hold the mean of others
_NEVER, _SILENT = 3.0, 1.0
#: standard deviation of the coefficient of a standardised covariate, in units of f: by default, and where it is flat
_WEAK, _FLAT = 5.0, 1e4
#: the same of counts, whose flat prior is a proper one: covariates that tell zeros from the rest have no other end
_FLAT_OF_COUNTS = 10.0
#: standard deviation of the constant of rates whose zeros may have other reasons
_FLAT_OF_RATES = 20.0


@dataclass(frozen=True)
class LinearPart:
    """The columns of X that the process sees, and the basis H of the prior mean Hβ.

    Covariates are centred (where there is a constant) and scaled inside, so that their units don't matter.

    Attributes
    ----------
    coords : columns of X for the process.
    covariates : columns of X for the mean.
    constant : whether H has a column of ones.
    center, scale : of each covariate.
    names : of the columns of H.
    """

    coords: NDArray[np.int64]
    covariates: NDArray[np.int64]
    constant: bool
    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    names: tuple[str, ...]

    def places(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the process sees of X."""
        return X if len(self.coords) == X.shape[1] else np.ascontiguousarray(X[:, self.coords])

    def basis(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """H, shape (rows, p)."""
        ones = np.ones((len(X), int(self.constant)))
        return np.hstack([ones, (X[:, self.covariates] - self.center) / self.scale])

    def in_units(
        self, coefficients: NDArray[np.float64], covariance: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coefficients and their covariance for the covariates as they came."""
        back = np.diag(np.append(np.ones(int(self.constant)), 1.0 / self.scale))
        if self.constant:
            back[0, 1:] = -self.center / self.scale
        return back @ coefficients, back @ covariance @ back.T


def linear_part(
    X: NDArray[np.float64],
    names: Sequence[str] | None,
    coords: Any,
    mean: str,
    weight: NDArray[np.float64] | None = None,
) -> LinearPart:
    """Sort out `coords` (indices or names) and `mean`; covariates are standardised by the rows that have weight.

    Raises
    ------
    ValueError
        Where a column is unknown or named twice.

    Warns
    -----
    UserWarning
        Where a covariate is constant or a combination of others: only their sum is known, the prior does the rest.
    """
    d = X.shape[1]
    places = columns_of(coords, names, d)
    others = np.setdiff1d(np.arange(d), places)
    if mean == "linear" and not len(others):
        others = np.arange(d)
    constant = mean != "zero"
    if weight is not None and np.any(weight > 0.0):
        X = X[weight > 0.0]
    values = X[:, others]
    center = values.mean(axis=0) if constant else np.zeros(len(others))
    scale = values.std(axis=0) if constant else np.sqrt(np.mean(values**2, axis=0))
    labels = [str(names[j]) if names is not None else f"x{j}" for j in others]
    # less is rounding of a column that never changes
    changes = scale > 1e-12 * np.maximum(1.0, np.abs(center))
    part = LinearPart(
        places, others, constant, center, np.where(changes, scale, 1.0), ("constant",) * constant + tuple(labels)
    )
    _warn_about_rank(part, X, labels, scale)
    return part


def columns_of(coords: Any, names: Sequence[str] | None, d: int) -> NDArray[np.int64]:
    """The numbers of the columns that the process sees, of d: all where `coords` is None.

    >>> columns_of(["north", 0], ["east", "time", "north"], 3).tolist()
    [2, 0]
    """
    if coords is None:
        return np.arange(d)
    several = np.iterable(coords) and not isinstance(coords, str)
    try:
        wanted = list(coords) if several else [coords]
    except TypeError:  # of a table whose rows aren't there yet
        wanted = [coords]
    found = []
    known = {str(name): j for j, name in enumerate(names)} if names is not None else {}
    for column in wanted:
        if isinstance(column, str):
            if column not in known:
                have = f"the columns are {', '.join(known)}" if known else "X has no column names: give numbers"
                raise ValueError(f"coords: there is no column {column!r}; {have}")
            found.append(known[column])
        elif isinstance(column, int | np.integer) and not isinstance(column, bool) and -d <= column < d:
            found.append(int(column) % d)
        else:
            raise ValueError(f"coords must be names or numbers of columns, from 0 to {d - 1}; got {column!r}")
    if not found or len(set(found)) < len(found):
        raise ValueError(f"coords must name at least one column, each once; got {coords!r}")
    return np.array(found, dtype=np.int64)


def coefficient_precision(given: Any, part: LinearPart, data: Data) -> NDArray[np.float64]:
    """Of the prior of the mean's coefficients, with the scale that was `given` for covariates.

    One in numbers is for covariates as they came, "weak" and None for the standardised ones that the basis has.
    """
    precision = np.zeros(len(part.names))
    if part.constant:
        precision[0] = constant_precision(data)
    if given in ("weak", None):
        support = data.likelihood.support
        flat = _FLAT_OF_COUNTS if support.discrete or support.atom is not None else _FLAT
        scale = (flat if given is None else _WEAK) * data.latent_unit * np.ones(len(part.scale))
    else:
        scale = given * part.scale
    precision[int(part.constant) :] = scale**-2.0
    return precision


def constant_precision(data: Data) -> float:
    """Of the prior of the constant, which is flat, unless nothing says where it is.

    >>> [constant_precision(Data(Poisson(), np.array(y))) > 0.0 for y in ([0.0, 2.0], [0.0, 0.0])]
    [False, True]
    """
    if data.one_sided:
        return constant_scale(data) ** -2
    if isinstance(data.likelihood, Rates) and not isinstance(data.likelihood, Poisson):
        # a zero that says little of a large rate leaves nothing else to hold it where nearly all are zeros
        return _FLAT_OF_RATES**-2
    return 0.0


def constant_scale(data: Data) -> float:
    """The standard deviation of the constant of one-sided data."""
    return _SILENT if data.silent else _NEVER


def _warn_about_rank(part: LinearPart, X: NDArray[np.float64], labels: list[str], scale: NDArray[np.float64]) -> None:
    still = [label for label, s, c in zip(labels, scale, part.center) if s <= 1e-12 * max(1.0, abs(c))]
    if still and part.constant:
        warn(
            f"covariate {still[0]!r} is constant, which the mean has already: its coefficient is what the prior says. "
            "Leave it out"
        )
        return
    H = part.basis(X)
    if H.shape[1] <= int(part.constant):
        return
    _, R = np.linalg.qr(H)
    weak = np.flatnonzero(np.abs(np.diag(R)) < 1e-9 * np.abs(np.diag(R)).max())
    if len(weak) or len(H) < H.shape[1]:
        name = part.names[weak[0]] if len(weak) else part.names[-1]
        warn(
            f"covariate {name!r} is a combination of the others: predictions are as good as without it, but how the "
            "effect is shared between them is only what the prior of the coefficients says. Leave one of them out"
        )
