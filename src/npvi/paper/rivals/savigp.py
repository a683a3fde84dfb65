"""SAVIGP: inducing points and any likelihood that can be evaluated (Dezfouli and Bonilla 2015)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import logsumexp, ndtri
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from npvi.checks import check_count
from npvi.likelihoods import Likelihood
from npvi.paper.rivals.base import InducingPointGP
from npvi.paper.rivals.posteriors import GaussianPosterior, Whitened
from npvi.paper.rivals.process import Inducing, Places, checked
from npvi.paper.rivals.task import Clock, Found, Task
from npvi.runtime import progress
from npvi.runtime.interrupts import forget_interrupt, interrupts_held_back
from npvi.runtime.training import TrainingStopped

__all__ = ["SAVIGP", "Diagonals", "MixturePosterior", "OutOfTime", "climb", "expected_by_draws", "stratified_normals"]


#: how far apart, in prior standard deviations, the means of a mixture's components start
_APART = 0.1


class Parameters(NamedTuple):
    """What is found."""

    q: Whitened | Diagonals
    constant: jax.Array | None
    """The mean of f, in units of its prior standard deviation."""

    def posterior(self, inducing: Inducing, unit: float) -> GaussianPosterior | MixturePosterior:
        """The posterior that the parameters stand for."""
        constant = jnp.asarray(0.0 if self.constant is None else unit * self.constant)
        if isinstance(self.q, Whitened):
            return GaussianPosterior(inducing, self.q, constant)
        return MixturePosterior(inducing, self.q, constant)


class Block(NamedTuple):
    """Some rows, all blocks equally many; those that only fill up count for nothing."""

    places: Places
    y: NDArray[np.float64]
    row: dict[str, NDArray[np.float64]]
    counts: NDArray[np.float64]


@partial(jax.jit, static_argnames="samples")
def _block_value_and_slope(
    parameters: Parameters,
    block: Block,
    likelihood: Likelihood,
    inducing: Inducing,
    unit: float,
    key: jax.Array,
    samples: int,
) -> tuple[jax.Array, Parameters]:
    """Σ_k π_k Σ_i E_k log p(y_i | f_i) over a block, with its gradient."""

    def log_prob(f: jax.Array) -> jax.Array:
        of_rows = jax.vmap(lambda y, f, row: likelihood.log_prob(y, f, **row))
        flat = f.reshape(-1, len(block.y))
        return jax.vmap(of_rows, in_axes=(None, 0, None))(block.y, flat, block.row).reshape(f.shape)

    def value(parameters: Parameters) -> jax.Array:
        posterior = parameters.posterior(inducing, unit)
        draw = partial(stratified_normals, samples=samples // 2, rows=len(block.y))
        z = jax.vmap(draw)(jax.random.split(key))
        means, variances = map(jnp.stack, zip(*posterior.components(block.places)))
        values = jax.vmap(lambda mean, variance: expected_by_draws(log_prob, mean, variance, z))(means, variances)
        return posterior.weights @ values @ block.counts

    return jax.value_and_grad(value)(parameters)


@jax.jit
def _divergence_and_slope(parameters: Parameters, inducing: Inducing, unit: float) -> tuple[jax.Array, Parameters]:
    return jax.value_and_grad(lambda parameters: parameters.posterior(inducing, unit).divergence())(parameters)


@dataclass(frozen=True)
class Bound:
    """The bound from the same draws at every call, and its gradient; the likelihood is evaluated, not differentiated.

    Attributes
    ----------
    task : the fit.
    inducing : inducing points.
    rows_at_a_time : which bounds the memory.
    samples : draws per row.
    """

    task: Task
    inducing: Inducing
    rows_at_a_time: int
    samples: int

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        unit, likelihood = self.task.unit, self.task.model.likelihood
        divergence, slope = _divergence_and_slope(parameters, self.inducing, unit)
        total, gradient = -float(divergence), jax.tree.map(lambda leaf: -leaf, slope)
        for number, block in enumerate(self.blocks()):
            if self.task.clock.spent:
                raise OutOfTime
            key = jax.random.fold_in(jax.random.key(self.task.seed), number)
            value, slope = _block_value_and_slope(
                parameters, block, likelihood, self.inducing, unit, key, samples=self.samples
            )
            total, gradient = total + float(value), jax.tree.map(jnp.add, gradient, slope)
        return total, gradient

    def blocks(self) -> Iterator[Block]:
        """All rows."""
        data, places = self.task.data, self.task.places
        n, size = len(data.y), self.rows_at_a_time
        for start in range(0, n, size):
            rows = np.minimum(np.arange(start, start + size), n - 1)
            some = data.take(rows)
            yield Block(places.take(rows), some.y, some.row, np.where(np.arange(start, start + size) < n, 1.0, 0.0))


class SAVIGP(InducingPointGP):
    """Gaussian process with inducing points, for likelihoods that can only be evaluated.

    The bound needs expectations under univariate Gaussians alone. They and their gradients come from draws, the same
    ones throughout, and L-BFGS-B climbs.

    Parameters
    ----------
    likelihood, kernel, nugget, mean, n_inducing, inducing, budget, patience : as in `SVGP`.
    components : int
        1: a Gaussian with any covariance. More: a mixture of so many Gaussians with diagonal covariances.
    samples : int
        Draws per row, an even number.
    batch_size : int
        Rows handled at a time, which bounds the memory and changes nothing else.
    epochs : int
        Most iterations; each passes through the data at least once.
    random_state, verbose : as in `SVGP`.

    Attributes
    ----------
    elbo_, fit_info_, kernel_, likelihood_, nugget_, posterior_ : as in `SVGP`, and so are the methods; `elbo_` is by
        quadrature, the history in `fit_info_` by draws, and ``message`` there is what L-BFGS-B said.

    References
    ----------
    Dezfouli, Bonilla (2015). Scalable inference for Gaussian process models with black-box likelihoods. NeurIPS.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> model = SAVIGP(kernel=RBF(1.0), n_inducing=20).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[np.pi / 2]])[0] - 1.0) < 0.05)
    True
    """

    def __init__(
        self,
        likelihood="gaussian",
        kernel="rbf",
        nugget=1e-4,
        mean="zero",
        n_inducing=200,
        inducing="random",
        components=1,
        samples=100,
        batch_size=1024,
        epochs=500,
        budget=None,
        patience=None,
        random_state=None,
        verbose=0,
    ):
        self.likelihood, self.kernel, self.nugget, self.mean = likelihood, kernel, nugget, mean
        self.n_inducing, self.inducing, self.components, self.samples = n_inducing, inducing, components, samples
        self.batch_size, self.epochs = batch_size, epochs
        self.budget, self.patience, self.random_state, self.verbose = budget, patience, random_state, verbose

    def _check_settings(self) -> None:
        super()._check_settings()
        check_count(self.components, "components")
        # three of each half are spent on control variates
        if check_count(self.samples, "samples", 8) % 2:
            raise ValueError(f"samples must be an even number, got {self.samples}")

    def _infer(self, task: Task) -> Found:
        points = task.points(self.inducing, "n_inducing", self.n_inducing)
        inducing = checked(Inducing.of(task.process, Places(*map(jnp.asarray, points))))
        bound = Bound(task, inducing, min(int(self.batch_size), len(task.data.y)), int(self.samples))
        first = self._first(task, inducing)
        parameters, info = climb(
            bound,
            first,
            _varying(first),
            clock=task.clock,
            iterations=int(self.epochs),
            evaluate=task.evaluate(lambda found: (found.posterior(inducing, task.unit), task.model.likelihood)),
            patience=self.patience,
        )
        return Found(parameters.posterior(inducing, task.unit), task.model, info)

    def _first(self, task: Task, inducing: Inducing) -> Parameters:
        """The prior or, for a mixture, what is closest to it: means nearly zero, each value given all the others."""
        constant = None if task.constant is None else jnp.asarray(task.constant / task.unit)
        size = len(inducing.factor)
        if self.components == 1:
            return Parameters(Whitened.prior(size), constant)
        means = _APART * jax.random.normal(jax.random.key(task.seed), (self.components, size))
        log_sd = -0.5 * jnp.log(inducing.precision_diagonal())
        return Parameters(
            Diagonals(means, jnp.tile(log_sd, (self.components, 1)), jnp.zeros(self.components)), constant
        )


def _varying(parameters: Parameters) -> Parameters:
    """Which entries vary: all, but for those above the diagonal of a factor."""
    every = jax.tree.map(lambda leaf: np.ones(np.shape(leaf), dtype=bool), parameters)
    if not isinstance(every.q, Whitened):
        return every
    lower: Any = np.tri(len(every.q.mean), k=-1, dtype=bool)
    return every._replace(q=every.q._replace(spread=every.q.spread._replace(lower=lower)))


# -- E log p(y | f) under f ~ N(m, v) from draws, of a likelihood that is only evaluated ------------------------------


def stratified_normals(key: jax.Array, samples: int, rows: int) -> jax.Array:
    """Standard normal draws, shape (samples, rows): for each row one from every stratum of equal probability.

    >>> z = stratified_normals(jax.random.key(0), 4, 1000)
    >>> bool((z[:2] < 0.0).all() and (z[2:] > 0.0).all())
    True
    """
    # the end itself would be −∞
    u = jax.random.uniform(key, (samples, rows), minval=1e-9)
    return ndtri((jnp.arange(samples)[:, None] + u) / samples)


def expected_by_draws(
    log_prob: Callable[[jax.Array], jax.Array], mean: jax.Array, variance: jax.Array, z: jax.Array
) -> jax.Array:
    """E log p of each row from draws f = m + √v z, with derivatives in m and v that don't need those of log p.

    The derivatives are the scores' ∂/∂m = E[log p · z]/√v and ∂/∂v = E[log p · (z² − 1)]/2v (Dezfouli and Bonilla
    2015). Control variates are 1, z and z² − 1 times what fits log p best: what is left of it is all that chance acts
    on, and for Gaussian noise it is nothing. The fit is to the other one of two sets of draws: no bias comes of it.

    Parameters
    ----------
    log_prob : from f, shape (2, samples, rows), to log p(y | f), of the same shape.
    mean, variance : shape (rows,).
    z : two sets of standard normal draws, shape (2, samples, rows).

    Examples
    --------
    >>> z = jax.vmap(lambda key: stratified_normals(key, 5, 1))(jax.random.split(jax.random.key(0)))
    >>> slope = jax.jit(jax.grad(lambda m: expected_by_draws(lambda f: -0.5 * f**2, m, jnp.ones(1), z)[0]))
    >>> round(float(slope(jnp.full(1, 3.0))[0]), 3)
    -3.0
    """
    m, v = stop_gradient(mean), stop_gradient(variance)
    values = log_prob(m + jnp.sqrt(v) * z)
    variates = jnp.stack([jnp.ones_like(z), z, z**2 - 1.0], axis=-1)
    gram = jnp.einsum("esrp,esrq->erpq", variates, variates)
    moments = jnp.einsum("esrp,esr->erp", variates, values)
    fitted = cho_solve((jnp.linalg.cholesky(gram), True), moments[..., None])[::-1, ..., 0]
    left = values - jnp.einsum("esrp,erp->esr", variates, fitted)
    squares = jnp.array([1.0, 1.0, 2.0])  # E of the variates' squares
    estimates = squares * fitted + jnp.mean(variates * left[..., None], axis=1)
    value, along_z, along_square = stop_gradient(jnp.mean(estimates, axis=0).T)
    return value + along_z / jnp.sqrt(v) * (mean - m) + along_square / (2.0 * v) * (variance - v)


# -- a mixture of Gaussians with diagonal covariances over the inducing values ----------------------------------------


_LOG_2PI = 1.8378770664093453


class Diagonals(NamedTuple):
    """q(u) = Σ_k π_k N(L means_k, diag(exp log_sd_k)²): means are whitened, covariances are not."""

    means: jax.Array
    """Shape (components, M)."""
    log_sd: jax.Array
    """Shape (components, M)."""
    logits: jax.Array
    """Of π, shape (components,)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MixturePosterior:
    """The mixture, and the constant mean of f."""

    inducing: Inducing
    q: Diagonals
    constant: Any

    @property
    def weights(self) -> jax.Array:
        """π."""
        return jax.nn.softmax(self.q.logits)

    @property
    def size(self) -> int:
        """How many covariances a place needs."""
        return self.q.means.shape[1]

    def components(self, places: Places) -> list[tuple[jax.Array, jax.Array]]:
        """Means and variances of f at the places, by component."""
        weights, residual = self.inducing.project(places)
        of_values = solve_triangular(self.inducing.factor, weights, lower=True, trans="T")  # E[f | u] = of_valuesᵀ u
        means = self.constant + self.q.means @ weights
        variances = residual + jnp.exp(2.0 * self.q.log_sd) @ of_values**2
        return list(zip(means, variances))

    def divergence(self) -> jax.Array:
        """An upper bound of KL(q ‖ p): Jensen's inequality bounds the entropy of the mixture from below."""
        return -(self.weights @ self._cross() + self._entropy())

    def _cross(self) -> jax.Array:
        """E log p(u) of each component."""
        factor, (means, log_sd, _) = self.inducing.factor, self.q
        squares = jnp.sum(means**2, axis=1) + jnp.exp(2.0 * log_sd) @ self.inducing.precision_diagonal()
        return -0.5 * (len(factor) * _LOG_2PI + squares) - jnp.sum(jnp.log(jnp.diag(factor)))

    def _entropy(self) -> jax.Array:
        """−Σ_k π_k log Σ_l π_l N(m_k; m_l, S_k + S_l)."""
        means, variance = self.q.means @ self.inducing.factor.T, jnp.exp(2.0 * self.q.log_sd)

        def log_density(m: jax.Array, s: jax.Array) -> jax.Array:
            """Of a component's mean under every component, widened by its own covariance."""
            both = variance + s
            return -0.5 * jnp.sum(_LOG_2PI + jnp.log(both) + (m - means) ** 2 / both, axis=1)

        log_weights = jax.nn.log_softmax(self.q.logits)
        overlap = logsumexp(log_weights + jax.vmap(log_density)(means, variance), axis=1)
        return -(self.weights @ overlap)


