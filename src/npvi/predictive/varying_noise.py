"""The distribution of new responses where the noise is uncertain too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import generator
from npvi.likelihoods import Gaussian, Likelihood, LogNormal, predictive_moments
from npvi.predictive.base import Predictive, check_draws, two_streams
from npvi.predictive.mixture import MixturePredictive
from npvi.predictive.reach import Reach

__all__ = ["VaryingNoisePredictive"]

#: of Gauss–Hermite for the logarithm of the noise's variance
_NODES = 12
#: of that logarithm, beyond which nothing changes in float64
_LARGEST = 300.0

Joint = Callable[[int, np.random.Generator], np.ndarray]


class VaryingNoisePredictive(MixturePredictive):
    """y ~ likelihood(f) with a noise variance of its own in each row: exp(g), f and g Gaussian and independent.

    Everything that a `Predictive` has. Densities and quantiles are integrals over g by Gauss–Hermite, so that not
    knowing the noise widens the tails. ``mean`` and ``var`` are those at the expected variance of the noise: exact for
    Gaussian noise, while for log-normal noise those of the mixture are infinite.

    Parameters
    ----------
    likelihood : Likelihood that takes `noise_variance`
    latent_mean, latent_var : arrays of shape (rows,), of f, without its nugget
    log_noise_mean, log_noise_var : arrays of shape (rows,), of g at a new row: its nugget included
    joint, joint_log_noise : callables (n, rng) → array of shape (rows, n), optional
        Joint draws of f, without its nugget, and of g, with its nugget, over all rows.
    nugget, reach : of f, as in `Predictive`

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> known = VaryingNoisePredictive(Gaussian(1e-9), [0.0], [1.0], [np.log(3.0)], [0.0])
    >>> unknown = VaryingNoisePredictive(Gaussian(1e-9), [0.0], [1.0], [np.log(3.0) - 0.5], [1.0])
    >>> known.std.round(3), unknown.std.round(3)
    (array([2.]), array([2.]))
    >>> bool(unknown.interval(0.99)[1] > known.interval(0.99)[1])
    True
    """

    def __init__(
        self,
        likelihood: Likelihood,
        latent_mean: Any,
        latent_var: Any,
        log_noise_mean: Any,
        log_noise_var: Any,
        joint: Joint | None = None,
        joint_log_noise: Joint | None = None,
        nugget: Any = 0.0,
        reach: Callable[[], Reach] | None = None,
    ) -> None:
        self.log_noise_mean: NDArray[np.float64] = np.asarray(log_noise_mean, dtype=np.float64)
        self.log_noise_var: NDArray[np.float64] = np.asarray(log_noise_var, dtype=np.float64)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        sd = np.sqrt(self.log_noise_var)
        rows = [{"noise_variance": _exp(self.log_noise_mean + sd * node)} for node in nodes]
        parts = [Predictive(likelihood, latent_mean, latent_var, row, joint, nugget, reach) for row in rows]
        super().__init__(parts, weights / weights.sum())
        self.joint, self.joint_log_noise = joint, joint_log_noise
        self.row = {"noise_variance": _exp(self.log_noise_mean + 0.5 * self.log_noise_var)}

    def __repr__(self) -> str:
        return f"VaryingNoisePredictive({self.likelihood!r}, {len(self)} rows)"

    @property
    def noise_std(self) -> NDArray[np.float64]:
        """Typical standard deviation of the noise in each row (of log y for log-normal noise): the median."""
        return np.sqrt(_exp(self.log_noise_mean))

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        return predictive_moments(self.likelihood, self.latent_mean, self._var_with_nugget, self.row)

    @property
    def reach(self) -> Reach:  # type: ignore[override]
        return self.parts[0].reach  # f is the same in all of them

    def sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        rng, n = generator(seed), check_draws(n, len(self))
        f = rng.normal(self.latent_mean, np.sqrt(self._var_with_nugget), size=(n, len(self)))
        g = rng.normal(self.log_noise_mean, np.sqrt(self.log_noise_var), size=(n, len(self)))
        return self.likelihood.sample(rng, f, noise_variance=_exp(g))

    def _quantile(self, q: float) -> np.ndarray:
        if not isinstance(self.likelihood, LogNormal):
            return super()._quantile(q)
        # among logarithms, where the ends of all parts are numbers
        logarithms = Gaussian(self.likelihood.variance)
        about = (self.latent_mean, self._var_with_nugget, self.log_noise_mean, self.log_noise_var)
        with np.errstate(over="ignore"):
            return np.exp(VaryingNoisePredictive(logarithms, *about)._quantile(q))

    def joint_latent_sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        return Predictive.joint_latent_sample(self, n, seed)

    # f is one Gaussian, whatever the noise is
    _covariance, _latent_totals = Predictive._covariance, Predictive._latent_totals
    _totals, _normal_total = Predictive._totals, Predictive._normal_total
    _labels, _default_draws, table = Predictive._labels, Predictive._default_draws, None
    _normal = False  # type: ignore[assignment]

    def _responses(
        self, n: int, seed: Any, rough: bool = False
    ) -> Iterator[tuple[slice, slice, np.ndarray, np.ndarray]]:
        latent, noise = two_streams(seed)
        for draws, f in self._surfaces(n, latent, rough):
            assert self.joint_log_noise is not None  # where there is the one there is the other
            g = self.joint_log_noise(f.shape[1], noise)
            y = self.likelihood.sample(noise, self._with_nugget(f.T, slice(None), noise), noise_variance=_exp(g.T))
            yield draws, slice(None), f, y


def _exp(g: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(g), within what float64 can square."""
    return np.exp(np.clip(g, -_LARGEST, _LARGEST))
