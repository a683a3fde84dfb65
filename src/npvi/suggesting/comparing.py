"""Which likelihood a response may have, and which of these predicts best."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.estimators import GPRegressor
from npvi.likelihoods import as_likelihood
from npvi.parameters import fixed

__all__ = ["Compared", "candidates", "compare"]

#: rows that are fitted, and rows that are predicted
_FITTED, _PREDICTED = 400, 1000
#: ordered categories, at most
_LEVELS = 7
#: a smaller share of zeros is no reason for a distribution that has them
_FEW_ZEROS = 0.01
#: what rows don't share besides noise is left to the likelihood: with it, Poisson would be overdispersed too
_NUGGET = 1e-4
#: families from the simplest to the one with most to say; a later one must be better by more than chance
_NUMBERS = {"poisson": 0, "negative_binomial": 1, "zero_inflated_poisson": 1, "gaussian": 1, "student_t": 2}
_NUMBERS |= {"lognormal": 1, "gamma": 1, "binomial": 0, "beta_binomial": 1}


@dataclass(frozen=True)
class Compared:
    """Families by the log density of all rows that were looked at, best first, in nats per row."""

    best: str
    scores: dict[str, float]
    rows: int


def candidates(y: NDArray[np.float64], trials: bool = False) -> tuple[list[str], str]:
    """Likelihoods that allow these responses, and what it is about them.

    >>> candidates(np.array([0.0, 1.0, 1.0]))
    (['bernoulli'], '0 or 1')
    >>> candidates(np.array([0.2, 0.7, 0.55]))
    (['beta'], 'between 0 and 1')
    >>> candidates(np.array([0.0, 0.0, 7.3]))
    (['tweedie'], 'zeros (67 %) and positive numbers')
    """
    whole, lowest = bool(np.all(y == np.floor(y))), float(y.min())
    levels = np.unique(y)
    if trials:
        return ["binomial", "beta_binomial"], "successes among trials"
    if whole and set(levels) <= {0.0, 1.0}:
        return ["bernoulli"], "0 or 1"
    few = whole and 3 <= len(levels) <= _LEVELS and lowest in (0.0, 1.0) and bool(np.all(np.diff(levels) == 1.0))
    if few and lowest == 1.0:
        return ["ordinal"], f"whole numbers from 1 to {levels[-1]:g}, all of them there: ordered categories"
    if whole and lowest >= 0.0:
        counts = ["poisson", "negative_binomial", *(["zero_inflated_poisson"] if lowest == 0.0 else [])]
        return counts + (["ordinal"] if few else []), "whole numbers"
    if lowest > 0.0 and levels[-1] < 1.0:
        return ["beta"], "between 0 and 1"
    zeros = float(np.mean(y == 0.0))
    if lowest == 0.0 and zeros > _FEW_ZEROS:
        return ["tweedie"], f"zeros ({100 * zeros:.0f} %) and positive numbers"
    if lowest > 0.0:
        return ["gaussian", "student_t", "lognormal", "gamma"], "positive numbers"
    return ["gaussian", "student_t"], "numbers of either sign" if lowest < 0.0 else "numbers, few of them 0"


def compare(
    names: Sequence[str],
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    row: Mapping[str, NDArray[np.float64]],
    n_places: int = 0,
) -> Compared | None:
    """Fit each to some rows and predict others: log p(y) of the former, by its bound, and of the latter given them.

    The first `n_places` columns of X are places, the others covariates: their effect would look like noise of another
    kind. 0: the process sees all of them. None where there are too few rows to compare.
    """
    rng = np.random.default_rng(0)
    some = rng.permutation(len(y))[: _FITTED + _PREDICTED]
    first, rest = some[: min(_FITTED, len(some) // 2)], some[min(_FITTED, len(some) // 2) :]
    if len(first) < 10 or np.ptp(y[first]) == 0.0:
        return None
    scale = np.std(X, axis=0)
    Z = X / np.where(scale > 0.0, scale, 1.0)
    evidence = {}
    for name in names:
        model = GPRegressor(
            as_likelihood(name).sized_for(y) if name == "ordinal" else name,
            kernel="matern12",  # of the roughest surfaces: what a smooth one can't follow would look like noise
            nugget=fixed(_NUGGET),
            mean="zero" if name == "ordinal" else "constant",
            hyper="plug-in",
            coords=list(range(n_places)) if 0 < n_places < X.shape[1] else None,
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of these quick fits, nobody uses one
                model.fit(Z[first], y[first], **_rows(row, first))
                held_out = model.predict_dist(Z[rest], **_rows(row, rest)).log_prob(y[rest])
        except (ValueError, ArithmeticError):
            continue  # a family that can't be fitted isn't proposed
        total = model.elbo_ + float(np.sum(held_out))
        if np.isfinite(total):
            evidence[name] = float(total - 0.5 * _numbers(name, y) * np.log(len(some)))
    if not evidence:
        return None
    order = sorted(evidence, key=lambda name: -evidence[name])
    return Compared(order[0], {name: evidence[name] / len(some) for name in order}, len(some))


def _numbers(name: str, y: NDArray[np.float64]) -> int:
    """How many numbers a family has."""
    return int(y.max()) if name == "ordinal" else _NUMBERS[name]


def _rows(row: Mapping[str, NDArray[np.float64]], which: NDArray[np.int64]) -> dict[str, Any]:
    return {name: values[which] for name, values in row.items()}
