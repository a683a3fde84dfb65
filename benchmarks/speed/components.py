"""Conjugate gradient iterations for predictors made of parts.

    python -m benchmarks components [--n 20000] [--only "observers"]

Systems with Λ = P + AᵀWA to 1e-6, a surface being Matérn 3/2 with length scale 0.1 on the unit square, for site
precisions w = 0.05, 1, 100, and spread over five decades. *Gauss–Seidel* is the reference: blocks of the parts as they
are, each with its own factor. *Parts* is `npvi.components.parts`. Seconds are CPU time of what w = 1 takes: factors
(with Schur complements), one system.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.common import show
from npvi.components import Component, Group, Parts, Process, Rows
from npvi.components.spline import Spline
from npvi.graph import build_graph
from npvi.kernels import Matern12, Matern32, Subset
from npvi.linalg import conjugate_gradients
from npvi.priors import NNGP

_TOLERANCE = 1e-6
_LENGTH, _NUGGET, _NEIGHBORS = 0.1, 1e-3, 20
#: what block Gauss–Seidel took when the plan was made, with other places; of effects of sites, with an exchange between
#: the two parts
_PLANNED = {
    "space + 200 observers": (10, 10, 11, 19),
    "space + 5,000 observers": (8, 9, 13, 39),
    "space + 20 years": (12, 11, 12, 19),
    "space + x · space": (10, 9, 8, 16),
    "space + smooth of a covariate": (12, 12, 11, 20),
    "space + smooth of elevation": (22, 24, 24, 37),
    "3 outputs, 2 spatial factors": (11, 10, 9, 14),
    "space + years + observers + smooth": (16, 19, 23, 42),
    "space + effect of each site (20 visits)": (3, 5, 6, 6),
    "space + space-time": (39, 109, 536, 574),
}


class Survey(NamedTuple):
    rng: np.random.Generator
    X: np.ndarray


def process(X: np.ndarray, kernel: object, at: np.ndarray | None = None, weight: np.ndarray | None = None) -> Process:
    """A process on distinct places, which rows see by number."""
    graph = build_graph(X, min(_NEIGHBORS, len(X) - 1))
    position = np.empty(len(X), np.int64)
    position[graph.order] = np.arange(len(X))
    at = position if at is None else position[at]
    return Process(NNGP(kernel, _NUGGET, X[graph.order], graph), Rows(len(X), at, weight))


def surface(survey: Survey, weight: np.ndarray | None = None) -> Process:
    """On a place for each row."""
    return process(survey.X, Matern32(_LENGTH), weight=weight)


def group(survey: Survey, levels: int) -> Group:
    """Levels at random."""
    return Group(levels, survey.rng.integers(levels, size=len(survey.X)), 1.0)


def years(survey: Survey) -> Process:
    """A process in time."""
    return process(np.arange(20.0)[:, None], Matern32(5.0), survey.rng.integers(20, size=len(survey.X)))


def smooth(x: np.ndarray) -> Component:
    """Penalised B-splines."""
    return Spline.of(x, 20).part(x, 1e-3, 1e-2)


def elevation(survey: Survey) -> np.ndarray:
    """A function of space, nearly."""
    X = survey.X
    return np.sin(6.0 * X[:, 0]) + np.cos(5.0 * X[:, 1]) + 0.02 * survey.rng.standard_normal(len(X))


def outputs(survey: Survey) -> list[Component]:
    """Each row is one of three outputs at a place, which has a loading on both factors."""
    n = len(survey.X)
    which, at = survey.rng.integers(3, size=n), survey.rng.integers(n // 3, size=n)
    loadings = np.array([[1.0, 0.0], [0.7, 0.6], [-0.4, 0.9]])
    places = survey.X[: n // 3]
    return [process(places, Matern32(_LENGTH), at, loadings[which, factor]) for factor in range(2)]


def sites(survey: Survey) -> list[Component]:
    """A surface, and an effect of each of its places."""
    n = len(survey.X)
    at = survey.rng.integers(n // 20, size=n)
    return [process(survey.X[: n // 20], Matern32(_LENGTH), at), Group(n // 20, at, 1.0)]


def space_time(survey: Survey) -> Component:
    """A process on a place and a time for each row."""
    n = len(survey.X)
    t = survey.rng.uniform(size=n)
    kernel = Subset(Matern32(_LENGTH), [0, 1]) * Subset(Matern12(0.2), [2])
    graph = build_graph(np.column_stack([survey.X / _LENGTH, t / 0.2]), _NEIGHBORS)
    X = np.column_stack([survey.X, t])[graph.order]
    return Process(NNGP(kernel, _NUGGET, X, graph), Rows(n, np.argsort(graph.order)))


CASES: dict[str, Callable[[Survey], list[Component]]] = {
    "space + 200 observers": lambda s: [surface(s), group(s, 200)],
    "space + 5,000 observers": lambda s: [surface(s), group(s, 5000)],
    "space + 20 years": lambda s: [surface(s), years(s)],
    "space + x · space": lambda s: [surface(s), surface(s, s.rng.uniform(-1.0, 1.0, len(s.X)))],
    "space + smooth of a covariate": lambda s: [surface(s), smooth(s.rng.standard_normal(len(s.X)))],
    "space + smooth of elevation": lambda s: [surface(s), smooth(elevation(s))],
    "3 outputs, 2 spatial factors": outputs,
    "space + years + observers + smooth": lambda s: [
        surface(s),
        years(s),
        group(s, 200),
        smooth(s.rng.standard_normal(len(s.X))),
    ],
    "space + effect of each site (20 visits)": sites,
    "space + space-time": lambda s: [surface(s), space_time(s)],
    "space + x · space, x smooth": lambda s: [surface(s), surface(s, np.sin(6.0 * s.X[:, 0]))],
}


def site_precisions(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """0.05, 1, 100, and five decades."""
    return [np.full(n, 0.05), np.full(n, 1.0), np.full(n, 100.0), 10.0 ** rng.uniform(-3.0, 2.0, n)]


def gauss_seidel(parts: Parts, w: np.ndarray, rhs: np.ndarray) -> int:
    """Iterations with blocks as they are."""
    factors = [part.factor(w) for part in parts.components]

    def matvec(z: np.ndarray) -> np.ndarray:
        return parts.matvec(z) + parts.transpose_times(w * parts.times(z))

    def precondition(r: np.ndarray) -> np.ndarray:
        found, eta = [], np.zeros(len(w))
        for part, factor, some in zip(parts.components, factors, parts.split(r)):
            found.append(factor.half(some - part.transpose_times(w * eta)))
            eta = eta + part.times(factor.half_transpose(found[-1]))
        eta, out = np.zeros(len(w)), []
        for part, factor, some in reversed(list(zip(parts.components, factors, found))):
            out.append(factor.half_transpose(some - factor.half(part.transpose_times(w * eta))))
            eta = eta + part.times(out[-1])
        return np.concatenate(out[::-1])

    return conjugate_gradients(matvec, rhs, precondition, _TOLERANCE, 1000).iterations


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=20_000, help="rows")
    parser.add_argument("--only", default="", help="cases with this in their name")
    options = parser.parse_args()
    rows, over = [], []
    for name in (name for name in CASES if options.only in name):
        survey = Survey(np.random.default_rng(0), np.random.default_rng(1).uniform(size=(options.n, 2)))
        parts = Parts(CASES[name](survey))
        reference, mine, seconds = [], [], ""
        rhs = parts.transpose_times(survey.rng.standard_normal(options.n))
        for number, w in enumerate(site_precisions(options.n, survey.rng)):
            reference.append(gauss_seidel(parts, w, rhs))
            started = time.process_time()
            precision = parts.at(w)
            assert precision is not None
            made = time.process_time()
            precision.solve(rhs, _TOLERANCE)
            mine.append(precision.iterations[-1])
            if number == 1:
                seconds = f"{made - started:.2f} + {time.process_time() - made:.2f}"
        planned = _PLANNED.get(name, ())
        over += [name] * any(a > 1.2 * b for a, b in zip(mine, planned))
        rows.append([name, *(" ".join(map(str, numbers)) for numbers in (reference, mine, planned)), seconds])
    show(f"{options.n:,} rows", ["predictor", "Gauss–Seidel", "parts", "as planned", "CPU s"], rows)
    if over:
        print(f"  more than 1.2 times as many as planned: {', '.join(over)}")


if __name__ == "__main__":
    main()
