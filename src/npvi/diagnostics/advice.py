"""What may be wrong with a model, in words: one function per warning, which is None where all is well."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.diagnostics.kernel_range import KernelRange
from npvi.diagnostics.means import NEIGHBORS, Means
from npvi.diagnostics.refit import Refit
from npvi.diagnostics.residuals import Correlogram
from npvi.diagnostics.skewness import Skewness
from npvi.graph import number_places
from npvi.likelihoods import Likelihood

__all__ = [
    "about_bias",
    "about_bounds",
    "about_convergence",
    "about_coverage",
    "about_means",
    "about_neighbors",
    "about_range",
    "about_residuals",
    "about_seen_rows",
    "about_shared_places",
    "about_skewness",
    "about_spread",
]

#: how many standard errors aren't chance
_ERRORS = 3.0
#: by how many sd quantiles of f may be off before a row is named
_SHIFT = 0.1


def about_convergence(fit_info: dict[str, Any]) -> str | None:
    """Whether the fit reached its tolerance.

    >>> about_convergence({"converged": False})
    'the fit did not converge: see fit_info_, or raise max_iter'
    """
    if fit_info.get("converged", True):
        return None
    return "the fit did not converge: see fit_info_, or raise max_iter"


def about_bounds(fit_info: dict[str, Any]) -> str | None:
    """Learned parameters that would have gone further.

    >>> about_bounds({"at_bound": ["kernel__length_scale", "nugget"]})
    'the length scale and the nugget are at their bounds'
    """
    names = [str(name) for name in fit_info.get("at_bound") or ()]
    if not names:
        return None
    words = [_words(name) for name in names]
    if len(words) == 1:
        return f"{words[0]} is at its bound"
    return f"{', '.join(words[:-1])} and {words[-1]} are at their bounds"


def _words(name: str) -> str:
    *path, last = name.split("__")
    return f"the {last.replace('_', ' ')}" + (f" ({name})" if len(path) > 1 else "")


def about_shared_places(training: NDArray[np.float64], new: NDArray[np.float64], nugget: float) -> str | None:
    """Rows at one place that differ by nothing but the noise.

    >>> place = np.zeros((2, 1))
    >>> about_shared_places(place, place, 0.0)
    '100 % of rows share a location and the nugget is 0: they get the same f; a nugget lets them differ'
    """
    if nugget > 0.0:
        return None
    share = max(_share_with_company(training), _share_with_company(new))
    if share == 0.0:
        return None
    rows = f"{_percent(share)} of rows share a location"
    return f"{rows} and the nugget is 0: they get the same f; a nugget lets them differ"


def _share_with_company(points: NDArray[np.float64]) -> float:
    place = number_places(points)
    return float(np.mean(np.bincount(place)[place] > 1))


def about_seen_rows(training: NDArray[np.float64], new: NDArray[np.float64]) -> str | None:
    """Rows that the model was fitted to, as far as their inputs tell.

    >>> about_seen_rows(np.zeros((3, 1)), np.array([[0.0], [0.0], [1.0]]))
    '67 % of these rows have the inputs of training rows: scores of rows that a model has seen are too good'
    """
    place = number_places(np.vstack([training, new]))
    seen = float(np.mean(np.isin(place[len(training) :], place[: len(training)])))
    if seen <= 0.5:
        return None
    return (
        f"{_percent(seen)} of these rows have the inputs of training rows: scores of rows that a model has seen are "
        "too good"
    )


def about_coverage(coverage: dict[float, float], rows: int) -> str | None:
    """Intervals that hold fewer or more responses than they promise.

    >>> about_coverage({0.9: 0.78}, rows=500)
    '90 % intervals contain only 78 % of the responses'
    """
    for level in sorted(coverage, key=lambda level: abs(level - 0.9)):  # that of 90 % first, which most people use
        held = coverage[level]
        allowed = max(_ERRORS * np.sqrt(level * (1.0 - level) / rows), 0.4 * (1.0 - level))
        if abs(held - level) > allowed:
            many = "only " if held < level else ""
            return f"{_percent(level)} intervals contain {many}{_percent(held)} of the responses"
    return None


def about_bias(pit: NDArray[np.float64]) -> str | None:
    """Predictions that are too low or too high.

    >>> about_bias(np.full(200, 0.7))
    'predictions are too low: 100 % of the responses are above the predictive median'
    """
    above = float(np.mean(pit > 0.5))
    if abs(above - 0.5) <= max(_ERRORS * 0.5 / np.sqrt(len(pit)), 0.05):
        return None
    size, side, share = ("low", "above", above) if above > 0.5 else ("high", "below", 1.0 - above)
    return f"predictions are too {size}: {_percent(share)} of the responses are {side} the predictive median"


def about_means(means: Means, likelihood: Likelihood, weak: bool = True) -> str | None:
    """Means that can't be used, and what to use instead; `weak` says whether hyper-parameters had a prior.

    >>> from npvi.likelihoods import Poisson
    >>> means = Means(500, 8968.0, 28170.0, (21000.0, 40000.0), True, 38.8, 9.6, 7.2)
    >>> print(about_means(means, Poisson(), weak=False))  # doctest: +NORMALIZE_WHITESPACE
    predicted means sum to 28,170 where 8,968 was seen, and are off by 38.8 (RMSE; the mean of the 20 nearest rows 7.2):
    they explode where the variance of f is large, which exp makes part of the mean. Use medians, quantile(0.5), or fit
    again with likelihoods.Poisson(link='softplus'), or with hyperprior='weak'
    """
    found = []
    if means.sum_off:
        found.append(f"sum to {_sum(means.sum_predicted)} where {_sum(means.sum_seen)} was seen")
    if means.worse_than_neighbors:
        error = f"{means.rmse:.3g} (RMSE; the mean of the {NEIGHBORS} nearest rows {means.rmse_neighbors:.3g})"
        found.append(f"are off by {error}")
    if not found:
        return None
    what = "predicted means " + ", and ".join(found)
    link = getattr(likelihood, "link", None)
    if likelihood.support.invalid(np.array([-1.0, 1e9])).tolist() != [True, False] or link == "softplus":
        return (
            f"{what}: try another kernel or other inputs, and check that these rows are like those of the fit; "
            "medians, quantile(0.5), suffer less from single rows"
        )
    refit = []
    if "softplus" in likelihood.links:
        refit.append(f"with likelihoods.{type(likelihood).__name__}(link='softplus')")
    if not weak:
        refit.append("with hyperprior='weak'")
    again = f", or fit again {', or '.join(refit)}" if refit else ""
    return (
        f"{what}: they explode where the variance of f is large, which exp makes part of the mean. Use medians, "
        f"quantile(0.5){again}"
    )


def _sum(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def about_residuals(found: Correlogram) -> str | None:
    """Structure that the model has left in the residuals.

    >>> one = np.ones(1)
    >>> about_residuals(Correlogram(0.3 * one, 0.21 * one, 0.02 * one, 2500 * one))
    'residuals are still correlated at distance 0.3 (0.21 ± 0.02)'
    """
    strong = (np.abs(found.correlation) > _ERRORS * found.error) & (np.abs(found.correlation) > 0.1)
    if not strong.any():
        return None
    worst = int(np.argmax(np.where(strong, np.abs(found.correlation), 0.0)))
    return (
        f"residuals are still correlated at distance {found.distance[worst]:.2g} "
        f"({found.correlation[worst]:.2f} ± {found.error[worst]:.2f})"
    )


def about_spread(sizes: Correlogram, residuals: Correlogram, varying: bool) -> str | None:
    """Residuals whose sizes are alike at neighbouring rows, beyond what residuals that are alike explain.

    >>> one = np.ones(1)
    >>> alike = Correlogram(0.3 * one, 0.21 * one, 0.02 * one, 2500 * one)
    >>> about_spread(alike, Correlogram(0.3 * one, 0.02 * one, 0.02 * one, 2500 * one), varying=True)
    'residuals are larger in some places than in others: try VaryingNoiseRegressor'
    """
    # the sizes of normal numbers with correlation ρ have one of about 0.9 ρ²
    excess = sizes.correlation[:1] - 0.9 * residuals.correlation[:1] ** 2
    if not np.any((excess > _ERRORS * sizes.error[:1]) & (excess > 0.1)):
        return None
    return "residuals are larger in some places than in others" + (": try VaryingNoiseRegressor" if varying else "")


def about_skewness(found: Skewness) -> str | None:
    """Training rows at which f is less certain on one side than a Gaussian posterior says.

    >>> print(about_skewness(Skewness(np.array([0.1, -0.9, -0.7]), True)))  # doctest: +NORMALIZE_WHITESPACE
    the posterior of f is skewed at 2 of 3 training rows (most at rows 1, 2: skewness -0.90, -0.70): there its 5 % and
    95 % quantiles lie up to 0.26 sd lower than those of a Gaussian
    """
    strong = np.flatnonzero(np.abs(found.shift) > _SHIFT)
    if not len(strong):
        return None
    worst = strong[np.argsort(-np.abs(found.shift[strong]), kind="stable")][:3]
    rows = ", ".join(str(row) for row in worst)
    values = ", ".join(f"{value:.2f}" for value in found.skewness[worst])
    many = f"{len(strong):,} of {len(found.shift):,} training rows"
    largest = found.shift[worst[0]]
    side = "lower" if largest < 0.0 else "higher"
    return (
        f"the posterior of f is skewed at {many} (most at row{'s' if len(worst) > 1 else ''} {rows}: skewness "
        f"{values}): there its 5 % and 95 % quantiles lie up to {abs(largest):.2f} sd {side} than those of a Gaussian"
    )


def about_range(found: KernelRange) -> str | None:
    """A kernel that hardly reaches from one training point to the next.

    >>> about_range(KernelRange(distance=0.13, spacing=0.1, ratio=1.3))
    'the range of the kernel (0.13) is only 1.3 times the spacing of the training points (0.1)'
    """
    if not found.ratio < 2.0:
        return None
    return (
        f"the range of the kernel ({found.distance:.2g}) is only {found.ratio:.2g} times the spacing of the training "
        f"points ({found.spacing:.2g})"
    )


def about_neighbors(found: Refit | None) -> str | None:
    """A graph too sparse for its kernel.

    >>> about_neighbors(Refit(n_neighbors=40, change=0.031, error=0.004, rows=5000))
    'K is small for this smooth kernel: K=40 changes the log density by 0.03'
    """
    if found is not None and np.isnan(found.change):
        return f"the fit with K={found.n_neighbors} fails, because the kernel matrix is nearly singular: add a nugget"
    if found is None or abs(found.change) <= max(0.01, 2.0 * found.error):
        return None
    return f"K is small for this smooth kernel: K={found.n_neighbors} changes the log density by {found.change:.2f}"


def _percent(share: float) -> str:
    """A share in per cent, with a decimal where whole numbers would mislead."""
    percent = 100.0 * share
    return f"{percent:.1f} %" if 0.0 < percent < 0.95 or 99.5 <= percent < 100.0 else f"{percent:.0f} %"
