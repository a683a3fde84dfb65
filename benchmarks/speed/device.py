"""A recognised posterior on whatever device JAX has, next to the CPU's: points per second, training time, the gap.

    python -m benchmarks.speed.device [points]

Simulated Poisson counts in the unit square, Matérn-3/2, K = 10. Graph and prior are not counted, nor is compilation.
"""

from __future__ import annotations

import sys
import time

import jax
import numpy as np

from benchmarks.common import say, show
from npvi.amortized.inference import train_on
from npvi.amortized.local import pieces_by_sparse_solves, recognise_locally
from npvi.amortized.patches import make_patches
from npvi.amortized.settings import SiteNetwork
from npvi.components import Coefficients, Process, Stack
from npvi.graph import build_graph
from npvi.inference import Data, SparseFactors, fit_posterior
from npvi.kernels import Matern32
from npvi.likelihoods import Poisson
from npvi.priors import NNGP
from npvi.runtime.parallel import threads


def problem(n: int) -> tuple[Data, Stack]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2)) * np.sqrt(n / 1000.0)
    graph = build_graph(X, 10, order="random").packed()
    prior = NNGP(Matern32(0.3, 1.0), 0.05, X[graph.order], graph)
    f = prior.root.solve(rng.standard_normal(n))
    return Data(Poisson(), rng.poisson(np.exp(f)).astype(np.float64)), Stack(
        Process(prior), Coefficients(np.zeros((n, 0)))
    )


def timed(function, repeats: int = 2) -> tuple[float, float, object]:
    """Seconds of the first call and of the best of the others, and the last result."""
    times = []
    for _ in range(1 + repeats):
        started = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - started)
    return times[0], min(times[1:]), result


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 20_000
    say(f"devices {jax.devices()}, {n} points")
    data, stack = problem(n)
    rows = []
    with threads(None):
        first, training, recognizer = timed(lambda: train_on(data, stack, SiteNetwork(), 0))
        rows.append(("training", jax.default_backend(), first - training, training, ""))
        first, seconds, fit = timed(lambda: recognise_locally(recognizer, data, stack))
        rows.append(("applying", jax.default_backend(), first - seconds, seconds, f"{n / seconds:.0f}"))
        say(str({name: fit.info[name] for name in ("points_per_second", "applicability", "pieces", "device")}))
    rates = []
    if jax.default_backend() != "cpu":
        layout = make_patches(stack.prior.X, stack.prior.graph, 2048, 1024)
        few = layout._replace(**{name: part[:60] for name, part in layout._asdict().items()})
        points = int(few.core.sum())
        for count in (2, None):
            with threads(count):
                _, seconds, _ = timed(lambda: pieces_by_sparse_solves(recognizer, data, stack, few), 1)
            rates.append(points / seconds)
            rows.append((f"applying, {count or 'all'} cores", "cpu", 0.0, seconds, f"{points / seconds:.0f}"))
        say(
            f"device / two cores: {fit.info['points_per_second'] / rates[0]:.1f}, / all: "
            f"{fit.info['points_per_second'] / rates[1]:.1f}"
        )
    show("recognised posterior", ["what", "device", "compilation s", "s", "points per second"], rows)
    if n <= 200_000:
        with threads(None):
            best = fit_posterior(SparseFactors(stack.prior), data, stack)
        say(f"gap {(best.elbo - fit.elbo) / n:.5f} nats per point")


if __name__ == "__main__":
    main()
