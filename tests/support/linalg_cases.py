"""Graphs and matrices on them."""

from __future__ import annotations

import numpy as np

from npvi.graph import build_graph
from npvi.kernels import RBF, Matern12, Matern32
from npvi.linalg import Triangular
from npvi.priors import NNGP


def graph(n, K, order="maximin", seed=0, rule="nearest", d=2):
    X = np.random.default_rng([n, seed]).uniform(size=(n, d))
    return build_graph(X, K, order=order, rule=rule, seed=seed), X


def triangular(n, K, seed=0, size=0.3, **settings):
    """Random values on a graph's pattern."""
    rng = np.random.default_rng([n, K, seed])
    g, _ = graph(n, K, seed=seed, **settings)
    edges = np.where(g.parents >= 0, size * rng.standard_normal(g.parents.shape), 0.0)
    return Triangular(g, rng.uniform(0.5, 2.0, n), edges)


KERNELS = {"rbf": RBF(0.2), "matern12": Matern12(0.3), "matern32": Matern32(0.5, variance=4.0)}


def prior(n, K, kernel="matern32", nugget=0.01, **settings):
    g, X = graph(n, K, **settings)
    return NNGP(KERNELS[kernel] if isinstance(kernel, str) else kernel, nugget, X[g.order], g)
