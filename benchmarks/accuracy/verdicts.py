"""Whether ``method="npvi-nn"`` says "trust" only where that is true: its verdicts beside the full posterior.

    python -m benchmarks verdicts

Twenty simulated sets of 800 rows: ten as networks were trained on, with other seeds; five with rare events; five on a
scale far from training. On so few rows ``method="full"`` is dense and exact.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import say, show
from npvi.amortized.api import FAMILIES, Simulated, simulate
from npvi.amortized.inference import train_on
from npvi.amortized.recognition import Distance, distance, recognise
from npvi.amortized.recognizer import pretrained
from npvi.amortized.settings import SiteNetwork
from npvi.components import Coefficients, Process, Stack
from npvi.graph import build_graph
from npvi.inference import AllCovariances, Data, fit_posterior
from npvi.kernels import RBF, Kernel, Matern12, Matern32, Matern52
from npvi.likelihoods import Bernoulli, Likelihood, NegativeBinomial, Poisson
from npvi.priors import NNGP
from npvi.runtime.parallel import threads

#: no simulation of training had such seeds
_SEED = 20_000_003


class Judged(NamedTuple):
    """A verdict, what it was based on, and the truth."""

    verdict: str
    seen: dict[str, Any]
    true: Distance
    seconds: float
    """That recognition took."""


def sets(n: int) -> Iterator[tuple[str, Simulated]]:
    """The twenty sets by name."""
    for seed in range(2):
        for family in FAMILIES:
            yield f"{family} {seed + 1}", simulate(family, _SEED + seed, n)
    # f is drawn and events are made rarer until 1 % of rows, or counts of 0.02 a row, are left
    yield "rare: yes or no", rare(Matern32(10.0, 1.0), 0.1, Bernoulli(), 0.01, n)
    yield "rare: yes or no, probit", rare(Matern12(20.0, 0.3), 0.05, Bernoulli(link="probit"), 0.01, n)
    yield "rare: yes or no, rough", rare(Matern32(1.0, 1.0), 0.5, Bernoulli(), 0.01, n)
    yield "rare: counts", rare(RBF(8.0, 1.5), 0.05, Poisson(), 0.02, n)
    yield "rare: overdispersed counts", rare(Matern52(5.0, 1.0), 0.2, NegativeBinomial(0.5), 0.02, n)
    yield "far: variance 30", far(Matern32(10.0, 30.0), 0.1, Poisson(), 0.0, n)
    yield "far: variance 30, yes or no", far(Matern52(15.0, 30.0), 1.0, Bernoulli(), 0.0, n)
    yield "far: 1 spacing", far(Matern32(1.0, 2.0), 0.02, Poisson(), 0.5, n)
    yield "far: 300 spacings", far(Matern32(300.0, 2.0), 0.02, NegativeBinomial(3.0), 0.5, n)
    yield "far: thousands", far(Matern32(10.0, 1.0), 0.1, Poisson(), 8.0, n)


def rare(kernel: Kernel, nugget: float, likelihood: Likelihood, mean: float, n: int, seed: int = 0) -> Simulated:
    """Events with this mean over all rows; the constant is not known to the prior, and always one event is there."""
    rng, X, f = _surface(kernel, nugget, n, seed)
    low, high = -30.0, 30.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        expected = float(np.mean(likelihood.conditional_mean(f + middle)))
        low, high = (middle, high) if expected < mean else (low, middle)
    y = likelihood.sample(rng, f + low)
    y[np.argmax(f)] = max(1.0, y[np.argmax(f)])
    return _simulated(kernel, nugget, likelihood, X, y)


def far(kernel: Kernel, nugget: float, likelihood: Likelihood, level: float, n: int, seed: int = 0) -> Simulated:
    """f around a level."""
    rng, X, f = _surface(kernel, nugget, n, seed)
    return _simulated(kernel, nugget, likelihood, X, likelihood.sample(rng, np.minimum(f + level, 12.0)))


def judged(one: Simulated, network: str, seed: int = 0) -> Judged:
    """By the shipped network, or one trained on these data."""
    likelihood = one.data.likelihood
    own = network == "trained"
    recognizer = train_on(*one, SiteNetwork(), seed) if own else pretrained(likelihood)
    started = time.perf_counter()
    fit = recognise(recognizer, *one)
    found = fit.info["applicability"]
    seconds = time.perf_counter() - started - found["seconds"]
    full = fit_posterior(AllCovariances(one.stack.prior), *one)
    return Judged(found["verdict"], found, distance(fit.posterior, full.posterior), seconds)


def main() -> None:
    rows = []
    counts = dict.fromkeys(("trust", "true", "false"), 0)
    shares = []
    with threads(None):
        for name, one in sets(800):
            for network in ("pretrained", "trained"):
                verdict, seen, true, seconds = judged(one, network)
                shares.append(seen["seconds"] / seconds)
                counts["trust"] += verdict == "trust"
                counts["true"] += true.near
                counts["false"] += verdict == "trust" and not true.near
                rows.append((name, network, verdict, *_cells(seen), *_cells(true._asdict()), seen["seconds"], seconds))
    header = ("set", "network", "verdict", "mean off", "sd", "truly", "sd", "judging s", "recognising s")
    show('Verdicts: means off in sd, and smallest sd, beside method="full"; as judged, and truly', header, rows)
    say(
        f'\n  "trust" {counts["trust"]} times of {len(rows)}, {counts["true"]} were within the limits, '
        f'{counts["false"]} "trust" were wrong; judging took {np.median(shares):.2f} of recognising (median)'
    )


def _cells(numbers: dict[str, Any]) -> tuple[str, str]:
    return f"{numbers['mean_offset']:.3f}", f"{numbers['smallest_sd_ratio']:.3f}"


def _surface(kernel: Kernel, nugget: float, n: int, seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Places at a spacing of 1, in the graph's order, and a draw at them."""
    rng = np.random.default_rng((_SEED, seed))
    X = rng.uniform(size=(n, 2)) * np.sqrt(n)
    graph = build_graph(X, 30)
    X = X[graph.order]
    return rng, X, NNGP(kernel, nugget, X, graph).root.solve(rng.standard_normal(n))


def _simulated(kernel: Kernel, nugget: float, likelihood: Likelihood, X: np.ndarray, y: np.ndarray) -> Simulated:
    graph = build_graph(X, 10)
    prior = NNGP(kernel, nugget, X[graph.order], graph)
    return Simulated(Data(likelihood, y[graph.order]), Stack(Process(prior), Coefficients(np.ones((len(y), 1)))))


if __name__ == "__main__":
    main()
