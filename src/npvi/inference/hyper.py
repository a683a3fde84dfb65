"""What isn't known about hyper-parameters: their posterior, and a few models that stand for it.

On the scale of the search space z the posterior of θ is exp(bound + log prior). The bound is known, with its gradient,
at the points that learning has visited and at some more around the best; between them a Gaussian process follows it
(`Surface`), the priors being known exactly. A few samples of that posterior, with weights that give them the means and
variances of all, are nodes; the bound is evaluated there, and the surface drawn anew, until it has foreseen what comes.
These nodes are the models that predictions are mixed from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls
from scipy.special import logsumexp

from npvi.inference.learning import Model, Objective
from npvi.inference.search_space import SearchSpace
from npvi.parameters import PenalisedComplexity
from npvi.priors import NotPositiveDefiniteError

__all__ = ["Evaluation", "Integration", "integrate"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: step along each coordinate for second derivatives, up to so many rows
_STEP, _FEW = 0.25, 300
#: and towards the simpler model
_TAIL = 2.5
#: rounds at most, and the error of the foreseen bound at the nodes, in nats, that ends them
_ROUNDS, _FORESEEN = 5, 0.3
#: nats by which the bound's peak is above what was seen, and below it those from which on a point counts as so far
_ABOVE, _FAR = 1.0, 50.0
#: errors, in nats, of the bound as a climb evaluates it and as it is here
_ROUGH, _FINE = 0.3, 0.02
#: information about a direction below which it counts as this little: a standard deviation of 2.6 logarithms
_LEAST = 0.15
#: where a prior of complexity x, e^{−x}, counts as near the simpler model
_KNEE = 0.3
#: standard deviation of log numbers without a prior of their own, about the best: none is known to more than that
_UNKNOWN = 2.0
#: walkers, and steps of a sample: for nodes, and of the last one
_WALKERS, _STEPS, _MORE_STEPS = 40, 100, 300
#: nats by which a node may have more than its share
_MORE = 0.5
#: samples that nodes are chosen from, the least share of the weight of one, and parameters up to which skewness and
#: covariances count
_CANDIDATES, _LITTLE, _ASKEW, _TOGETHER = 300, 0.005, 4, 3
#: length scales of the surface that are tried, in standard deviations of the posterior, and heights
_LENGTHS, _HEIGHTS = (1.5, 2.5, 4.0, 6.0), (0.5, 1.5, 5.0, 15.0)


class Evaluation(NamedTuple):
    """The bound somewhere and its gradient in z, both without priors; `error` is its standard deviation."""

    z: Vector
    value: float
    gradient: Vector
    error: float = _ROUGH


@dataclass(frozen=True)
class Integration:
    """The posterior of hyper-parameters, by samples and by nodes.

    Attributes
    ----------
    models, weights : the nodes.
    space : what z stands for.
    samples : of z, shape (S, d).
    nodes : the z of the models.
    log_evidence : log ∫ exp(bound + log prior) dz.
    evaluations : of the bound that it took.
    """

    models: list[Model]
    weights: Vector
    space: SearchSpace
    samples: Columns
    nodes: Columns
    log_evidence: float
    evaluations: int


def integrate(
    objective: Objective, model: Model, space: SearchSpace, visited: list[Evaluation], rows: int, seed: int = 0
) -> Integration:
    """Nodes for what isn't known of a model that was learned.

    Parameters
    ----------
    objective : the bound of all rows.
    model : where it is about highest.
    space : what is learned of it.
    visited : where else the bound is known.
    rows : how many there are: the more, the narrower the posterior.
    """
    top = space.vector()
    d = len(top)
    start = getattr(objective, "start", None)
    rng = np.random.default_rng(seed)
    known: list[Evaluation] = []

    def evaluate(z: Vector) -> Evaluation:
        if start is not None:  # all from one place
            objective.start = start  # type: ignore[attr-defined]
        try:
            value, gradient = objective(model.at(space.named(z)))
            found = Evaluation(z, float(value), space.pull_back(z, gradient) - space.prior_slopes(z), _FINE)
        except (NotPositiveDefiniteError, FloatingPointError, np.linalg.LinAlgError):
            found = Evaluation(z, -np.inf, np.zeros(d))
        known.append(found)
        return found

    best = evaluate(top)
    if d == 0:
        return Integration([model], np.ones(1), space, np.zeros((1, 0)), np.zeros((1, 0)), best.value, 1)
    unknown = np.array([c.prior is None for c in space.coordinates])

    def log_prior(z: Columns) -> Vector:
        inside = np.all((z >= space.low) & (z <= space.high), axis=1)
        held = -0.5 * np.sum(((z - top) / _UNKNOWN) ** 2 * unknown, axis=1)
        return np.where(inside, held + space.log_priors(np.clip(z, space.low, space.high)), -np.inf)

    chart = Chart(space)
    curvature, bend = np.zeros((2, d, d))
    slopes = best.gradient + space.prior_slopes(top)
    step = _STEP * min(1.0, np.sqrt(_FEW / rows))
    for i, e in enumerate(step * np.eye(d)):
        z = np.clip(top + (e if top[i] + step <= space.high[i] else -e), space.low, space.high)
        there, moved = evaluate(z), z[i] - top[i]
        if moved and np.isfinite(there.value):
            curvature[i] = (slopes - there.gradient - space.prior_slopes(z)) / moved
            bend[i] = (best.gradient / chart.rate(top) - there.gradient / chart.rate(z)) / (chart(z)[i] - chart(top)[i])
    for i, c in enumerate(space.coordinates):  # the tail of such a prior is on the side of the simpler model
        if isinstance(c.prior, PenalisedComplexity):
            away = -np.copysign(_TAIL, c.prior.exponent) * np.eye(d)[i]
            evaluate(np.clip(top + away, space.low, space.high))
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T) + np.diag(unknown / _UNKNOWN**2))
    root = vectors / np.sqrt(np.maximum(values, _LEAST))
    walkers = np.clip(top + 0.7 * rng.standard_normal((_WALKERS, d)) @ root.T, space.low, space.high)
    for _ in range(_ROUNDS):
        surface = Surface([*visited, *known], chart, top, root, 0.5 * (bend + bend.T))

        def log_density(z: Columns, surface: Surface = surface) -> Vector:
            return log_prior(z) + surface(z)

        heights = log_density(walkers)
        share = np.exp(heights - heights.max())
        walkers = walkers[rng.choice(len(walkers), _WALKERS, p=share / share.sum())]
        walkers = walkers + 0.1 * rng.standard_normal(walkers.shape) @ root.T
        samples = walkers = _sample(log_density, np.clip(walkers, space.low, space.high), rng, _STEPS)
        nodes, weights = _nodes(samples, rng)
        off = np.array([evaluate(z).value for z in nodes]) - surface(nodes)
        if weights @ np.minimum(np.abs(off), 10.0) < _FORESEEN:
            break
    samples = _sample(log_density, samples[-_WALKERS:], rng, _MORE_STEPS)
    # what the surface missed of the bound is made up for; more than a little is not left to a few nodes
    weights = weights * np.exp(np.clip(off - np.median(off), -50.0, _MORE))
    nodes, weights = nodes[weights > 0.0], weights[weights > 0.0] / weights.sum()
    if start is not None:
        objective.start = start  # type: ignore[attr-defined]
    models, evidence = [model.at(space.named(z)) for z in nodes], _log_integral(log_density, samples, rng)
    return Integration(models, weights, space, samples, nodes, evidence, len(known))


class Chart:
    """Coordinates in which the bound has no long flat tails.

    Where a prior penalises complexity, t of its density exp(t − exp t) becomes log(exp t + c), so that the simplest
    model of all (no variance, an endless length scale) is a finite point.

    >>> from npvi.parameters import POSITIVE_NUMBER
    >>> given = {"sd": [PenalisedComplexity(0.5, 1.0)]}
    >>> chart = Chart(SearchSpace({"sd": 1.0}, {"sd": POSITIVE_NUMBER}, {}, {}, given))
    >>> chart(np.array([[-20.0], [-10.0], [0.0], [10.0]])).round(2).ravel().tolist()
    [-2.41, -2.36, 0.52, 10.0]
    """

    def __init__(self, space: SearchSpace) -> None:
        priors = [c.prior if isinstance(c.prior, PenalisedComplexity) else None for c in space.coordinates]
        self._exponent = np.array([1.0 if prior is None else prior.exponent for prior in priors])
        self._mode = np.array([0.0 if prior is None else np.log(prior.mode) for prior in priors])
        self._knee = np.array([0.0 if prior is None else _KNEE for prior in priors])

    def __call__(self, z: Columns) -> Columns:
        t = self._exponent * (z - self._mode)
        return np.logaddexp(t, np.log(np.maximum(self._knee, 1e-300))) / self._exponent

    def rate(self, z: Columns) -> Columns:
        """How fast they change with z."""
        return 1.0 / (1.0 + self._knee * np.exp(-self._exponent * (z - self._mode)))


class Surface:
    """The bound as a function of z, between points where it and its gradient are known.

    What follows a Gaussian process is √(2 (peak − bound)), which is linear far from the peak where the bound is a
    parabola, and keeps the bound below its peak, a little above the largest value that is known.

    Parameters
    ----------
    known : what is known.
    chart : coordinates in which the bound has a parabola's shape, more or less.
    top, root : where it is about highest, and a factor of the covariance of z.
    curvature : minus the bound's second derivatives there, in the chart: what it is like where nothing else is known.

    Examples
    --------
    >>> from npvi.parameters import REAL_NUMBER
    >>> chart = Chart(SearchSpace({"x": 0.0}, {"x": REAL_NUMBER}, {}, {}))
    >>> ridge = [Evaluation(np.array([x]), -0.5 * x**2, np.array([-x]), 0.01) for x in (-2.0, 0.0, 1.0)]
    >>> Surface(ridge, chart, np.zeros(1), np.eye(1), np.eye(1))(np.array([[-1.0], [0.5]])).round(1)
    array([-0.5, -0.1])
    """

    def __init__(self, known: list[Evaluation], chart: Chart, top: Vector, root: Columns, curvature: Columns) -> None:
        self.peak = max(one.value for one in known) + _ABOVE
        lowest = Evaluation(top, self.peak - _FAR, np.zeros(len(top)))
        known = [one if one.value > lowest.value else lowest._replace(z=one.z) for one in known]
        depth = np.array([np.sqrt(2.0 * (self.peak - one.value)) for one in known])
        self._chart, self._centre = chart, chart(top)
        root = chart.rate(top)[:, None] * root
        self._inverse = np.linalg.inv(root)
        values, vectors = np.linalg.eigh(root.T @ curvature @ root)
        self._parabola = (vectors * np.maximum(values, 0.0)) @ vectors.T
        places = np.array([one.z for one in known])
        self._points = self._u(places)
        d = len(top)
        slopes = np.array([one.gradient for one in known]) / chart.rate(places)
        y = np.concatenate([depth, (-slopes @ root / depth[:, None]).ravel()])
        foreseen, slopes = self._foreseen(self._points)
        y -= np.concatenate([foreseen, slopes.ravel()])
        error = np.array([one.error for one in known]) / depth
        noise = np.concatenate([error, np.repeat(error, d)]) ** 2
        fits = []
        for length in _LENGTHS:
            shape = self._covariance(self._points, length)
            for height in _HEIGHTS:
                factor = cho_factor(height**2 * shape + np.diag(noise + 1e-8 * height**2), lower=True)
                weights = cho_solve(factor, y)
                fit = -0.5 * float(y @ weights) - float(np.log(np.diag(factor[0])).sum())
                fits.append((fit, length, height, weights))
        _, self.length, self.height, self._weights = max(fits, key=lambda one: one[0])

    def __call__(self, z: Columns) -> Vector:
        return self.peak - 0.5 * self._depth(self._u(z)) ** 2

    def _depth(self, u: Columns) -> Vector:
        return np.maximum(self._foreseen(u)[0] + self.height**2 * self._cross(u) @ self._weights, 0.0)

    def _foreseen(self, u: Columns) -> tuple[Vector, Columns]:
        """Depth and gradient of the parabola, which is as deep as all that is far in the end."""
        along = u @ self._parabola
        square = np.einsum("ij,ij->i", along, u)
        flatter = 1.0 / (1.0 + square / (2.0 * (_FAR - _ABOVE)))
        depth = np.sqrt(2.0 * _ABOVE + square * flatter)
        return depth, along * (flatter**2 / depth)[:, None]

    def _u(self, z: Columns) -> Columns:
        return (self._chart(z) - self._centre) @ self._inverse.T

    def _cross(self, u: Columns) -> Columns:
        """Correlations of values at u with all values and gradients, shape (len(u), n (1 + d))."""
        apart = u[:, None, :] - self._points[None]
        own = np.exp(-0.5 * np.einsum("ijk,ijk->ij", apart, apart) / self.length**2)
        return np.hstack([own, (own[:, :, None] * apart / self.length**2).reshape(len(u), -1)])

    @staticmethod
    def _covariance(points: Columns, length: float) -> Columns:
        """Of all values, then all gradients, at height 1."""
        n, d = points.shape
        apart = (points[:, None, :] - points[None]) / length
        own = np.exp(-0.5 * np.einsum("ijk,ijk->ij", apart, apart))
        slope = own[:, :, None] * apart / length  # of value i with gradient j
        second = own[:, :, None, None] * (np.eye(d) - apart[:, :, :, None] * apart[:, :, None, :]) / length**2
        across = slope.reshape(n, n * d)
        return np.block([[own, across], [across.T, second.transpose(0, 2, 1, 3).reshape(n * d, n * d)]])


def _sample(
    log_density: Callable[[Columns], Vector], walkers: Columns, rng: np.random.Generator, steps: int
) -> Columns:
    """Samples by walkers that stretch along the lines between them (Goodman and Weare 2010)."""
    n, d = walkers.shape
    z, height = walkers.copy(), log_density(walkers)
    kept = []
    for step in range(steps):
        for one, other in ((slice(0, n // 2), slice(n // 2, n)), (slice(n // 2, n), slice(0, n // 2))):
            stretch = (1.0 + rng.uniform(size=n // 2)) ** 2 / 2.0
            beside = z[other][rng.integers(n // 2, size=n // 2)]
            trial = beside + stretch[:, None] * (z[one] - beside)
            there = log_density(trial)
            with np.errstate(invalid="ignore"):
                taken = np.log(rng.uniform(size=n // 2)) < (d - 1) * np.log(stretch) + there - height[one]
            z[one] = np.where(taken[:, None], trial, z[one])
            height[one] = np.where(taken, there, height[one])
        if step >= steps // 2 and step % 4 == 0:
            kept.append(z.copy())
    return np.concatenate(kept)


def _nodes(samples: Columns, rng: np.random.Generator) -> tuple[Columns, Vector]:
    """Some of the samples, and weights with which they have the means of all, the variances along their axes and, where
    there are few parameters, the skewness and the covariances."""
    d = samples.shape[1]
    scaled = (samples - samples.mean(axis=0)) / np.maximum(samples.std(axis=0), 1e-12)
    values, vectors = np.linalg.eigh(np.cov(scaled.T).reshape(d, d))
    u = scaled @ (vectors / np.sqrt(np.maximum(values, 1e-12)))
    columns = [np.ones(len(u)), *u.T, *(u**2).T]
    if d <= _ASKEW:
        columns += [*(u**3).T]
    if d <= _TOGETHER:
        columns += [u[:, i] * u[:, j] for i in range(d) for j in range(i)]
    moments = np.column_stack(columns)
    some = rng.choice(len(u), min(_CANDIDATES, len(u)), replace=False)
    weights = nnls(moments[some].T, moments.mean(axis=0))[0]
    kept = weights > _LITTLE * weights.sum()
    return samples[some[kept]], weights[kept] / weights[kept].sum()


def _log_integral(log_density: Callable[[Columns], Vector], samples: Columns, rng: np.random.Generator) -> float:
    """log ∫ exp(log_density), with a normal about the samples to draw from."""
    d = samples.shape[1]
    factor = np.linalg.cholesky(1.5 * np.cov(samples.T).reshape(d, d) + 1e-12 * np.eye(d))
    noise = rng.standard_normal((2000, d))
    density = -0.5 * (noise**2).sum(axis=1) - np.log(np.diag(factor)).sum() - 0.5 * d * np.log(2.0 * np.pi)
    return float(logsumexp(log_density(samples.mean(axis=0) + noise @ factor.T) - density) - np.log(len(noise)))
