"""One iteration towards the best q: Newton steps for μ and the marginal variances, followed by the best V.

It is the same for every family. No step is taken that lowers the bound; the certificate says what is left to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components import CoefficientSpread, Parts, SolverLog, Stack
from npvi.inference.data import Data
from npvi.inference.dense_newton import dense_step
from npvi.inference.families.base import Covariance, Family, Start
from npvi.inference.shared_spread import SharedSpread
from npvi.likelihoods import Curvatures, Expectations
from npvi.priors import NotPositiveDefiniteError, PrecisionFactor

__all__ = ["Problem", "State", "WithCoefficients", "without_coefficients"]

Vector = NDArray[np.float64]

#: relative rounding error of the bound: a step that seems to lose no more than this is accepted
_ROUNDING = 1e-13
#: the same of few points under wide priors, whose terms cancel
_ROUNDING_DENSE = 1e-10
#: how far expectations of log p may be off, relatively, as their rules change with v; and nats that may be laid to it
_INTEGRALS, _MOST_LOST = 1e-10, 1e-6
#: units in the last place that f may be off by
_LAST_PLACES = 4.0
#: residual of the mean from which on it takes its last steps alone, and where V is right already
_NEARLY, _ALONE = 1e-2, 0.5
#: Newton steps before V is found anew, and how long one is, in standard deviations, that is followed by another
_STEPS, _SHORT = 3, (0.1, 3.0)
#: the same of a step for the standard deviations: long ones overshoot, and `_settled` knows what to do
_SHORT_SD = 0.25
#: steps for variances, relative to them, that are checked, and how many at most
_LONG, _MOST = 0.03, 256
#: to which systems for the mean's coefficients are solved at least
_COEFFICIENTS = 1e-4
#: lengths on which log p bends that a step may take
_FAR = 3.0
#: site precisions nearer to each other are one
_SAME = 1e-6
#: site precisions whose sums of squares are numbers; a wide v under exp gives any
_LARGEST = 1e120
#: variance of f at y's own fitted values, where sites are taken first
_NARROW = 1e-6
#: nats for each row by which a start may be worse than f = 0
_LOST = 10.0
#: how often site precisions are raised at the start, until the bound is finite
_RAISED = 12
#: a step is tried whole, then halved until it is given up
_SHARES = tuple(0.5**halving for halving in range(12))
#: nats that a step for the mean may lose by itself before it is it that is held back
_WALL = 0.1
#: a share of a step that is as good as none
_ROUNDED = 1e-3
#: iterations after which few points take Newton's step for all means and variances: most fits have ended by then
_PATIENCE = 15
#: and of the mean alone: where log p is straight, nothing but a wide prior says how long a step is
_SMALL_SHARES = tuple(0.5**halving for halving in range(14, 60, 3))


@dataclass(frozen=True)
class _Given:
    """A V of which no more is known than a start says."""

    site_precision: Vector
    variance: Vector
    precision_factor: PrecisionFactor | None
    log_determinant: float = -np.inf

    matrix: None = None

    def mismatch(self, w: Vector) -> float:
        return np.inf


@dataclass(frozen=True)
class WithCoefficients:
    """The best covariance of f for some w: that of a family, given the mean's coefficients, and what they add."""

    given: Covariance
    coefficients: CoefficientSpread

    @property
    def site_precision(self) -> Vector:
        return self.given.site_precision

    @property
    def precision_factor(self) -> PrecisionFactor | None:
        return self.given.precision_factor

    @cached_property
    def variance(self) -> Vector:
        return self.given.variance + self.coefficients.variance

    @property
    def log_determinant(self) -> float:
        return self.given.log_determinant + self.coefficients.log_determinant

    @property
    def matrix(self) -> NDArray[np.float64] | None:
        given, along = self.given.matrix, self.coefficients.along
        return None if given is None else given + along @ along.T

    def mismatch(self, w: Vector) -> float:
        return max(self.given.mismatch(w), self.coefficients.mismatch(w - self.site_precision))


