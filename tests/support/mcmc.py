"""Elliptical slice sampling, in NumPy: what the posterior is, whatever its shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sampled:
    """Moments of each f under the posterior."""

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray
    """The standard error of `mean`: chains know nothing of each other, so it is how far theirs are from each other."""
    drift: np.ndarray
    """How far the second half of each chain is from its first, in standard errors of that."""


def sample(log_likelihood, precision, mean, covariance, rng, accuracy=0.02, chains=64, burn_in=50, steps=100):
    """Moments of p(f | y) ∝ exp(log_likelihood(f)) N(f; 0, precision⁻¹), to `accuracy` standard deviations.

    Chains side by side, the columns of f, move on ellipses of N(mean, covariance) and are weighed by what the posterior
    is relative to that (Nishihara, Murray & Adams, JMLR 15, 2014). With the prior itself (Murray, Adams & MacKay, 2010)
    it took 60 s a likelihood; any other Gaussian leaves the same law invariant, and a similar one moves far in a step.
    """
    root = np.linalg.cholesky(covariance)
    whiten, n = np.linalg.inv(root), len(mean)

    def log_ratio(x):
        f = mean[:, None] + x
        return log_likelihood(f) - 0.5 * (f * (precision @ f)).sum(axis=0) + 0.5 * ((whiten @ x) ** 2).sum(axis=0)

    x = root @ rng.standard_normal((n, chains))
    height = log_ratio(x)
    for _ in range(burn_in):
        x, height = _step(log_ratio, x, height, root, rng)
    kept = []
    while True:
        for _ in range(steps):
            x, height = _step(log_ratio, x, height, root, rng)
            kept.append(x)
        found = _moments(mean, np.array(kept))
        if np.all(found.error < accuracy * found.sd) or len(kept) >= 20 * steps:
            return found


def _step(log_ratio, x, height, root, rng):
    """One step of every chain: an angle on the ellipse through x and a draw, from a bracket that shrinks towards 0."""
    chains = x.shape[1]
    other = root @ rng.standard_normal(x.shape)
    level = height - rng.exponential(size=chains)
    angle = rng.uniform(0.0, 2.0 * np.pi, chains)
    low, high = angle - 2.0 * np.pi, angle.copy()
    new, new_height = np.empty_like(x), np.empty(chains)
    left = np.arange(chains)
    while len(left):
        trial = x[:, left] * np.cos(angle[left]) + other[:, left] * np.sin(angle[left])
        trial_height = log_ratio(trial)
        good = trial_height > level[left]
        new[:, left[good]], new_height[left[good]] = trial[:, good], trial_height[good]
        left = left[~good]
        low[left] = np.where(angle[left] < 0.0, angle[left], low[left])
        high[left] = np.where(angle[left] < 0.0, high[left], angle[left])
        angle[left] = rng.uniform(low[left], high[left])
    return new, new_height


def _moments(mean, x):
    halves = np.array([half.mean(axis=0) for half in np.array_split(x, 2)])
    of_chains, differences = x.mean(axis=0), halves[1] - halves[0]
    drift = differences.mean(axis=1) / _error(differences)
    return Sampled(mean + of_chains.mean(axis=1), x.std(axis=(0, 2)), _error(of_chains), drift)


def _error(of_chains):
    return of_chains.std(axis=1, ddof=1) / np.sqrt(of_chains.shape[1])
