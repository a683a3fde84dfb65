"""The predictive distribution of each training row from all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.estimators.varying_noise import VaryingNoiseRegressor
from npvi.model import Fitted, FittedTerms, in_rows, latent_left_out, left_out_by
from npvi.predictive import MixturePredictive, VaryingNoisePredictive

__all__ = ["Comparison", "compare", "left_out", "training_responses"]


def left_out(model: Any, rows: Any = None) -> Any:
    """How each training row's response is distributed given all others: of a model fitted to numbers or to two labels.

    Each observation enters the posterior through a Gaussian site of its own, which is divided out
    (`npvi.inference.cavity`); nothing is fitted again. Hyper-parameters are those that all rows were learned from.

    Parameters
    ----------
    model : fitted GPRegressor, GPClassifier of two labels, or VaryingNoiseRegressor.
    rows : numbers of the training rows that are wanted; all unless given.

    Returns
    -------
    Predictive
        of the training rows, in their order, with the exposure and the like that they had. It has no joint draws.

    Examples
    --------
    >>> import npvi
    >>> X = np.linspace(0.0, 10.0, 100)[:, None]
    >>> model = npvi.GPRegressor("poisson", learn=False).fit(X, np.arange(100) % 3)
    >>> dist = left_out(model)
    >>> len(dist), bool(np.all(dist.latent_var > 0.0))
    (100, True)
    """
    some = slice(None) if rows is None else rows
    if isinstance(model, VaryingNoiseRegressor) and model.noise_model_ is not None:
        g = _latent(model.noise_model_.fitted_, some)
        kept = model.model_.fitted_.shares()
        dists = [VaryingNoisePredictive(fitted.model.likelihood, *_latent(fitted, some), *g) for fitted, _ in kept]
        return dists[0] if len(dists) == 1 else MixturePredictive(dists, [part for _, part in kept])
    fitted = getattr(model, "model_", model).fitted_
    if fitted.several:
        raise ValueError("rows are left out of models of numbers and of two labels; this one has several functions")
    return left_out_by(fitted, some)


def _latent(fitted: Fitted, rows: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean, variance = latent_left_out(fitted)
    return mean[rows], variance[rows]


def training_responses(model: Any) -> NDArray[np.float64]:
    """What was observed in each training row, labels as their numbers."""
    fitted = getattr(model, "model_", model).fitted_
    return in_rows(fitted, fitted.data.y)


# -- what leaving out one row at a time says of two models ------------------------------------------------------------


Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """How two models predict rows that are left out, one at a time.

    Attributes
    ----------
    difference : of the sums of log scores, the first model's less the second's.
    standard_error : of the difference.
    first, second : the sums.
    by_row : the differences, shape (N,).

    Examples
    --------
    >>> Comparison(-10.0, -14.0, np.array([3.0, 1.0]))
    Comparison: 4.0 ± 2.0 nats for the first model (-10.0 and -14.0 over 2 rows)
    """

    first: float
    second: float
    by_row: Vector

    @property
    def difference(self) -> float:
        return float(np.sum(self.by_row))

    @property
    def standard_error(self) -> float:
        n = len(self.by_row)
        return float(np.sqrt(n) * np.std(self.by_row, ddof=1)) if n > 1 else float("nan")

    def __repr__(self) -> str:
        which = "first" if self.difference >= 0.0 else "second"
        return (
            f"Comparison: {abs(self.difference):.1f} ± {self.standard_error:.1f} nats for the {which} model "
            f"({self.first:.1f} and {self.second:.1f} over {len(self.by_row)} rows)"
        )


def compare(first: Any, second: Any) -> Comparison:
    """Two models that were fitted to the same rows, by the log score of each row given all others.

    Parameters
    ----------
    first, second : fitted regressors, or two-label classifiers, with a ``loo`` method.

    Returns
    -------
    Comparison
        with ``difference`` and ``standard_error``: less than two standard errors say little.

    Raises
    ------
    ValueError
        Where rows or responses differ. The same rows in another order are matched by inputs and response.

    Examples
    --------
    >>> import npvi
    >>> x = np.linspace(0.0, 6.0, 60)
    >>> y = np.sin(x) + 0.3 * np.random.default_rng(0).standard_normal(60)
    >>> curved = npvi.GPRegressor(terms=[npvi.Smooth("x0")]).fit(x[:, None], y)
    >>> straight = npvi.GPRegressor(terms=[npvi.Linear("x0")]).fit(x[:, None], y)
    >>> found = npvi.compare(curved, straight)
    >>> bool(found.difference > 2.0 * found.standard_error)
    True
    """
    for name, model in (("first", first), ("second", second)):
        if not hasattr(model, "loo"):
            raise TypeError(f"{name} must be a fitted npvi.GPRegressor, got {type(model).__name__}")
    place = _same_rows(getattr(first, "model_", first).fitted_, getattr(second, "model_", second).fitted_)
    a, b = first.loo(), second.loo()[place]
    return Comparison(float(np.sum(a)), float(np.sum(b)), a - b)


def _same_rows(first: Fitted | FittedTerms, second: Fitted | FittedTerms) -> Any:
    """Which row of the second model each row of the first is: the one in its place where responses are the same there,
    else the one with the same inputs and response."""
    n, m = len(first.data.y), len(second.data.y)
    if n != m:
        raise ValueError(f"both models must be fitted to the same rows; got {n} and {m} of them")
    a, b = _responses(first), _responses(second)
    both = sorted(a.keys() & b.keys())
    if all(np.array_equal(a[name], b[name]) for name in both):
        return slice(None)
    keys = [(*_inputs(one), *(had[name] for name in both)) for one, had in ((first, a), (second, b))]
    orders = [np.lexsort(key) for key in keys]
    sorted_ = [[values[order] for values in key] for key, order in zip(keys, orders)]
    if len(keys[0]) == len(keys[1]) and all(map(np.array_equal, *sorted_)):
        return orders[1][np.argsort(orders[0])]
    off = next(name for name in both if not np.array_equal(a[name], b[name]))
    raise ValueError(
        f"both models must be fitted to the same rows with the same responses, but {off} differs in "
        f"{int(np.sum(a[off] != b[off])):,} of {n:,} rows, and no other order of the rows makes inputs and responses "
        "the same: log scores of different responses can't be compared. Fit both to one table (a transformed y is "
        "another response, for which there are likelihoods: 'lognormal' is that of a normal log y)"
    )


def _responses(fitted: Fitted | FittedTerms) -> dict[str, Vector]:
    """What was observed in each row, and how, by name."""
    data = fitted.data
    return {"y": in_rows(fitted, data.y), **{name: in_rows(fitted, values) for name, values in data.row.items()}}


def _inputs(fitted: Fitted | FittedTerms) -> list[NDArray[Any]]:
    """What tells rows apart beside their responses."""
    if isinstance(fitted, FittedTerms):
        from pandas.util import hash_pandas_object  # rarely needed

        return [hash_pandas_object(fitted.table.sort_index(axis=1), index=False).to_numpy()]
    return list(in_rows(fitted, np.column_stack([fitted.prior.X, fitted.basis])).T)
