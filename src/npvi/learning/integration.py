"""What isn't known about hyper-parameters: their posterior, and a few models that stand for it.

On the scale of the search space z the posterior of θ is exp(bound + log prior). The bound is known, with its gradient,
at the points that learning has visited and at some more around the best; between them a Gaussian process follows it
(`Surface`), the priors being known exactly. A few points of that posterior, with weights that give them the means and
variances of all, are nodes; the bound is evaluated there, and the surface drawn anew, until it has foreseen what comes.
These nodes are the models that predictions are mixed from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from scipy.special import chdtri, gammaln, ndtri
from scipy.stats import qmc

from npvi.learning.objective import Model, Objective
from npvi.learning.space import SearchSpace
from npvi.parameters import PenalisedComplexity
from npvi.priors import NotPositiveDefiniteError

__all__ = ["Evaluation", "Integration", "integrate"]

Vector = NDArray[np.float64]
Columns = NDArray[np.float64]

#: step along each coordinate for second derivatives, up to so many rows
_STEP, _FEW = 0.25, 300
#: and towards the simpler model
_TAIL = 2.5
#: rounds at most (unless the posterior is lost), and the error of the foreseen bound at nodes, in nats, that ends them
_ROUNDS, _FORESEEN = 5, 0.3
#: evaluations after which no further round begins, and while the posterior is lost
_MOST, _MOST_LOST = 75, 150
#: nats by which the bound's peak is above what was seen, and below it those from which on a point counts as so far
_ABOVE, _FAR = 1.0, 50.0
#: errors, in nats, of the bound as a climb evaluates it and as it is here, where its determinant is exact
_ROUGH, _FINE = 0.3, 0.02
#: information about a direction below which it counts as this little: a standard deviation of 2.6 logarithms
_LEAST = 0.15
#: where a prior of complexity x, e^{−x}, counts as near the simpler model
_KNEE = 0.3
#: standard deviation of log numbers without a prior of their own, about the best: none is known to more than that
_UNKNOWN = 2.0
#: points of a cloud, a power of 2; degrees of freedom of their t-distribution; passes, each from where the one before
#: has found the posterior, and how much wider
_POINTS, _FREEDOM, _PASSES, _WIDER = 2048, 5.0, 4, 0.05
#: error, in nats, from which on the posterior is lost, and points that must count
_LOST, _FEWEST = 1.5, 20.0
#: nats below what was foreseen that count as all there is
_LOWEST = 1e3
#: nats by which a node may have more than its share
_MORE = 0.5
#: points that nodes are chosen from, the least share of the weight of one, and parameters up to which skewness and
#: covariances count
_CANDIDATES, _LITTLE, _ASKEW, _TOGETHER = 300, 0.005, 4, 3
#: standard deviations of the surface by which it counts as deeper than foreseen
_CAUTION = 0.5
#: share of the covariance at the best that is added to the posterior's
_SAME = 0.2
#: points from all over the prior, relative to those of a cloud, and how many of them the bound is evaluated at
_OF_PRIOR, _SCATTERED = 0.25, 8
#: as many where little is known, and the typical depth of the bound, in nats, from which on much is
_MANY, _KNOWN = 32, 25.0
#: nats below the best from which on such a point says nothing of the posterior's own shape, and the least depth of
#: what nobody has seen
_NO_SAY, _NEAREST = 8.0, 4.0
#: length scales of the surface that are tried, in standard deviations of the posterior, and heights
_LENGTHS, _HEIGHTS = (1.5, 2.5, 4.0, 6.0), (0.5, 1.5, 5.0, 15.0)


class Evaluation(NamedTuple):
    """The bound somewhere and its gradient in z, both without priors; `error` is its standard deviation."""

    z: Vector
    value: float
    gradient: Vector
    error: float = _ROUGH

    @property
    def known(self) -> bool:
        """Whether there is one."""
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())


class Cloud(NamedTuple):
    """Points in z with weights, and the logarithm of the integral of the density that they stand for."""

    z: Columns
    weights: Vector
    log_integral: float

    @property
    def mean(self) -> Vector:
        return self.weights @ self.z

    @property
    def covariance(self) -> Columns:
        off = self.z - self.mean
        return (off * self.weights[:, None]).T @ off

    @property
    def effective(self) -> float:
        """How many points of equal weight would say as much."""
        return 1.0 / float(self.weights @ self.weights)

    def where(self, allowed: NDArray[np.bool_]) -> Cloud:
        """The part of it that is allowed; all, where that is next to nothing."""
        share = np.where(allowed, self.weights, 0.0)
        return self if share.sum() < 0.01 else self._replace(weights=share / share.sum())

    def spread(self, about: Vector) -> Vector:
        """Root mean square of each coordinate about a place."""
        return np.sqrt(self.weights @ (self.z - about) ** 2)


@dataclass(frozen=True)
class Integration:
    """The posterior of hyper-parameters, by a cloud of points and by nodes.

    Attributes
    ----------
    models, weights : the nodes.
    space : what z stands for.
    cloud : all points.
    settled : whether it was foreseen, more or less, what the bound is at the nodes.
    evaluations : of the bound that it took.
    """

    models: list[Model]
    weights: Vector
    space: SearchSpace
    cloud: Cloud
    settled: bool
    evaluations: int


def integrate(
    objective: Objective,
    model: Model,
    space: SearchSpace,
    visited: list[Evaluation],
    rows: int,
    highest: Vector,
    digit: float = 0.0,
) -> Integration:
    """Nodes for what isn't known of a model that was learned.

    Parameters
    ----------
    objective : the bound of all rows.
    model : where it is about highest.
    space : what is learned of it.
    visited : where else the bound is known.
    rows : how many there are: the more, the narrower the posterior.
    highest : z that a node may have; the posterior itself goes on.
    digit : the last one of z where the bound is evaluated. Others are rounding's, which differs with the order of rows;
        from round to round they would count ten times as much, until they choose other nodes.
    """

    def rounded(z: Columns) -> Columns:
        between = (z > space.low) & (z < space.high) if digit else np.zeros(z.shape, dtype=bool)
        return np.where(between, np.clip(np.round(z / (digit or 1.0)) * digit, space.low, space.high), z)

    top = rounded(space.vector())
    d = len(top)
    start = getattr(objective, "start", None)
    known: list[Evaluation] = []

    def evaluate(z: Vector) -> Evaluation:
        if start is not None:  # all from one place
            objective.start = start  # type: ignore[attr-defined]
        try:
            value, gradient = objective(model.at(space.named(z)))
            error = float(np.hypot(_FINE, getattr(objective, "error", 0.0)))
            found = Evaluation(z, float(value), space.pull_back(z, gradient) - space.prior_slopes(z), error)
        except (NotPositiveDefiniteError, FloatingPointError, np.linalg.LinAlgError):
            found = Evaluation(z, -np.inf, np.zeros(d))
        known.append(found if found.known else Evaluation(z, -np.inf, np.zeros(d)))
        return known[-1]

    best = evaluate(top)
    if d == 0 or not best.known:
        alone = Cloud(top[None], np.ones(1), best.value)
        return Integration([model], np.ones(1), space, alone, best.known, 1)
    visited = [one for one in visited if one.known]
    unknown = np.array([c.prior is None for c in space.coordinates])

    def inside(z: Columns) -> Columns:  # beyond what learning searches the bound is what it is at its end
        return np.clip(z, space.low, space.high)

    def log_prior(z: Columns) -> Vector:
        held = -0.5 * np.sum(((z - top) / _UNKNOWN) ** 2 * unknown, axis=1)
        return np.where(space.possible(z), held + space.log_priors(z), -np.inf)

    chart = Chart(space)
    curvature, bend = np.zeros((2, d, d))
    slopes = best.gradient + space.prior_slopes(top)
    step = _STEP * min(1.0, np.sqrt(_FEW / rows))
    for i, e in enumerate(step * np.eye(d)):
        z = inside(top + (e if top[i] + step <= space.high[i] else -e))
        there, moved = evaluate(z), z[i] - top[i]
        if moved and np.isfinite(there.value):
            curvature[i] = (slopes - there.gradient - space.prior_slopes(z)) / moved
            bend[i] = (best.gradient / chart.rate(top) - there.gradient / chart.rate(z)) / (chart(z)[i] - chart(top)[i])
    for i, c in enumerate(space.coordinates):  # the tail of such a prior is on the side of the simpler model
        if isinstance(c.prior, PenalisedComplexity):
            away = -np.copysign(_TAIL, c.prior.exponent) * np.eye(d)[i]
            evaluate(inside(top + away))
    curvature = 0.5 * (curvature + curvature.T) + np.diag(unknown / _UNKNOWN**2)
    values, vectors = np.linalg.eigh(curvature)
    root = (vectors / np.sqrt(np.maximum(values, _LEAST))) @ vectors.T  # without an order of its own
    # which of several length scales comes first says nothing: their random numbers follow what is known of them
    names = [c.name for c in space.coordinates]
    rank = np.empty(d, dtype=np.int64)
    rank[sorted(range(d), key=lambda i: (names[i], curvature[i, i]))] = np.arange(d)
    noise = _noise(d)[:, rank]
    # what lies apart from the best, such as surfaces so long that nothing tells their height, is found from the prior
    prior = _FromPrior(space, top, np.sqrt(np.einsum("ij,ij->i", root, root)))
    even = qmc.Sobol(d, seed=0).random(int(_OF_PRIOR * _POINTS))[:, rank]
    scattered = prior.points(even)
    lower: list[float] = []  # how deep the bound typically is
    for z in scattered[:_MANY]:
        if len(lower) == _SCATTERED and np.median(lower) > _KNOWN:
            break  # most of the prior is ruled out
        lower.append(best.value - evaluate(inside(z)).value)
        if lower[-1] > _NO_SAY:
            known.pop()
    far = float(np.clip(np.median(lower), _NEAREST, _FAR))
    best_round: tuple[float, Cloud, Columns, Vector, Vector] | None = None
    shapes, rounds = [root], 0
    while True:
        # distances by the curvature at the best, or by what the posterior's shape was thought to be
        surfaces = [Surface([*visited, *known], chart, top, shape, 0.5 * (bend + bend.T), far) for shape in shapes]
        surface = max(surfaces, key=lambda one: one.evidence)

        def log_density(z: Columns, surface: Surface = surface) -> Vector:
            return log_prior(z) + surface(inside(z))

        cloud = _cloud(log_density, top, root, noise, prior, scattered)
        rate = chart.rate(top)[:, None]
        found = cloud._replace(z=chart(inside(cloud.z))).covariance + _SAME * (rate * root) @ (rate * root).T
        shapes = [root, _root(found) / rate]
        nodes, weights = _nodes(cloud.where(np.all(cloud.z <= highest, axis=1)))
        nodes = rounded(inside(nodes))
        off = np.maximum(np.array([evaluate(z).value for z in nodes]) - surface(nodes), -_LOWEST)
        missed = float(weights @ np.minimum(np.abs(off), 10.0))
        if best_round is None or missed < best_round[0]:  # a round may go where nothing was known
            best_round = missed, cloud, nodes, weights, off
        rounds += 1
        lost = best_round[0] > _LOST
        if missed < _FORESEEN or len(known) > (_MOST_LOST if lost else _MOST) or (rounds >= _ROUNDS and not lost):
            break
    assert best_round is not None
    missed, cloud, nodes, weights, off = best_round
    settled = missed < _LOST and cloud.effective > _FEWEST
    # what the surface missed of the bound is made up for; more than a little is not left to a few nodes
    weights = weights * np.exp(np.clip(off - np.median(off), -50.0, _MORE))
    nodes, weights = nodes[weights > 0.0], weights[weights > 0.0] / weights.sum()
    if start is not None:
        objective.start = start  # type: ignore[attr-defined]
    models = [model.at(space.named(z)) for z in nodes]
    return Integration(models, weights, space, cloud, settled, len(known))


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
    far : nats below the peak at which that levels off.

    Attributes
    ----------
    evidence : log density of what is known, for a Gaussian process with the best of some length scales and heights.

    Examples
    --------
    >>> from npvi.parameters import REAL_NUMBER
    >>> chart = Chart(SearchSpace({"x": 0.0}, {"x": REAL_NUMBER}, {}, {}))
    >>> ridge = [Evaluation(np.array([x]), -0.5 * x**2, np.array([-x]), 0.01) for x in (-2.0, 0.0, 1.0)]
    >>> Surface(ridge, chart, np.zeros(1), np.eye(1), np.eye(1))(np.array([[-1.0], [0.5]])).round(1)
    array([-0.5, -0.1])
    """

    def __init__(
        self, known: list[Evaluation], chart: Chart, top: Vector, root: Columns, curvature: Columns, far: float = _FAR
    ) -> None:
        self.peak = max(one.value for one in known) + _ABOVE
        self._far = far
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
        error = np.array([one.error for one in known]) / depth
        noise = np.concatenate([error, np.repeat(error, d)]) ** 2
        foreseen, slopes = self._foreseen(self._points)
        y -= np.concatenate([foreseen, slopes.ravel()])
        best = -np.inf
        for length in _LENGTHS:
            shape = self._covariance(self._points, length)
            for height in _HEIGHTS:
                factor = np.linalg.cholesky(height**2 * shape + np.diag(noise + 1e-8 * height**2))
                solved = solve_triangular(factor, y, lower=True, check_finite=False)
                fit = -0.5 * float(solved @ solved) - float(np.log(np.diag(factor)).sum())
                if fit > best:
                    best, self.length, self.height = fit, length, height
                    self._factor, self._solved = factor, solved
        # of values and gradients as they are, whatever the coordinates
        self.evidence = best - len(known) * float(np.linalg.slogdet(self._inverse)[1])

    def __call__(self, z: Columns) -> Vector:
        return self.peak - 0.5 * self._depth(self._u(z)) ** 2

    def _depth(self, u: Columns) -> Vector:
        told = solve_triangular(self._factor, self.height**2 * self._cross(u).T, lower=True, check_finite=False)
        found = self._foreseen(u)[0] + told.T @ self._solved
        # a bit deeper where little is known: a bound that nobody has seen is lower than hoped rather than higher
        unknown = np.maximum(self.height**2 - np.einsum("ij,ij->j", told, told), 0.0)
        return np.maximum(found + _CAUTION * np.sqrt(unknown), 0.0)

    def _foreseen(self, u: Columns) -> tuple[Vector, Columns]:
        """Depth and gradient of the parabola, which levels off in the end."""
        along = u @ self._parabola
        square = np.einsum("ij,ij->i", along, u)
        flatter = 1.0 / (1.0 + square / (2.0 * (self._far - _ABOVE)))
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


