"""Brute force on small problems: dense NumPy and SciPy, sharing no code with the package.

Points are in the graph's order throughout; `parents` is the graph's own list of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse
from scipy import special

# -- kernels ----------------------------------------------------------------------------------------------------------


def distances(A, B):
    """Euclidean distances between the rows of A and of B."""
    return np.sqrt(((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1))


def rbf(A, B, length_scale=1.0, variance=1.0):
    return variance * np.exp(-0.5 * (distances(A, B) / length_scale) ** 2)


def matern12(A, B, length_scale=1.0, variance=1.0):
    return variance * np.exp(-distances(A, B) / length_scale)


def matern32(A, B, length_scale=1.0, variance=1.0):
    s = np.sqrt(3.0) * distances(A, B) / length_scale
    return variance * (1.0 + s) * np.exp(-s)


def matern52(A, B, length_scale=1.0, variance=1.0):
    s = np.sqrt(5.0) * distances(A, B) / length_scale
    return variance * (1.0 + s + s**2 / 3.0) * np.exp(-s)


def rational_quadratic(A, B, length_scale=1.0, alpha=1.0, variance=1.0):
    return variance * (1.0 + distances(A, B) ** 2 / (2.0 * alpha * length_scale**2)) ** -alpha


# -- the prior --------------------------------------------------------------------------------------------------------


def nngp(covariance, parents):
    """B and d of p(f) = Π N(f_i; B_i f, d_i), from the dense covariance matrix (nugget included)."""
    n = len(covariance)
    B, d = np.zeros((n, n)), np.empty(n)
    for i in range(n):
        a = parents[i][parents[i] >= 0]
        B[i, a] = np.linalg.solve(covariance[np.ix_(a, a)], covariance[a, i])
        d[i] = covariance[i, i] - B[i, a] @ covariance[a, i]
    return B, d


def nngp_precision(covariance, parents):
    """P = (I−B)ᵀ D⁻¹ (I−B) and log |P⁻¹|."""
    B, d = nngp(covariance, parents)
    C = np.eye(len(d)) - B
    return C.T @ (C / d[:, None]), float(np.log(d).sum())


def pattern(parents):
    """True where L may be non-zero: row i at {i} ∪ parents(i)."""
    n = len(parents)
    mask = np.eye(n, dtype=bool)
    for i in range(n):
        mask[i, parents[i][parents[i] >= 0]] = True
    return mask


def dense_triangular(triangular):
    """A `Triangular` as a dense matrix, from its arrays."""
    parents, n = triangular.graph.parents, len(triangular.diagonal)
    T = np.diag(triangular.diagonal)
    for i in range(n):
        for s, j in enumerate(parents[i]):
            if j >= 0:
                T[i, j] = triangular.edges[i, s]
    return T


def sweep(A, mask):
    """L[S_c, c] = ℓ/√ℓ_c with ℓ = A[S_c, S_c]⁻¹ e_c, S_c the rows of the pattern's column c."""
    L = np.zeros_like(A)
    for c in range(len(A)):
        S = np.flatnonzero(mask[:, c])
        ell = np.linalg.solve(A[np.ix_(S, S)], (c == S).astype(float))
        L[S, c] = ell / np.sqrt(ell[c == S][0])
    return L


# -- observations -----------------------------------------------------------------------------------------------------


@dataclass
class Observations:
    """log p(y|f) and its derivative in f, as functions of f with one row per observation."""

    log_prob: Callable
    slope: Callable
    weight: np.ndarray | float = 1.0

    def expectations(self, m, v, n_nodes=None):
        """Σ weight·E log p(y|f), and its derivatives in m and v, one number per row; trapezoid in z."""
        sd = np.sqrt(v)
        if n_nodes is None:
            n_nodes = 2 * int(np.clip(np.ceil(9.5 * sd.max() / 0.35), 64, 2000)) + 1
        reach = 9.5 + min(float(sd.max()), 10.0)  # exp(f) weighs most a standard deviation's worth of z further up
        z = np.linspace(-reach, reach, n_nodes)
        q = np.exp(-0.5 * z**2)
        q /= q.sum()
        f = np.minimum(m[:, None] + sd[:, None] * z, 500.0)  # L-BFGS may stray to where exp(f) overflows
        slope = self.slope(f)
        value, in_mean, in_sd = self.log_prob(f) @ q, slope @ q, slope @ (q * z)
        return self.weight * value, self.weight * in_mean, self.weight * in_sd / (2.0 * sd)