@dataclass(frozen=True)
class State:
    """N(mean, V)."""

    mean: Vector
    covariance: Covariance
    """The best one for its own w; at the optimum that is the w of (mean, variance)."""
    predictor: Vector
    """What rows of the data see of the mean."""
    data: Data
    rest: float
    """All of the bound but what the data say; −∞ where it isn't known."""

    @cached_property
    def expected(self) -> Expectations:
        """What the data say there."""
        return self.data.expectations(self.predictor, self.covariance.variance)

    @cached_property
    def elbo(self) -> float:
        """The bound."""
        return -np.inf if self.rest == -np.inf else float(self.expected.value.sum() + self.rest)


class Problem:
    """The bound of one prior and its data over N(μ, V), as `npvi.inference.loop.ascend` climbs it."""

    def __init__(
        self,
        family: Family,
        data: Data,
        stack: Stack | Parts,
        tolerances: tuple[float, float],
        enough: float = -np.inf,
    ) -> None:
        self.family, self.data = family, data
        self.stack: Any = stack
        self.tolerances, self._last = tolerances, (np.inf, np.inf)
        # halving steps again and again, and others after that, are for those who want the optimum itself
        self.enough, self.thorough = enough, enough == -np.inf
        self.shares = _SHARES if self.thorough else _SHARES[:3]
        self._pulled: tuple[Vector | None, Any] = (None, None)
        self.log = SolverLog()
        self.relaxation = Relaxation(len(data.y))
        self._share = 1.0  # of a step for V to try first
        self._steps = 0
        self._by_quadrature = data.by_quadrature

    def initial(self, start: Start | None) -> State:
        """The sites at `start`, by default at y's own fitted values: the best mean and V for them. A start that has its
        site precisions is left as it is."""
        given_start = start
        if start is None:
            fitted = self.data.likelihood.initial_latent(self.data.y, **self.data.row)
            start = Start(fitted, np.full_like(fitted, _NARROW))
        state = self._started(start)
        if state is None and given_start is None:  # log p may bend within less
            width = min(_NARROW, float(self.data.likelihood.resolution) ** 2)
            state = self._started(Start(start.mean, np.full_like(start.mean, width)))
        if state is None and given_start is not None:  # it goes with other hyper-parameters, too different ones
            return self.initial(None)
        if state is None:  # P + W is positive definite for w ≥ 0, but in rounded numbers it may not be
            weights = "" if self.data.weight is None else ", larger weights (sample_weight)"
            raise NotPositiveDefiniteError(
                "the posterior's precision has no usable factor: try a larger nugget, a smaller variance of the kernel"
                f"{weights} or other parameters of the likelihood, {self.data.likelihood!r}"
            )
        return self._better_than_prior(state) if given_start is None else state

    def _better_than_prior(self, state: State) -> State:
        """The state, or where f = 0 says far more of y than it does one that starts from the prior: y far beyond what
        the kernel allows, whose log p has a kink where f would be y, holds f fast."""
        nothing = np.zeros_like(state.predictor)
        of_nothing = float(self.data.expectations(nothing, np.full_like(nothing, _NARROW)).value.sum())
        if not of_nothing - state.elbo > _LOST * len(nothing):
            return state
        started = self._started(Start(nothing, 1.0 / self.stack.marginal_precision))
        return started if started is not None and started.elbo > state.elbo else state

    def _started(self, start: Start) -> State | None:
        if start.site_precision is not None:
            given: Any = _Given(start.site_precision, start.variance, start.factor)
            return State(start.mean, given, self.stack.seen(start.mean), self.data, -np.inf)
        expected = self.data.expectations(start.mean, start.variance)
        w = np.maximum(expected.precision, 0.0)
        if not np.max(w) <= _LARGEST:  # a parameter of the likelihood beyond all bounds: no factor is made of it
            return None
        solver = self._solver(w)
        first, step = self.stack.first_step(solver, start.mean, expected.gradient)
        here = self.at(first, self.covariance(w, solver))
        for _ in range(_RAISED):
            if here is None:
                return None
            # where log p is not concave nothing but a wide prior may hold the step
            tried = (self.at(first + share * step, here.covariance) for share in _SHARES)
            state = next((trial for trial in tried if trial is not None and self._no_worse(trial, here)), here)
            if np.isfinite(state.elbo):
                break
            # where covariates tell zeros from the rest, sites say next to nothing of a coefficient, and its variance
            # takes the expected counts beyond all bounds: sites that say more, to begin with
            w = 4.0 * w
            here = self.at(first, self.covariance(w))
        else:
            return None
        mean = state.mean
        v, w = state.covariance.variance, state.covariance.site_precision
        settled = self._settled(v, w, state.predictor, state.expected.precision, np.zeros_like(v))
        better = self.at(mean, self.covariance(settled)) if settled is not state.expected.precision else None
        return better if better is not None and better.elbo > state.elbo else state

    def complete(self, state: State) -> bool:
        return not isinstance(state.covariance, _Given)

    def improve(self, state: State) -> State:
        """A better state: by Newton's method for μ and v together, else for μ and V one after the other.

        Where V is right already, or about to be, a step for the mean alone, which costs a fraction, comes first.
        """
        self._steps += 1
        if self.thorough and self._steps > _PATIENCE:
            better = self._dense(state)
            if better is not None:
                return better
        (mean, covariance), (mean_limit, covariance_limit) = self._last, self.tolerances
        alone = self.thorough and mean <= _ALONE and covariance <= 0.3 * covariance_limit
        if alone or (mean_limit < mean <= _NEARLY and covariance <= 2.0 * covariance_limit):
            better = self._improve_mean(state)
            if better is not state:
                return better
        newton = self._newton(state)
        if newton is not None:
            return newton
        state = self._improve_mean(state)
        state = self._improve_covariance(state) if self.thorough else state
        # from a start with sites of its own there may be no way on
        return state if self.complete(state) else self.initial(Start(state.predictor, state.covariance.variance))

    def _dense(self, state: State) -> State | None:
        """Newton's step for all means and variances, of few points; None where it doesn't raise the bound."""
        V, w = state.covariance.matrix, state.covariance.site_precision
        if V is None:
            return None
        at = self.data.curvatures(state.predictor, np.sqrt(state.covariance.variance))
        step = dense_step(V, w, at, self._pull(state.mean))
        if step is None:
            return None
        for share in _SHARES:
            trial = self.at(state.mean + share * step.mean, self.covariance(step.from_sites(w, share)))
            if trial is None:
                continue
            # at the top rounding of the terms of a bound hides what a step gains, and not what it leaves
            lost = _ROUNDING_DENSE * max(1.0, abs(state.elbo))
            nearer = trial.elbo >= state.elbo - lost and _mismatch(trial) < 0.1 * _mismatch(state)
            if nearer or trial.elbo > state.elbo:
                return trial
        return None

    def _newton(self, state: State) -> State | None:
        """Newton steps for μ and the standard deviations s, cut short until they don't lower the bound, or None.

        The means move together, held by P; each s_i is held by what the other points say of f_i, the precision
        c_i = 1/v_i − w_i, and is eliminated: (P̃ + W̃) δ = r with W̃ = −E_mm − E_ms²/b, b = c + 1/s² − E_ss. What rows
        share of v, the spread of some coefficients, is eliminated, too (`SharedSpread`). Steps for μ and V in turn
        crawl where the two are strongly coupled, as for counts under a wide prior (the optimum for a zero count lies
        far down, and is wide). A short step is followed by another for the same c, which costs less than V; then V is
        found at the sites of the new (μ, s). Where the first step would gain less than half of what is `enough`, V is
        left as it is.
        """
        w, sd = state.covariance.site_precision, np.sqrt(state.covariance.variance)
        at, whole = self.data.curvatures(state.predictor, sd), sd
        shared = spread = _shared(state, at, sd)
        v = _own(state, shared)
        before = np.sqrt(v)
        mean, own_sd, factor = state.mean, before, state.covariance.precision_factor
        others = np.maximum(1.0 / v - w, self.stack.marginal_precision)
        for step_number in range(_STEPS):
            if step_number > 0:
                spread = spread.best(self.data, self.stack.seen(mean), own_sd**2)
                sd = np.sqrt(own_sd**2 + spread.variance)
                at = self.data.curvatures(self.stack.seen(mean), sd)
            if not np.max(np.abs(at.in_mean_sd)) <= _LARGEST:  # whose square is no number
                return None
            part = own_sd / sd  # how s moves with what is its own of it
            # for the c that `others` may have been kept above
            slope_sd = part * at.in_sd + (w - 1.0 / v) * own_sd + 1.0 / own_sd
            bend = part**2 * at.in_sd_sd + (1.0 - part**2) * at.in_sd / sd
            bend_sd = others + 1.0 / own_sd**2 - np.minimum(bend, 0.0)
            cross = part * at.in_mean_sd
            bend_mean = np.maximum(-at.in_mean_mean - cross**2 / bend_sd, 0.0)
            slope = self.stack.transpose_times(at.in_mean + cross * slope_sd / bend_sd) - self._pull(mean)
            solver = self._solver(bend_mean, factor)
            step = self._coupled_step(solver, slope, spread, (at, slope_sd, bend_sd, sd))
            if _too_far(self.stack.times(step), at.in_mean_mean):
                solver = self._solver(np.abs(at.in_mean_mean), factor)
                step = self._coupled_step(solver, slope, spread, (at, slope_sd, bend_sd, sd))
            gain = 0.5 * float(slope @ step + np.sum(slope_sd**2 / bend_sd))
            if step_number == 0 and gain < 0.5 * self.enough and self.complete(state):
                trial = self.at(mean + step, state.covariance)
                return trial if trial is not None and self._no_worse(trial, state) else state
            moved = self.stack.times(step)
            step_sd = (slope_sd + cross * moved) / bend_sd
            mean, factor = mean + step, solver.best
            own_sd = np.clip(own_sd + step_sd, 0.5 * before, 2.0 * before)
            length, length_sd = float(np.max(np.abs(moved) / whole)), float(np.max(np.abs(step_sd) / before))
            if not _SHORT[0] < length < _SHORT[1] or length_sd > _SHORT_SD:
                break
        tried, variance, common = mean, v, shared.variance
        whole_mean = 1.0  # share of the mean's step, where V isn't what goes too far
        for tries, cut in enumerate((1.0, *self.shares)):
            share = cut * self._share
            if tries == 1:
                whole_mean = self._share_of_mean(state.mean, tried, variance + common)
                if whole_mean == 1.0:
                    continue
                if whole_mean == _SHARES[-1]:  # mean and V would crawl together; one after the other they get on
                    return None
            # where V goes too far it is because neighbours answer for each other; the mean's step knows of them all
            tried = state.mean + whole_mean * min(1.0, 2.0 * share) * (mean - state.mean)
            variance = (before + share * (own_sd - before)) ** 2
            seen = self.stack.seen(tried)
            common = shared.best(self.data, seen, variance).variance
            proposed = self.data.expectations(seen, variance + common).precision
            self._hold(proposed, seen, v, variance, others, common)
            change = self._settled(v, w, seen, proposed, common) - w
            if tries == 0:
                relaxation = self.relaxation.of(change * v)
            # what is shared agrees with itself at any mean
            pace = share * relaxation
            pace += (1.0 - pace) * common / (variance + common)
            trial = self.at(tried, self.covariance(w + pace * change))
            if trial is not None and self._no_worse(trial, state):
                # cut down that far it was by rounding, which hides what a step gains: from the whole of it again
                self._share = min(1.0, 1.5 * share) if share > _ROUNDED else 1.0
                return trial
            trial = None  # its draws take memory
        return None

    def _share_of_mean(self, here: Vector, there: Vector, variance: Vector) -> float:
        """The share of a step for the mean that doesn't lower the bound much by itself, at variances it is taken with.

        Beyond a limit log p falls as steeply as the noise is small, and nothing tells of it on the limit's good side.
        """
        least = self._of_mean(here, variance) - _WALL
        for share in _SHARES:
            if self._of_mean(here + share * (there - here), variance) >= least:
                return share
        return _SHARES[-1]

    def _of_mean(self, mean: Vector, variance: Vector) -> float:
        """The mean's part in the bound, at marginal variances."""
        value = self.data.expectations(self.stack.seen(mean), variance).value
        return float(value.sum() - 0.5 * self.stack.quadratic(mean))

    def _coupled_step(self, solver: Any, slope: Vector, spread: SharedSpread, at: tuple) -> Vector:
        """A step for μ, what it does to the spread that rows share included."""
        if len(spread):
            coupling = spread.coupling(*at)
            rest = slope - coupling.taken
            step = self.stack.solve(solver, rest, coupling.product)
            if float(rest @ step) > 0.0:  # always, where log p is concave
                return step
        return self.stack.solve(solver, slope)

    def _improve_mean(self, state: State) -> State:
        """A step for μ alone, which is uphill if anything is."""
        _, gradient, precision = state.expected
        if not np.max(np.abs(precision)) <= _LARGEST:  # from a mean that is far astray: no factor tells where to go
            return state
        factor = state.covariance.precision_factor
        step = self._mean_step(state.mean, gradient, self._solver(np.maximum(precision, 0.0), factor))
        if _too_far(self.stack.times(step), -precision):
            step = self._mean_step(state.mean, gradient, self._solver(np.abs(precision), factor))
        for share in (*self.shares, *(_SMALL_SHARES if self.thorough else ())):
            trial = self.at(state.mean + share * step, state.covariance)
            if trial is not None and self._no_worse(trial, state):
                return trial
        return state

    def _improve_covariance(self, state: State) -> State:
        """A step for V alone, at site precisions on the way to those of (μ, v)."""
        w = state.covariance.site_precision
        for share in self.shares:
            trial = self.at(state.mean, self.covariance(w + share * (state.expected.precision - w)))
            if trial is not None and self._no_worse(trial, state):
                return trial
        return state

    def _settled(self, v: Vector, w: Vector, mean: Vector, proposed: Vector, common: Vector) -> Vector:
        """`proposed` site precisions, where they are far from the w of v held to what they do to v themselves.

        Under a wide prior the w of a zero count, exp(m + v/2), multiplies with every small change of v. There it is
        replaced by the w that agrees with its own v = 1/(c + w), for the c of (v, w): between the two, by bisection.
        What v has in `common` with other rows comes on top.
        """
        wild = np.flatnonzero((np.abs(proposed - w) > 1.0 / v) & (proposed > 0.0) & (w > 0.0))
        if not len(wild):
            return proposed
        others = np.maximum(1.0 / v[wild] - w[wild], self.stack.marginal_precision[wild])
        settled = proposed.copy()
        held = _agreeing(self.data.take(wild), mean[wild], others, w[wild], proposed[wild], common[wild])
        settled[wild] = held
        return settled

    def _hold(
        self, proposed: Vector, mean: Vector, before: Vector, after: Vector, others: Vector, common: Vector
    ) -> None:
        """Where v takes a long step, replace the w proposed there by one that agrees with its own v.

        Such a step may go too far, and to just where w is what it has been: no iteration would notice. In the end there
        are few of them; while there are many, the longest ones will do.
        """
        length = np.where(proposed > 0.0, np.abs(after - before) / before, 0.0)
        long = np.flatnonzero(length > _LONG)
        if len(long) > _MOST:
            long = long[np.argpartition(length[long], -_MOST)[-_MOST:]]
        if len(long):
            at_first = self.data.take(long).expectations(mean[long], before[long] + common[long]).precision
            # a w that v doesn't change agrees with any, such as that of Gaussian noise
            with np.errstate(invalid="ignore"):  # of two that are infinite
                apart = (at_first > 0.0) & (np.abs(at_first - proposed[long]) > _SAME * np.abs(at_first))
            long, first = long[apart], np.maximum(at_first[apart], 1e-300)
        if len(long):
            proposed[long] = _agreeing(
                self.data.take(long), mean[long], others[long], first, proposed[long], common[long]
            )

    def certificate(self, state: State) -> dict[str, float]:
        """Both residuals, relative to the largest term of their equation, and the bound."""
        gradient, w = self.stack.transpose_times(state.expected.gradient), state.expected.precision
        pull = self._pull(state.mean)
        # the last term is the gradient of a mean that is off by one standard deviation: where gradient and pull cancel
        # to rounding (all y equal to the constant mean) there is no other scale
        sd = np.sqrt(state.covariance.variance)
        largest_term = max(np.abs(gradient).max(), np.abs(pull).max(), np.max(np.abs(w) * sd))
        # where the data say nothing, all of them go to zero, and rounding beside one standard deviation is none
        least = np.finfo(float).eps * float(np.max(1.0 / sd))
        off = np.abs(gradient - pull).max()
        with np.errstate(invalid="ignore"):  # of a posterior that is no use, which is refused later
            mean_residual = float(off / max(largest_term, least))
        if self.tolerances[0] < mean_residual <= _NEARLY and off <= self._rounding(state):
            mean_residual = 0.0  # no number is nearer
        self._last = (mean_residual, state.covariance.mismatch(w))
        return {"elbo": state.elbo, "mean_residual": self._last[0], "covariance_residual": self._last[1]}

    def rounded(self, state: State) -> bool:
        """Whether gradient and pull are no further apart than rounding of f makes them."""
        off = self.stack.transpose_times(state.expected.gradient) - self._pull(state.mean)
        return bool(np.abs(off).max() <= self._rounding(state))

    def covariance(self, w: Vector, solver: Any = None) -> Any:
        """The best covariance of f for w, a `Covariance`, or None where there is none; `solver` is for P + W."""
        if not np.max(w) <= _LARGEST:
            return None
        if self.stack.known:
            return self.family.covariance(w, solver)
        given = self.family.covariance(w, solver)
        if given is None:
            return None
        tolerance = min(self.family.solve_tolerance, _COEFFICIENTS)
        found = self.stack.spread(self.solver_with(given, w, tolerance, solver))
        return None if found is None else WithCoefficients(given, found)

    def _solver(self, w: Vector, nearby: PrecisionFactor | None = None) -> Any:
        return self.stack.precision(w, self.log, self.family.solve_tolerance, nearby)

    def solver_with(self, given: Covariance, w: Vector, tolerance: float, solver: Any = None) -> Any:
        """For P + W and the covariance that was found there, by `solver` if there was one: with the factor there is."""
        route, nearby = getattr(given, "route", ""), given.precision_factor if solver is None else solver.best
        own = (route, given.precision_factor) if route else None
        return self.stack.precision(w, self.log, tolerance, nearby, own)

    def _mean_step(self, mean: Vector, gradient: Vector, solver: Any) -> Vector:
        """(P̃ + W)⁻¹ (gradient − P̃ mean)."""
        slope = self.stack.transpose_times(gradient) - self._pull(mean)
        return self.stack.solve(solver, slope)

    def _pull(self, mean: Vector) -> Vector:
        """P̃ mean, remembered: the certificate of a state and the next step both want it."""
        if mean is not self._pulled[0]:
            self._pulled = (mean, self.stack.matvec(mean))
        return self._pulled[1]

    def _rounding(self, state: State) -> float:
        """What a few units in the last place of f are in P̃f, and in the gradient: much, where f hardly varies beside
        its size, as where y is far from 0."""
        places = np.spacing(np.abs(state.mean))
        places[::2] *= -1.0
        pull = np.abs(self.stack.matvec(places)).max()
        gradient = np.abs(
            self.stack.transpose_times(state.expected.precision * np.spacing(np.abs(state.predictor)))
        ).max()
        return _LAST_PLACES * float(max(pull, gradient))

    def at(self, mean: Vector, covariance: Covariance | None) -> State | None:
        """The state at (mean, covariance); None where there is no such covariance."""
        if covariance is None:
            return None
        # V is the best one for its w, so tr(P V) = N − Σ w_i v_i
        known = covariance.site_precision @ covariance.variance - self.stack.quadratic(mean) - self.stack.logdet
        return State(
            mean, covariance, self.stack.seen(mean), self.data, 0.5 * float(known + covariance.log_determinant)
        )

    def with_covariance(self, state: State, given: Covariance) -> State:
        """The same state where the covariance of f, given the mean's coefficients, is known better."""
        found: Any = given
        if isinstance(state.covariance, WithCoefficients):
            found = replace(state.covariance, given=given)
        better = self.at(state.mean, found)
        assert better is not None
        return better

    def _no_worse(self, trial: State, state: State) -> bool:
        noise = self.family.noise(without_coefficients(state.covariance), without_coefficients(trial.covariance))
        loss = _ROUNDING * max(1.0, abs(state.elbo)) + noise
        if self._by_quadrature:
            loss += min(_INTEGRALS * float(np.abs(state.expected.value).sum()), _MOST_LOST)
        return trial.elbo >= state.elbo - loss