# -- L-BFGS-B over a tree of arrays, within a budget of time ----------------------------------------------------------


Vector = NDArray[np.float64]
#: value and gradient of what is to be made large
Objective = Callable[[Any], tuple[float, Any]]

#: what stands for a value that isn't finite, which the line search then steps back from
_WORST = 1e50


class OutOfTime(Exception):
    """Raised inside an objective where the budget is spent."""


class _Packing:
    """A tree of arrays as one vector; entries that the masks leave out are zero."""

    def __init__(self, masks: Any) -> None:
        self._masks, self._structure = jax.tree.flatten(masks)

    def vector(self, tree: Any) -> Vector:
        parts = [np.asarray(leaf)[mask] for leaf, mask in zip(jax.tree.leaves(tree), self._masks)]
        return np.concatenate(parts)

    def tree(self, x: Vector) -> Any:
        leaves, start = [], 0
        for mask in self._masks:
            leaf, count = np.zeros(mask.shape), int(mask.sum())
            leaf[mask] = x[start : start + count]
            leaves.append(leaf)
            start += count
        return jax.tree.unflatten(self._structure, leaves)


class _Negative:
    """Minus an objective, as L-BFGS-B takes it."""

    def __init__(self, objective: Objective, packing: _Packing) -> None:
        self.objective, self.packing = objective, packing
        self.was_finite = False

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        value, gradient = self.objective(self.packing.tree(x))
        slope = self.packing.vector(gradient)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return _WORST, np.zeros_like(x)
        self.was_finite = True
        return -value, -slope


