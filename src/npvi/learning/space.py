"""Hyper-parameters as one vector of real numbers, for an optimiser."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.parameters import POSITIVE_NUMBER, Interval, Parameter, Parametrised, PenalisedComplexity, inside

__all__ = ["Coordinate", "SearchSpace", "learnable", "unwrapped"]

Vector = NDArray[np.float64]


def learnable(obj: Parametrised, prefix: str) -> dict[str, Interval]:
    """The numbers of an object that can be learned, by their full name, and what each may be."""
    found: dict[str, Interval] = {}
    for name, value in obj.get_params(deep=False).items():
        if isinstance(value, Parametrised):
            found.update(learnable(value, f"{prefix}__{name}"))
        elif name not in obj.static and name not in obj.held:
            found[f"{prefix}__{name}"] = obj.domains.get(name, POSITIVE_NUMBER)
    return found


def unwrapped(obj: Parametrised, prefix: str) -> tuple[Any, dict[str, Parameter]]:
    """A copy with plain numbers where the user gave `fixed`, `bounded` or `positive` ones, and what those said.

    >>> from npvi.kernels import RBF
    >>> from npvi.parameters import fixed
    >>> kernel, said = unwrapped(RBF(length_scale=fixed(0.5)), "kernel")
    >>> kernel, said["kernel__length_scale"].fixed
    (RBF(length_scale=0.5), True)
    """
    said: dict[str, Parameter] = {}
    plain: dict[str, Any] = {}
    for name, value in obj.get_params(deep=False).items():
        if isinstance(value, Parameter):
            said[f"{prefix}__{name}"] = value
            value = inside(value)
        elif isinstance(value, Parametrised):
            value, more = unwrapped(value, f"{prefix}__{name}")
            said.update(more)
        if name not in obj.static and not isinstance(value, Parametrised):
            value = _plain_numbers(value)
        # what can change is the copy's own; not everything can be copied, and `validate` refuses the rest
        plain[name] = copy.copy(value) if isinstance(value, list | np.ndarray) else value
    return obj.replace(**plain), said


def _plain_numbers(value: Any) -> Any:
    """The same number or numbers, as JAX takes them: no column of a table, and no whole ones beyond 64 bits, which
    NumPy takes for objects."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    array = np.asarray(value)
    return array.astype(np.float64).tolist() if array.dtype == object else value


@dataclass(frozen=True)
class Coordinate:
    """One number of the vector: a parameter, or one entry of a parameter that is a vector."""

    name: str
    entry: int | None
    interval: Interval
    prior: tuple[float, float] | PenalisedComplexity | None
    low: float
    high: float
    """Bounds of the number itself, on the vector's scale."""
    lowest: float
    highest: float
    """Those that it can't be beyond. Between these and the bounds nothing changes any more but the prior."""


