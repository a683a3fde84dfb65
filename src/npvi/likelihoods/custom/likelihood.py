"""A user's own log-density as a likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.custom import marginals, sums
from npvi.likelihoods.families.scales import spread
from npvi.likelihoods.support import BINARY, COUNTS, POSITIVE, REAL, UNIT, Support
from npvi.parameters import OwnParameters, check_mapping, check_name
from npvi.runtime.lazy import jax, jnp

__all__ = ["SUPPORTS", "Custom"]

SUPPORTS = {support.name: support for support in (REAL, POSITIVE, COUNTS, BINARY, UNIT)}
"""The names that `support` may be."""


class Custom(OwnParameters, Likelihood):
    """A likelihood from a function log p(y | f) of the user's, with parameters that can be learned.

    Conditional mean, variance, distribution function and samples are computed from it by numerical integration over y
    (sums, where y is discrete), for densities with one hump, and perhaps extra zeros.

    Parameters
    ----------
    log_prob : callable
        ``log_prob(y, f, **params)`` for one observation, written with jax.numpy, normalised: p sums to 1 over y.
    params : mapping from names to numbers or `npvi.parameters.Parameter`, optional
        Its parameters: ``{"scale": positive(1.0), "skew": bounded(0.0, -5, 5), "power": fixed(3.0)}``. Numbers are
        positive.
    support : Support or one of "real", "positive", "counts", "binary", "unit"
        What y may be.
    log_concave : bool
        Whether log p(y | f) is concave in f for every y. It only changes what a fit says it guarantees.
    name : str, optional
        The name under which the function is saved and asked for again. Its own name by default.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def cauchy(y, f, scale):
    ...     return -jnp.log(jnp.pi * scale) - jnp.log1p(((y - f) / scale) ** 2)
    >>> likelihood = Custom(cauchy, {"scale": 0.5})
    >>> round(float(likelihood.log_prob(0.0, 0.5)), 4)  # −log π
    -1.1447
    >>> likelihood.cdf([-0.5, 0.0, 0.5], 0.0).round(6)
    array([0.25, 0.5 , 0.75])
    >>> likelihood.replace(scale=2.0).scale
    2.0
    """

    config_name = "CustomLikelihood"
    """Its name in files, where kernels have a Custom too."""
    static = ("log_prob", "params", "support", "log_concave", "name")
    stored: ClassVar[dict[str, str]] = {
        "log_prob": "function",  # the method of that name calls it
        "support": "support",
        "log_concave": "log_concave",
        "name": "name",
    }
    support: Support = REAL
    log_concave: bool = False

    def __init__(
        self,
        log_prob: Callable[..., jax.Array],
        params: Mapping[str, Any] | None = None,
        support: Support | str = "real",
        log_concave: bool = False,
        name: str | None = None,
    ) -> None:
        self.function = log_prob
        self.params = check_mapping(params)
        self.support = _as_support(support)
        if not isinstance(log_concave, bool | np.bool_):
            raise ValueError(f"log_concave must be True or False, got {log_concave!r}")
        self.log_concave = bool(log_concave)
        self.name = check_name(name)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        support = self.support.name if SUPPORTS.get(self.support.name) == self.support else self.support
        return f"Custom({self._function_name}, params={dict(self.params)!r}, support={support!r})"

    # -- p(y | f) -----------------------------------------------------------------------------------------------------

    @property
    def resolution(self) -> float:
        """Estimated from values of the log-density at usual f and y."""
        return sums.estimated_resolution(self)

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        return jnp.asarray(self.function(y, f, **self.plain_params()))

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return sums.moments_given(self, f)[1]

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        return sums.moments_given(self, f)[2]

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return sums.cdf(self, y, f)

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return sums.sample(self, rng, f)

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return sums.most_likely_latent(self, y)

    def latent_unit(self, y: np.ndarray, **row: np.ndarray) -> float:
        return spread(self.initial_latent(y, **row))  # nothing is known of what f is

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return marginals.marginal_moments(self, m, v)

    def marginal_cdf(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return marginals.marginal_cdf(self, y, m, v)

    def marginal_quantile(self, q: float, m: np.ndarray, v: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return marginals.marginal_quantile(self, q, m, v)

    # -- checks -------------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise where the function fails or isn't a number for usual y and f; warn where it doesn't sum to 1."""
        self._check_params("y", "f")
        one = jax.ShapeDtypeStruct((), np.float32)
        try:
            result = jax.eval_shape(self.log_prob, one, one)
        except Exception as error:
            arguments = "y, f" if not self.params else f"y, f and of params ({', '.join(self.params)})"
            raise ValueError(
                f"{self._label}: log_prob failed; it must be a function of {arguments} written with jax.numpy. "
                f"It said: {type(error).__name__}: {error}"
            ) from error
        if result.shape != ():
            raise ValueError(
                f"{self._label}: log_prob must return one number for one y and one f, but returned an array of shape "
                f"{result.shape}"
            )
        if not np.issubdtype(result.dtype, np.floating):
            raise ValueError(
                f"{self._label}: log_prob must return a real number with decimals, but returned {result.dtype}: "
                "compute it with floats, and without complex numbers"
            )
        f = np.linspace(-5.0, 5.0, 21)
        y = _USUAL.get(self.support.name, [])
        near = f if self.support == REAL else np.empty(0)
        self._check_numbers(np.concatenate([np.repeat(y, len(f)), near]), np.concatenate([np.tile(f, len(y)), near]))
        total = sums.totals(self, np.array([-1.0, 0.0, 1.0]))
        wrong = np.flatnonzero(~(np.abs(total - 1.0) < 1e-3))
        if len(wrong):
            warnings.warn(
                f"{self._label}: log_prob is not normalised: p(y | f) adds up to {total[wrong[0]]:.4g} over y at "
                f"f={wrong[0] - 1.0:g}. Fits and scores are meant for log-densities that add up to 1",
                UserWarning,
                stacklevel=3,
            )

    def check_response(self, y: Any, name: str = "y") -> np.ndarray:
        y = super().check_response(y, name)
        f = np.array([-2.0, 0.0, 2.0])
        self._check_numbers(np.repeat(y, len(f)), np.tile(f, len(y)))
        return y

    def _check_numbers(self, y: np.ndarray, f: np.ndarray) -> None:
        for what, values in zip(("log_prob", "the derivative of log_prob in f"), sums.value_and_slope(self, y, f)):
            wrong = np.flatnonzero(np.isnan(values) | (values == np.inf))
            if len(wrong):
                i = wrong[0]
                raise ValueError(f"{self._label}: {what} is {values[i]} at y={y[i]:g}, f={f[i]:g}")


_USUAL: dict[str, list[float]] = {
    "real": [-3.0, -1.0, 0.0, 1.0, 3.0],
    "positive": [0.01, 0.3, 1.0, 3.0, 30.0],
    "counts": [0.0, 1.0, 2.0, 10.0],
    "binary": [0.0, 1.0],
    "unit": [0.01, 0.3, 0.5, 0.99],
}


def _as_support(support: Any) -> Support:
    if isinstance(support, Support):
        return support
    if not (isinstance(support, str) and support in SUPPORTS):
        choices = ", ".join(repr(name) for name in SUPPORTS)
        raise ValueError(f"support must be one of {choices}, or a Support; got {support!r}")
    return SUPPORTS[support]