class _Watch:
    """What happens after each iteration."""

    def __init__(
        self,
        first: Vector,
        clock: Clock,
        judge: Callable[[Vector], float] | None,
        patience: int | None,
        interrupted: list[bool],
    ) -> None:
        self.best, self.clock, self.judge, self.patience = first, clock, judge, patience
        self.interrupted = interrupted
        self.outcome = "finished"
        self.elbo: list[float] = []
        self.seconds: list[float] = []
        self._lowest, self._waited = np.inf, 0

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        self.elbo.append(-float(intermediate_result.fun))
        self.seconds.append(self.clock.seconds)
        told = {"epoch": len(self.elbo), "elbo": self.elbo[-1], "seconds": self.seconds[-1]}
        if self.judge is None:
            self.best = intermediate_result.x.copy()
        else:
            told["evaluation"] = self._compare(intermediate_result.x)
        progress.report("climb", **told)
        if self.interrupted:
            self.outcome = "interrupted"
        elif self.clock.spent:
            self.outcome = "out of time"
        elif self.patience is not None and self._waited >= self.patience:
            self.outcome = "stopped early"
        if self.outcome != "finished":
            raise StopIteration

    def _compare(self, x: Vector) -> float:
        value = self.judge(x)  # type: ignore[misc]
        self._waited += 1
        if value < self._lowest:
            self.best, self._lowest, self._waited = x.copy(), value, 0
        return value


