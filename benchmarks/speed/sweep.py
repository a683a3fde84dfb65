"""Stages of an NPVI fit on night light, and the column sweep next to numpy.linalg.cholesky over the same blocks.

python -m benchmarks sweep
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import best, load, show
from npvi.components import Process, ProcessPrecision, Stack
from npvi.graph import build_graph
from npvi.inference import Data, SparseFactors, fit_posterior
from npvi.kernels import RBF
from npvi.likelihoods import LogNormal
from npvi.linalg import lower_half
from npvi.priors import NNGP
from npvi.runtime.parallel import n_threads


def main() -> None:
    data = load("nightlight")
    if data is None:
        return
    X, y = data["X_train"], data["y_train"]
    rows, ratios = [], []
    for K in (10, 20, 40):
        graph = build_graph(X, K)
        graph.children  # noqa: B018  part of the graph, not of the fit
        points, response = X[graph.order], y[graph.order]
        likelihood = LogNormal(0.01)
        w = np.full(len(X), 1.0 / likelihood.variance)

        def fit(graph=graph, points=points, response=response, likelihood=likelihood):
            prior = NNGP(RBF(0.1, 1.0), 0.1, points, graph)
            mean = Stack(Process(prior))
            return fit_posterior(SparseFactors(prior), Data(likelihood, response), mean)

        fit()
        prior = NNGP(RBF(0.1, 1.0), 0.1, points, graph)
        precision = prior.lower_half
        L = precision.sweep(w)
        blocks = _blocks(precision, graph, w)
        cholesky = best(lambda blocks=blocks: _cholesky(blocks))
        sweep = best(lambda precision=precision, w=w: precision.sweep(w))
        rhs = w * np.log(response)
        whole = best(fit, 3)
        rows.append(
            (
                K,
                best(lambda X=X, K=K: build_graph(X, K), 3),
                best(lambda points=points, graph=graph: NNGP(RBF(0.1, 1.0), 0.1, points, graph), 3),
                best(lambda prior=prior: lower_half(prior.root), 3),
                sweep,
                best(lambda prior=prior, w=w, rhs=rhs: ProcessPrecision(prior, w).solve(rhs), 3),
                whole,
            )
        )
        residual, largest = precision.stationarity(L, w)
        ratios.append((K, cholesky, sweep, sweep / cholesky, whole / sweep, residual / largest))
    show(
        f"Night light, {len(X):,} training points, log-normal noise: best of 3-5, {n_threads()} threads, seconds",
        ("K", "graph", "prior", "P", "sweep", "mean solve", "whole fit (graph aside)"),
        rows,
    )
    show(
        "The sweep, gathering of P[S,S] and back-substitution included, against numpy.linalg.cholesky alone",
        ("K", "numpy s", "sweep s", "sweep/numpy (≤ 1.5)", "fit in sweeps (aim 4)", "residual"),
        ratios,
    )


def _blocks(precision, graph, w) -> list[np.ndarray]:
    """The same (P+W)[S_c, S_c], stacked by size."""
    pointer, child_row, _ = graph.children
    n = graph.n_points
    starts = precision.ends - precision.counts
    row = np.repeat(np.arange(n), precision.counts)
    where = np.concatenate([np.arange(a, b) for a, b in zip(starts, precision.ends)])
    import scipy.sparse

    lower = scipy.sparse.csr_array((precision.values[where], (row, precision.columns[where])), shape=(n, n))
    full = (lower + scipy.sparse.tril(lower, -1).T + scipy.sparse.diags_array(w)).tocsr()
    sizes = np.diff(pointer) + 1
    stacks = []
    position = np.full(n, -1)
    for size in np.unique(sizes):
        columns = np.flatnonzero(sizes == size)
        stack = np.zeros((len(columns), size, size))
        for number, c in enumerate(columns):
            S = np.append(child_row[pointer[c] : pointer[c + 1]], c)
            position[S] = np.arange(size)
            for r, i in enumerate(S):
                entries = slice(full.indptr[i], full.indptr[i + 1])
                at = position[full.indices[entries]]
                stack[number, r, at[at >= 0]] = full.data[entries][at >= 0]
            position[S] = -1
        stacks.append(stack)
    return stacks


def _cholesky(stacks: list[np.ndarray]) -> None:
    """numpy.linalg.cholesky over the stacks, shared out among as many threads as the sweep has."""
    workers = n_threads()
    parts = [[stack[k::workers] for stack in stacks] for k in range(workers)]
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda part: [np.linalg.cholesky(stack) for stack in part], parts))


if __name__ == "__main__":
    main()
