"""Data by name: the exact arrays of the data folder, and simulated counts."""

from __future__ import annotations

import numpy as np

from benchmarks.common import load

__all__ = ["LENGTH", "TEST", "VARIANCE", "arrays", "present", "simulated"]

#: of the simulated counts
LENGTH, VARIANCE = 0.1, 1.0
TEST = 5000


def arrays(name: str) -> dict[str, np.ndarray] | None:
    """The arrays of a set, "poisson20000" and the like being simulated; None where the data folder lacks it."""
    return simulated(int(name.removeprefix("poisson"))) if name.startswith("poisson") else load(name)


def present(name: str) -> bool:
    """Whether there is such a set here; a line says so where there isn't."""
    return name.startswith("poisson") or load(name) is not None


def simulated(n: int) -> dict[str, np.ndarray]:
    """Poisson counts of mean about 1 under an exponential kernel in the unit square; the last rows are for testing."""
    from npvi.graph import build_graph
    from npvi.kernels import Matern12
    from npvi.priors import NNGP

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n + TEST, 2))
    graph = build_graph(X, 30)
    prior = NNGP(Matern12(LENGTH, VARIANCE), 1e-8, X[graph.order], graph)
    f = np.empty(len(X))
    f[graph.order] = prior.root.solve(rng.standard_normal(len(X)))
    y = rng.poisson(np.exp(f)).astype(np.float64)
    train, test = slice(0, n), slice(n, None)
    return {"X_train": X[train], "y_train": y[train], "X_test": X[test], "y_test": y[test]}
