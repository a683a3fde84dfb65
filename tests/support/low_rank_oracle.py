"""Low-rank priors by dense matrices, sharing no code with the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class DenseLowRank:
    """Q = K_fu K_uu⁻¹ K_uf, and the covariance made of it: FITC's, or Nyström's where `exact_diagonal` is false."""

    kernel: object
    X: np.ndarray
    inducing: np.ndarray
    nugget: float
    exact_diagonal: bool

    def through(self, A, B):
        """What A and B have in common by way of the inducing points."""
        K = self.kernel(self.inducing, self.inducing)
        return self.kernel(A, self.inducing) @ np.linalg.solve(K, self.kernel(self.inducing, B))

    @property
    def covariance(self):
        Q = self.through(self.X, self.X)
        own = np.diag(self.kernel(self.X, self.X) - Q) if self.exact_diagonal else 0.0
        return Q + (own + self.nugget) * np.eye(len(Q))

    @property
    def precision(self):
        return np.linalg.inv(self.covariance)

    def conditional(self, Z):
        """Weights on f at X, and the covariance of f at Z given f at X, where each new point has its own variance."""
        cross = self.through(Z, self.X)
        weights = np.linalg.solve(self.covariance, cross.T).T
        Q = self.through(Z, Z)
        own = np.diag(self.kernel(Z, Z)) - np.diag(Q) + self.nugget
        return weights, Q + np.diag(own) - weights @ cross.T

    def predict(self, Z, mean, covariance):
        """Mean and variance at Z for f at X of a posterior with this mean and covariance."""
        weights, spread = self.conditional(Z)
        return weights @ mean, np.diag(spread) + np.einsum("ij,jk,ik->i", weights, covariance, weights)


def best_gaussian_for_counts(P, y, sweeps=60, mean_precision=None):
    """The best N(m, V) for Poisson counts with rate exp(f) under the prior precision P, and the sites w.

    E log p = y m − exp(m + v/2) has w = exp(m + v/2), so V = (P + diag w)⁻¹ and P m = y − w: Newton's method for m
    and w turn about, each step halved until it doesn't lower the bound. `mean_precision` takes the place of P for m,
    where the prior has a mean that is at its best value for any m.
    """
    pull = P if mean_precision is None else mean_precision

    def bound(m, V):
        rate = np.exp(m + 0.5 * np.diag(V))
        return (y * m - rate).sum() - 0.5 * (np.sum(P * V) + m @ pull @ m - np.linalg.slogdet(V)[1])

    m, w = np.log(y + 0.5), y + 0.5
    V = np.linalg.inv(P + np.diag(w))
    for _ in range(sweeps):
        rate = np.exp(m + 0.5 * np.diag(V))
        step = np.linalg.solve(pull + np.diag(rate), y - rate - pull @ m)
        share = 1.0
        while bound(m + share * step, V) < bound(m, V) - 1e-12 and share > 1e-6:
            share /= 2.0
        m = m + share * step
        target, share = np.exp(m + 0.5 * np.diag(V)), 1.0
        while share > 1e-6:
            trial = np.linalg.inv(P + np.diag(w + share * (target - w)))
            if bound(m, trial) >= bound(m, V) - 1e-12:
                w, V = w + share * (target - w), trial
                break
            share /= 2.0
    return m, V, w
