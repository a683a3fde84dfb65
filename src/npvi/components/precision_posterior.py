"""A factor of P + W that is good enough for the variances of predictions, and what it still lacks.

The zero-fill factor U Uᵀ loses what its pattern has no place for. For rough functions, or ones that change within a few
points, that is next to nothing; of a function that changes over a hundred points it may be a third of the standard
deviation, though M = U⁻¹(P+W)U⁻ᵀ is near the identity in all directions but few. So variances are compared with exact
ones, by Lanczos' method, at a few places, and other factors are tried where they differ: one that is right for
constants (`compensated`) where variances are too large, then one on a pattern twice as wide. Of few points what is left
lies in smooth directions, and is found in a Krylov space that starts from variances at other places:
V = (U Uᵀ)⁻¹ + S diag(c) Sᵀ. Of many there are too many such directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.linalg import Triangular, ZeroFillFactor, inverse_root
from npvi.posteriors import PrecisionPosterior
from npvi.priors import FACTORS

__all__ = ["again", "precision_posterior"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: names of factors
_NARROW, _WIDE = FACTORS[:2]
#: places where variances are compared with exact ones, and where Krylov spaces start
_JUDGES, _STARTS = 8, 16
#: products with M for these spaces
_STEPS = 3
#: points up to which Krylov spaces are looked for; error of standard deviations with which they aren't, and with which
#: no other factor is, up to so many points and beyond
_FEW, _FINE, _GOOD, _FAIR = 10_000, 0.002, 0.004, 0.015
#: neighbours of a place, in units of K, as predictions have them
_TIMES = 3
#: to which exact variances are found, relatively
_EXACT = 1e-3
#: changes of V in a direction that count, relatively
_COUNTS = 1e-3


class _Candidate(NamedTuple):
    error: float
    transpose: Triangular
    kind: tuple[str, bool]
    modes: NDArray[np.float32] = np.zeros((0, 0), np.float32)
    gains: Vector = np.zeros(0)


def precision_posterior(
    prior: Any, mean: Vector, variance: Vector, site_precision: Vector, factor: ZeroFillFactor, route: str
) -> tuple[PrecisionPosterior, float]:
    """N(mean, (P+W)⁻¹) for predictions, and how far standard deviations are off: root mean square, relative.

    Parameters
    ----------
    prior : NNGP
    mean, variance, site_precision : of the posterior's marginals.
    factor, route : the one that inference has used, and its name among the prior's routes.
    """
    places = prior.graph.spatial[np.linspace(0, len(mean) - 1, _JUDGES + _STARTS).astype(np.int64)]
    judges = np.zeros(len(places), dtype=bool)
    judges[1 :: (len(places) // _JUDGES)] = True
    asked = _functions(prior, places[judges])

    def product(x: Columns) -> Columns:
        return prior.matvec(x) + site_precision[:, None] * x

    exact = _exact_variances(factor.transpose, product, asked)

    few = len(mean) <= _FEW
    good = _GOOD if few else _FAIR

    def off(transpose: Triangular, correction: Columns | float = 0.0) -> tuple[float, float]:
        """Root mean square, and mean, of the errors at the judges."""
        found = np.sum(transpose.transpose_solve(asked) ** 2, axis=0) + correction
        errors = np.sqrt(np.maximum(found, 0.0) / exact) - 1.0
        return float(np.sqrt(np.mean(errors**2))), float(np.mean(errors))

    def with_modes(one: _Candidate) -> _Candidate:
        if one.error <= _FINE or not len(places) * _STEPS < len(mean) <= _FEW:
            return one
        S, c = _missing(one.transpose, product, _functions(prior, places[~judges]))
        along = S.T.astype(np.float64) @ asked
        error, _ = off(one.transpose, np.einsum("k,ki,ki->i", c, along, along))
        return one._replace(error=error, modes=S, gains=c) if error < one.error else one

    def tried(*kind: Any) -> _Candidate:
        other = prior.factor(site_precision, *kind)
        error = off(other.transpose)[0] if other.finite else np.inf
        return _Candidate(error, other.transpose, kind)

    error, mean_error = off(factor.transpose)
    best = _Candidate(error, factor.transpose, (route, False))
    if mean_error > good and route == _NARROW:  # what is made up for makes variances smaller
        best = min(best, tried(_NARROW, True), key=_error)
    compensated = best.kind[1]
    best = with_modes(best)
    if route == _NARROW:
        for kind in (False, True) if len(mean) <= _FEW else (compensated,):
            if best.error > good:
                best = min(best, with_modes(tried(_WIDE, kind)), key=_error)
    own = factor if factor.root is prior.root else None
    found = (best.transpose, variance, site_precision, best.modes, best.gains, best.kind)
    return PrecisionPosterior(mean, *found, own), best.error


def again(
    prior: Any, mean: Vector, variance: Vector, site_precision: Vector, like: PrecisionPosterior
) -> PrecisionPosterior:
    """The same for site precisions that are nearly those of another one, in the same way."""
    if site_precision is like.site_precision:
        return replace(like, mean=mean, variance=variance)
    factor = prior.factor(site_precision, *like.kind)
    own = factor if factor.root is prior.root else like.factor  # more data may start from what is nearly right
    return replace(
        like, mean=mean, variance=variance, site_precision=site_precision, transpose=factor.transpose, factor=own
    )


def _error(one: _Candidate) -> float:
    return one.error


def _functions(prior: Any, positions: NDArray[np.int32]) -> Columns:
    """The weights with which f at new rows, at the places of some training points, follows from f; shape (N, M)."""
    given = prior.conditional(prior.X[positions], _TIMES)
    columns = np.zeros((prior.graph.n_points, len(positions)))
    rows = np.arange(len(positions))[:, None]
    np.add.at(columns, (given.neighbors, np.broadcast_to(rows, given.neighbors.shape)), given.weights)
    return columns


def _exact_variances(transpose: Triangular, product: Callable[[Columns], Columns], asked: Columns) -> Vector:
    """bᵀ(P+W)⁻¹b of each column: ‖M^{−½}U⁻¹b‖²."""
    found = inverse_root(
        lambda x: transpose.transpose_solve(product(transpose.solve(x))), transpose.transpose_solve(asked), _EXACT
    )
    return np.einsum("ij,ij->j", found.root, found.root)


def _missing(
    transpose: Triangular, product: Callable[[Columns], Columns], starts: Columns
) -> tuple[NDArray[np.float32], Vector]:
    """S and c with V = (U Uᵀ)⁻¹ + S diag(c) Sᵀ in the Krylov space of M that starts from U⁻¹ times some columns."""
    block = transpose.transpose_solve(starts)
    basis, products = np.empty((len(block), 0)), np.empty((len(block), 0))
    for _ in range(_STEPS):
        for _ in range(2):
            block = block - basis @ (basis.T @ block)
        block, _ = np.linalg.qr(block)
        basis = np.hstack([basis, block])
        block = transpose.transpose_solve(product(transpose.solve(block)))
        products = np.hstack([products, block])
    inner = basis.T @ products
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    gains = 1.0 / np.maximum(values, 1e-6) - 1.0
    count = np.abs(gains) > _COUNTS
    return transpose.solve(basis @ vectors[:, count]).astype(np.float32), gains[count]