class _FromPrior:
    """Points as the prior has them, and their density; of numbers without one, about the best."""

    def __init__(self, space: SearchSpace, top: Vector, deviation: Vector) -> None:
        self._priors = [
            c.prior if c.prior is not None else (float(x), float(sd))
            for c, x, sd in zip(space.coordinates, top, deviation)
        ]

    def points(self, uniform: Columns) -> Columns:
        """For numbers that fill the unit cube evenly."""
        u = np.clip(uniform, 1e-9, 1.0 - 1e-9)
        found = np.empty_like(u)
        for i, prior in enumerate(self._priors):
            if isinstance(prior, PenalisedComplexity):
                found[:, i] = np.log(prior.mode) + np.log(-np.log1p(-u[:, i])) / prior.exponent
            else:
                found[:, i] = prior[0] + prior[1] * ndtri(u[:, i])
        return found

    def log_density(self, z: Columns) -> Vector:
        """Of these points."""
        total = np.zeros(len(z))
        for x, prior in zip(z.T, self._priors):
            if isinstance(prior, PenalisedComplexity):
                t = np.minimum(prior.exponent * (x - np.log(prior.mode)), 700.0)
                total += np.log(abs(prior.exponent)) + t - np.exp(t)
            else:
                total -= 0.5 * ((x - prior[0]) / prior[1]) ** 2 + np.log(prior[1] * np.sqrt(2.0 * np.pi))
        return total


