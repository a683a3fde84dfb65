"""Two processes on top of each other, space and space-time, beside dense matrices.

    python -m benchmarks nested

2,000 places and times, Gaussian responses, everything held; Matérn 3/2 of length scale 0.1 in space, once alone and
once with an exponential correlation in time. *A factor each* is block Gauss–Seidel; *together* is
`npvi.components.nested`, which is taken where the former is seen to crawl; *one process* has the sum of both kernels,
and neighbours by correlation (of it, a part alone isn't known). "error of means" is in posterior standard deviations of
the predictor; "bound" is what is stated less the exact log evidence, with the standard error that random vectors leave;
"variances" are ratios to exact ones, of the predictor and of the part in space: median, and from 5 to 95 %. Seconds are
CPU time of factors, means, variances and the determinant, compilation included the first time.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from scipy import linalg

from benchmarks.common import say, show
from npvi.components import Parts, Process, Rows
from npvi.components.nested import Nested
from npvi.graph import build_graph
from npvi.kernels import Kernel, Matern12, Matern32, Subset, matrix
from npvi.priors import NNGP

_ROWS, _LENGTH, _NUGGET, _NEIGHBORS = 2_000, 0.1, 1e-6, 20
#: standard deviation of the noise, length scale in time, standard deviation of the second process
_CASES = ((0.1, 0.2, 1.0), (1.0, 0.2, 1.0), (3.0, 0.2, 1.0), (0.1, 0.02, 1.0), (0.1, 2.0, 0.3))


class Truth(NamedTuple):
    y: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    of_space: np.ndarray
    evidence: float


def _process(X: np.ndarray, C: np.ndarray, kernel: Kernel, nugget: float) -> Process:
    graph = build_graph(C, _NEIGHBORS)
    return Process(NNGP(kernel, nugget, X[graph.order], graph), Rows(len(X), np.argsort(graph.order)))


def _dense(kernels: list[Kernel], nuggets: list[float], X: np.ndarray, noise: float, rng: np.random.Generator) -> Truth:
    first, second = (matrix(kernel, X) + nugget * np.eye(len(X)) for kernel, nugget in zip(kernels, nuggets))
    f = sum(linalg.cholesky(K, lower=True) @ rng.standard_normal(len(X)) for K in (first, second))
    y = f + noise * rng.standard_normal(len(X))
    factor = linalg.cho_factor(first + second + noise**2 * np.eye(len(X)), lower=True)
    of_y = linalg.cho_solve(factor, y)
    evidence = -0.5 * y @ of_y - np.log(np.diag(factor[0])).sum() - 0.5 * len(X) * np.log(2.0 * np.pi)
    both = [np.diag(K) - np.einsum("ij,ji->i", K, linalg.cho_solve(factor, K)) for K in (first + second, first)]
    return Truth(y, (first + second) @ of_y, both[0], both[1], float(evidence))


def _quantiles(ratio: np.ndarray) -> str:
    low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _row(parts: Parts, truth: Truth, noise: float) -> tuple[object, ...]:
    w = np.full(len(truth.y), noise**-2.0)
    started = time.process_time()
    precision = parts.at(w)
    assert precision is not None
    z = precision.solve(parts.transpose_times(w * truth.y), 1e-6)
    variances = precision.variances(np.random.default_rng(0))
    determinant = precision.determinant(np.random.default_rng(0))
    seconds = time.process_time() - started
    mean = parts.times(z)
    quadratic = parts.quadratic(z) + float(np.sum(w * (truth.y - mean) ** 2))
    logs = determinant.logarithm + parts.logdet - float(np.sum(np.log(w / (2.0 * np.pi))))
    error = np.sqrt(np.mean((mean - truth.mean) ** 2 / truth.variance))
    bound = f"{-0.5 * (quadratic + logs) - truth.evidence:.1f} ± {0.5 * determinant.error:.1f}"
    of_space = _quantiles(variances.parts[0] / truth.of_space) if len(variances.parts) == 2 else ""
    found = (_quantiles(variances.predictor / truth.variance), of_space)
    return precision.iterations[0], float(error), bound, *found, seconds


def _one(pair: Nested, n: int, times: int) -> Parts:
    """One process with the sum kernel, of so many times the neighbours."""
    fine = pair.fine.prior
    graph = build_graph(fine.kernel.coordinates(fine.X), times * _NEIGHBORS, order="given")
    wide = Process(NNGP(fine.kernel, fine.nugget, fine.X, graph), pair.fine.rows)
    prior = Nested(pair.coarse, wide).of_sum
    return Parts([Process(prior, Rows(n, pair.fine.at))], dense=0)


def main() -> None:
    rows: list[tuple[object, ...]] = []
    for noise, in_time, sd in _CASES:
        rng = np.random.default_rng(1)
        X = rng.uniform(size=(_ROWS, 3))
        space = Matern32(_LENGTH)
        moments = Subset(Matern32(_LENGTH, sd**2), [0, 1]) * Subset(Matern12(in_time), [2])
        nuggets = [_NUGGET, sd**2 * _NUGGET]
        truth = _dense([Subset(space, [0, 1]), moments], nuggets, X, noise, rng)
        first = _process(X[:, :2], X[:, :2], space, nuggets[0])
        second = _process(X, X / np.array([_LENGTH, _LENGTH, in_time]), moments, nuggets[1])
        ways = {"a factor each": Parts([first, second], dense=0), "together": Parts([first, second], dense=0)}
        for name, parts in ways.items():
            assert parts.rest is not None
            parts.rest.nested_together = name == "together"
        pair = Nested(first, second)
        ways |= {f"one process, K = {k * _NEIGHBORS}": _one(pair, _ROWS, k) for k in (1, 2)}
        for name, parts in ways.items():
            rows.append((f"{noise:g}", f"{in_time:g}", f"{sd:g}", name, *_row(parts, truth, noise)))
        say(f"  noise {noise:g}, time {in_time:g}, sd {sd:g}: exact log evidence {truth.evidence:.1f}")
    header = ("noise", "time", "sd", "way", "iterations", "error of means", "bound", "variances", "of space", "CPU s")
    show("Space and space-time, 2,000 rows, beside dense matrices", header, rows)


if __name__ == "__main__":
    main()
