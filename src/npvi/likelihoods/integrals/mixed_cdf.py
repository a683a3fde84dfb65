"""P(Y ≤ y) where several models have a say, at many y for the same rows: what a search for quantiles asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from npvi.likelihoods.integrals.root_finding import Start
from npvi.likelihoods.integrals.rows_cdf import CHUNK, COARSE, EXACT, SIZES, Component, RowsCdf
from npvi.runtime.compiling import compiled

__all__ = ["MixedCdf"]

_PER_PART, _MOST = 16, 384
"""Nodes that all parts share: at most so many for each of them, and in all."""


class MixedCdf:
    """F(y) = Σ_k weight_k E P(Y ≤ y | f), f ~ N(mean_k, variance_k), for each row, near its quantile `q`.

    Parts that differ in f alone are one integral over the density that they have together; zeros that are there
    whatever f is stand apart.

    >>> from npvi.likelihoods import Bernoulli
    >>> parts = [Component(0.5, Bernoulli(), np.full(1, m), np.ones(1), {}) for m in (-1.0, 1.0)]
    >>> MixedCdf(parts, 0.5)(np.zeros(1), np.array([0])).round(12)
    array([0.5])
    """

    def __init__(self, components: Sequence[Component], q: float) -> None:
        self._zeros, self._shift = 0.0, 0.0
        kinds: list[list[Component]] = []
        for part in components:
            zeros, likelihood = part.likelihood.beside_zeros() or (0.0, part.likelihood)
            self._zeros += part.weight * zeros
            part = part._replace(weight=part.weight * (1.0 - zeros), likelihood=likelihood)
            kind = next((kind for kind in kinds if _alike(kind[0], part)), None)
            if kind is None:
                kinds.append([part])
            else:
                kind.append(part)
        if self._zeros:
            beside = float(np.clip((q - self._zeros) / (1.0 - self._zeros), 1e-3, 1.0 - 2.0**-53))
            self._shift = float(special.ndtri(beside) - special.ndtri(q)) if q > self._zeros else -np.inf
            q = beside
        self._kinds = [_Kind(kind, q) for kind in kinds]
        self.closed = all(kind.closed for kind in self._kinds)

    def __call__(self, y: np.ndarray, rows: np.ndarray, coarse: bool = False) -> np.ndarray:
        """P(Y ≤ y) for some of the rows, to 1e-11, or to about 1e-6 where `coarse`."""
        total = np.where(y < 0.0, 0.0, self._zeros)
        for kind in self._kinds:
            total += kind(y, rows, coarse)
        return total

    def start(self) -> Start:
        """Where a search begins: by the moments of where it would begin for each part."""
        starts = [kind.start() for kind in self._kinds]
        weights = np.concatenate([kind.weights for kind in self._kinds])
        weights /= weights.sum()
        centres, units = (np.concatenate(values) for values in zip(*starts))
        centre = weights @ centres
        unit = np.clip(np.sqrt(weights @ (units**2 + (centres - centre) ** 2)), 1e-300, None)
        return Start(np.nan_to_num(centre + self._shift * unit, nan=0.0, posinf=690.0, neginf=-690.0), unit)


class _Kind:
    """Parts that differ in f and its weight alone."""

    def __init__(self, parts: Sequence[Component], q: float) -> None:
        self.weights = np.array([part.weight for part in parts])
        self._count, self._rows, likelihood = len(parts), len(parts[0].mean), parts[0].likelihood
        means, variances = (np.array([getattr(part, name) for part in parts]) for name in ("mean", "variance"))
        self._mean, self._variance = means, variances
        self.likelihood, self.row = likelihood, parts[0].row
        row = {name: np.tile(value, self._count) for name, value in self.row.items()}
        self._each = RowsCdf(likelihood, q, self._mean.ravel(), variances.ravel(), row)
        self.closed = self._each.closed
        self._sd = self._each.sd.reshape(variances.shape)
        self._sizes = {coarse: self._choose(coarse) for coarse in (False, True)}

    def __call__(self, y: np.ndarray, rows: np.ndarray, coarse: bool) -> np.ndarray:
        if self.closed:
            return self._in_closed_form(y, rows)
        out, sizes = np.empty(len(y)), self._sizes[coarse][rows]
        for size in np.unique(sizes):
            chosen = np.flatnonzero(sizes == size)
            if size == 0:
                out[chosen] = self._apart(coarse, y[chosen], rows[chosen])
                continue
            step = max(1, CHUNK // size)
            for start in range(0, len(chosen), step):
                some = chosen[start : start + step]
                out[some] = self._shared(int(size), coarse, y[some], rows[some])
        return out

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        centre, unit = self._each.start()
        return centre.reshape(self._mean.shape), unit.reshape(self._mean.shape)

    def _choose(self, coarse: bool) -> np.ndarray:
        """How many nodes each row takes for all parts together; 0 where each has its own."""
        if self._count == 1 or self._each.closed:
            return np.zeros(self._rows, dtype=np.int64)
        lower, upper = self._ends(slice(None), coarse)
        step = self._each.step.reshape(self._mean.shape).min(axis=0)
        step = step * np.sqrt(EXACT[1] / (COARSE if coarse else EXACT)[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = (upper - lower) / step + 1.0
        sizes = np.append(SIZES, 0)
        sizes[sizes > min(_PER_PART * self._count, _MOST)] = 0
        return sizes[np.searchsorted(SIZES, np.nan_to_num(needed, nan=np.inf))]

    def _ends(self, rows: slice | np.ndarray, coarse: bool) -> tuple[np.ndarray, np.ndarray]:
        reach = (COARSE if coarse else EXACT)[0] * self._sd[:, rows]
        return (self._mean[:, rows] - reach).min(axis=0), (self._mean[:, rows] + reach).max(axis=0)

    def _shared(self, size: int, coarse: bool, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        mean, sd = self._mean[:, rows], self._sd[:, rows]
        lower, upper = self._ends(rows, coarse)
        f = np.linspace(lower, upper, size, axis=1)
        weights = np.zeros(f.shape)
        _add_normals(lower, (upper - lower) / (size - 1.0), self.weights, mean, sd, weights)
        columns = {name: value[rows, None] for name, value in self.row.items()}
        with np.errstate(over="ignore", under="ignore"):
            given = self.likelihood.cdf(y[:, None], f, **columns)
        return np.einsum("ij,ij->i", given, weights) * (self.weights.sum() / weights.sum(axis=1))

    def _in_closed_form(self, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        row = {name: value[rows] for name, value in self.row.items()}
        found = self.likelihood.marginal_cdf(y, self._mean[:, rows], self._variance[:, rows], **row)
        assert found is not None  # or this were no closed form
        return self.weights @ found

    def _apart(self, coarse: bool, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        every = (rows + self._rows * np.arange(self._count)[:, None]).ravel()
        return self.weights @ self._each(np.tile(y, self._count), every, coarse).reshape(self._count, len(y))


def _alike(one: Component, other: Component) -> bool:
    """Whether two parts have the same likelihood and the same data in each row."""
    if type(one.likelihood) is not type(other.likelihood) or one.row.keys() != other.row.keys():
        return False
    parameters, others = vars(one.likelihood), vars(other.likelihood)
    pairs = [(parameters[name], others[name]) for name in parameters]
    pairs += [(one.row[name], other.row[name]) for name in one.row]
    return all(a is b or np.array_equal(a, b) for a, b in pairs)


@compiled
def _add_normals(lower, step, weights, mean, sd, out):
    """To out[i, j] the normal densities at lower[i] + j step[i], but for a constant: a quotient of quotients is one."""
    size = out.shape[1]
    for i in range(len(out)):
        for k in range(len(weights)):
            d = step[i] / sd[k, i]
            middle = int(np.rint((mean[k, i] - lower[i]) / step[i]))
            z = (lower[i] + middle * step[i] - mean[k, i]) / sd[k, i]
            peak, curve = weights[k] / sd[k, i] * np.exp(-0.5 * z * z), np.exp(-d * d)
            least = 1e-18 * peak
            value, quotient = peak, np.exp(-d * (z + 0.5 * d))
            for j in range(middle, size):
                out[i, j] += value
                value *= quotient
                quotient *= curve
                if value < least:
                    break
            quotient = np.exp(d * (z - 0.5 * d))
            value = peak * quotient
            for j in range(middle - 1, -1, -1):
                out[i, j] += value
                quotient *= curve
                value *= quotient
                if value < least:
                    break
