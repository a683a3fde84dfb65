"""Inducing points by brute force: dense NumPy and SciPy, sharing no code with the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from tests.support import oracle

LENGTH, VARIANCE, NUGGET, NOISE = 1.5, 2.0, 0.05, 0.1


def covariance(A, B):
    return oracle.matern32(A, B, LENGTH, VARIANCE)


def gaussian_case(n=20):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (n, 1))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)


def poisson_case(n=40):
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 6.0, (n, 1))
    return X, rng.poisson(np.logaddexp(0.0, 1.0 + 2.0 * np.sin(X[:, 0]))).astype(float)


def exact(X, y, new):
    """Means and variances of f at the rows of X and at new ones, and log p(y), of the exact process."""
    K = covariance(X, X) + NUGGET * np.eye(len(X))
    total = K + NOISE * np.eye(len(X))
    between = np.vstack([K, covariance(new, X)])
    mean = between @ np.linalg.solve(total, y)
    known = np.einsum("ij,ji->i", between, np.linalg.solve(total, between.T))
    evidence = -0.5 * (y @ np.linalg.solve(total, y) + np.linalg.slogdet(2.0 * np.pi * total)[1])
    return mean, VARIANCE + NUGGET - known, evidence


@dataclass
class Dense:
    """f at the rows given whitened values at some of them: f = constant + weightsᵀ v + N(0, residual)."""

    weights: np.ndarray
    residual: np.ndarray
    observations: oracle.Observations

    @classmethod
    def of(cls, X, inducing_rows, observations):
        """Values at some of the rows, nugget included."""
        own = covariance(X, X) + NUGGET * np.eye(len(X))
        return cls._given(own[np.ix_(inducing_rows, inducing_rows)], own[inducing_rows], observations)

    @classmethod
    def at(cls, X, Z, observations):
        """Values at other places, which have no nugget."""
        return cls._given(covariance(Z, Z), covariance(Z, X), observations)

    @classmethod
    def _given(cls, own, between, observations):
        weights = scipy.linalg.solve_triangular(np.linalg.cholesky(own), between, lower=True)
        return cls(weights, VARIANCE + NUGGET - (weights**2).sum(axis=0), observations)

    def marginals(self, m, C, constant):
        return constant + m @ self.weights, np.abs(self.residual) + ((C.T @ self.weights) ** 2).sum(axis=0)

    def expected(self, m, C, constant):
        """E log p(y_i | f_i) of each row."""
        return self.observations.expectations(*self.marginals(m, C, constant))[0]

    def divergence(self, m, C):
        _, logdet = np.linalg.slogdet(C @ C.T)
        return 0.5 * (np.sum(C**2) + m @ m - len(m) - logdet)

    def value(self, m, C, constant):
        return self.expected(m, C, constant).sum() - self.divergence(m, C)

    def maximum(self, constant=True):
        """The largest value over m, C and perhaps the constant, and the marginals there, by L-BFGS."""
        M = len(self.weights)
        lower = np.tril_indices(M)

        def unpack(x):
            C = np.zeros((M, M))
            C[lower] = x[M + 1 :]
            return x[:M], C, x[M]

        def objective(x):
            m, C, level = unpack(x)
            _, in_mean, in_variance = self.observations.expectations(*self.marginals(m, C, level))
            in_C = 2.0 * (self.weights * in_variance) @ self.weights.T @ C - C + np.diag(1.0 / np.diag(C))
            in_constant = in_mean.sum() if constant else 0.0
            gradient = np.concatenate([self.weights @ in_mean - m, [in_constant], in_C[lower]])
            return -self.value(m, C, level), -gradient

        start = np.concatenate([np.zeros(M + 1), np.eye(M)[lower]])
        options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-8}
        found = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        return -found.fun, self.marginals(*unpack(found.x))
