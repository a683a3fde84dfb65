"""A fitted model's posterior for ArviZ."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import check_count, generator
from npvi.likelihoods import Likelihood
from npvi.model import Fitted, in_rows
from npvi.runtime.extras import needed
from npvi.runtime.precision import float64

__all__ = ["to_arviz"]

#: most numbers of each of f, responses and log-likelihoods
_MOST = 2**28

Array = NDArray[np.float64]


def to_arviz(model: Any, draws: int = 1000, seed: Any = None) -> Any:
    """Draws of a fitted model's posterior at its training rows, as ArviZ has them.

    Groups: ``posterior`` with ``f`` (nugget included), the hyper-parameters and the coefficients of the mean, by the
    names that `summary` has; ``posterior_predictive`` and ``observed_data`` with the responses ``y``; and
    ``log_likelihood``.
    Where predictions are a mixture of models at several hyper-parameters, draws are dealt to them by their shares; else
    hyper-parameters are the same in all draws.

    Parameters
    ----------
    model : fitted to numbers, or to two labels.
    draws : how many, in one chain.
    seed : of the draws.

    Examples
    --------
    >>> import npvi
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> model = npvi.GPRegressor("poisson", learn=False).fit(X, np.arange(30) % 3)
    >>> found = to_arviz(model, draws=50, seed=0)
    >>> found.posterior["f"].shape, found.log_likelihood["y"].shape
    ((1, 50, 30), (1, 50, 30))
    """
    fitted: Fitted = model.fitted_
    if not hasattr(fitted, "trend"):
        raise ValueError("to_arviz is for models of one surface; of one with terms see loo(), effects() and summary()")
    if fitted.several:
        raise ValueError("to_arviz is for models of numbers and of two labels; this one has several functions")
    draws = check_count(draws, "draws", 2)
    n = fitted.graph.n_points
    if draws * n > _MOST:
        raise ValueError(f"draws must be at most {_MOST // n:,} of {n:,} rows, which are held in memory; got {draws:,}")
    rng = generator(seed)
    y, parts = in_rows(fitted, fitted.data.y), []
    shares = fitted.shares()
    for one, count in zip((one for one, _ in shares), _dealt([share for _, share in shares], draws)):
        if count:
            parts.append(_draws(one, y, int(count), rng))
    order = rng.permutation(draws)  # so that a part of the chain is like the whole
    joined = {group: _joined([part[group] for part in parts], order) for group in parts[0]}
    labels = {"row": np.arange(n)}
    dims = {"f": ["row"], "y": ["row"]}
    return _inference_data({**joined, "observed_data": {"y": y}}, labels, dims)


def _dealt(shares: list[float], draws: int) -> NDArray[np.int64]:
    """So many draws of each that all are there, as near to their shares as may be."""
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * draws).astype(np.int64)
    return np.diff(ends, prepend=0)


def _draws(fitted: Fitted, y: Array, n: int, rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    """Of one model, (draws, …) each."""
    moved = fitted.trend.sample(n, rng)
    f = fitted.posterior.sample(n, rng) + (fitted.basis + fitted.trend.sensitivity) @ moved
    f = np.ascontiguousarray(in_rows(fitted, f).T)
    row = {name: in_rows(fitted, values) for name, values in fitted.data.row.items()}
    likelihood = fitted.model.likelihood
    posterior = {"f": f}
    for name, value in fitted.model.named().items():
        posterior[name] = np.broadcast_to(np.asarray(value, dtype=np.float64), (n, *np.shape(value)))
    beta = fitted.trend.coefficients[:, None] + moved
    back = _units(fitted)
    for name, values in zip(fitted.linear_part.names, back @ beta):
        posterior[f"mean__{name}"] = values
    return {
        "posterior": posterior,
        "posterior_predictive": {"y": np.asarray(likelihood.sample(rng, f, **row), dtype=np.float64)},
        "log_likelihood": {"y": _log_prob(likelihood, y, f, row)},
    }


def _units(fitted: Fitted) -> Array:
    """What turns coefficients into those for the covariates as they came."""
    p = len(fitted.linear_part.names)
    return np.column_stack([fitted.linear_part.in_units(unit, np.eye(p))[0] for unit in np.eye(p)]).reshape(p, p)


def _log_prob(likelihood: Likelihood, y: Array, f: Array, row: dict[str, Array]) -> Array:
    import jax.numpy as jnp

    with float64():
        there = {name: jnp.asarray(np.broadcast_to(values, f.shape)) for name, values in row.items()}
        return np.asarray(likelihood.log_prob(jnp.asarray(np.broadcast_to(y, f.shape)), jnp.asarray(f), **there))


def _joined(parts: list[dict[str, Array]], order: NDArray[np.int64]) -> dict[str, Array]:
    """Draws of all models, (1, draws, …)."""
    return {name: np.concatenate([part[name] for part in parts])[order][None] for name in parts[0]}


def _inference_data(groups: dict[str, dict[str, Array]], coords: Any, dims: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # at its import, of what its next version will be like
        arviz = needed("arviz", "arviz", "to_arviz")
        if "posterior" in inspect.signature(arviz.from_dict).parameters:
            return arviz.from_dict(**groups, coords=coords, dims=dims)
        return arviz.from_dict(groups, coords=coords, dims=dims)  # from version 1 on
