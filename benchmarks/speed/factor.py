"""Conjugate gradients with the zero-fill factor, next to the classical preconditioner, over a grid of 432 cases.

python -m benchmarks factor
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.common import show
from npvi.components import ProcessPrecision
from npvi.graph import build_graph
from npvi.kernels import RBF, Matern12, Matern32
from npvi.linalg import conjugate_gradients
from npvi.priors import NNGP
from npvi.priors.nngp import classical

_N = 6000
_KERNELS = {"exponential": (Matern12, 1e-6), "Matérn-3/2": (Matern32, 1e-5), "RBF": (RBF, 1e-4)}
_LENGTH_SCALES = {2: (0.05, 0.2), 8: (0.5, 2.0)}


def main(seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    cases = []
    for d, scales in _LENGTH_SCALES.items():
        for layout in ("uniform", "clustered", "duplicated"):
            X = _points(rng, layout, d)
            for K in (10, 20, 30):
                graph = build_graph(X, K)
                for name, (kernel, nugget) in _KERNELS.items():
                    nugget = max(nugget, 1e-3) if layout == "duplicated" else nugget
                    for scale in scales:
                        prior = NNGP(kernel(scale, 1.0), nugget, X[graph.order], graph)
                        for weights in ("0.05", "1", "100", "spread"):
                            w = 10 ** rng.uniform(-3, 2, _N) if weights == "spread" else np.full(_N, float(weights))
                            case = _case(prior, w, rng.standard_normal(_N))
                            cases.append({"d": d, "layout": layout, "K": K, "kernel": name, "w": weights, **case})
    iterations = np.array([case["factor"] for case in cases])
    reached = np.array([case["reached"] for case in cases])
    show(
        f"{len(cases)} cases, N = {_N:,}, CG to 1e-6 with the zero-fill factor: "
        f"{(iterations <= 12).sum()} within 12 iterations ({(iterations <= 12).mean():.1%}; 95 % wanted), median "
        f"{np.median(iterations):.0f}; all in the end, by the fallbacks: {reached.all()}",
        ("kernel", "w", "factor it.", "worst", "classical it.", "factor+CG ms", "classical CG ms", "fallbacks"),
        [_summary(kernel, weights, cases) for kernel in _KERNELS for weights in ("0.05", "1", "100", "spread")],
    )
    slow = [case for case in cases if case["factor"] > 12]
    if slow:
        names = ("d", "layout", "K", "kernel", "w", "factor", "breakdowns", "solver", "classical")
        show("The cases past 12 iterations", names, [[case[name] for name in names] for case in slow])


def _points(rng: np.random.Generator, layout: str, d: int) -> np.ndarray:
    if layout == "uniform":
        return rng.random((_N, d))
    if layout == "clustered":
        centres = rng.random((60, d))
        return np.clip(centres[rng.integers(60, size=_N)] + 0.02 * rng.standard_normal((_N, d)), 0.0, 1.0)
    return rng.random((_N // 3, d))[rng.integers(_N // 3, size=_N)]


def _case(prior: NNGP, w: np.ndarray, rhs: np.ndarray) -> dict:
    solver = ProcessPrecision(prior, w)
    prior.lower_half  # noqa: B018  the sweep needs it in any case
    started = time.perf_counter()
    _, factor = solver._build(solver._first_route())
    by_factor = conjugate_gradients(solver.matvec, rhs, factor.solve, 1e-6, 60)
    between = time.perf_counter()
    by_classical = conjugate_gradients(solver.matvec, rhs, classical(prior, w).solve, 1e-6, 3000)
    ended = time.perf_counter()
    x = solver.solve(rhs, 1e-6)
    return {
        "factor": by_factor.iterations,
        "breakdowns": len(factor.breakdowns),
        "classical": by_classical.iterations,
        "factor s": between - started,
        "classical s": ended - between,
        "solver": solver.log.iterations[-1],
        "fallbacks": len(solver.log.fallbacks),
        "reached": bool(np.linalg.norm(solver.matvec(x) - rhs) <= 1.01e-6 * np.linalg.norm(rhs)),
    }


def _summary(kernel: str, weights: str, cases: list[dict]) -> list:
    some = [case for case in cases if case["kernel"] == kernel and case["w"] == weights]

    def median(name):
        return float(np.median([case[name] for case in some]))

    worst = max(case["factor"] for case in some)
    times = [1e3 * median("factor s"), 1e3 * median("classical s")]
    return [kernel, weights, median("factor"), worst, median("classical"), *times, sum(c["fallbacks"] for c in some)]


if __name__ == "__main__":
    main()
