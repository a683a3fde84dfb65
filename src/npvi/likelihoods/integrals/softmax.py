"""E log Σ_c exp f_c and E softmax(f) for independent Gaussian f_c: one-dimensional integrals, whatever the classes.

With G_c standard Gumbel, max_c (f_c + G_c) has the mean E log Σ exp f_c + γ, and it is attained by class c with the
probability E softmax(f)_c. Given f its distribution function is a product, so that with F_c(x) = E exp(−exp(f_c − x))

    E log Σ exp f_c = μ + ∫ [exp(−exp(μ − x)) − Π_c F_c(x)] dx ,     E softmax(f)_c = ∫ F_c'(x) Π_{b≠c} F_b(x) dx

for any μ; that of equal tails, exp μ = Σ E exp f_c, keeps the range of x short. The integrands are analytic, and on a
lattice of step h the trapezoidal rule is off by about exp(−π²/h).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from npvi.likelihoods.integrals.quadrature import MAX_NODES
from npvi.runtime.compiling import compiled
from npvi.runtime.parallel import over_chunks

__all__ = ["LogSumExp", "expected_log_sum_exp"]

#: of the lattice: x falls by log 2 in two steps, which doubles exp(f − x)
_STEP = 0.5 * np.log(2.0)
#: what is left out below and above: 1e-12 of the mass, and what is beyond the leading term of the tail
_BELOW, _GUMBEL, _REACH, _ABOVE = 7.0, 0.3, 6.5, 10.5
#: Gauss–Hermite nodes, and the standard deviation of f up to which they serve; then the trapezoidal rule, by its step
_HERMITE = ((8, 0.3), (16, 0.9), (32, 1.6))
_TRAPEZOID_REACH, _TRAPEZOID_STEP = 7.0, 0.6
#: beyond this standard deviation nothing changes any more
_WIDEST = 50.0
_SMALLEST = 1e-7
#: exp(−r) is nothing beside this r, and what is left of it by rounding must not be multiplied by more
_LARGE = 64.0


class LogSumExp(NamedTuple):
    """E log Σ exp f_c and its derivatives; those in the means are E softmax(f)."""

    value: NDArray[np.float64]
    in_mean: NDArray[np.float64]
    in_sd: NDArray[np.float64]


def expected_log_sum_exp(mean: NDArray[np.float64], sd: NDArray[np.float64]) -> LogSumExp:
    """E log Σ_c exp f_c under f_c ~ N(mean_c, sd_c²), for each row, with its derivatives.

    Derivatives are those of the sum that was computed, to rounding.

    Parameters
    ----------
    mean, sd : arrays of shape (rows, C)

    Returns
    -------
    value of shape (rows,), in_mean and in_sd of shape (rows, C)

    Examples
    --------
    >>> found = expected_log_sum_exp(np.array([[0.0, 0.0, 1.0]]), np.array([[0.5, 0.5, 2.0]]))
    >>> found.value.round(6), found.in_mean.round(4)
    (array([1.95834]), array([[0.2315, 0.2315, 0.5371]]))
    """
    mean = np.ascontiguousarray(mean, dtype=np.float64)
    sd = np.ascontiguousarray(np.clip(sd, _SMALLEST, _WIDEST))
    rules = _rules()
    tiers = np.searchsorted(rules.widest[:-1], sd)
    value, in_mean, in_sd = np.empty(len(mean)), np.empty_like(mean), np.empty_like(mean)
    grain = max(1, 1024 // mean.shape[1])
    arguments = (rules.offsets, rules.nodes, rules.weights, value, in_mean, in_sd)
    over_chunks(_integrate, len(mean), mean, sd, tiers, *arguments, grain=grain)
    return LogSumExp(value, in_mean, in_sd)


class _Rules(NamedTuple):
    """Rules for E g(z), z standard normal, one behind the other; `widest` says how far each serves."""

    widest: NDArray[np.float64]
    offsets: NDArray[np.int64]
    nodes: NDArray[np.float64]
    weights: NDArray[np.float64]


@lru_cache(maxsize=1)
def _rules() -> _Rules:
    widest, nodes, weights = [], [], []
    for n, reach in _HERMITE:
        z, w = np.polynomial.hermite_e.hermegauss(n)
        widest.append(reach)
        nodes.append(z)
        weights.append(w / w.sum())
    n = 64
    while n <= MAX_NODES and widest[-1] < _WIDEST:
        z = np.linspace(-_TRAPEZOID_REACH, _TRAPEZOID_REACH, n)
        w = np.exp(-0.5 * z**2)
        widest.append(n * _TRAPEZOID_STEP / (2.0 * _TRAPEZOID_REACH))
        nodes.append(z)
        weights.append(w / w.sum())
        n *= 2
    offsets = np.cumsum([0, *map(len, nodes)])
    return _Rules(np.array(widest), offsets, np.concatenate(nodes), np.concatenate(weights))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nnan", "nsz"})
def _along_lattice(r, u, weights, weighted_nodes, first, F, A, B):
    """Fill F, A = F' and B = −∂F/∂sd at every other point of the lattice, from `first` down.

    r = exp(f − x) at the first, for every node of f, and u = 1 − exp(−r). At the next one r doubles and 1 − u is
    squared: no exponential is needed, and u keeps all its digits where it is small.
    """
    K = len(r)
    for j in range(first, -1, -2):
        missing, density, tilt = 0.0, 0.0, 0.0
        for k in range(K):
            term = r[k] * (1.0 - u[k])
            missing += weights[k] * u[k]
            density += weights[k] * term
            tilt += weighted_nodes[k] * term
            u[k] = u[k] * (2.0 - u[k])
            r[k] = min(2.0 * r[k], _LARGE)
        F[j], A[j], B[j] = 1.0 - missing, density, tilt


@compiled
def _integrate(start, stop, mean, sd, tiers, offsets, nodes, weights, value, in_mean, in_sd):
    C = mean.shape[1]
    capacity = 64
    F, A, B = np.empty((C, capacity)), np.empty((C, capacity)), np.empty((C, capacity))
    product = np.empty(capacity)
    largest = 0
    for tier in range(len(offsets) - 1):
        largest = max(largest, offsets[tier + 1] - offsets[tier])
    r, u, tilted = np.empty(largest), np.empty(largest), np.empty(largest)
    share, share_sd = np.empty(C), np.empty(C)
    for i in range(start, stop):
        low, high, top = -np.inf, -np.inf, -np.inf
        for c in range(C):
            m, s = mean[i, c], sd[i, c]
            low = max(low, m - _BELOW * np.sqrt(s * s + _GUMBEL))
            high = max(high, m + min(s * s, _REACH * s))
            top = max(top, m + s * nodes[offsets[tiers[i, c] + 1] - 1])
        last = int(np.ceil((high + _ABOVE) / _STEP))
        n = last - int(np.floor(low / _STEP)) + 1
        x_last = last * _STEP
        if n > capacity:
            capacity = n + n // 2
            F, A, B = np.empty((C, capacity)), np.empty((C, capacity)), np.empty((C, capacity))
            product = np.empty(capacity)
        total = 0.0
        product[:n] = 1.0
        for c in range(C):
            m, s = mean[i, c], sd[i, c]
            begin, end = offsets[tiers[i, c]], offsets[tiers[i, c] + 1]
            K = end - begin
            w = weights[begin:end]
            share[c], share_sd[c] = 0.0, 0.0
            for parity in range(2):
                for k in range(K):
                    z = nodes[begin + k]
                    r[k] = np.exp(m + s * z - x_last + parity * _STEP)
                    u[k] = -np.expm1(-r[k])
                    if parity == 0:
                        tilted[k] = w[k] * z
                        growth = np.exp(m + s * z - top)
                        share[c] += w[k] * growth
                        share_sd[c] += tilted[k] * growth
                _along_lattice(r[:K], u[:K], w, tilted[:K], n - 1 - parity, F[c], A[c], B[c])
            total += share[c]
            for j in range(n):
                product[j] *= F[c, j]
        # the Gumbel distribution whose upper tail is that of the maximum
        level = top + np.log(total)
        area, mass = 0.0, 0.0
        for j in range(n):
            e = np.exp(level - x_last + (n - 1 - j) * _STEP)
            reference = np.exp(-e)
            area += reference - product[j]
            mass += reference * e
        value[i] = level + _STEP * area
        beyond = 1.0 - _STEP * mass
        for c in range(C):
            wins, tilt = 0.0, 0.0
            for j in range(n):
                if F[c, j] > 1e-15:
                    others = product[j] / F[c, j]
                    wins += A[c, j] * others
                    tilt += B[c, j] * others
            in_mean[i, c] = _STEP * wins + beyond * share[c] / total
            in_sd[i, c] = _STEP * tilt + beyond * share_sd[c] / total