def _noise(d: int) -> Columns:
    """Points of Student's t, always the same ones, spread evenly."""
    uniform = qmc.Sobol(d + 1, seed=0).random(_POINTS)
    scale = np.sqrt(_FREEDOM / chdtri(_FREEDOM, uniform[:, -1]))
    return ndtri(np.clip(uniform[:, :d], 1e-12, 1.0 - 1e-12)) * scale[:, None]


def _cloud(
    log_density: Callable[[Columns], Vector],
    centre: Vector,
    root: Columns,
    noise: Columns,
    prior: _FromPrior,
    scattered: Columns,
) -> Cloud:
    """Points with weights: from where the posterior is thought to be to where the points before found it, and some from
    all over the prior, which find what lies apart, such as surfaces so long that nothing is known of their height.

    Everything is a smooth function of what goes in, unlike a walk: models that are equal but for their units, or the
    order of their columns, have the same nodes.
    """
    d = len(centre)
    constant = gammaln(0.5 * (_FREEDOM + d)) - gammaln(0.5 * _FREEDOM) - 0.5 * d * np.log(_FREEDOM * np.pi)
    share = len(scattered) / (len(scattered) + len(noise))
    for _ in range(_PASSES):
        z = np.vstack([centre + noise @ root.T, scattered])
        u = np.linalg.solve(root, (z - centre).T)
        log_t = constant - 0.5 * (_FREEDOM + d) * np.log1p(np.einsum("ij,ij->j", u, u) / _FREEDOM)
        log_t -= np.linalg.slogdet(root)[1]
        heights = log_density(z)
        off = heights - np.logaddexp(np.log1p(-share) + log_t, np.log(share) + prior.log_density(z))
        weights = np.exp(off - np.max(off))
        cloud = Cloud(z, weights / weights.sum(), float(np.log(weights.mean()) + np.max(off)))
        centre, root = cloud.mean, _root(cloud.covariance + _WIDER * root @ root.T)
    return cloud


def _root(covariance: Columns) -> Columns:
    """The symmetric one, which goes along when coordinates change places."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 1e-12))) @ vectors.T


def _nodes(cloud: Cloud) -> tuple[Columns, Vector]:
    """Some of the points, and weights with which they have the means of all, the variances along their axes and, where
    there are few parameters, the skewness and the covariances."""
    d = cloud.z.shape[1]
    u = (cloud.z - cloud.mean) @ np.linalg.inv(_root(cloud.covariance))
    columns = [np.ones(len(u)), *u.T, *(u**2).T]
    if d <= _ASKEW:
        columns += [*(u**3).T]
    if d <= _TOGETHER:
        columns += [u[:, i] * u[:, j] for i in range(d) for j in range(i)]
    moments = np.column_stack(columns)
    some = np.unique(np.searchsorted(np.cumsum(cloud.weights), (np.arange(_CANDIDATES) + 0.5) / _CANDIDATES))
    some = np.minimum(some, len(u) - 1)
    weights = nnls(moments[some].T, cloud.weights @ moments)[0]
    kept = weights > _LITTLE * weights.sum()
    return cloud.z[some[kept]], weights[kept] / weights[kept].sum()
