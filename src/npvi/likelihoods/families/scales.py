"""What likelihoods share: how large the noise may be at first, and moments of responses with mean exp(f)."""

from __future__ import annotations

import numpy as np

__all__ = [
    "NOISE_SHARE",
    "SMALLEST",
    "exp_moments",
    "hardly_varies",
    "log_variance",
    "noise_variance",
    "robust_noise_variance",
    "spread",
    "spread_of_exp",
    "without_outliers",
]

NOISE_SHARE = 0.1
"""The share of the variance of the responses that learning first takes for noise."""
_ROUNDING = 1e-12
"""A standard deviation relative to the size of the numbers that is but their rounding."""
_WIDE = 600.0
"""A variance v from which on exp(v) and exp(v) − 1 are the same number, and soon none."""
_FAR = 100.0
"""Standard deviations of the bulk, beyond which an outlier says nothing of where f is."""
SMALLEST = float(np.finfo(np.float64).tiny)
"""What a positive draw that underflows becomes."""


def hardly_varies(y: np.ndarray) -> bool:
    """Whether `y` is one number, as far as rounding tells.

    >>> hardly_varies(np.array([5.0, 5.0, np.nextafter(5.0, 6.0)])), hardly_varies(np.array([5.0, 5.0001]))
    (True, False)
    """
    return not float(np.std(y)) > _ROUNDING * float(np.sqrt(np.mean(np.square(y)))) if len(y) else True


def noise_variance(y: np.ndarray) -> float | None:
    """A tenth of the variance of `y`, or None where there is none but rounding.

    >>> noise_variance(np.array([0.0, 2.0]))
    0.1
    """
    variance = float(np.var(y)) if len(y) else 0.0
    return NOISE_SHARE * variance if np.isfinite(variance) and not hardly_varies(y) else None


def without_outliers(y: np.ndarray) -> np.ndarray:
    """`y`, with numbers very far from the bulk moved nearer: where f may be at first, if there are outliers.

    >>> without_outliers(np.array([-2.0, -0.6745, 0.0, 0.6745, 1e9])).round(1).tolist()
    [-2.0, -0.7, 0.0, 0.7, 100.0]
    """
    middle, far = float(np.median(y)) if len(y) else 0.0, _FAR * spread(y)
    return np.clip(np.asarray(y, dtype=np.float64), middle - far, middle + far)


def log_variance(y: np.ndarray) -> float | None:
    """A tenth of the variance of log y."""
    return noise_variance(np.log(y))


def robust_noise_variance(y: np.ndarray) -> float | None:
    """A tenth of the variance that a normal distribution with the quartiles of `y` has: outliers don't count.

    >>> round(robust_noise_variance(np.array([-1.0, -0.6745, 0.0, 0.6745, 1e9])), 3)
    0.1
    """
    spread = float(np.subtract(*np.percentile(y, [75, 25]))) / 1.349 if len(y) else 0.0
    return NOISE_SHARE * spread**2 if spread > 0.0 and not hardly_varies(y) else noise_variance(y)


def spread(y: np.ndarray) -> float:
    """Standard deviation of `y` by its quartiles, where these differ, else its own; 1 where nothing differs.

    >>> round(spread(np.array([-1.0, -0.6745, 0.0, 0.6745, 1e9])), 3)
    1.0
    """
    noise = robust_noise_variance(np.asarray(y, dtype=np.float64))
    return 1.0 if noise is None else float(np.sqrt(noise / NOISE_SHARE))


def exp_moments(m: np.ndarray, v: np.ndarray, relative: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of y for E[y | f] = exp(f), Var[y | f] = relative · exp(2f), f ~ N(m, v)."""
    with np.errstate(over="ignore"):  # beyond float64 they are inf
        mean = np.exp(m + 0.5 * v)
        return mean, relative * np.exp(2.0 * (m + v)) + spread_of_exp(m, v)


def spread_of_exp(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Var exp(f) = exp(2m + v) (exp(v) − 1) of f ~ N(m, v); infinite where it is beyond float64.

    >>> spread_of_exp(np.array([0.0, -800.0]), np.array([np.log(2.0), 800.0]))  # where exp(v) is no number
    array([2., 1.])
    """
    wide = v > _WIDE
    with np.errstate(over="ignore"):
        found = np.exp(2.0 * m + np.where(wide, 0.0, v)) * np.expm1(np.where(wide, 1.0, v))
        return np.where(wide, np.exp(2.0 * (m + v)), found) if np.any(wide) else found
