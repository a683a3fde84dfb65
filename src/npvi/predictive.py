"""The distribution of new responses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.density import predictive_log_prob
from npvi.likelihoods.moments import predictive_moments
from npvi.likelihoods.quantiles import predictive_cdf, predictive_quantile

__all__ = ["Predictive"]


class Predictive:
    """The distribution of y at each row, for f ~ N(latent_mean, latent_var) and y ~ likelihood(f).

    Nothing is computed before it is asked for, and moments are computed once.

    Parameters
    ----------
    likelihood : Likelihood
    latent_mean, latent_var : arrays of shape (rows,)
    row : dict of arrays of shape (rows,), optional
        What the likelihood takes besides y, such as ``{"exposure": …}``.

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
    """

    def __init__(
        self, likelihood: Likelihood, latent_mean: Any, latent_var: Any, row: dict[str, Any] | None = None
    ) -> None:
        self.likelihood = likelihood
        self.latent_mean: np.ndarray = np.asarray(latent_mean, dtype=np.float64)
        self.latent_var: np.ndarray = np.asarray(latent_var, dtype=np.float64)
        if self.latent_mean.ndim != 1 or self.latent_mean.shape != self.latent_var.shape:
            raise ValueError(
                f"latent_mean and latent_var must have one number per row, got shapes "
                f"{self.latent_mean.shape} and {self.latent_var.shape}"
            )
        if not np.all(self.latent_var >= 0.0):
            raise ValueError("latent_var must not be negative, nor NaN")
        self.row = likelihood.check_row(row, len(self.latent_mean))

    def __len__(self) -> int:
        return len(self.latent_mean)

    def __repr__(self) -> str:
        return f"Predictive({self.likelihood!r}, {len(self)} rows)"

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
        return predictive_log_prob(self.likelihood, y, self.latent_mean, self.latent_var, self.row)

    def cdf(self, y: Any) -> np.ndarray:
        """P(Y ≤ y) at each row, of shape (rows,); y may be any number."""
        y = self._one_per_row(y)
        return predictive_cdf(self.likelihood, y, self.latent_mean, self.latent_var, self.row)

    def sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Draws of y, of shape (n, rows). Rows are drawn independently of each other.

        >>> from npvi.likelihoods import Poisson
        >>> Predictive(Poisson(), np.zeros(4), np.ones(4)).sample(2, seed=0).shape
        (2, 4)
        """
        rng = np.random.default_rng(seed)
        f = rng.normal(self.latent_mean, np.sqrt(self.latent_var), size=(n, len(self)))
        return self.likelihood.sample(rng, f, **self.row)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        return predictive_moments(self.likelihood, self.latent_mean, self.latent_var, self.row)

    def _quantile(self, q: float) -> np.ndarray:
        return predictive_quantile(self.likelihood, q, self.latent_mean, self.latent_var, self.row)

    def _one_per_row(self, y: Any) -> np.ndarray:
        y = np.asarray(y, dtype=np.float64)
        if y.shape not in [(), (len(self),)]:
            raise ValueError(f"y must have one number per row, {len(self)} in all; got shape {y.shape}")
        return np.array(np.broadcast_to(y, (len(self),)))