class SearchSpace:
    """What is learned, and how it becomes a vector z: logarithms of positive numbers, and so on.

    Parameters
    ----------
    values : full names and start values.
    domains : what each may be.
    said : what the user said about some of them.
    limits : (lowest, highest) allowed for some, from the data: beyond, nothing changes any more.
    priors : of some, one for each entry, where the user said nothing of theirs.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        domains: Mapping[str, Interval],
        said: Mapping[str, Parameter],
        limits: Mapping[str, tuple[Any, Any]],
        priors: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.values = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}
        self.coordinates: list[Coordinate] = []
        for name, value in self.values.items():
            parameter = said.get(name, Parameter(value))
            if parameter.fixed:
                continue
            for entry in range(value.size):
                lowest, highest = limits.get(name, (-math.inf, math.inf))
                low = max(parameter.lower, np.broadcast_to(lowest, value.size)[entry])
                high = min(parameter.upper, np.broadcast_to(highest, value.size)[entry])
                interval = domains[name]
                place = None if value.ndim == 0 else entry
                if interval.increasing and entry > 0:  # the step from the entry before
                    interval, low, high = POSITIVE_NUMBER, -math.inf, math.inf
                ends = (_forward(low, interval, -math.inf), _forward(high, interval, math.inf))
                prior: Any = parameter.prior
                if prior is None and priors is not None and name in priors:
                    prior = priors[name][entry]
                beyond = ends  # without a prior that has an end nothing else ends it
                if isinstance(prior, PenalisedComplexity):
                    beyond = (
                        _forward(parameter.lower, interval, -math.inf),
                        _forward(parameter.upper, interval, math.inf),
                    )
                self.coordinates.append(Coordinate(name, place, interval, prior, *ends, *beyond))

    def __len__(self) -> int:
        return len(self.coordinates)

    @property
    def low(self) -> Vector:
        return np.array([c.low for c in self.coordinates])

    @property
    def high(self) -> Vector:
        return np.array([c.high for c in self.coordinates])

    def possible(self, z: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each row of z is where a posterior may be, which goes on where learning ends."""
        ends = np.array([(c.lowest, c.highest) for c in self.coordinates]).reshape(len(self), 2)
        return np.all((z >= ends[:, 0]) & (z <= ends[:, 1]), axis=1)

    def vector(self) -> Vector:
        """z of the start values."""
        z = np.array([_forward(self._number(c), c.interval, 0.0) for c in self.coordinates])
        return np.clip(z, self.low, self.high)

    def _number(self, c: Coordinate) -> float:
        value = self.values[c.name]
        if c.entry is None:
            return float(value)
        stepwise = c.entry > 0 and c.interval is POSITIVE_NUMBER and self._increasing(c.name)
        return float(value[c.entry] - value[c.entry - 1]) if stepwise else float(value[c.entry])

    def _increasing(self, name: str) -> bool:
        return any(c.name == name and c.interval.increasing for c in self.coordinates)

    def named(self, z: Vector) -> dict[str, Any]:
        """All parameters, learned or not, at z: full names and numbers or lists."""
        values = {name: value.copy() for name, value in self.values.items()}
        for number, c in zip(z, self.coordinates):
            x = _backward(float(number), c.interval)
            if c.entry is None:
                values[c.name] = np.asarray(x)
            elif c.entry > 0 and self._increasing(c.name):
                values[c.name][c.entry] = values[c.name][c.entry - 1] + x
            else:
                values[c.name][c.entry] = x
        return {name: value.tolist() for name, value in values.items()}

    def pull_back(self, z: Vector, gradient: Mapping[str, Any]) -> Vector:
        """The gradient in z, from that in the parameters; priors included."""
        out = np.empty(len(z))
        for i, (number, c) in enumerate(zip(z, self.coordinates)):
            slope = np.atleast_1d(gradient[c.name])
            entry = c.entry or 0
            # a step moves all entries after it
            along = slope[entry:].sum() if self._increasing(c.name) else slope[entry]
            out[i] = along * _derivative(float(number), c.interval)
            out[i] += _prior_slope(c.prior, float(number))
        return out

    def numbers(self, z: Vector) -> Vector:
        """The learned numbers themselves, one for each entry of z: of a sorted vector the first, then the steps."""
        return np.array([_backward(float(number), c.interval) for number, c in zip(z, self.coordinates)])

    def slopes(self, z: Vector) -> Vector:
        """How fast each number itself changes with z."""
        return np.array([_derivative(float(number), c.interval) for number, c in zip(z, self.coordinates)])

    def log_prior(self, z: Vector) -> float:
        """Up to a constant."""
        return float(sum(_log_prior(c.prior, float(x)) for x, c in zip(z, self.coordinates)))

    def log_priors(self, z: NDArray[np.float64]) -> Vector:
        """`log_prior` of each row of z."""
        return sum((_log_prior(c.prior, z[:, i]) for i, c in enumerate(self.coordinates)), np.zeros(len(z)))

    def prior_slopes(self, z: Vector) -> Vector:
        """The part of `pull_back` that is the priors'."""
        return np.array([_prior_slope(c.prior, float(x)) for x, c in zip(z, self.coordinates)])

    def at_bound(self, z: Vector) -> list[str]:
        """Names of the parameters that ended at the end of what they may be."""
        close = (z - self.low < 1e-3) | (self.high - z < 1e-3)
        return list(dict.fromkeys(c.name for c, here in zip(self.coordinates, close) if here))


def _log_prior(prior: tuple[float, float] | PenalisedComplexity | None, z: Any) -> Any:
    if isinstance(prior, PenalisedComplexity):
        return prior.log_density(z)
    return 0.0 if prior is None else -0.5 * ((z - prior[0]) / prior[1]) ** 2


def _prior_slope(prior: tuple[float, float] | PenalisedComplexity | None, z: float) -> float:
    if isinstance(prior, PenalisedComplexity):
        return prior.slope(z)
    return 0.0 if prior is None else -(z - prior[0]) / prior[1] ** 2


def _forward(x: float, interval: Interval, beyond: float) -> float:
    """The number as it stands in z; `beyond` where x is outside the interval."""
    a, b = interval.lower, interval.upper
    if not a < x < b:
        return beyond
    if math.isfinite(a) and math.isfinite(b):
        return math.log((x - a) / (b - x))
    return math.log(x - a) if math.isfinite(a) else x


def _backward(z: float, interval: Interval) -> float:
    a, b = interval.lower, interval.upper
    if math.isfinite(a) and math.isfinite(b):
        share = 1.0 / (1.0 + math.exp(min(-z, 700.0)))
        return a + (b - a) * min(max(share, 1e-12), 1.0 - 1e-12)
    return a + math.exp(z) if math.isfinite(a) else z


def _derivative(z: float, interval: Interval) -> float:
    a, b = interval.lower, interval.upper
    if math.isfinite(a) and math.isfinite(b):
        share = 1.0 / (1.0 + math.exp(-z))
        return (b - a) * share * (1.0 - share)
    return math.exp(z) if math.isfinite(a) else 1.0
