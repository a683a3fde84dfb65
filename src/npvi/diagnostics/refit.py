"""Would more neighbours change anything?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from npvi.diagnostics.scores import take
from npvi.graph import NeighborIndex
from npvi.priors import NotPositiveDefiniteError

__all__ = ["Refit", "refit_with_more_neighbors"]

#: most rows to refit
_ROWS = 5_000
#: one row in so many is held out
_HELD_OUT = 5


@dataclass(frozen=True)
class Refit:
    """The outcome of fitting again with twice the neighbours.

    Attributes
    ----------
    n_neighbors : twice the model's.
    change : of the mean log density of held-out rows; positive where more neighbours are better. NaN where the fit
        fails.
    error : its standard error.
    rows : rows used.
    """

    n_neighbors: int
    change: float
    error: float
    rows: int


def refit_with_more_neighbors(model: Any, X: Any, y: Any, extras: dict[str, Any], seed: int = 0) -> Refit | None:
    """Fit with K and with 2K neighbours, at the model's own hyper-parameters, and compare on held-out rows.

    At most 5,000 rows are used. They are neighbours of each other, so that they lie as close as all rows do, and a
    fifth of them is held out. None where there are too few rows for it to matter, or one label only.

    Parameters
    ----------
    model : fitted GPRegressor or GPClassifier; it isn't changed.
    X, y, extras : rows to fit and to score.
    seed : of the choice of rows.

    Examples
    --------
    >>> import npvi
    >>> X = np.linspace(0.0, 10.0, 100)[:, None]
    >>> model = npvi.GPRegressor(kernel=npvi.kernels.Matern12(), n_neighbors=5, learn=False).fit(X, np.sin(X[:, 0]))
    >>> more = refit_with_more_neighbors(model, X, np.sin(X[:, 0]), {})
    >>> more.n_neighbors, abs(more.change) < 0.01  # on a line two neighbours of a Matérn-1/2 know everything
    (10, True)
    """
    rng = np.random.default_rng(seed)
    places = model.linear_part_.places(np.asarray(X, dtype=np.float64))
    rows = _patch(model.kernel_.coordinates(places), rng)
    test = rows[::_HELD_OUT]
    train = np.setdiff1d(rows, test)
    labels = getattr(model, "classes_", ())
    k = model.fitted_.neighbors
    if k >= len(train) - 1 or len(test) < 2 or len(np.unique(take(y, train))) < len(labels):
        return None

    def chosen(which: NDArray[np.int64]) -> tuple[Any, Any, dict[str, Any]]:
        row = {name: take(values, which) for name, values in extras.items()}
        return _safe_indexing(X, which), _safe_indexing(y, which), row

    densities = []
    for n_neighbors in (k, 2 * k):
        again = _unfitted(model, n_neighbors)
        X_train, y_train, row = chosen(train)
        with warnings.catch_warnings():  # the model's own fit has said it all
            warnings.simplefilter("ignore", UserWarning)
            try:
                again.fit(X_train, y_train, **row)
            except NotPositiveDefiniteError:
                return Refit(2 * k, np.nan, np.nan, len(rows))
        X_test, y_test, row = chosen(test)
        densities.append(again.predict_dist(X_test, **row).log_prob(again._encode_new(y_test)))
    change = densities[1] - densities[0]
    error = float(change.std(ddof=1) / np.sqrt(len(change)))
    return Refit(2 * k, float(change.mean()), error, len(rows))


def _patch(coordinates: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows around a random one, in random order."""
    n = len(coordinates)
    if n <= _ROWS:
        return rng.permutation(n)
    centre = coordinates[rng.integers(n)][None]
    return rng.permutation(NeighborIndex(coordinates).query(centre, _ROWS)[0].astype(np.int64))


def _unfitted(model: Any, n_neighbors: int) -> Any:
    """The model before its fit, with the hyper-parameters that it ended with held fixed."""
    settings = {
        "kernel": clone(model.kernel_),
        "likelihood": clone(model.likelihood_),
        "nugget": model.prior_.nugget,
        "n_neighbors": n_neighbors,
        "learn": False,
        "verbose": 0,
    }
    if not isinstance(model.order, str):  # a permutation of other rows
        settings["order"] = "maximin"
    return clone(model).set_params(**settings)