def without_coefficients(covariance: Any) -> Any:
    """What a family knows of a covariance."""
    return covariance.given if isinstance(covariance, WithCoefficients) else covariance


def _mismatch(state: State) -> float:
    """How far V is from the best one for its own (mean, variance)."""
    return state.covariance.mismatch(state.expected.precision)


def _too_far(step: Vector, bend: Vector) -> bool:
    """Whether a step goes far beyond where second derivatives above 0, which it took for 0, mean anything.

    Where nothing else holds the mean, as a constant without a prior among Student t's outliers, it would go to 10¹⁵,
    where data say nothing at all. Held by the same curvature downwards it is as long as the data are apart.
    """
    upwards = np.maximum(bend, 0.0)
    return bool(np.max(np.abs(step) * np.sqrt(upwards), initial=0.0) > _FAR)


def _shared(state: State, at: Curvatures, sd: Vector) -> SharedSpread:
    """What the mean's coefficients add to the variances of rows that answer for each other."""
    if not isinstance(state.covariance, WithCoefficients):
        return SharedSpread(np.zeros((len(sd), 0)), np.zeros((0, 0)))
    return SharedSpread.strongest(state.covariance.coefficients.along, state.covariance.site_precision, at, sd)


def _own(state: State, shared: SharedSpread) -> Vector:
    """What of the variances isn't `shared`."""
    if not isinstance(state.covariance, WithCoefficients):
        return state.covariance.variance
    # not as a difference, which beside 10⁶ times as much that is shared has no digits
    given, spread = state.covariance.given.variance, state.covariance.coefficients.variance
    return np.asarray(given + np.maximum(spread - shared.variance, 0.0))


