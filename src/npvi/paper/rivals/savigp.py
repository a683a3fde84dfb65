"""SAVIGP: inducing points and any likelihood that can be evaluated (Dezfouli and Bonilla 2015)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from npvi.checks import check_count
from npvi.likelihoods import Likelihood
from npvi.paper.rivals.base import InducingPointGP
from npvi.paper.rivals.climbing import OutOfTime, climb
from npvi.paper.rivals.mixtures import Diagonals, MixturePosterior
from npvi.paper.rivals.posteriors import GaussianPosterior, Whitened
from npvi.paper.rivals.process import Inducing, Places, checked
from npvi.paper.rivals.sampling import expected_by_draws, stratified_normals
from npvi.paper.rivals.task import Found, Task

__all__ = ["SAVIGP"]

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
