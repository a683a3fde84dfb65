"""Point sets that a search should not choke on."""

from __future__ import annotations

import numpy as np


def scattered(n: int, d: int) -> np.ndarray:
    return np.random.default_rng([n, d]).normal(size=(n, d))


def clustered(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng([n, d, 1])
    return rng.normal(size=(5, d))[rng.integers(5, size=n)] + 1e-4 * rng.normal(size=(n, d))


def repeated(n: int, d: int) -> np.ndarray:
    """Sites visited about ten times each."""
    rng = np.random.default_rng([n, d, 2])
    return rng.normal(size=(n // 10 + 1, d))[rng.integers(n // 10 + 1, size=n)]


def lattice(side: int, d: int) -> np.ndarray:
    return np.stack(np.meshgrid(*[np.arange(float(side))] * d, indexing="ij"), axis=-1).reshape(-1, d)
