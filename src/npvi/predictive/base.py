"""The distribution of new responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from npvi.checks import (
    SHARE,
    as_numbers,
    check_choice,
    check_count,
    check_finite,
    check_number,
    generator,
    rows_text,
)
from npvi.likelihoods import (
    Component,
    Gaussian,
    Likelihood,
    mixture_quantile,
    predictive_cdf,
    predictive_log_prob,
    predictive_moments,
)
from npvi.predictive.reach import Reach
from npvi.predictive.skewed import skewed_score
from npvi.runtime.arrays import Array, Number, Seed, Slice, Span
from npvi.runtime.warn import warn

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NormalTotal", "Predictive", "Total", "Totals", "check_draws", "two_streams"]

#: joint draws of f held at a time, over all rows, and responses drawn at a time
_LATENT, _RESPONSES = 2**24, 2**17
#: fewest and most draws of a total by default, and numbers that they have in all between the two
_DRAWS, _DRAWN = (256, 4096), 2**26
#: most rows of a covariance matrix
_LARGEST_COVARIANCE = 10_000
#: sums of squares over many rows, times other numbers, must stay numbers
_LARGEST_WEIGHT = 1e100
#: most numbers of all draws together: half a terabyte
_MOST_DRAWN = 2**36
#: larger counts are moved as other numbers are: nobody sees whether they are whole
_WHOLE = 2.0**40
#: of differences, in standard deviations of f
_STEP = 0.01


@runtime_checkable
class _WithCovariance(Protocol):
    """Joint draws of f that know more about it."""

    def covariance(self, weights: Array | None) -> Array:
        """Of f between all rows, or of its weighted sums."""
        ...


class Predictive:
    """The distribution of y at each row: f ~ N(latent_mean, latent_var), e ~ N(0, nugget) and y ~ likelihood(f + e).

    f is a surface, which all rows at a place have in common; the nugget e is of a single new row. What is about f
    (``latent_mean``, ``latent_var``, ``joint_covariance``, ``latent_total``, ``joint_latent_sample``, ``reach``) is
    without the nugget. What is about
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
    skewness : callable () → array of shape (rows,), optional
        Of f, for `latent_interval`; a fitted model gives it, and 0 without it.

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
        latent_mean: ArrayLike,
        latent_var: ArrayLike,
        row: Mapping[str, ArrayLike | None] | None = None,
        joint: Callable[[int, np.random.Generator], Array] | None = None,
        nugget: ArrayLike = 0.0,
        reach: Callable[[], Reach] | None = None,
        skewness: Callable[[], Array] | None = None,
    ) -> None:
        self.likelihood = likelihood
        self.joint = joint
        #: the table that was predicted, where a model with terms has one
        self.table: object = None
        self.latent_mean: Array = as_numbers(latent_mean, "latent_mean")
        self.latent_var: Array = as_numbers(latent_var, "latent_var")
        if self.latent_mean.ndim != 1 or self.latent_mean.shape != self.latent_var.shape:
            raise ValueError(
                f"latent_mean and latent_var must have one number per row, got shapes "
                f"{self.latent_mean.shape} and {self.latent_var.shape}"
            )
        if not np.all(self.latent_var >= 0.0):
            raise ValueError("latent_var must not be negative, nor NaN")
        self.nugget: Array = as_numbers(nugget, "nugget")
        if self.nugget.shape not in [(), self.latent_var.shape] or not np.all(self.nugget >= 0.0):
            raise ValueError(f"nugget must be a number or one per row, none negative nor NaN; got {nugget!r}")
        self._var_with_nugget = self.latent_var + self.nugget
        self._reach, self._skewness = reach, skewness
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

    @cached_property
    def latent_skewness(self) -> Array:
        """Skewness of f at each row, to first order in third derivatives of the likelihood; of one model in ±1.

        >>> from npvi import GPRegressor, kernels
        >>> X = np.arange(40.0)[:, None]
        >>> model = GPRegressor("poisson", kernels.RBF(3.0), mean="zero", learn=False).fit(X, np.zeros(40))
        >>> bool(model.predict_dist([[20.0]]).latent_skewness < -0.2)  # of counts that are all 0 f may be far below
        True
        """
        return np.zeros(len(self)) if self._skewness is None else np.clip(np.nan_to_num(self._skewness()), -1.0, 1.0)

    @property
    def mean(self) -> Array:
        """E[y], of shape (rows,); where no number is as large, inf, and a warning."""
        mean = self._moments[0]
        beyond = np.flatnonzero(np.isinf(mean))
        if len(beyond):
            warn(
                f"the mean of the response is beyond all numbers in {len(beyond)} of {len(mean)} {rows_text(beyond)}, "
                f"where f is {self.latent_mean[beyond[0]]:.3g} ± {np.sqrt(self._var_with_nugget[beyond[0]]):.2g}: take "
                "medians, quantile(0.5), or a kernel with a smaller variance"
            )
        return mean

    @property
    def var(self) -> Array:
        """Var[y], of shape (rows,)."""
        return self._moments[1]

    @property
    def std(self) -> Array:
        """√Var[y], of shape (rows,)."""
        return np.sqrt(self.var)

    def quantile(self, q: float | Sequence[float] | Array) -> Array:
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
        levels = _check_probabilities(q)
        if levels.ndim > 1:
            raise ValueError(f"q must be a number from 0 to 1, or a sequence of them; got shape {levels.shape}")
        if levels.ndim == 0:
            return self._quantile(float(levels))
        return np.array([self._quantile(float(level)) for level in levels]).reshape(len(levels), len(self))

    def latent_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """The ends of the equal-tailed interval that holds f, without the nugget, with probability `level`.

        >>> from npvi.likelihoods import Poisson
        >>> [end.round(2) for end in Predictive(Poisson(), [0.0], [1.0], nugget=5.0).latent_interval(0.95)]
        [array([-1.96]), array([1.96])]
        """
        _check_level(level)
        return self._latent_quantile(0.5 * (1.0 - level)), self._latent_quantile(0.5 * (1.0 + level))

    def _latent_quantile(self, q: float) -> Array:
        return self.latent_mean + np.sqrt(self.latent_var) * skewed_score(float(ndtri(q)), self.latent_skewness)

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """The ends of the equal-tailed interval that holds y with probability `level` (at least, where y is
        discrete).

        >>> from npvi.likelihoods import Gaussian
        >>> lower, upper = Predictive(Gaussian(variance=0.5), [0.0], [0.5]).interval(0.95)
        >>> lower.round(2), upper.round(2)
        (array([-1.96]), array([1.96]))
        """
        _check_level(level)
        return self._quantile(0.5 * (1.0 - level)), self._quantile(0.5 * (1.0 + level))

    def log_prob(self, y: ArrayLike) -> Array:
        """log p(y), the log density (or probability) of a response at each row, of shape (rows,)."""
        y = self.likelihood.check_response(self._one_per_row(y))
        self.likelihood.check_together(y, self.row)
        return predictive_log_prob(self.likelihood, y, self.latent_mean, self._var_with_nugget, self.row)

    def cdf(self, y: ArrayLike) -> Array:
        """P(Y ≤ y) at each row, of shape (rows,); y may be any number, or infinite."""
        y = self._one_per_row(y)
        check_finite(np.where(np.isnan(y), np.nan, 0.0), "y")
        return predictive_cdf(self.likelihood, y, self.latent_mean, self._var_with_nugget, self.row)

    def exceed(self, threshold: float | Sequence[float] | Array) -> Array:
        """P(Y > threshold) at each row.

        Parameters
        ----------
        threshold : float or sequence of float

        Returns
        -------
        array of shape (rows,) for one threshold, (len(threshold), rows) for a sequence

        >>> from npvi.likelihoods import Poisson
        >>> Predictive(Poisson(), np.log([1.0, 20.0]), [0.0, 0.0]).exceed(5).round(3)
        array([0.001, 1.   ])
        """
        thresholds = as_numbers(threshold, "threshold")
        if thresholds.ndim > 1 or np.isnan(thresholds).any():
            raise ValueError(f"threshold must be a number, or a sequence of them; got {threshold!r}")
        if thresholds.ndim == 0:
            return 1.0 - self.cdf(float(thresholds))
        return np.array([1.0 - self.cdf(float(one)) for one in thresholds]).reshape(len(thresholds), len(self))

    def sample(self, n: int = 1, seed: Seed = None) -> Array:
        """Draws of y, of shape (n, rows). Rows are drawn independently of each other; see `joint_sample`.

        >>> from npvi.likelihoods import Poisson
        >>> Predictive(Poisson(), np.zeros(4), np.ones(4)).sample(2, seed=0).shape
        (2, 4)
        """
        rng = generator(seed)
        f = rng.normal(self.latent_mean, np.sqrt(self._var_with_nugget), size=(check_draws(n, len(self)), len(self)))
        return self.likelihood.sample(rng, f, **self.row)

    def joint_sample(self, n: int = 1, seed: Seed = None) -> Array:
        """Draws of the whole surface of responses, of shape (n, rows): rows that lie close together go together.

        >>> from npvi import GPRegressor
        >>> X = np.linspace(0.0, 6.0, 50)[:, None]
        >>> model = GPRegressor(n_neighbors=10).fit(X, np.sin(X[:, 0]))
        >>> model.predict_dist([[1.0], [1.1], [9.0]]).joint_sample(4, seed=0).shape
        (4, 3)
        """
        out = np.empty((check_draws(n, len(self)), len(self)))
        for draws, rows, _, y in self._responses(n, seed):
            out[draws, rows] = y
        return out

    def joint_latent_sample(self, n: int = 1, seed: Seed = None) -> Array:
        """Draws of the whole surface f, without the nugget, of shape (n, rows): those behind `joint_sample` with the
        same seed, which adds a nugget to each row."""
        out = np.empty((check_draws(n, len(self)), len(self)))
        for draws, f in self._surfaces(n, two_streams(seed)[0]):
            out[draws] = f.T
        return out

    def joint_covariance(self, weights: ArrayLike | None = None) -> Array:
        """The covariance of f between all rows, without the nugget; or of weighted sums of f, weights (rows, R).

        Nothing is drawn: each sum takes one solve with the posterior's factor. Shape (rows, rows), or (R, R).

        >>> from npvi import GPRegressor
        >>> X = np.linspace(0.0, 6.0, 50)[:, None]
        >>> dist = GPRegressor(n_neighbors=10).fit(X, np.sin(X[:, 0])).predict_dist([[7.0], [7.1], [9.0]])
        >>> C = dist.joint_covariance()
        >>> bool(C[0, 1] > 0.99 * np.sqrt(C[0, 0] * C[1, 1]))  # neighbours go together
        True
        >>> np.allclose(dist.joint_covariance(np.ones((3, 1))), C.sum())
        True
        """
        count = len(self)
        if weights is not None:
            weights = np.ascontiguousarray(as_numbers(weights, "weights"))
            if weights.ndim != 2 or len(weights) != len(self) or not np.isfinite(weights).all():
                raise ValueError(f"weights must be finite, with one row for each of {len(self)} and a column per sum")
            check_finite(weights, "weights", _LARGEST_WEIGHT)
            count = weights.shape[1]
        if count > _LARGEST_COVARIANCE:
            raise ValueError(
                f"the covariance of {count} rows would be a matrix of {8e-9 * count**2:.1f} GB: at most "
                f"{_LARGEST_COVARIANCE} are taken. Predict fewer rows, or give weights of some sums, (rows, sums); "
                "latent_total(weights) has the variance of one"
            )
        return self._covariance(weights)

    def latent_total(self, weights: ArrayLike | None = None, level: float = 0.9) -> NormalTotal:
        """The distribution of Σ weights · f over all rows, without nuggets and noise: normal, and by one solve.

        Parameters
        ----------
        weights : (rows,) numbers, optional
            1 for every row where not given; 1 / rows gives the mean over rows.
        level : float
            Probability of ``interval()``.

        >>> from npvi import GPRegressor
        >>> X = np.linspace(0.0, 6.0, 50)[:, None]
        >>> GPRegressor(n_neighbors=10).fit(X, np.sin(X[:, 0])).predict_dist(X).latent_total().std < 0.1
        True
        """
        _check_level(level)
        means, deviations, shares = self._latent_totals(self._check_weights(weights))
        return NormalTotal(means, deviations, shares, level)

    @overload
    def total(
        self,
        weights: ArrayLike | None = None,
        level: float = 0.9,
        n: int | None = None,
        seed: Seed = None,
        of: str = "response",
        by: None = None,
    ) -> Total: ...
    @overload
    def total(
        self,
        weights: ArrayLike | None = None,
        level: float = 0.9,
        n: int | None = None,
        seed: Seed = None,
        of: str = "response",
        *,
        by: ArrayLike | str,
    ) -> Totals: ...
    def total(
        self,
        weights: ArrayLike | None = None,
        level: float = 0.9,
        n: int | None = None,
        seed: Seed = None,
        of: str = "response",
        by: ArrayLike | str | None = None,
    ) -> Total | Totals:
        """The distribution of Σ weights · y over all rows, such as the birds in a county.

        With Gaussian noise it is normal, and nothing is drawn. Else surfaces are drawn, a few at a time, so that memory
        stays bounded however many rows there are. The part of the sum that is linear in f has a known distribution, and
        is given exactly that: only what is left of the sum, and the noise of responses, comes from the draws alone. Of
        its variance a share of √(2/n) is uncertain, of the linear part's nothing.

        Parameters
        ----------
        weights : (rows,) numbers, optional
            1 for every row where not given; 1 / rows gives the mean over rows.
        level : float
            Probability of ``interval()``.
        n : int, optional
            Number of draws; by default from 256 to 4096, fewer where there are many rows. The ends of a 90 % interval
            are then known to about 2 √(share/n) of a standard deviation, `share` being that of the variance which
            isn't linear in f.
        seed : of the draws
        of : {"response", "mean"}
            With "mean" the sum of E[y | f]: what the surface itself is uncertain about, without noise and nuggets.
        by : (rows,) labels, or the name of a column, optional
            A total for each label, all from the same draws: such as for each year. A name is that of a column of the
            table that was predicted, which models with terms remember.

        Returns
        -------
        Total, or Totals with one for each label
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
        >>> bool(model.predict_dist(X).total(seed=0, of="mean").std < total.std)
        True
        """
        _check_level(level)
        check_choice(of, "of", ("response", "mean"))
        weights = self._check_weights(weights)
        n = self._default_draws() if n is None else check_draws(n, 1)
        if by is None:
            return self._totals(weights[:, None], level, n, seed, of)[0]
        labels, at = self._labels(by)
        each = np.where(at[:, None] == np.arange(len(labels)), weights[:, None], 0.0)
        return Totals(zip(labels, self._totals(each, level, n, seed, of)))

    def _labels(self, by: ArrayLike | str) -> tuple[list[object], NDArray[np.intp]]:
        """What totals are for, and which of them each row belongs to."""
        if isinstance(by, str):
            columns = getattr(self.table, "columns", ())
            if by not in columns:
                known = f"the columns are {', '.join(map(str, columns))}" if len(columns) else "it is not known here"
                raise ValueError(f"by: there is no column {by!r} in the table that was predicted; {known}")
            by = self.table[by]  # type: ignore[index]
        try:
            labels = np.asarray(by)
        except ValueError as error:  # lists of different lengths
            raise ValueError(f"by must be one label per row, {len(self)} in all: {error}") from None
        if labels.shape != (len(self),):
            raise ValueError(f"by must be one label per row, {len(self)} in all; got shape {labels.shape}")
        found, at = np.unique(labels.astype(str) if labels.dtype == object else labels, return_inverse=True)
        if len(found) > _LARGEST_COVARIANCE:
            raise ValueError(f"by has {len(found)} labels; at most {_LARGEST_COVARIANCE} totals are taken at a time")
        return found.tolist(), at

    def _totals(self, weights: Array, level: float, n: int, seed: Seed, of: str) -> list[Total]:
        """Of each column of weights, (rows, R), from the same draws."""
        every = range(weights.shape[1])
        if self._normal and self._has_covariance:
            return [self._normal_total(weights[:, k], level, n, seed, of) for k in every]
        slopes = self._slopes() if self._has_covariance else None
        by = None if slopes is None else weights * slopes[:, None]
        totals, linear = np.zeros((2, n, weights.shape[1]))
        for draws, rows, f, y in self._joint_draws(n, seed, of, rough=slopes is not None):
            totals[draws] += y @ weights[rows]
            if by is not None:
                linear[draws] += f.T @ by[rows] - self.latent_mean[rows] @ by[rows]
        if by is None:
            return [Total(totals[:, k], level) for k in every]
        variances = np.diag(self._covariance(by))
        means = self._moments[0] @ weights
        rng, discrete = np.random.default_rng(two_streams(seed)[1].integers(2**63)), self.likelihood.support.discrete
        found = []
        for k in every:
            ends = self._ends(weights[:, k])
            unit = _unit(weights[:, k]) if discrete and of == "response" else 0.0
            about = (float(variances[k]), float(means[k]))
            found.append(_with_linear_part(totals[:, k], linear[:, k], *about, level, ends, unit, rng))
        return found

    def _ends(self, weights: Array) -> tuple[float, float]:
        """What Σ weights · y can't be below or above."""
        support = self.likelihood.support
        most = np.broadcast_to(self.row.get("trials", support.upper), weights.shape)
        used = weights != 0.0
        ends = weights[used, None] * np.column_stack([np.full(len(most), support.lower), most])[used]
        return float(ends.min(axis=1).sum()), float(ends.max(axis=1).sum())

    def _normal_total(self, weights: Array, level: float, n: int, seed: Seed, of: str) -> NormalTotal:
        means, deviations, shares = self._latent_totals(weights)
        if of == "response":
            deviations = np.sqrt(deviations**2 + weights**2 @ (self.var - self.latent_var))
        return NormalTotal(means, deviations, shares, level, n, seed)

    def _default_draws(self) -> int:
        size = getattr(self.joint, "n_points", len(self))
        return int(np.clip(_DRAWN // max(1, size), *_DRAWS))

    def _check_weights(self, weights: ArrayLike | None) -> Array:
        weights = np.ones(len(self)) if weights is None else as_numbers(weights, "weights")
        if weights.shape != (len(self),) or not np.isfinite(weights).all():
            raise ValueError(
                f"weights must be one finite number per row, {len(self)} in all; got "
                f"{'NaN or infinity' if weights.shape == (len(self),) else f'shape {weights.shape}'}"
            )
        check_finite(weights, "weights", _LARGEST_WEIGHT)
        return weights

    @property
    def _normal(self) -> bool:
        """Whether responses are normal given f, with means f."""
        return type(self.likelihood) is Gaussian

    @property
    def _has_covariance(self) -> bool:
        return isinstance(self.joint, _WithCovariance)

    def _covariance(self, weights: Array | None) -> Array:
        if not isinstance(self.joint, _WithCovariance):
            raise ValueError(
                "covariances of rows need the training rows, which this Predictive was made without: take the one that "
                "model.predict_dist(X) of a GPRegressor or GPClassifier returns"
            )
        return self.joint.covariance(weights)

    def _latent_totals(self, weights: Array) -> tuple[Array, Array, Array]:
        """Means, standard deviations and shares of the normal distributions that Σ weights · f is made of."""
        variance = float(self._covariance(weights[:, None])[0, 0])
        return np.array([weights @ self.latent_mean]), np.array([np.sqrt(max(variance, 0.0))]), np.ones(1)

    def _slopes(self) -> Array | None:
        """E ∂E[y | f]/∂f of each row: the coefficients of the best linear function of f. None where there are none."""
        step = _STEP * np.sqrt(self._var_with_nugget) + 1e-6
        try:
            above, below = (self._mean_at(self.latent_mean + sign * step) for sign in (1.0, -1.0))
        except NotImplementedError:  # a user's own class without moments
            return None
        with np.errstate(invalid="ignore", over="ignore"):
            slopes = (above - below) / (2.0 * step)
        return slopes if np.isfinite(slopes).all() else None

    def _mean_at(self, latent_mean: Array) -> Array:
        return predictive_moments(self.likelihood, latent_mean, self._var_with_nugget, self.row)[0]

    def _joint_draws(self, n: int, seed: Seed, of: str, rough: bool) -> Iterator[tuple[Span, Slice, Array, Array]]:
        """Joint draws piece by piece: which draws, which rows, f (rows, draws), and y or E[y | f] (draws, rows)."""
        if of == "response":
            yield from self._responses(n, seed, rough)
            return
        for draws, f in self._surfaces(n, two_streams(seed)[0], rough):
            step = max(1, _RESPONSES // f.shape[1])
            for start in range(0, len(self), step):
                rows = slice(start, start + step)
                piece = f[rows]
                nugget = self.nugget if self.nugget.ndim == 0 else self.nugget[rows, None]
                flat = (piece.ravel(), np.broadcast_to(nugget, piece.shape).ravel())
                row = {name: np.repeat(values[rows], f.shape[1]) for name, values in self.row.items()}
                yield draws, rows, piece, predictive_moments(self.likelihood, *flat, row)[0].reshape(piece.shape).T

    def _responses(self, n: int, seed: Seed, rough: bool = False) -> Iterator[tuple[Span, Slice, Array, Array]]:
        """Joint draws of y piece by piece: which draws, which rows, f (rows, draws), and y (draws, rows)."""
        latent, noise = two_streams(seed)
        for draws, f in self._surfaces(n, latent, rough):
            step = max(1, _RESPONSES // f.shape[1])
            for start in range(0, len(self), step):
                rows = slice(start, start + step)
                row = {name: values[rows] for name, values in self.row.items()}
                y = self.likelihood.sample(noise, self._with_nugget(f[rows].T, rows, noise), **row)
                yield draws, rows, f[rows], y

    def _with_nugget(self, f: Array, rows: Slice, rng: np.random.Generator) -> Array:
        """f (draws, rows) and a nugget of its own for each."""
        nugget = self.nugget if self.nugget.ndim == 0 else self.nugget[rows]
        return f + np.sqrt(nugget) * rng.standard_normal(f.shape) if np.any(nugget > 0.0) else f

    def _surfaces(self, n: int, rng: np.random.Generator, rough: bool = False) -> Iterator[tuple[Span, Array]]:
        """Joint draws of f, shape (rows, draws), a few draws at a time; rough ones for those who know sums better."""
        if self.joint is None:
            raise ValueError(
                "joint draws need `joint`, which this Predictive was made without: take the one that "
                "model.predict_dist(X) returns, or use `sample`, which draws every row on its own"
            )
        made = getattr(self.joint, "rough", self.joint) if rough else self.joint
        step = max(1, _LATENT // max(1, len(self)))
        for start in range(0, n, step):
            stop = min(n, start + step)
            yield slice(start, stop), made(stop - start, rng)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        return predictive_moments(self.likelihood, self.latent_mean, self._var_with_nugget, self.row)

    def _components(self) -> list[Component]:
        """What y is a mixture of."""
        return [Component(1.0, self.likelihood, self.latent_mean, self._var_with_nugget, self.row)]

    def _quantile(self, q: float) -> Array:
        return mixture_quantile(self._components(), q)

    def _one_per_row(self, y: ArrayLike) -> Array:
        y = as_numbers(y, "y")
        if y.shape not in [(), (len(self),)]:
            raise ValueError(f"y must have one number per row, {len(self)} in all; got shape {y.shape}")
        return np.array(np.broadcast_to(y, (len(self),)))


class Total:
    """The distribution of a sum of responses, by its draws.

    Attributes
    ----------
    draws : (n,)
    level : probability of ``interval()``
    mean, std : where they are known better than the draws do, else the draws' own.

    Examples
    --------
    >>> total = Total(np.arange(101.0))
    >>> total
    Total(50 ± 29.2, 90 % from 5 to 95)
    >>> total.quantile([0.25, 0.5])
    array([25., 50.])
    """

    def __init__(self, draws: Array, level: float = 0.9, mean: float | None = None, std: float | None = None) -> None:
        self.level, self._draws = level, draws
        self.mean = float(draws.mean()) if mean is None else mean
        self.std = float(draws.std()) if std is None else std

    @property
    def draws(self) -> Array:
        return self._draws

    @overload
    def quantile(self, q: float) -> float: ...
    @overload
    def quantile(self, q: Sequence[float] | Array) -> Array: ...
    def quantile(self, q: float | Sequence[float] | Array) -> Number:
        """The smallest draw that at least a part q of the draws doesn't exceed: a number, or an array for several q."""
        levels = _check_probabilities(q)
        if not levels.size:  # which NumPy doesn't take
            return np.empty(levels.shape)
        values = np.quantile(self.draws, levels, method="inverted_cdf")
        return float(values) if np.ndim(values) == 0 else values

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """The ends of the equal-tailed interval with probability `level`, by default the one asked for."""
        level = self.level if level is None else level
        _check_level(level)
        return self.quantile(0.5 * (1.0 - level)), self.quantile(0.5 * (1.0 + level))

    def __repr__(self) -> str:
        lower, upper = self.interval()
        return f"Total({self.mean:.6g} ± {self.std:.3g}, {100 * self.level:g} % from {lower:.6g} to {upper:.6g})"


class Totals(dict[object, Total]):
    """A total for each label.

    Examples
    --------
    >>> totals = Totals({2020: Total(np.arange(101.0)), 2021: Total(np.arange(51.0))})
    >>> totals
    2020: Total(50 ± 29.2, 90 % from 5 to 95)
    2021: Total(25 ± 14.7, 90 % from 2 to 48)
    >>> totals[2021].mean
    25.0
    """

    def __repr__(self) -> str:
        return "\n".join(f"{label}: {total!r}" for label, total in self.items())

    def frame(self) -> pd.DataFrame:
        """A row for each label: ``mean``, ``std``, ``lower`` and ``upper``."""
        import pandas as pd

        rows = {label: (one.mean, one.std, *one.interval()) for label, one in self.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std", "lower", "upper"])


class NormalTotal(Total):
    """The distribution of a sum that is normal, or a mixture of a few normal ones: nothing is drawn.

    Parameters
    ----------
    means, deviations, shares : of the normal distributions; shares sum to 1.
    level : probability of ``interval()``
    n, seed : of ``draws``, made when they are asked for.

    Examples
    --------
    >>> total = NormalTotal([10.0], [2.0])
    >>> total
    Total(10 ± 2, 90 % from 6.71029 to 13.2897)
    >>> round(NormalTotal([0.0, 10.0], [1.0, 1.0], [0.5, 0.5]).quantile(0.75), 2)
    10.0
    """

    def __init__(
        self,
        means: ArrayLike,
        deviations: ArrayLike,
        shares: ArrayLike = (1.0,),
        level: float = 0.9,
        n: int = 1000,
        seed: Seed = None,
    ) -> None:
        self.level, self._n, self._seed = level, n, seed
        self.means, self.deviations, self.shares = (
            np.asarray(a, dtype=np.float64) for a in (means, deviations, shares)
        )
        self.mean = float(self.shares @ self.means)
        self.std = float(np.sqrt(self.shares @ (self.deviations**2 + (self.means - self.mean) ** 2)))

    @cached_property
    def draws(self) -> Array:
        """(n,) of them, shuffled."""
        rng = generator(self._seed)
        chosen = rng.choice(len(self.shares), size=self._n, p=self.shares)
        return rng.normal(self.means[chosen], self.deviations[chosen])

    @overload
    def quantile(self, q: float) -> float: ...
    @overload
    def quantile(self, q: Sequence[float] | Array) -> Array: ...
    def quantile(self, q: float | Sequence[float] | Array) -> Number:
        """The number that the sum doesn't exceed with probability q, or an array for several q."""
        q = _check_probabilities(q)
        ends = self.means[:, None] + self.deviations[:, None] * ndtri(q.reshape(1, -1))
        lower, upper = ends.min(axis=0), ends.max(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            for _ in range(60 if len(self.means) > 1 else 0):
                middle = 0.5 * (lower + upper)
                below = self.shares @ ndtr((middle - self.means[:, None]) / self.deviations[:, None]) < q.ravel()
                lower, upper = np.where(below, middle, lower), np.where(below, upper, middle)
        return float(upper[0]) if q.ndim == 0 else upper.reshape(q.shape)


def _with_linear_part(
    totals: Array,
    linear: Array,
    variance: float,
    mean: float,
    level: float,
    ends: tuple[float, float] = (-np.inf, np.inf),
    unit: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Total:
    """Draws of a sum whose part that is linear in f, `linear` in the draws, is known to be N(0, variance).

    It has slopes with which the rest is uncorrelated with it, so that variances add up. In the draws it is replaced by
    what normal numbers of the same ranks would be; the rest of each stays with its own. Sums are between their `ends`,
    and those of counts are multiples of a `unit`, 0 for others.
    """
    n = len(totals)
    rest = totals - linear
    std = np.sqrt(variance + (rest.var(ddof=1) if n > 1 else 0.0))
    spread = linear @ linear
    along = float(linear @ totals / spread) if spread > 0.0 and n > 1 else 1.0
    scores = ndtri((np.argsort(np.argsort(linear)) + 0.5) / n)
    size = np.sqrt(np.mean(scores**2)) if n > 1 else 1.0
    placed = np.sqrt(variance) * (scores / size if n > 1 else linear / max(np.sqrt(variance), 1e-300))
    # where means are made by rare events few draws have seen them, and what these say of the slope holds for them
    along = min(max(along, 0.0), 1.0)
    moved = along * (placed - linear)
    if unit > 0.0 and np.all((totals < _WHOLE * unit) & (np.abs(moved) < _WHOLE * unit)):
        low, high = np.rint(np.array(ends) / unit)
        draws = unit * _moved_counts(totals / unit, moved / unit, along * linear / unit, low, high, generator(rng))
    else:
        draws = np.clip(totals + moved, *ends)
    good = np.isfinite(mean) and np.isfinite(std)
    return Total(draws, level, mean, float(std)) if good else Total(draws, level)


def _moved_counts(
    counts: Array, by: Array, expected: Array, low: float, high: float, rng: np.random.Generator
) -> Array:
    """Counts whose means, given f, are moved by a little.

    Poisson counts with mean m become those with mean m + s by s more, themselves Poisson, or where s is negative by
    losing each with probability −s/m. Where there is an upper end, what is missing there is lost in the same way.

    Parameters
    ----------
    counts, by : of each draw, and s.
    expected : what the mean of each is above that of all, as far as it is linear in f.
    low, high : ends of what they can be; the upper one may be infinite.

    >>> rng = np.random.default_rng(0)
    >>> counts, by = rng.poisson(0.1, 10_000).astype(float), np.full(10_000, 0.05)
    >>> draws = _moved_counts(counts, by, np.zeros(10_000), 0.0, np.inf, rng)
    >>> round(float(draws.mean()), 2), np.unique(draws).tolist()
    (0.15, [0.0, 1.0, 2.0, 3.0])
    """
    counts = np.clip(np.rint(counts), low, high)
    above = max(float(counts.mean()) - low, 1e-300)
    with np.errstate(over="ignore"):
        mean = above * np.exp(np.minimum(expected / above, 300.0))  # positive, whatever the linear part
    lost = rng.binomial((counts - low).astype(np.int64), np.clip(-by / np.maximum(mean, 1e-300), 0.0, 1.0))
    more = np.maximum(by, 0.0)
    if np.isfinite(high):
        below = max(high - float(counts.mean()), 1e-300)
        room = below * np.exp(np.clip(-expected / below, -300.0, 300.0))
        gained = rng.binomial((high - counts).astype(np.int64), np.clip(more / np.maximum(room, 1e-300), 0.0, 1.0))
    else:
        gained = rng.poisson(more)
    return counts - lost + gained


def _unit(weights: Array) -> float:
    """What all sums of whole numbers with these weights are multiples of; 0 where there is no such number, or some of
    them are negative.

    >>> _unit(np.array([0.0, 0.25, 0.25])), _unit(np.array([1.0, 2.0])), _unit(np.array([0.1, 1.0]))
    (0.25, 1.0, 0.0)
    """
    used = weights[weights != 0.0]
    if not len(used) or used.min() < 0.0:
        return 0.0
    if used.min() == used.max():
        return float(used[0])
    return 1.0 if np.all(used == np.rint(used)) else 0.0


def _check_level(level: float) -> None:
    check_number(level, "level", SHARE, "between 0 and 1")


def _check_probabilities(q: ArrayLike) -> Array:
    """One probability, or an array of them."""
    if q is not None:
        levels = as_numbers(q, "q")
        if np.all((levels >= 0.0) & (levels <= 1.0)):
            return levels
    raise ValueError(f"q must be a number from 0 to 1, or a sequence of them; got {q!r}")


def check_draws(n: int, rows: int) -> int:
    """A number of draws of so many rows, or ValueError where no memory could hold them."""
    return check_count(n, "n", largest=_MOST_DRAWN // max(1, rows))


def two_streams(seed: Seed) -> tuple[np.random.Generator, np.random.Generator]:
    """One for f and one for the response: the same seed gives the same f with and without responses."""
    seeds = generator(seed).integers(2**63, size=2)
    return np.random.default_rng(seeds[0]), np.random.default_rng(seeds[1])
