"""A quasi-Newton ascent for a bound that is known up to a little noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["Ascent", "Information", "climb", "newton_step", "of_more_rows", "secant"]

Vector = NDArray[np.float64]

#: no coordinate moves further in one step (they are logarithms: a factor of 2.7)
_LONGEST = 1.0
#: how far a step must go for the curvature along it to be known, and how far one goes that is to find it out
_SEEN, _PROBE = 0.1, 0.25
#: times what a step promises that a climb is thought to gain at most
_HOPE = 3.0
#: information about a parameter in some rows, below which it counts as hardly known
_WEAK = 10.0


@dataclass
class Ascent:
    """Where `climb` arrived."""

    z: Vector
    value: float
    gradient: Vector
    curvature: NDArray[np.float64]
    """An estimate of the inverse of minus the second derivatives."""
    evaluations: int
    values: list[float] = field(default_factory=list)


def climb(
    function: Callable[[Vector], tuple[float, Vector]],
    z: Vector,
    low: Vector,
    high: Vector,
    *,
    noise: float = 0.05,
    enough: float = 0.05,
    max_evaluations: int = 40,
    curvature: NDArray[np.float64] | None = None,
    least: float = -np.inf,
    scale: Vector | None = None,
) -> Ascent:
    """Climb to a maximum of `function`, which returns its value and gradient, inside the box [low, high]; BFGS.

    A step is taken when the value doesn't fall by more than `noise`; otherwise it is shortened. It ends when a step is
    expected to gain less than `enough`, in the units of the value (nats), so that a ridge along which parameters can
    wander without gain does not keep it busy. A step that is shortened must promise as much, by what the longer one has
    lost. A climb that has no hope to come to `least` ends, too.

    Where no `curvature` is known, its diagonal is thought to be like `scale`, up to a factor: where one coordinate is
    known a hundred times as well as another, the first step is nothing in the other, which would be left where it is.

    >>> found = climb(lambda z: (-float(z @ z), -2.0 * z), np.array([3.0, -2.0]), np.full(2, -9.0), np.full(2, 9.0))
    >>> bool(np.abs(found.z).max() < 0.2)
    True
    """
    n = len(z)
    scale = np.ones(n) if scale is None else scale
    value, gradient = function(z)
    result = Ascent(z, value, gradient, np.eye(n) if curvature is None else curvature, 1, [value])
    known, scaled = curvature is not None, curvature is not None
    moves = np.zeros((1, n))
    trials = [value]  # but for those that fell too deep to say anything of the top
    while result.evaluations < max_evaluations:
        z, value, gradient = result.z, result.value, result.gradient
        free = _free(gradient, z, low, high)
        if not free.any():
            break
        uphill = np.where(free, gradient, 0.0)
        step = newton_step(result.curvature, gradient, z, low, high)
        if not scaled or step @ gradient <= 0.0:
            step = 0.5 * scale * uphill / max(np.abs(scale * uphill).max(), 1e-300)
        if scaled and 0.5 * float(step @ gradient) < enough:
            # a curvature that is no more than a guess is no reason to stop
            size = float(np.linalg.norm(uphill))
            if known or size == 0.0 or np.abs(moves @ uphill).max() > _SEEN * size or 0.5 * _PROBE * size < enough:
                break
            step = _PROBE * uphill / size
        if known and value + _HOPE * 0.5 * float(step @ gradient) < least:
            break
        accepted, turned_back = False, False
        while result.evaluations < max_evaluations:
            trial = np.clip(z + step, low, high)
            moved = trial - z
            new_value, new_gradient = function(trial)
            result.evaluations += 1
            if np.isfinite(new_value) and new_value >= value - noise:
                accepted = True
                trials.append(new_value)
                break
            if np.abs(moved).max() < 1e-3:
                break
            turned_back = True
            # the maximum of the parabola through both values and the slope at the start, within reason
            slope = float(moved @ gradient)
            fall = value + slope - new_value if np.isfinite(new_value) else np.inf
            share = slope / (2.0 * fall) if fall > 0.0 else 0.3
            if share > 0.1:
                trials.append(new_value)
            share = min(max(share, 0.1), 0.5)
            if 0.5 * share * slope < enough or _in_vain(trials, enough):
                break
            step = share * moved
        if not accepted:
            break
        moves = np.vstack([moves, moved])
        turned = gradient - new_gradient  # positive curvature of −value
        along = float(moved @ turned)
        if along > 1e-10 * np.linalg.norm(moved) * np.linalg.norm(turned):
            if not scaled:
                result.curvature = np.diag(scale) * along / float(turned @ (scale * turned))
                scaled = True
            result.curvature = secant(result.curvature, moved, turned)
        result.z, result.value, result.gradient = trial, new_value, new_gradient
        result.values.append(new_value)
        # near the top steps go back and forth within the noise
        if len(result.values) > 3 and max(result.values[-3:]) - max(result.values[:-3]) < 2.0 * enough:
            break
        if turned_back and _in_vain(trials, enough):
            break
    return result


def secant(curvature: NDArray[np.float64], moved: Vector, turned: Vector) -> NDArray[np.float64]:
    """The inverse of minus the second derivatives, by how much the gradient has fallen along a step (BFGS); as it was
    where it hasn't.

    >>> secant(np.eye(2), np.array([0.5, 0.0]), np.array([2.0, 0.0]))
    array([[0.25, 0.  ],
           [0.  , 1.  ]])
    """
    along = float(moved @ turned)
    if not along > 1e-10 * np.linalg.norm(moved) * np.linalg.norm(turned):
        return curvature
    rest = np.eye(len(moved)) - np.outer(moved, turned) / along
    return np.asarray(rest @ curvature @ rest.T + np.outer(moved, moved) / along)


def _in_vain(trials: list[float], enough: float) -> bool:
    """Whether the last two trials have gained less than what one is to promise."""
    return len(trials) > 3 and max(trials[-2:]) - max(trials[:-2]) < enough


def newton_step(curvature: NDArray[np.float64], gradient: Vector, z: Vector, low: Vector, high: Vector) -> Vector:
    """The best step that stays inside the box at the ends where it begins, and isn't too long.

    >>> newton_step(np.eye(2), np.array([0.1, -0.2]), np.zeros(2), np.array([-1.0, 0.0]), np.ones(2))
    array([0.1, 0. ])
    """
    free = _free(gradient, z, low, high)
    step = _step(np.where(free[:, None] & free[None, :], curvature, 0.0), np.where(free, gradient, 0.0))
    return np.where(free, step, 0.0)  # where rounding leaves an end by its last place, the next step isn't held there


def _free(gradient: Vector, z: Vector, low: Vector, high: Vector) -> NDArray[np.bool_]:
    """Coordinates whose gradient doesn't lead out of the box."""
    return ~(((z <= low) & (gradient < 0.0)) | ((z >= high) & (gradient > 0.0)))


