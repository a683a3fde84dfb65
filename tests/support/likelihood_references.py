"""Distributions that SciPy lacks, or has too slowly, with the methods of its frozen ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import special, stats


class Discrete:
    """Whole numbers; a subclass has pmf, cdf, mean and var."""

    def logpmf(self, y):
        return np.log(self.pmf(y))

    def ppf(self, q):
        y = np.full(np.shape(self.mean()), -1.0)
        for k in range(10_000):
            y = np.where((y < 0.0) & (self.cdf(float(k)) >= q), k, y)
            if np.all(y >= 0.0):
                break
        return y


class Finite(Discrete):
    """0, 1, …, n with given probabilities, stacked along the first axis."""

    def __init__(self, probabilities):
        self.probabilities = np.asarray(probabilities)
        self.values = np.arange(float(len(probabilities))).reshape(-1, *[1] * (self.probabilities.ndim - 1))

    def pmf(self, y):
        if self.probabilities.ndim == 1:
            return np.array([self.probabilities[int(k)] if k < len(self.values) else 0.0 for k in np.atleast_1d(y)])
        return self.probabilities[int(y)]

    def cdf(self, y):
        y = np.asarray(y)
        return sum(p * (k <= y) for k, p in enumerate(self.probabilities))

    def mean(self):
        return (self.values * self.probabilities).sum(0)

    def var(self):
        return ((self.values - self.mean()) ** 2 * self.probabilities).sum(0)


def negative_binomial(mean, r):
    with np.errstate(over="ignore"):
        return stats.nbinom(r, np.maximum(r / (r + mean), 1e-300))


def beta_binomial(n, a, b):
    frozen = stats.betabinom(n, np.maximum(a, 1e-300), np.maximum(b, 1e-300))
    return Finite([frozen.pmf(k) for k in range(int(n) + 1)])


def ordinal(cuts, f):
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    between = []
    for low, high in pairwise(ends):
        low, high = low - np.asarray(f), high - np.asarray(f)
        right = stats.norm.sf(low) - stats.norm.sf(high)
        between.append(np.where(low > 0.0, right, stats.norm.cdf(high) - stats.norm.cdf(low)))
    return Finite(between)


class WithZeros(Discrete):
    """0 with a probability, else `counts`."""

    def __init__(self, zero, counts):
        self.zero, self.counts = zero, counts

    def pmf(self, y):
        return self.zero * (np.asarray(y) == 0.0) + (1.0 - self.zero) * self.counts.pmf(y)

    def logpmf(self, y):
        y = np.asarray(y)
        return np.where(y > 0.0, np.log1p(-self.zero) + self.counts.logpmf(y), np.log(self.pmf(0.0 * y)))

    def cdf(self, y):
        return self.zero * (np.asarray(y) >= 0.0) + (1.0 - self.zero) * self.counts.cdf(y)

    def mean(self):
        return (1.0 - self.zero) * self.counts.mean()

    def var(self):
        return (1.0 - self.zero) * (self.counts.var() + self.zero * self.counts.mean() ** 2)


class PositivePoisson(Discrete):
    """Poisson counts known not to be 0."""

    def __init__(self, rate):
        self.rate = np.clip(rate, 1e-300, 1e300)
        self.whole = stats.poisson(self.rate)
        self.share = -np.expm1(-self.rate)

    def pmf(self, y):
        return np.where(np.asarray(y) > 0.0, self.whole.pmf(y) / self.share, 0.0)

    def logpmf(self, y):
        return self.whole.logpmf(y) - np.log(self.share)

    def cdf(self, y):
        return np.where(np.asarray(y) < 1.0, 0.0, 1.0 - self.whole.sf(y) / self.share)

    def mean(self):
        return self.rate / self.share

    def var(self):
        return self.mean() * (1.0 + self.rate) - self.mean() ** 2


class Tweedie:
    """Power 3/2, where the amounts are exponential and there are closed forms: a Bessel function for the density,
    and P(Y ≤ y) = P(N ≤ M) for independent Poisson N and M, the tail of a noncentral χ²."""

    def __init__(self, mean, dispersion):
        self.location, self.dispersion = np.clip(mean, 1e-200, 1e200), dispersion
        self.amounts = 2.0 * np.sqrt(self.location) / dispersion
        self.scale = 0.5 * dispersion * np.sqrt(self.location)

    def logpdf(self, y):
        if y == 0.0:
            return -self.amounts
        x = y / self.scale
        root = np.sqrt(self.amounts * x)
        bessel = np.log(special.ive(1, 2.0 * root)) + 2.0 * root
        return bessel - self.amounts - x + 0.5 * np.log(self.amounts / x) - np.log(self.scale)

    def cdf(self, y):
        y, x, amounts = np.broadcast_arrays(y, np.maximum(y, 0.0) / self.scale, self.amounts)
        difference = np.sqrt(x) - np.sqrt(amounts)  # in units of about 1/√2 standard deviation
        out = np.array(difference > 0.0, dtype=float)
        near = np.abs(difference) < 12.0
        out[near] = stats.ncx2.sf(2.0 * amounts[near], 2.0, 2.0 * x[near])
        return np.where(y < 0.0, 0.0, out)

    def ppf(self, q):
        low, high = np.zeros(np.shape(self.location)), 1e4 * self.location
        for _ in range(200):
            middle = 0.5 * (low + high)
            reached = self.cdf(middle) >= q
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.where(self.cdf(0.0) >= q, 0.0, high)

    def mean(self):
        return self.location

    def var(self):
        return self.dispersion * self.location**1.5