def _agreeing(data: Data, mean: Vector, others: Vector, one: Vector, other: Vector, common: Vector) -> Vector:
    """The w between two positive ones that goes with its own v = common + 1/(others + w), by bisection."""
    low, high = np.minimum(one, other), np.minimum(np.maximum(one, other), _LARGEST)
    for _ in range(8):
        middle = np.sqrt(low) * np.sqrt(high)  # whose product may be no number
        above = data.expectations(mean, common + 1.0 / (others + middle)).precision > middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(np.sqrt(low) * np.sqrt(high))


class Relaxation:
    """Which share of the proposed change of each w to take (Aitken's rule).

    Points that share a place answer for each other: all of them correct w at once, each as if alone, and overshoot.
    Then successive proposals change sign, and their ratio says by how much to hold back.

    >>> relaxation = Relaxation(1)
    >>> relaxation.of(np.array([1.0])), relaxation.of(np.array([-1.0]))
    (array([1.]), array([0.5]))
    """

    #: proposals below this (relative to 1/v) must turn twice in a row: one turn is what the last step left over
    _small = 0.01

    def __init__(self, n: int) -> None:
        self._proposal, self._share, self._turned = np.zeros(n), np.ones(n), np.zeros(n, dtype=bool)

    def of(self, proposal: Vector) -> Vector:
        """The share of each, given all proposals before."""
        before = self._proposal
        ratio = np.divide(proposal, before, out=np.zeros_like(proposal), where=before != 0.0)
        held_back = np.maximum(self._share / (1.0 - np.minimum(ratio, 0.0)), 0.2)
        # a proposal that turned but shrank to a third will be gone soon enough by itself
        turned = ratio < -0.3
        overshot = turned & (self._turned | (np.abs(before) > self._small))
        self._share = np.where(overshot, held_back, np.minimum(1.0, 1.5 * self._share))
        self._proposal, self._turned = proposal, turned
        return self._share
