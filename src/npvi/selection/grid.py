"""Choosing hyper-parameters the paper's way: a grid, scored by log predictive density on a validation split."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from npvi.checks import Kind, check_number, check_per_row
from npvi.kernels import as_kernel
from npvi.model import ScaleWarning
from npvi.runtime import progress
from npvi.runtime.interrupts import interrupts_remembered

if TYPE_CHECKING:
    from npvi.estimators import BaseGP

__all__ = ["PAPER_LENGTH_SCALES", "GridResult", "grid_search"]

#: a share of the rows, neither none nor all
_PART = Kind("between 0 and 1", lambda value: 0.0 < value < 1.0)
#: the paper's candidates
PAPER_LENGTH_SCALES = (0.05, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5)


@dataclass(frozen=True)
class GridResult:
    """The outcome of `grid_search`.

    Attributes
    ----------
    best_model : the fitted model with the lowest validation score.
    best_params : its parameters on the grid.
    table : one row per combination: its parameters, ``nlpd`` (negative log predictive density per validation row; lower
        is better), ``elbo`` and ``seconds``.
    """

    best_model: Any
    best_params: dict[str, Any]
    table: pd.DataFrame


def grid_search(
    model: BaseGP,
    X: Any,
    y: Any,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    validation: float | tuple[Any, Any] = 0.125,
    sample_weight: Any = None,
    exposure: Any = None,
    trials: Any = None,
    noise_variance: Any = None,
    censored: Any = None,
) -> GridResult:
    """Fit `model` for every combination of parameters and keep the best on a validation set; nothing else is learned.

    The graph is built once and shared by all combinations that measure distance alike, and each fit starts from the
    previous one's posterior.

    Parameters
    ----------
    model : GPRegressor or GPClassifier; it isn't changed.
    X, y : training data.
    grid : mapping from a parameter to its candidates: any parameter of the model (``nugget``, ``n_neighbors``), of its
        kernel or likelihood (``kernel__length_scale``), or a kernel parameter by its own name (``length_scale``,
        ``variance``). By default the paper's length scales, {0.05, 0.1, 0.5, 1, 1.5, 2, 2.5}.
    validation : share of the rows to hold out at random (1/8 of the training rows, the paper's 10 % of all), or a
        tuple (X_val, y_val), or (X_val, y_val, extras) with extras the exposure of these rows, or a mapping from
        names (``"trials"``, …) to values.
    sample_weight, exposure, trials, noise_variance, censored : as in ``fit``.

    Examples
    --------
    >>> import npvi
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 1)); y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(400)
    >>> result = npvi.grid_search(npvi.GPRegressor(random_state=0), X, y, {"length_scale": [0.01, 0.5, 100.0]})
    >>> result.best_params
    {'length_scale': 0.5}
    """
    if not hasattr(model, "_checked"):
        raise TypeError(f"model must be a GPRegressor or a GPClassifier, got {model!r}")
    if getattr(model, "terms", None) is not None or getattr(model, "formula", None) is not None:
        raise ValueError("grid_search is for models of one surface: compare models with terms by npvi.compare(a, b)")
    grid = _checked_grid({"length_scale": PAPER_LENGTH_SCALES} if grid is None else grid)
    model = clone(model).set_params(kernel=clone(as_kernel(model.kernel)), learn=False)
    names = {name: _parameter_name(model, name) for name in grid}
    _, responses, _ = clone(model)._checked(X, y, sample_weight)  # before rows get other numbers
    extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
    extras = {
        name: None if values is None else check_per_row(values, name, len(responses)) for name, values in extras.items()
    }
    training, held_out = _split(model, X, y, sample_weight, extras, validation, len(responses))
    X_train, y_train, weight, row = training
    best, best_params, best_nlpd, previous = None, {}, np.inf, None
    rows = []
    combinations = list(itertools.product(*grid.values()))
    with interrupts_remembered():
        for number, values in enumerate(combinations, start=1):
            params = dict(zip(grid, values))
            progress.report("grid", combination=number, of=len(combinations))
            candidate = clone(model).set_params(**{names[name]: value for name, value in params.items()})
            started = time.perf_counter()
            with warnings.catch_warnings():  # a grid is meant to reach too far
                warnings.simplefilter("ignore", ScaleWarning)
                candidate._fit(X_train, y_train, weight, row, previous, labels=y)
            nlpd = -candidate.log_score(held_out[0], held_out[1], **held_out[2])
            rows.append({**params, "nlpd": nlpd, "elbo": candidate.elbo_, "seconds": time.perf_counter() - started})
            if nlpd < best_nlpd or best is None:
                best, best_params, best_nlpd = candidate, params, nlpd
            previous = candidate.fitted_
    return GridResult(best, best_params, pd.DataFrame(rows))


def _checked_grid(grid: Any) -> dict[str, list[Any]]:
    """The values to try of each parameter: at least one of each.

    >>> _checked_grid({"length_scale": 0.5})
    Traceback (most recent call last):
    ValueError: grid: give the values of 'length_scale' as a list, such as [0.5], got 0.5
    """
    if not isinstance(grid, Mapping):
        such = '{"length_scale": [0.1, 1.0]}'
        raise ValueError(f"grid must map names to lists of values, such as {such}; got {grid!r}")
    for name, values in grid.items():
        if isinstance(values, str) or not np.iterable(values):
            raise ValueError(f"grid: give the values of {name!r} as a list, such as [{values!r}], got {values!r}")
    lists = {str(name): list(values) for name, values in grid.items()}
    empty = [name for name, values in lists.items() if not values]
    if empty:
        raise ValueError(f"grid: there are no values of {empty[0]!r}; give at least one, or leave it out")
    return lists


def _parameter_name(model: BaseGP, name: str) -> str:
    """The full name of a parameter that may be given by the kernel's own name for it."""
    known = model.get_params(deep=True)
    for candidate in (name, f"kernel__{name}"):
        if candidate in known:
            return candidate
    kernel = ", ".join(key.removeprefix("kernel__") for key in known if key.startswith("kernel__"))
    raise ValueError(
        f"grid: {name!r} is not a parameter of the model; its kernel has {kernel}, and the model itself "
        f"{', '.join(sorted(model.get_params(deep=False)))}"
    )


