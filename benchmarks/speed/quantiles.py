"""Milliseconds that means and 90 % intervals of 1,000 rows take, for every likelihood by name.

    python -m benchmarks quantiles

One thread, after compilation, the shortest of several CPU times, beside that of 1,000,000 incomplete gamma functions in
the same run. The first interval of a model makes tables that later ones find (`integrals/lattice.py`): it stands apart.
f with means N(½, 1.2²) and variances from 0.005 to 1.5. A mixture of twenty has what predictions with
uncertain hyper-parameters have: means, variances and noise parameters that differ from model to model. The deviation is
the largest distance between q and P(Y ≤ y) at the quantile y, by `Predictive.cdf`; of a discrete y by how much P(Y ≤ y)
misses q from below or P(Y ≤ y − 1) reaches it, and of numbers that float64 cannot tell from their neighbours by how
much those miss it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammainc

from benchmarks.common import show
from npvi.likelihoods import Beta, BetaBinomial, Binomial, Gamma, Gaussian, NegativeBinomial, Poisson, Tweedie
from npvi.likelihoods.integrals.lattice import forget
from npvi.likelihoods.registry import LIKELIHOODS
from npvi.parameters import POSITIVE_NUMBER
from npvi.predictive.base import Predictive
from npvi.predictive.mixture import MixturePredictive
from npvi.predictive.varying_noise import VaryingNoisePredictive
from npvi.runtime.parallel import threads

_ROWS, _LEVELS = 1000, (0.05, 0.95)


def main() -> None:
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(0.5, 1.2, _ROWS), np.exp(rng.uniform(np.log(0.005), np.log(1.5), _ROWS))
    shapes, points = rng.uniform(1.0, 10.0, (2, 1_000_000))
    rows = []
    with threads(1):
        for name, make in _cases(mean, variance, rng).items():
            dist = make()
            dist.interval(0.9), dist.mean
            ends = dist.interval(0.9)
            milliseconds = [1e3 * _cpu(lambda make=make: make().mean), 1e3 * _cpu(lambda dist=dist: dist.interval(0.9))]
            deviation = max(_deviation(dist, q, y) for q, y in zip(_LEVELS, ends))
            loop = 1e3 * _cpu(lambda: gammainc(shapes, points), 3)
            forget()
            milliseconds.append(1e3 * _cpu(lambda dist=dist: dist.interval(0.9), 1))
            times = (f"{value:.2f}" for value in milliseconds)
            rows.append((name, *times, milliseconds[1] / loop, f"{deviation:.0e}"))
    names = ("mean, ms", "90 % interval, ms", "the first, ms", "of 10⁶ gammainc", "largest |F(y) − q|")
    header = ("likelihood", *names)
    show(f"Means and intervals of {_ROWS:,} rows, one thread", header, rows)


def _cases(mean: np.ndarray, variance: np.ndarray, rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    def plain(likelihood: Any, **row: Any) -> Callable[[], Any]:
        return lambda: Predictive(likelihood, mean, variance, row)

    def mixed(likelihood: Any) -> Callable[[], Any]:
        def make() -> Any:
            parts = [Predictive(likelihood, mean, variance), Predictive(likelihood, mean - 0.3, 2.0 * variance)]
            return MixturePredictive(parts, [0.7, 0.3])

        return make

    exposure, trials = rng.uniform(0.5, 5.0, len(mean)), rng.integers(1, 100, len(mean)).astype(np.float64)
    found = {name: plain(kind()) for name, kind in LIKELIHOODS.items()}
    found["poisson, exposure of 1,000"] = plain(Poisson(), exposure=1000.0)
    found["poisson, softplus, exposures"] = plain(Poisson("softplus"), exposure=exposure)
    found["negative_binomial, softplus, exposures"] = plain(NegativeBinomial(2.0, "softplus"), exposure=exposure)
    found["binomial, 1 to 99 trials"] = plain(Binomial(), trials=trials)
    found["beta_binomial, 1 to 99 trials"] = plain(BetaBinomial(), trials=trials)
    found["beta_binomial, 10,000 trials"] = plain(BetaBinomial(), trials=10_000.0)
    found["beta, concentration of 300"] = plain(Beta(300.0))
    found["tweedie, power 1.8, exposures"] = plain(Tweedie(1.8, 2.0), exposure=exposure)
    found["mixture of two, gaussian"] = mixed(Gaussian(0.1))
    found["mixture of two, poisson"] = mixed(Poisson())
    found["mixture of two, gamma"] = mixed(Gamma(3.0))
    for name in LIKELIHOODS:
        found[f"mixture of twenty, {name}"] = _twenty(name, mean, variance)
    found["varying noise, gaussian"] = lambda: VaryingNoisePredictive(Gaussian(0.1), mean, variance, mean, variance)
    return found


def _twenty(name: str, mean: np.ndarray, variance: np.ndarray) -> Callable[[], Any]:
    rng, sd = np.random.default_rng(1), np.sqrt(variance)
    parts = []
    for _ in range(20):
        likelihood = LIKELIHOODS[name]()
        for parameter, value in likelihood.get_params(deep=False).items():
            domain = likelihood.domains.get(parameter, POSITIVE_NUMBER)
            if isinstance(value, float) and parameter != "knee":
                # as a logarithm, or between its ends
                shift, low, high = 0.15 * rng.standard_normal(), domain.lower, domain.upper
                odds = (value - low) / (high - value) if np.isfinite(high) else value - low
                odds *= np.exp(shift)
                unit = (high - low) / (1.0 + odds) if np.isfinite(high) else 1.0
                likelihood.set_params(**{parameter: low + odds * unit})
        shifted = mean + sd * (rng.normal(0.0, 0.4) + rng.normal(0.0, 0.1, len(mean)))
        parts.append(Predictive(likelihood, shifted, variance * np.exp(rng.normal(0.0, 0.3))))
    weights = rng.dirichlet(np.full(20, 2.0))
    return lambda: MixturePredictive(parts, weights)


def _cpu(function: Callable[[], Any], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


def _deviation(dist: Any, q: float, y: np.ndarray) -> float:
    support = dist.likelihood.support
    if support.discrete:
        return float(max(np.max(q - dist.cdf(y)), np.max(dist.cdf(y - 1.0) - q), 0.0))
    above, below = dist.cdf(np.nextafter(y, np.inf)), dist.cdf(np.nextafter(y, -np.inf))
    return float(max(np.max(q - above), np.max(below - q), 0.0))


if __name__ == "__main__":
    main()