def _step(curvature: NDArray[np.float64], gradient: Vector) -> Vector:
    """The best step that isn't too long: along a ridge it is cut short, across it is as it would be otherwise."""
    values, vectors = np.linalg.eigh(curvature)
    values, along = np.maximum(values, 0.0), vectors.T @ gradient
    held = 0.0  # added to the second derivatives
    for _ in range(60):
        step = vectors @ (values / (1.0 + held * values) * along)
        length = float(np.abs(step).max(initial=0.0))
        if length <= 1.01 * _LONGEST:
            break
        held = held + 0.5 * (1.0 + held * values.max()) / values.max() * (length / _LONGEST - 1.0)
    return np.asarray(step * min(1.0, _LONGEST / max(length, 1e-300)))


@dataclass(frozen=True)
class Information:
    """Minus the second derivatives of the objective over a number of rows."""

    matrix: NDArray[np.float64]
    rows: int

    def curvature(self, rows: int) -> NDArray[np.float64]:
        """The inverse of what it would be for other rows."""
        values, vectors = self._positive
        return of_more_rows((vectors / values) @ vectors.T, rows / self.rows)

    def grown(self, fewer: Information, rows: int) -> NDArray[np.float64]:
        """The inverse of what it would be for more rows, if it grows as it has from `fewer` ones: with the rows, or, as
        more of them in the same place say no more about variance and length scale apart, hardly at all.

        >>> few, more = Information(np.diag([10.0, 10.0]), 100), Information(np.diag([11.0, 100.0]), 1000)
        >>> (1.0 / more.grown(few, 10_000).diagonal()).round(3).tolist()
        [12.1, 1000.0]
        """
        before, now = ((vectors * values) @ vectors.T for values, vectors in (fewer._positive, self._positive))
        growth, along = scipy.linalg.eigh(now, before)
        power = np.clip(np.log(growth) / np.log(self.rows / fewer.rows), 0.0, 1.0)
        return np.asarray((along / (growth * (rows / self.rows) ** power)) @ along.T)

    @property
    def _positive(self) -> tuple[Vector, NDArray[np.float64]]:
        """Eigenvalues of a nat at least, and eigenvectors."""
        values, vectors = np.linalg.eigh(self.matrix)
        return np.maximum(np.abs(values), 1.0), vectors


def of_more_rows(curvature: NDArray[np.float64], times: float) -> NDArray[np.float64]:
    """The inverse of minus the second derivatives, for so many times the rows.

    More of them in the same place say no more about what these don't tell, such as variance and length scale apart.
    """
    values, vectors = np.linalg.eigh(curvature)
    return np.asarray((vectors * np.where(values < 1.0 / _WEAK, values / times, values)) @ vectors.T)
