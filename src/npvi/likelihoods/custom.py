"""A user's own log-density as a likelihood."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from npvi.lazy import jax, jnp, when_jax_is_there
from npvi.likelihoods import custom_marginals as marginals
from npvi.likelihoods import custom_sums as sums
from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.scales import spread
from npvi.likelihoods.support import BINARY, COUNTS, POSITIVE, REAL, UNIT, Support
from npvi.parameters import POSITIVE_NUMBER, Interval, Parameter, Parametrised

__all__ = ["SUPPORTS", "Custom"]

SUPPORTS = {support.name: support for support in (REAL, POSITIVE, COUNTS, BINARY, UNIT)}
"""The names that `support` may be."""
_STATIC = ("log_prob", "params", "support", "log_concave", "name")


class _OwnTree(Likelihood):
    """Registers subclasses with JAX in its own way: the leaves are the numbers in `params`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # past `Parametrised`, which would register them in the usual way
        super(Parametrised, cls).__init_subclass__(**kwargs)
        when_jax_is_there(
            lambda: jax.tree_util.register_pytree_node(
                cls, lambda obj: _flatten(obj), lambda static, leaves: _unflatten(cls, static, leaves)
            )
        )


class Custom(_OwnTree):
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
    static = _STATIC
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
        if not isinstance(params, Mapping | None):
            raise TypeError(f"params must map names to numbers, got {params!r}")
        self.function = log_prob
        self.params: Mapping[str, Any] = {} if params is None else params
        self.support = _as_support(support)
        self.log_concave = log_concave
        self.name = name

    # -- parameters: those in `params` are as good as attributes ------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        params = self.__dict__.get("params", {})
        if name in params:
            return _value(params[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor takes, and each of `params` under its own name; with `deep`, as a plain number."""
        return {
            "log_prob": self.function,
            "params": self.params,
            "support": self.support,
            "log_concave": self.log_concave,
            "name": self.name,
            **{name: _value(self.params[name]) if deep else self.params[name] for name in sorted(self.params)},
        }

    def set_params(self, **parameters: Any) -> Self:
        """Set what the constructor takes, or some of `params` by name."""
        self.__dict__.update(self.replace(**parameters).__dict__)
        return self

    def replace(self, **parameters: Any) -> Self:
        """A copy with some parameters changed; numbers keep the bounds of those that they replace."""
        known = {name: value for name, value in self.get_params(deep=False).items() if name in _STATIC}
        unknown = sorted(set(parameters) - set(known) - set(self.params))
        if unknown:
            names = ", ".join([*known, *self.params])
            raise ValueError(f"{type(self).__name__} has no parameter {unknown[0]!r}; it has {names}")
        known.update({name: value for name, value in parameters.items() if name in known})
        own = {name: value for name, value in parameters.items() if name not in known}
        known["params"] = {
            name: _exchanged(old, own[name]) if name in own else old for name, old in known["params"].items()
        }
        return type(self)(**known)

    def __sklearn_clone__(self) -> Self:
        return self.replace(params=copy.deepcopy(dict(self.params)))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        support = self.support.name if SUPPORTS.get(self.support.name) == self.support else self.support
        return f"Custom({self._function_name}, params={dict(self.params)!r}, support={support!r})"

    @property
    def domains(self) -> dict[str, Interval]:  # type: ignore[override]
        """What each of `params` may be."""
        return {
            name: Interval(value.lower, value.upper) if isinstance(value, Parameter) else POSITIVE_NUMBER
            for name, value in self.params.items()
        }

    # -- p(y | f) -----------------------------------------------------------------------------------------------------

    @property
    def resolution(self) -> float:
        """Estimated from values of the log-density at usual f and y."""
        return sums.estimated_resolution(self)

    def log_prob(self, y: jax.Array, f: jax.Array, **row: Any) -> jax.Array:
        return jnp.asarray(self.function(y, f, **{name: _value(value) for name, value in self.params.items()}))

    def conditional_mean(self, f: jax.Array, **row: Any) -> jax.Array:
        return sums.moments_given(self, f)[1]

    def conditional_variance(self, f: jax.Array, **row: Any) -> jax.Array:
        return sums.moments_given(self, f)[2]

    def cdf(self, y: np.ndarray, f: np.ndarray, **row: Any) -> np.ndarray:
        return sums.cdf(self, y, f)

    def sample(self, rng: np.random.Generator, f: np.ndarray, **row: Any) -> np.ndarray:
        return sums.sample(self, rng, f)

    def initial_latent(self, y: np.ndarray, **row: Any) -> np.ndarray:
        return sums.most_likely_latent(self, y)

    def latent_unit(self, y: np.ndarray, **row: Any) -> float:
        return spread(self.initial_latent(y, **row))  # nothing is known of what f is

    def marginal_moments(self, m: np.ndarray, v: np.ndarray, **row: Any) -> tuple[np.ndarray, np.ndarray]:
        return marginals.marginal_moments(self, m, v)

    def marginal_cdf(self, y: np.ndarray, m: np.ndarray, v: np.ndarray, **row: Any) -> np.ndarray:
        return marginals.marginal_cdf(self, y, m, v)

    def marginal_quantile(self, q: float, m: np.ndarray, v: np.ndarray, **row: Any) -> np.ndarray:
        return marginals.marginal_quantile(self, q, m, v)

    # -- checks -------------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise where the function fails or isn't a number for usual y and f; warn where it doesn't sum to 1."""
        self._check_params()
        one = jax.ShapeDtypeStruct((), np.float32)
        try:
            result = jax.eval_shape(self.log_prob, one, one)
        except Exception as error:
            arguments = ", ".join(["y", "f", *self.params])
            raise ValueError(
                f"{self._label}: log_prob failed; it must be a function of {arguments} written with jax.numpy. "
                f"It said: {type(error).__name__}: {error}"
            ) from error
        if result.shape != ():
            raise ValueError(
                f"{self._label}: log_prob must return one number for one y and one f, but returned an array of shape "
                f"{result.shape}"
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

    @property
    def _label(self) -> str:
        return f"{type(self).__name__} ({self._function_name})"

    @property
    def _function_name(self) -> str:
        return self.name or str(getattr(self.function, "__name__", repr(self.function)))

    def _check_params(self) -> None:
        taken = {*_STATIC, "y", "f", *dir(type(self)), "function"}
        for name, domain in self.domains.items():
            if not (isinstance(name, str) and name.isidentifier()) or name in taken:
                raise ValueError(f"{self._label}: a parameter cannot be called {name!r}; choose another name")
            value = _value(self.params[name])
            try:
                numbers = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                numbers = np.array([np.nan])
            if not np.all(np.isfinite(numbers) & (numbers > domain.lower) & (numbers < domain.upper)):
                advice = "" if isinstance(self.params[name], Parameter) else " (npvi.parameters.bounded allows others)"
                allowed = "positive" if domain == POSITIVE_NUMBER else f"between {domain.lower:g} and {domain.upper:g}"
                raise ValueError(f"{self._label}: {name} must be {allowed}, got {value!r}{advice}")

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
    if support not in SUPPORTS:
        choices = ", ".join(repr(name) for name in SUPPORTS)
        raise ValueError(f"support must be one of {choices}, or a Support; got {support!r}")
    return SUPPORTS[support]


def _value(parameter: Any) -> Any:
    return parameter.value if isinstance(parameter, Parameter) else parameter


def _exchanged(old: Any, new: Any) -> Any:
    keeps = isinstance(old, Parameter) and not isinstance(new, Parameter)
    return dataclasses.replace(old, value=new) if keeps else new


def _flatten(obj: Any) -> tuple[list[Any], tuple]:
    names = tuple(sorted(obj.params))
    values = [_value(obj.params[name]) for name in names]
    leaves = [value if hasattr(value, "dtype") else np.asarray(value, dtype=np.float64) for value in values]
    return leaves, (obj.function, obj.support, obj.log_concave, obj.name, names)


def _unflatten(cls: type, static: tuple, leaves: list[Any]) -> Any:
    obj: Any = object.__new__(cls)
    obj.function, obj.support, obj.log_concave, obj.name, names = static
    obj.params = dict(zip(names, leaves, strict=True))
    return obj
