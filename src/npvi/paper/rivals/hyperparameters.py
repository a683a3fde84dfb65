"""Hyper-parameters as a vector of real numbers that gradients pass through."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from npvi.learning.objective import Model
from npvi.learning.space import SearchSpace, learnable
from npvi.learning.start import limits
from npvi.likelihoods import Likelihood
from npvi.paper.rivals.process import Process
from npvi.parameters import POSITIVE_NUMBER, Interval, Parameter, PenalisedComplexity, fixed

__all__ = ["Hyperparameters"]


class Hyperparameters:
    """The numbers of a model that are learned, within what `fixed`, `bounded` and `positive` say.

    Parameters
    ----------
    model : to start from.
    said : what the user said about its numbers.
    X : the training rows, whose extent limits length scales.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Poisson
    >>> told = {"nugget": fixed(0.5), "kernel__variance": fixed(1.0)}
    >>> learned = Hyperparameters(Model(RBF(2.0), 0.5, Poisson()), told, np.zeros((2, 1)))
    >>> learned.start.round(3)  # log 2
    array([0.693])
    """

    def __init__(self, model: Model, said: dict[str, Parameter], X: NDArray[np.float64]) -> None:
        domains = learnable(model.kernel, "kernel") | learnable(model.likelihood, "likelihood")
        if model.nugget == 0.0:  # none at all, which has no logarithm
            said = {**said, "nugget": fixed(0.0)}
        self.given = model
        self._increasing = {name for name, domain in domains.items() if domain.increasing}
        self.space = SearchSpace(model.named(), domains | {"nugget": POSITIVE_NUMBER}, said, limits(model, X))

    @property
    def start(self) -> NDArray[np.float64]:
        """The vector to start from."""
        return self.space.vector()

    def model(self, z: Any) -> Model:
        """Plain numbers."""
        return self.given.at(self.space.named(np.clip(np.asarray(z), self.space.low, self.space.high)))

    def parts(self, z: jax.Array) -> tuple[Process, Likelihood]:
        """The prior and the likelihood as functions of z."""
        values = self._values(jnp.clip(z, self.space.low, self.space.high))
        kernel, likelihood = (
            clone(obj).set_params(**{name: values[f"{prefix}__{name}"] for name in _short_names(values, prefix)})
            for prefix, obj in (("kernel", self.given.kernel), ("likelihood", self.given.likelihood))
        )
        return Process(kernel, values["nugget"]), likelihood

    def log_prior(self, z: jax.Array) -> jax.Array:
        """Of the users' priors, up to a constant."""
        return jnp.sum(jnp.asarray([_log_prior(c.prior, x) for x, c in zip(z, self.space.coordinates)]))

    def _values(self, z: jax.Array) -> dict[str, jax.Array]:
        """All parameters by their full names: `SearchSpace.named`, for JAX."""
        entries: dict[str, dict[int, jax.Array]] = {}
        for number, c in zip(z, self.space.coordinates):
            entry = c.entry or 0
            own = entries.setdefault(c.name, {})
            x = _number(number, c.interval)
            stepwise = entry > 0 and c.name in self._increasing
            own[entry] = own[entry - 1] + x if stepwise else x
        values = {name: jnp.asarray(value) for name, value in self.space.values.items()}
        for name, own in entries.items():
            values[name] = jnp.stack([own[i] for i in sorted(own)]).reshape(values[name].shape)
        return values


def _log_prior(prior: Any, x: jax.Array) -> jax.Array:
    """As `SearchSpace` has it, for JAX."""
    if isinstance(prior, PenalisedComplexity):
        t = prior.exponent * (x - math.log(prior.mode))
        return t - jnp.exp(t)
    return jnp.zeros(()) if prior is None else -0.5 * ((x - prior[0]) / prior[1]) ** 2


def _short_names(values: dict[str, Any], prefix: str) -> list[str]:
    return [name.removeprefix(f"{prefix}__") for name in values if name.startswith(f"{prefix}__")]


def _number(z: jax.Array, interval: Interval) -> jax.Array:
    """The number that stands as z in the vector."""
    low, high = interval.lower, interval.upper
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * jax.nn.sigmoid(z)
    return low + jnp.exp(z) if math.isfinite(low) else z
