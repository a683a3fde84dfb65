"""Do learned hyper-parameters recover the truth, and do their standard errors say how well?

    python -m benchmarks.accuracy.recovery [simulations]

Matérn-3/2, 5,000 points in the unit square, Poisson with a nugget and Bernoulli without. A pair of (simulation,
parameter) counts as recovered where the logarithm of the learned number is within two standard errors of the truth's.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import npvi
from benchmarks.common import say, show
from npvi.graph import build_graph
from npvi.priors import NNGP

_N = 5000
_TRUTH = {
    "poisson": {"kernel__length_scale": 0.15, "kernel__variance": 1.0, "nugget": 0.2},
    "bernoulli": {"kernel__length_scale": 0.15, "kernel__variance": 4.0},  # a label says nothing of a nugget
}


def simulate(likelihood: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    truth = _TRUTH[likelihood]
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(_N, 2))
    graph = build_graph(X, 40)
    kernel = npvi.kernels.Matern32(truth["kernel__length_scale"], truth["kernel__variance"])
    prior = NNGP(kernel, truth.get("nugget", 1e-6), X[graph.order], graph)
    f = np.empty(_N)
    f[graph.order] = prior.root.solve(rng.standard_normal(_N))
    y = rng.poisson(np.exp(f)) if likelihood == "poisson" else rng.uniform(size=_N) < 1.0 / (1.0 + np.exp(-f))
    return X, y.astype(float)


def main() -> None:
    simulations = int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 20
    rows, recovered = [], []
    for likelihood, truth in _TRUTH.items():
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in truth}
        started = time.perf_counter()
        for seed in range(simulations):
            X, y = simulate(likelihood, seed)
            # starts that are wrong on purpose
            wrong = {"nugget": 1.0} if "nugget" in truth else {}
            model = npvi.GPRegressor(likelihood, npvi.kernels.Matern32(1.0, 2.0), **wrong).fit(X, y)
            table = model.summary(standard_errors=True)
            for name, true in truth.items():
                value, error = table.loc[name, ["value", "standard_error"]]
                found[name].append((np.log(value / true), error / value))
        seconds = (time.perf_counter() - started) / simulations
        for name, pairs in found.items():
            off, error = np.array(pairs).T
            within = np.abs(off) <= 2.0 * error
            recovered.extend(within)
            rows.append((likelihood, name, truth[name], off.mean(), off.std(), error.mean(), within.mean(), seconds))
    header = (
        "likelihood",
        "parameter",
        "truth",
        "mean log error",
        "its spread",
        "stated s.e.",
        "within 2 s.e.",
        "s each",
    )
    show(f"{simulations} simulations of {_N} points each", header, rows)
    say(f"  all pairs within two standard errors: {np.mean(recovered):.3f} (≥ 0.85)")


if __name__ == "__main__":
    main()
