"""The distribution of new responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from npvi.graph.checks import check_count
from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.density import predictive_log_prob
from npvi.likelihoods.distribution import predictive_cdf
from npvi.likelihoods.moments import predictive_moments
from npvi.likelihoods.quantiles import predictive_quantile
from npvi.likelihoods.rows_cdf import RowsCdf
from npvi.reach import Reach

__all__ = ["Predictive", "Total", "two_streams"]

#: joint draws of f held at a time, over all rows, and responses drawn at a time
_LATENT, _RESPONSES = 2**24, 2**20


class Predictive:
    """The distribution of y at each row: f ~ N(latent_mean, latent_var), e ~ N(0, nugget) and y ~ likelihood(f + e).

    f is a surface, which all rows at a place have in common; the nugget e is of a single new row. What is about f
    (``latent_mean``, ``latent_var``, ``joint_latent_sample``, ``reach``) is without the nugget. What is about
    responses (``mean``, ``var``, ``quantile``, ``interval``, ``log_prob``, ``cdf``, ``sample``, ``joint_sample``,
    ``total``) is an integral over both. Nothing is computed before it is asked for, and moments are computed once.

    Parameters
    ----------
    likelihood : Likelihood
    latent_mean, latent_var : arrays of shape (rows,)
    row : dict of arrays of shape (rows,), optional
        What the likelihood takes besides y, such as ``{"exposure": …}``.
    joint : callable (n, rng) → array of shape (rows, n), optional
        Joint draws of f over all rows, without the nugget; a fitted model gives it, and without it there are no joint
        draws.
    nugget : number or array of shape (rows,), optional
        Variance of e, 0 unless given.
    reach : callable () → Reach, optional
        How far the rows are from the data; a fitted model gives it.

    Examples
    --------
    >>> from npvi.likelihoods import Poisson
    >>> prediction = Predictive(Poisson(), np.log([1.0, 20.0]), np.array([0.5, 0.01]))
    >>> prediction.mean.round(3)
    array([ 1.284, 20.1  ])
    >>> prediction.quantile([0.05, 0.95])
    array([[ 0., 12.],
           [ 4., 29.]])
    >>> prediction.log_prob([2, 25]).round(3)
    array([-1.798, -3.101])
    >>> apart = Predictive(Poisson(), np.log([1.0, 20.0]), np.array([0.3, 0.0]), nugget=[0.2, 0.01])
    >>> apart.mean.round(3), apart.latent_var  # 0.5 and 0.01 in all, as above
    (array([ 1.284, 20.1  ]), array([0.3, 0. ]))
    """

    def __init__(
        self,
        likelihood: Likelihood,
        latent_mean: Any,
        latent_var: Any,
        row: dict[str, Any] | None = None,
        joint: Callable[[int, np.random.Generator], np.ndarray] | None = None,
        nugget: Any = 0.0,
        reach: Callable[[], Reach] | None = None,
    ) -> None:
        self.likelihood = likelihood
        self.joint = joint
        self.latent_mean: np.ndarray = np.asarray(latent_mean, dtype=np.float64)
        self.latent_var: np.ndarray = np.asarray(latent_var, dtype=np.float64)
        if self.latent_mean.ndim != 1 or self.latent_mean.shape != self.latent_var.shape:
            raise ValueError(
                f"latent_mean and latent_var must have one number per row, got shapes "
                f"{self.latent_mean.shape} and {self.latent_var.shape}"
            )
        if not np.all(self.latent_var >= 0.0):
            raise ValueError("latent_var must not be negative, nor NaN")
        self.nugget: np.ndarray = np.asarray(nugget, dtype=np.float64)
        if self.nugget.shape not in [(), self.latent_var.shape] or not np.all(self.nugget >= 0.0):
            raise ValueError(f"nugget must be a number or one per row, none negative nor NaN; got {nugget!r}")
        self._var_with_nugget = self.latent_var + self.nugget
        self._reach = reach
        self.row = likelihood.check_row(row, len(self.latent_mean))

    def __len__(self) -> int:
        return len(self.latent_mean)

    def __repr__(self) -> str:
        return f"Predictive({self.likelihood!r}, {len(self)} rows)"

    @cached_property
    def reach(self) -> Reach:
        """How far each row is from the data: distance in length scales, and the share of the prior variance left.

        >>> from npvi import GPRegressor, kernels
        >>> X = np.linspace(0.0, 6.0, 50)[:, None]
        >>> model = GPRegressor(kernel=kernels.RBF(2.0), learn=False, mean="zero", n_neighbors=10)
        >>> reach = model.fit(X, np.sin(X[:, 0])).predict_dist([[1.0], [16.0]]).reach
        >>> reach.distance.round(2), reach.prior_share.round(2), reach.beyond
        (array([0.01, 5.  ]), array([0., 1.]), array([False,  True]))
        """
        if self._reach is None:
            raise ValueError(
                "reach needs the training rows, which this Predictive was made without: take the one that "
                "model.predict_dist(X) of a GPRegressor or GPClassifier returns"
            )
        return self._reach()

    @property
    def mean(self) -> np.ndarray:
        """E[y], of shape (rows,)."""
        return self._moments[0]

    @property
    def var(self) -> np.ndarray:
        """Var[y], of shape (rows,)."""
        return self._moments[1]

    @property
    def std(self) -> np.ndarray:
        """√Var[y], of shape (rows,)."""
        return np.sqrt(self.var)

    def quantile(self, q: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """The smallest y with P(Y ≤ y) ≥ q.

        Parameters
        ----------
        q : float or sequence of float
            Between 0 and 1.

        Returns
        -------
        array of shape (rows,) for one q, (len(q), rows) for a sequence
            Whole numbers (as floats) where the response is discrete.
        """
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim > 1 or not np.all((levels >= 0.0) & (levels <= 1.0)):
            raise ValueError(f"q must be a number from 0 to 1, or a sequence of them; got {q!r}")
        if levels.ndim == 0:
            return self._quantile(float(levels))
        return np.array([self._quantile(float(level)) for level in levels]).reshape(len(levels), len(self))

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the equal-tailed interval that holds y with probability `level` (at least, where y is
        discrete).

        >>> from npvi.likelihoods import Gaussian
        >>> lower, upper = Predictive(Gaussian(variance=0.5), [0.0], [0.5]).interval(0.95)
        >>> lower.round(2), upper.round(2)
        (array([-1.96]), array([1.96]))
        """
        if not 0.0 <= level <= 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        return self._quantile(0.5 * (1.0 - level)), self._quantile(0.5 * (1.0 + level))

    def log_prob(self, y: Any) -> np.ndarray:
        """log p(y), the log density (or probability) of a response at each row, of shape (rows,)."""
        y = self.likelihood.check_response(self._one_per_row(y))
        return predictive_log_prob(self.likelihood, y, self.latent_mean, self._var_with_nugget, self.row)

    def cdf(self, y: Any) -> np.ndarray:
        """P(Y ≤ y) at each row, of shape (rows,); y may be any number."""
        y = self._one_per_row(y)
        return predictive_cdf(self.likelihood, y, self.latent_mean, self._var_with_nugget, self.row)

    def sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Draws of y, of shape (n, rows). Rows are drawn independently of each other; see `joint_sample`.

        >>> from npvi.likelihoods import Poisson
        >>> Predictive(Poisson(), np.zeros(4), np.ones(4)).sample(2, seed=0).shape
        (2, 4)
        """
        rng = np.random.default_rng(seed)
        f = rng.normal(self.latent_mean, np.sqrt(self._var_with_nugget), size=(n, len(self)))
        return self.likelihood.sample(rng, f, **self.row)

    def joint_sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Draws of the whole surface of responses, of shape (n, rows): rows that lie close together go together.

        >>> from npvi import GPRegressor
        >>> X = np.linspace(0.0, 6.0, 50)[:, None]
        >>> model = GPRegressor(n_neighbors=10).fit(X, np.sin(X[:, 0]))
        >>> model.predict_dist([[1.0], [1.1], [9.0]]).joint_sample(4, seed=0).shape
        (4, 3)
        """
        out = np.empty((check_count(n, "n"), len(self)))
        for draws, rows, y in self._responses(n, seed):
            out[draws, rows] = y
        return out

    def joint_latent_sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Draws of the whole surface f, without the nugget, of shape (n, rows): those behind `joint_sample` with the
        same seed, which adds a nugget to each row."""
        out = np.empty((check_count(n, "n"), len(self)))
        for draws, f in self._surfaces(n, two_streams(seed)[0]):
            out[draws] = f.T
        return out

    def total(
        self,
        weights: Any = None,
        level: float = 0.9,
        n: int = 500,
        seed: int | np.random.Generator | None = None,
    ) -> Total:
        """The distribution of Σ weights · y over all rows, such as the birds in a county.

        Surfaces are drawn a few at a time, so that memory stays bounded however many rows there are.

        Parameters
        ----------
        weights : (rows,) numbers, optional
            1 for every row where not given; 1 / rows gives the mean over rows.
        level : float
            Probability of ``interval()``.
        n : int
            Number of draws. The ends of a 90 % interval are then known to about 2/√n of a standard deviation.

        Returns
        -------
        Total
            with ``mean``, ``std``, ``quantile(q)``, ``interval()`` and ``draws``.

        Examples
        --------
        >>> from npvi import GPRegressor
        >>> X = np.linspace(0.0, 6.0, 50)[:, None]
        >>> model = GPRegressor(likelihood="poisson", n_neighbors=10).fit(X, np.arange(50) % 4)
        >>> total = model.predict_dist(X).total(seed=0)
        >>> lower, upper = total.interval()
        >>> bool(lower < 50 * 1.5 < upper)
        True
        """
        check_count(n, "n")
        if not 0.0 <= level <= 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        weights = np.ones(len(self)) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights.shape != (len(self),) or not np.isfinite(weights).all():
            raise ValueError(
                f"weights must be one finite number per row, {len(self)} in all; got "
                f"{'NaN or infinity' if weights.shape == (len(self),) else f'shape {weights.shape}'}"
            )
        totals = np.zeros(n)
        for draws, rows, y in self._responses(n, seed):
            totals[draws] += y @ weights[rows]
        return Total(totals, level)

    def _responses(self, n: int, seed: Any) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Joint draws of y piece by piece: which draws, which rows, and the responses."""
        latent, noise = two_streams(seed)
        for draws, f in self._surfaces(n, latent):
            step = max(1, _RESPONSES // f.shape[1])
            for start in range(0, len(self), step):
                rows = slice(start, start + step)
                row = {name: values[rows] for name, values in self.row.items()}
                yield draws, rows, self.likelihood.sample(noise, self._with_nugget(f[rows].T, rows, noise), **row)

    def _with_nugget(self, f: np.ndarray, rows: slice, rng: np.random.Generator) -> np.ndarray:
        """f (draws, rows) and a nugget of its own for each."""
        nugget = self.nugget if self.nugget.ndim == 0 else self.nugget[rows]
        return f + np.sqrt(nugget) * rng.standard_normal(f.shape) if np.any(nugget > 0.0) else f

    def _surfaces(self, n: int, rng: np.random.Generator) -> Iterator[tuple[slice, np.ndarray]]:
        """Joint draws of f, shape (rows, draws), a few draws at a time."""
        if self.joint is None:
            raise ValueError(
                "joint draws need `joint`, which this Predictive was made without: take the one that "
                "model.predict_dist(X) returns, or use `sample`, which draws every row on its own"
            )
        step = max(1, _LATENT // max(1, len(self)))
        for start in range(0, n, step):
            stop = min(n, start + step)
            yield slice(start, stop), self.joint(stop - start, rng)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        return predictive_moments(self.likelihood, self.latent_mean, self._var_with_nugget, self.row)

    def _rows_cdf(self, q: float) -> RowsCdf:
        """P(Y ≤ y) for a search for quantiles about q."""
        return RowsCdf(self.likelihood, q, self.latent_mean, self._var_with_nugget, self.row)

    def _quantile(self, q: float) -> np.ndarray:
        return predictive_quantile(self.likelihood, q, self.latent_mean, self._var_with_nugget, self.row)

    def _one_per_row(self, y: Any) -> np.ndarray:
        y = np.asarray(y, dtype=np.float64)
        if y.shape not in [(), (len(self),)]:
            raise ValueError(f"y must have one number per row, {len(self)} in all; got shape {y.shape}")
        return np.array(np.broadcast_to(y, (len(self),)))


@dataclass(frozen=True, eq=False, repr=False)
class Total:
    """The distribution of a sum of responses, by its draws.

    Attributes
    ----------
    draws : (n,)
    level : probability of ``interval()``

    Examples
    --------
    >>> total = Total(np.arange(101.0))
    >>> total
    Total(50 ± 29.2, 90 % from 5 to 95)
    >>> total.quantile([0.25, 0.5])
    array([25., 50.])
    """

    draws: np.ndarray
    level: float = 0.9

    @property
    def mean(self) -> float:
        """Mean over the draws."""
        return float(self.draws.mean())

    @property
    def std(self) -> float:
        """Standard deviation over the draws."""
        return float(self.draws.std())

    def quantile(self, q: float | Sequence[float] | np.ndarray) -> Any:
        """The smallest draw that at least a part q of the draws doesn't exceed: a number, or an array for several q."""
        values = np.quantile(self.draws, q, method="inverted_cdf")
        return float(values) if np.ndim(values) == 0 else values

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """The ends of the equal-tailed interval with probability `level`, by default the one asked for."""
        level = self.level if level is None else level
        if not 0.0 <= level <= 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        return self.quantile(0.5 * (1.0 - level)), self.quantile(0.5 * (1.0 + level))

    def __repr__(self) -> str:
        lower, upper = self.interval()
        return f"Total({self.mean:.6g} ± {self.std:.3g}, {100 * self.level:g} % from {lower:.6g} to {upper:.6g})"


def two_streams(seed: int | np.random.Generator | None) -> tuple[np.random.Generator, np.random.Generator]:
    """One for f and one for the response: the same seed gives the same f with and without responses."""
    seeds = np.random.default_rng(seed).integers(2**63, size=2)
    return np.random.default_rng(seeds[0]), np.random.default_rng(seeds[1])
