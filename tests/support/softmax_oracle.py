"""Classes by brute force: dense matrices, quadrature in C dimensions, a general optimiser. NumPy and SciPy only."""

from __future__ import annotations

import numpy as np
from scipy import optimize, special


def log_sum_exp(mean: np.ndarray, sd: np.ndarray, nodes: int = 16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E log Σ exp f_c, E softmax(f) and E softmax(f)² for three classes, by Gauss–Hermite in three dimensions."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    grid = np.stack(np.meshgrid(z, z, z, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = np.einsum("i,j,k->ijk", w, w, w).ravel()
    keep = weight > 1e-18
    grid, weight = grid[keep], weight[keep]
    f = mean[:, None, :] + sd[:, None, :] * grid
    value = special.logsumexp(f, axis=2)
    probability = np.exp(f - value[:, :, None])
    return value @ weight, *(np.einsum("rkc,k->rc", power, weight) for power in (probability, probability**2))


def best_bound(K: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The largest ELBO over q = Π_c N(m_c, (K⁻¹ + diag w_c)⁻¹) for three classes, and the means and variances there."""
    n = len(y)
    P = np.linalg.inv(K)
    log_det_K = np.linalg.slogdet(K)[1]
    seen = np.eye(3)[y]

    def unpacked(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], np.ndarray]:
        mean, w = x[: 3 * n].reshape(n, 3), np.exp(x[3 * n :]).reshape(n, 3)
        V = [np.linalg.inv(P + np.diag(column)) for column in w.T]
        return mean, w, V, np.column_stack([np.diag(v) for v in V])

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        mean, w, V, variance = unpacked(x)
        value, p, p_squared = log_sum_exp(mean, np.sqrt(variance))
        elbo = weight @ ((seen * mean).sum(axis=1) - value)
        in_mean = weight[:, None] * (seen - p) - P @ mean
        in_variance = -0.5 * weight[:, None] * (p - p_squared)
        in_w = np.empty((n, 3))
        for c, v in enumerate(V):
            m = mean[:, c]
            elbo -= 0.5 * (np.trace(P @ v) + m @ P @ m - n + log_det_K - np.linalg.slogdet(v)[1])
            in_w[:, c] = -(v**2) @ in_variance[:, c] + 0.5 * np.diag(v @ P @ v - v)
        return -elbo, -np.concatenate([in_mean.ravel(), (in_w * w).ravel()])

    start = np.concatenate([np.zeros(3 * n), np.full(3 * n, np.log(0.2))])
    near = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    best = optimize.root(lambda x: loss(x)[1], near, tol=1e-12).x  # L-BFGS-B stops where the bound is flat
    mean, _, _, variance = unpacked(best)
    return -loss(best)[0], mean, variance