def _split(
    model: BaseGP,
    X: Any,
    y: Any,
    weight: Any,
    extras: dict[str, Any],
    validation: float | tuple[Any, ...],
    n: int,
) -> tuple[tuple[Any, Any, Any, dict[str, Any]], tuple[Any, Any, dict[str, Any]]]:
    """(X, y, weight, extras) to train on and (X, y, extras) to score on."""
    if isinstance(validation, tuple):
        if len(validation) not in (2, 3):
            raise ValueError("validation must be a share of the rows, (X_val, y_val) or (X_val, y_val, extras)")
        X_val, y_val, more = (*validation, None)[:3]
        more = dict(more) if isinstance(more, Mapping) else {"exposure": more}
        return (X, y, weight, extras), (X_val, y_val, more)
    check_number(validation, "validation", _PART)
    if not 1 <= np.ceil(validation * n) < n:
        raise ValueError(f"validation={validation!r} leaves nothing of {n} rows on one side: choose another share")
    from sklearn.model_selection import train_test_split  # a slow import, needed only here

    train, held_out = train_test_split(
        np.arange(n), test_size=validation, random_state=0 if model.random_state is None else model.random_state
    )

    def take(values: Any, rows: Any) -> Any:
        return values if values is None or np.ndim(values) == 0 else _safe_indexing(values, rows)

    def take_all(rows: Any) -> dict[str, Any]:
        return {name: take(values, rows) for name, values in extras.items()}

    training = (take(X, train), take(y, train), take(weight, train), take_all(train))
    return training, (take(X, held_out), take(y, held_out), take_all(held_out))
