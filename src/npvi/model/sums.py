"""Does a fitted model expect about what was seen in its own training rows?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.likelihoods.families.softmax import Softmax
from npvi.likelihoods.integrals.moments import conditional_moments, predictive_moments
from npvi.model.fitted import Fitted
from npvi.runtime.warn import warn

__all__ = ["sums_at_training_rows", "warn_about_sums"]

Vector = NDArray[np.float64]

#: how far off the expected sum may be: relative to what was seen, and in standard errors
_SHARE, _ERRORS = 0.15, 4.0


def sums_at_training_rows(fitted: Fitted) -> dict[str, Any]:
    """What was seen in all training rows and what the posterior expects there: for ``fit_info_``.

    Σ w_i y_i, Σ w_i E[y_i] with f_i ~ q, and the standard error (Σ w_i² s_i²)^½. s_i² is Var[y_i | f_i = E f_i], or the
    squared residual there, which outliers make larger, or E[y_i] of counts, the largest of them. (Var[y_i] itself would
    grow fastest where the variance of f is the problem, and excuse anything.) Exposure and trials are in E[y_i]. Of
    three or more labels a list with the numbers of each. Censored rows are left out. It takes O(N).

    Returns
    -------
    dict
        with ``sum_seen``, ``sum_expected`` and ``sum_error``; empty where every response is censored, or the likelihood
        has no moments.

    Examples
    --------
    >>> import npvi
    >>> X = np.arange(40.0)[:, None]
    >>> model = npvi.GPRegressor("poisson", learn=False).fit(X, np.arange(40) % 4)
    >>> sums = sums_at_training_rows(model.fitted_)
    >>> sums["sum_seen"], bool(abs(sums["sum_expected"] - 60.0) < 1.0)
    (60.0, True)
    """
    data = fitted.data
    mean, variance = _marginals(fitted)
    weight = np.ones(len(data.y)) if data.weight is None else data.weight
    if isinstance(data.likelihood, Softmax):
        from npvi.predictive.categorical import CategoricalPredictive

        labels = np.arange(data.likelihood.n_classes)
        expected = CategoricalPredictive(labels, mean, variance).probabilities
        seen, spread = data.y[:, None] == labels, expected * (1.0 - expected)
    else:
        kept = (weight > 0.0) & np.equal(data.row.get("censored", np.zeros(len(weight))), 0.0)
        if not kept.any():
            return {}
        row = {name: values[kept] for name, values in data.row.items() if name != "censored"}
        weight, seen = weight[kept], data.y[kept]
        try:
            expected = predictive_moments(data.likelihood, mean[kept], variance[kept], row)[0]
            centre, spread = conditional_moments(data.likelihood, mean[kept], row)
        except NotImplementedError:  # a user's own class without moments
            return {}
        spread = np.maximum(spread, (seen - centre) ** 2)
        if data.likelihood.support.discrete:
            spread = np.maximum(spread, np.minimum(expected, 1e300))
    with np.errstate(over="ignore", invalid="ignore"):
        sums = (weight @ seen, weight @ expected, np.sqrt(weight**2 @ spread))
    return {name: values.tolist() for name, values in zip(("sum_seen", "sum_expected", "sum_error"), sums)}


def warn_about_sums(fitted: Fitted, labels: Any = None) -> None:
    """Warn where the expected sum is off by more than 15 %, and by more than 4 standard errors."""
    info = fitted.info
    # from some of the responses, as long as they are small, nothing follows for those that were seen
    censored = np.any(fitted.data.row.get("censored", 0.0) != 0.0)
    if "sum_seen" not in info or censored or not (info["converged"] or fitted.spec.method == "npvi-nn"):
        return
    seen, expected, error = (np.atleast_1d(info[name]) for name in ("sum_seen", "sum_expected", "sum_error"))
    off = np.abs(expected - seen)
    with np.errstate(invalid="ignore"):
        wrong = (off > _SHARE * np.abs(seen)) & (off > _ERRORS * error)
    if not wrong.any():
        return
    worst = int(np.argmax(np.where(wrong, off, -1.0)))
    what = f" of label {worst if labels is None else labels[worst]}" if len(seen) > 1 else ""
    warn(
        f"the model expects a sum of {expected[worst]:.4g} over its own training rows, where {seen[worst]:.4g} was "
        f"seen{what} (standard error {error[worst]:.2g}): means and totals can't be relied on. Look at summary() for "
        "coefficients with huge standard errors (coefficient_scale=1 holds them) and variances far above those of the "
        "data, try another likelihood or link, or use medians, quantile(0.5)"
    )


def _marginals(fitted: Fitted) -> tuple[Vector, Vector]:
    """Means and variances of f at the training rows, what not knowing the mean's coefficients adds included."""
    posterior, adds = fitted.posterior, []
    for trend in fitted.trends:
        along = fitted.basis + trend.sensitivity
        adds.append(np.einsum("ip,pq,iq->i", along, trend.covariance, along))
    added = np.stack(adds, axis=1) if posterior.mean.ndim > 1 else adds[0]
    return posterior.mean, posterior.variance + added
