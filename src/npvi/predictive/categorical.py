"""The distribution of new labels, among three or more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import NOT_NEGATIVE, as_numbers, check_number, generator
from npvi.likelihoods import codes_of, expected_log_sum_exp
from npvi.predictive.base import check_draws
from npvi.predictive.reach import Reach

__all__ = ["CategoricalPredictive"]

#: draws of f held at a time, over all rows and classes
_LATENT = 2**24


class CategoricalPredictive:
    """The distribution of a label at each row: f_c ~ N(latent_mean_c, latent_var_c), e_c ~ N(0, nugget) and
    P(c) = softmax(f + e)_c.

    As in `Predictive` the nugget e is of a single new row, and no part of ``latent_var``.

    Parameters
    ----------
    classes : (C,) labels, sorted.
    latent_mean, latent_var : arrays of shape (rows, C)
    joint : callable (n, rng) → array of shape (rows, n, C), optional
        Joint draws of f over all rows, without the nugget; a fitted model gives it.
    nugget : number, optional
        Variance of e, 0 unless given.
    reach : callable () → Reach, optional
        How far the rows are from the data, with the share of the prior variance left a mean over the labels; a fitted
        model gives it.

    Examples
    --------
    >>> prediction = CategoricalPredictive(np.array(["ash", "oak", "pine"]), [[0.0, 1.0, 3.0]], [[1.0, 1.0, 0.1]])
    >>> prediction.probabilities.round(3)
    array([[0.061, 0.15 , 0.79 ]])
    >>> prediction.mode
    array(['pine'], dtype='<U4')
    >>> prediction.log_prob(["oak"]).round(3)
    array([-1.9])
    """

    def __init__(
        self,
        classes: NDArray,
        latent_mean: Any,
        latent_var: Any,
        joint: Callable[[int, np.random.Generator], NDArray[np.float64]] | None = None,
        nugget: float = 0.0,
        reach: Callable[[], Reach] | None = None,
    ) -> None:
        self.classes, self.joint, self._reach = np.asarray(classes), joint, reach
        self.nugget = check_number(nugget, "nugget", NOT_NEGATIVE)
        self.latent_mean: NDArray[np.float64] = as_numbers(latent_mean, "latent_mean")
        self.latent_var: NDArray[np.float64] = as_numbers(latent_var, "latent_var")
        shape = self.latent_mean.shape
        if len(shape) != 2 or shape[1] != len(self.classes) or shape != self.latent_var.shape:
            raise ValueError(
                f"latent_mean and latent_var must have a row per response and a column for each of "
                f"{len(self.classes)} classes, got shapes {shape} and {self.latent_var.shape}"
            )
        if not np.all(self.latent_var >= 0.0):
            raise ValueError("latent_var must not be negative, nor NaN")

    def __len__(self) -> int:
        return len(self.latent_mean)

    def __repr__(self) -> str:
        return f"CategoricalPredictive({len(self.classes)} classes, {len(self)} rows)"

    @cached_property
    def reach(self) -> Reach:
        """How far each row is from the data, as in `Predictive`."""
        if self._reach is None:
            raise ValueError(
                "reach needs the training rows, which this CategoricalPredictive was made without: take the one that "
                "model.predict_dist(X) returns"
            )
        return self._reach()

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """E softmax(f + e), of shape (rows, C)."""
        p = expected_log_sum_exp(self.latent_mean, np.sqrt(self.latent_var + self.nugget)).in_mean
        p = np.maximum(p, np.finfo(float).tiny)
        return p / p.sum(axis=1, keepdims=True)

    @property
    def mode(self) -> NDArray:
        """The most probable label at each row."""
        return self.classes[np.argmax(self.probabilities, axis=1)]

    def log_prob(self, labels: Any) -> NDArray[np.float64]:
        """log P of a label at each row, of shape (rows,)."""
        codes = codes_of(labels, self.classes, "labels")
        if codes.shape not in [(), (len(self),)]:
            raise ValueError(f"labels must be one or {len(self)} of them, one per row; got shape {codes.shape}")
        return np.log(self.probabilities[np.arange(len(self)), codes])

    def sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> NDArray:
        """Draws of the label, of shape (n, rows). Rows are drawn independently of each other; see `joint_sample`."""
        rng = generator(seed)
        cumulative = np.cumsum(self.probabilities, axis=1)[:, :-1]
        codes = np.zeros((check_draws(n, len(self)), len(self)), dtype=np.int64)
        uniform = rng.random(codes.shape)
        for edge in cumulative.T:
            codes += uniform > edge
        return self.classes[codes]

    def joint_sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> NDArray:
        """Draws of the labels of all rows together, of shape (n, rows): rows that lie close together go together."""
        if self.joint is None:
            raise ValueError(
                "joint draws need `joint`, which this CategoricalPredictive was made without: take the one that "
                "model.predict_dist(X) returns, or use `sample`, which draws every row on its own"
            )
        rng = generator(seed)
        codes = np.empty((check_draws(n, len(self)), len(self)), dtype=np.int64)
        step = max(1, _LATENT // max(1, self.latent_mean.size))
        for start in range(0, n, step):
            draws = slice(start, min(n, start + step))
            f = self.joint(draws.stop - draws.start, rng)
            if self.nugget > 0.0:
                f = f + np.sqrt(self.nugget) * rng.standard_normal(f.shape)
            # the largest of f + Gumbel noise is class c with the probability softmax(f)_c
            codes[draws] = np.argmax(f + rng.gumbel(size=f.shape), axis=2).T
        return self.classes[codes]