def climb(
    objective: Objective,
    first: Any,
    masks: Any,
    *,
    clock: Clock,
    iterations: int,
    evaluate: Callable[[Any], float] | None,
    patience: int | None,
) -> tuple[Any, dict[str, Any]]:
    """The arrays at which `objective` is largest, or which `evaluate` found best; and what there is to tell.

    Parameters
    ----------
    objective : value and gradient; it may raise `OutOfTime`, and then the last iterate counts.
    first : tree of arrays to start from.
    masks : tree of boolean arrays: which entries vary.

    Examples
    --------
    >>> def objective(x):
    ...     return -float(np.sum((x - 3.0) ** 2)), -2.0 * (x - 3.0)
    >>> every = np.ones(2, dtype=bool)
    >>> found, info = climb(
    ...     objective, np.zeros(2), every, clock=Clock(), iterations=10, evaluate=None, patience=None
    ... )
    >>> found.round(6), info["outcome"]
    (array([3., 3.]), 'finished')
    """
    packing = _Packing(masks)
    start, negative = packing.vector(first), _Negative(objective, packing)
    message = "the budget was spent"
    with interrupts_held_back() as interrupted:
        judge = None if evaluate is None else lambda x: evaluate(packing.tree(x))
        watch = _Watch(start, clock, judge, patience, interrupted)
        try:
            result = minimize(
                negative,
                start,
                jac=True,
                method="L-BFGS-B",
                callback=watch,
                options={"maxiter": iterations, "ftol": 1e-10},
            )
            message = str(result.message)
        except OutOfTime:
            watch.outcome = "out of time"
        if watch.outcome == "interrupted":
            forget_interrupt()  # the result tells of it
    if watch.outcome == "finished" and not negative.was_finite:
        watch.outcome = "not finite"
        warnings.warn(
            "the bound or its gradient is not finite where the fit starts, at the prior, which was kept. Try a smaller "
            "variance of the kernel",
            TrainingStopped,
            stacklevel=4,
        )
    info = {
        "outcome": watch.outcome,
        "message": message,
        "epochs": float(len(watch.elbo)),
        "elbo": watch.elbo,
        "seconds": watch.seconds,
    }
    return packing.tree(watch.best), info