@dataclass
class Smoothed:
    """Observations of which only log p(y|f) is known, as a function of f with one row per observation: derivatives of
    its expectation are moments, ∂E/∂m = E[log p · z]/s and ∂E/∂v = E[log p · (z² − 1)]/2v at f = m + s z."""

    log_prob: Callable
    kink: np.ndarray | None = None
    """The f of each row at which log p isn't smooth."""

    def expectations(self, m, v, n_nodes=None):
        """As those of `Observations`, by Gauss and Legendre's rule on either side of the kink (of m, without one)."""
        sd = np.sqrt(v)
        middle = np.zeros_like(m) if self.kink is None else np.clip((self.kink - m) / sd, -9.0, 9.0)
        x, weights = _legendre((n_nodes or 257) // 2)
        low, high = -9.5 - np.minimum(sd, 10.0), 9.5 + np.minimum(sd, 10.0)  # as far as `Observations` look
        left, right = (0.5 * (end - middle)[:, None] for end in (low, high))
        z = middle[:, None] + np.hstack([left * (1.0 + x), right * (1.0 + x)])
        q = np.hstack([-left * weights, right * weights]) * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
        g = q * self.log_prob(np.minimum(m[:, None] + sd[:, None] * z, 500.0))
        return g.sum(axis=1), (g * z).sum(axis=1) / sd, (g * (z**2 - 1.0)).sum(axis=1) / (2.0 * v)


@lru_cache
def _legendre(n):
    return np.polynomial.legendre.leggauss(n)


def _column(values, y):
    return np.broadcast_to(np.asarray(values, dtype=float), y.shape)[:, None]


def gaussian(y, variance, weight=1.0):
    t = y[:, None]
    constant = -0.5 * np.log(2.0 * np.pi * variance)
    return Observations(lambda f: constant - 0.5 * (t - f) ** 2 / variance, lambda f: (t - f) / variance, weight)


def lognormal(y, variance, weight=1.0):
    inner = gaussian(np.log(y), variance, weight)
    return Observations(lambda f: inner.log_prob(f) - np.log(y)[:, None], inner.slope, weight)


def poisson_exp(y, exposure=1.0, weight=1.0):
    t, e = y[:, None], _column(exposure, y)
    constant = t * np.log(e) - special.gammaln(t + 1.0)
    return Observations(lambda f: t * f - e * np.exp(f) + constant, lambda f: t - e * np.exp(f), weight)


def poisson_softplus(y, exposure=1.0, weight=1.0):
    t, e = y[:, None], _column(exposure, y)
    constant = t * np.log(e) - special.gammaln(t + 1.0)

    def log_rate(f):
        return np.where(f < -30.0, f, np.log(np.logaddexp(0.0, np.maximum(f, -30.0))))

    def log_prob(f):
        return t * log_rate(f) - e * np.logaddexp(0.0, f) + constant

    def slope(f):
        g = np.maximum(f, -30.0)
        ratio = np.where(f < -30.0, 1.0, special.expit(g) / np.logaddexp(0.0, g))
        return t * ratio - e * special.expit(f)

    return Observations(log_prob, slope, weight)


def bernoulli_logit(y, weight=1.0):
    s = (2.0 * y - 1.0)[:, None]
    return Observations(lambda f: -np.logaddexp(0.0, -s * f), lambda f: s * special.expit(-s * f), weight)


def bernoulli_probit(y, weight=1.0):
    s = (2.0 * y - 1.0)[:, None]

    def slope(f):
        return s * np.exp(-0.5 * f**2 - 0.5 * np.log(2.0 * np.pi) - special.log_ndtr(s * f))

    return Observations(lambda f: special.log_ndtr(s * f), slope, weight)


def student_t(y, scale, df):
    t = y[:, None]
    half = 0.5 * (df + 1.0)
    constant = special.gammaln(half) - special.gammaln(0.5 * df) - 0.5 * np.log(df * np.pi) - np.log(scale)
    return Observations(
        lambda f: constant - half * np.log1p(((t - f) / scale) ** 2 / df),
        lambda f: (df + 1.0) * (t - f) / (df * scale**2 + (t - f) ** 2),
    )


def negative_binomial(y, dispersion):
    t, r = y[:, None], dispersion
    constant = special.gammaln(t + r) - special.gammaln(r) - special.gammaln(t + 1.0)

    def log_prob(f):
        return constant - t * np.logaddexp(0.0, np.log(r) - f) - r * np.logaddexp(0.0, f - np.log(r))

    return Observations(log_prob, lambda f: t - (t + r) * special.expit(f - np.log(r)))


def gamma(y, shape):
    t = y[:, None]
    constant = shape * np.log(shape) - special.gammaln(shape) + (shape - 1.0) * np.log(t)
    return Observations(
        lambda f: constant - shape * (f + t * np.exp(-np.maximum(f, -500.0))),
        lambda f: shape * (t * np.exp(-np.maximum(f, -500.0)) - 1.0),
    )


# -- the bound --------------------------------------------------------------------------------------------------------


@dataclass
class Bound:
    """ELBO(μ, L) = Σ E log p(y_i|f) − ½ tr(P L Lᵀ) − ½ μᵀPμ + Σ log L_ii − ½ log|Σ| + N/2, term by term."""

    P: np.ndarray
    logdet: float
    observations: Observations
    mask: np.ndarray
    n_nodes: int | None = None

    def __post_init__(self):
        self.mean_precision = self.P
        self.coefficients = 0

    def with_constant(self, precision=0.0):
        """From now on a constant, with a flat prior or one of mean 0, is the first of the unknowns."""
        self.with_columns(np.ones((len(self.P), 1)), np.array([precision]))

    def with_columns(self, H, precision):
        """From now on β, flat or of prior mean 0, are the first of the unknowns: f | β ~ N(Hβ, P⁻¹); everything may go
        with them."""
        n, p = H.shape
        PH = self.P @ H
        self.P = np.block([[H.T @ PH + np.diag(precision), -PH.T], [-PH, self.P]])
        self.mask = np.block([[np.tri(p, dtype=bool), np.zeros((p, n), bool)], [np.ones((n, p), bool), self.mask]])
        self.logdet -= np.log(np.where(precision > 0.0, precision, 2.0 * np.pi)).sum()
        self.mean_precision, self.coefficients = self.P, p

    def _expectations(self, mu, L):
        c = self.coefficients
        parts = self.observations.expectations(mu[c:], (L[c:] ** 2).sum(axis=1), self.n_nodes)
        return [np.concatenate([np.zeros(c), part]) for part in parts]

    def value(self, mu, L):
        return self._rest(mu, L) + self._expectations(mu, L)[0].sum()

    def _rest(self, mu, L):
        trace = np.sum((self.P @ L) * L)
        return np.log(np.diag(L)).sum() - 0.5 * (trace + mu @ self.mean_precision @ mu + self.logdet) + 0.5 * len(mu)

    def gradient(self, mu, L):
        """The value, and its derivatives in μ and in L (zero off the pattern)."""
        expected, in_mean, in_variance = self._expectations(mu, L)
        in_L = 2.0 * in_variance[:, None] * L - self.P @ L + np.diag(1.0 / np.diag(L))
        in_mu = in_mean - self.mean_precision @ mu
        return self._rest(mu, L) + expected.sum(), in_mu, np.where(self.mask, in_L, 0.0)

    def maximum(self, rng, starts=5, scale=1.0, site_precision=1.0):
        """The largest value that L-BFGS finds over (μ, L), the best of several random starts; and all of them. Where it
        is stays in `best`.

        Coordinates are whitened by the prior plus a guess of the sites, column by column: a linear change of
        variables, but for the logarithm that keeps the diagonal positive.
        """
        n = len(self.P)
        A = self.P + site_precision * np.eye(n)
        root = np.linalg.cholesky(A)
        blocks, sets = [], []
        for c in range(n):
            S = np.flatnonzero(self.mask[:, c])[::-1]  # c itself last
            C = np.linalg.cholesky(A[np.ix_(S, S)])
            blocks.append(scipy.linalg.solve_triangular(C, np.eye(len(S)), lower=True).T)
            sets.append(S)
        unwhiten = scipy.sparse.csr_array(scipy.sparse.block_diag(blocks))
        rows, columns = np.concatenate(sets), np.repeat(np.arange(n), [len(S) for S in sets])
        last = np.cumsum([len(S) for S in sets]) - 1

        def unpack(x):
            z = x[n:].copy()
            z[last] = np.exp(z[last])
            L = np.zeros((n, n))
            L[rows, columns] = unwhiten @ z
            return scipy.linalg.solve_triangular(root, x[:n], lower=True, trans=1), L, z

        def objective(x):
            mu, L, z = unpack(x)
            value, in_mu, in_L = self.gradient(mu, L)
            in_z = unwhiten.T @ in_L[rows, columns]
            in_z[last] *= z[last]
            in_x = np.concatenate([scipy.linalg.solve_triangular(root, in_mu, lower=True), in_z])
            return -value, -in_x

        limits = np.full((n + len(rows), 2), [-np.inf, np.inf])
        limits[n + last] = [-15.0, 15.0]
        found = []
        for _ in range(starts):
            start = scale * rng.standard_normal(n + len(rows))
            start[n + last] *= 0.5
            options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-13, "gtol": 1e-8, "maxcor": 30}
            with np.errstate(over="ignore", invalid="ignore"):  # steps too long, which the line search takes back
                result = scipy.optimize.minimize(
                    objective, start, jac=True, method="L-BFGS-B", bounds=limits, options=options
                )
            found.append(-float(result.fun))
            if found[-1] == max(found):
                self.best = unpack(result.x)[:2]
        return max(found), found


