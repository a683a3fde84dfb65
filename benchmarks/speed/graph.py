"""Time to order points and find their parents, against one plain k-d tree query of SciPy."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.common import say
from npvi.graph import NeighborIndex, build_graph
from npvi.graph.maximin import maximin_order
from npvi.graph.neighbors import build_tree
from npvi.runtime.parallel import n_threads

K = 20


def best_of(repeats: int, *calls: Callable[[], Any]) -> list[float]:
    """Best wall time of each call, taken in turns: a busy moment of the machine then hits all alike."""
    times = np.full((repeats, len(calls)), np.inf)
    for r in range(repeats):
        for c, call in enumerate(calls):
            start = perf_counter()
            call()
            times[r, c] = perf_counter() - start
    return times.min(axis=0).tolist()


def uniform(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).random((n, d))


def lattice(side: int) -> np.ndarray:
    return np.stack(np.meshgrid(*[np.arange(float(side))] * 2), axis=-1).reshape(-1, 2)


def against_scipy(name: str, X: np.ndarray, repeats: int) -> None:
    """One line: the graph for a given (maximin) order, by both rules, next to a query of K + 1 neighbours."""
    order = maximin_order(build_tree(X), 0)
    tree = cKDTree(X)
    build, query, nearest, paper, index = best_of(
        repeats,
        lambda: cKDTree(X),
        lambda: tree.query(X, k=K + 1, workers=n_threads()),
        lambda: build_graph(X, K, rule="nearest", order=order),
        lambda: build_graph(X, K, rule="paper", order=order),
        lambda: NeighborIndex(X).query(X, K + 1),
    )
    say(
        f"{name:<24}{build:8.2f}{query:8.2f} |{nearest:9.2f}{nearest / query:7.2f}"
        f" |{paper:9.2f}{paper / query:7.2f} |{index:9.2f}{index / query:7.2f}"
    )


def orders(name: str, X: np.ndarray, repeats: int) -> None:
    """One line: time of the orders (tree built before), and of the graph for that order."""
    tree = build_tree(X)
    order = maximin_order(tree, 0)
    maximin, parents, all_maximin, all_grid = best_of(
        repeats,
        lambda: maximin_order(tree, 0),
        lambda: build_graph(X, K, order=order),
        lambda: build_graph(X, K, order="maximin"),
        lambda: build_graph(X, K, order="grid"),
    )
    say(f"{name:<24}{maximin:10.3f}{parents:10.3f}{maximin / parents:8.2f} |{all_maximin:13.3f}{all_grid:13.3f}")


def main() -> None:
    """Print both tables."""
    start = perf_counter()
    for rule in ("nearest", "paper"):
        build_graph(uniform(3000, 2), K, rule=rule, order="maximin")
    build_graph(uniform(3000, 2), K, order="grid")
    say(f"graph: K = {K}, {n_threads()} threads, seconds; first calls took {perf_counter() - start:.1f} s")

    say("\ngiven the order (tree + parents), as ratio to SciPy's query of K + 1 neighbours")
    say(
        f"{'':<24}{'cKDTree':>8}{'query':>8} |{'nearest':>9}{'ratio':>7} |{'paper':>9}{'ratio':>7}"
        f" |{'index':>9}{'ratio':>7}"
    )
    against_scipy("uniform 2-d, 10⁶", uniform(10**6, 2), 3)
    against_scipy("lattice 1000 × 1000", lattice(1000), 3)
    against_scipy("uniform 2-d, 10⁵", uniform(10**5, 2), 5)
    against_scipy("uniform 8-d, 5·10⁴", uniform(50_000, 8), 2)

    say("\nmaximin order alone, as ratio to the graph for it (tree + parents); order and graph together")
    say(f"{'':<24}{'maximin':>10}{'graph':>10}{'ratio':>8} |{'all, maximin':>13}{'all, grid':>13}")
    orders("uniform 2-d, 10⁵", uniform(10**5, 2), 5)
    orders("lattice 316 × 316", lattice(316), 5)
    orders("uniform 8-d, 5·10⁴", uniform(50_000, 8), 2)
    orders("uniform 2-d, 10⁶", uniform(10**6, 2), 2)
    orders("lattice 1000 × 1000", lattice(1000), 2)


if __name__ == "__main__":
    main()
