"""Rules for integrals against the standard normal density: Σ_k w_k g(z_k) ≈ E g(z)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

__all__ = ["MAX_NODES", "REACH", "Rule", "gauss_hermite", "rule_of_tier", "tiers", "trapezoid"]

MAX_NODES = 4096
REACH = 8.75
"""Standard deviations that the trapezoidal rule covers; beyond lies less than 3e-18 of the mass."""
_HERMITE = {0: (32, 1.0), -1: (16, 0.5), -2: (8, 0.25)}
"""Tiers of Gauss–Hermite: nodes, and up to which standard deviation (relative to the resolution) they serve."""
_STEP = 0.6


class Rule(NamedTuple):
    """Nodes z and weights w, padded with zeros to `MAX_NODES`: all rules share one compiled function."""

    nodes: np.ndarray
    weights: np.ndarray
    n_nodes: int
    """How many there really are."""


def _rule(nodes: np.ndarray, weights: np.ndarray) -> Rule:
    padding = (0, MAX_NODES - len(nodes))
    rule = Rule(np.pad(nodes, padding), np.pad(weights / weights.sum(), padding), len(nodes))
    rule.nodes.setflags(write=False)
    rule.weights.setflags(write=False)
    return rule


@lru_cache
def gauss_hermite(n: int) -> Rule:
    """Gauss–Hermite: exact for polynomials up to degree 2n − 1.

    >>> rule = gauss_hermite(20)
    >>> float((rule.weights @ rule.nodes**4).round(12))  # E z⁴
    3.0
    """
    return _rule(*np.polynomial.hermite_e.hermegauss(n))


@lru_cache
def trapezoid(n: int) -> Rule:
    """The trapezoidal rule over ±8.75 standard deviations.

    Its error falls like exp(−2π a / step) for functions analytic in a strip of half-width a, however far the
    strip: the rule for functions that change on a scale much smaller than a standard deviation.

    >>> rule = trapezoid(64)
    >>> float((rule.weights @ rule.nodes**4).round(12))
    3.0
    """
    nodes = np.linspace(-REACH, REACH, n)
    return _rule(nodes, np.exp(-0.5 * nodes**2))


def tiers(sd: np.ndarray, resolution: np.ndarray | float) -> np.ndarray:
    """Which rule each standard deviation of f needs, for log-densities smooth over `resolution`.

    A step in f of at most 0.6 · resolution leaves an error near 1e-14 for the logistic function and its
    relatives (poles at ±iπ). Below 1 · resolution the 32 nodes of Gauss–Hermite do as well, below half of it 16,
    below a quarter 8.

    >>> tiers(np.array([0.1, 0.5, 1.0, 2.0, 20.0]), 1.0)
    array([-2, -1,  0,  1,  5])
    """
    ratio = np.asarray(sd) / resolution
    needed = np.ceil(np.log2(np.maximum(2.0 * REACH * ratio / _STEP, 1.0))).astype(int)
    tier = np.clip(needed, 6, MAX_NODES.bit_length() - 1) - 5
    for hermite, (_, reach) in _HERMITE.items():
        tier = np.where(ratio <= reach, hermite, tier)
    return tier


def rule_of_tier(tier: int) -> Rule:
    """Tiers 0, −1 and −2 are Gauss–Hermite with 32, 16 and 8 nodes; tier t > 0 the trapezoidal rule with 2^(5 + t).

    >>> [rule_of_tier(tier).n_nodes for tier in (-2, -1, 0, 1, 2)]
    [8, 16, 32, 64, 128]
    """
    return gauss_hermite(_HERMITE[tier][0]) if tier in _HERMITE else trapezoid(2 ** (5 + tier))