def what_coefficients_add(P, H, precision, trend):
    """To the bound, with the variance that they add to f in its expectations already: −KL of q(β), and what moves with
    β of −½ E (f − Hβ)ᵀP(f − Hβ)."""
    S, Y = trend.covariance, -trend.sensitivity
    told = precision > 0.0
    of_prior = np.log(precision[told]).sum() + np.log(2.0 * np.pi) * np.sum(~told)
    b = trend.coefficients
    spread = np.trace(S @ (Y.T @ P @ Y + np.diag(precision)))
    return 0.5 * (np.linalg.slogdet(S)[1] + of_prior + len(S) - spread - b @ (precision * b))


# -- the dense Gaussian process ---------------------------------------------------------------------------------------


@dataclass
class DenseGP:
    """Exact inference under Gaussian noise, prior f ~ N(constant, covariance); the nugget is in `covariance`."""

    covariance: np.ndarray
    y: np.ndarray
    noise: float
    constant: float = 0.0

    def log_evidence_of_any_constant(self):
        """∫ p(y | c) dc, for the constant that is the most likely one."""
        C = self.covariance + self.noise * np.eye(len(self.y))
        information = np.linalg.solve(C, np.ones(len(self.y))).sum()
        return self.log_marginal_likelihood() + 0.5 * np.log(2.0 * np.pi / information)

    def log_marginal_likelihood(self):
        C = self.covariance + self.noise * np.eye(len(self.y))
        r = self.y - self.constant
        return float(-0.5 * (r @ np.linalg.solve(C, r) + np.linalg.slogdet(C)[1] + len(r) * np.log(2.0 * np.pi)))

    def posterior(self):
        C = self.covariance + self.noise * np.eye(len(self.y))
        gain = np.linalg.solve(C, self.covariance).T
        return self.constant + gain @ (self.y - self.constant), self.covariance - gain @ self.covariance

    def predict(self, cross, prior_variance):
        """Latent mean and variance at new points, `cross` their covariance with the training points."""
        gain = np.linalg.solve(self.covariance + self.noise * np.eye(len(self.y)), cross.T).T
        return self.constant + gain @ (self.y - self.constant), prior_variance - np.sum(gain * cross, axis=1)

    def what_the_constant_adds(self, cross):
        """To the variance at new points, where the constant has a flat prior (ordinary kriging)."""
        gain = np.linalg.solve(self.covariance + self.noise * np.eye(len(self.y)), np.ones(len(self.y)))
        return (1.0 - cross @ gain) ** 2 / gain.sum()

    def with_best_constant(self):
        """The constant that maximises the marginal likelihood, by a general optimiser."""
        low, high = self.y.min() - np.ptp(self.y) - 1.0, self.y.max() + np.ptp(self.y) + 1.0

        def loss(constant):
            return -DenseGP(self.covariance, self.y, self.noise, constant).log_marginal_likelihood()

        found = scipy.optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12})
        return DenseGP(self.covariance, self.y, self.noise, float(found.x))
