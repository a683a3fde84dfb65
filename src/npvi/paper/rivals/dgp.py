"""DGP: decoupled bases for mean and covariance (Cheng and Boots 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from npvi.checks import check_count
from npvi.inference.stochastic import Observed, observed
from npvi.paper.rivals.posteriors import Spread
from npvi.paper.rivals.process import JITTER, Inducing, Places, checked
from npvi.paper.rivals.stochastic import GradientGP, Schedule
from npvi.paper.rivals.task import Found, Task
from npvi.runtime.training import Batches

__all__ = ["DGP", "Basis", "Batch", "DecoupledPosterior", "Dual", "Problem", "decoupled_basis", "loss"]


class Batch(NamedTuple):
    """What a step looks at."""

    rows: jax.Array
    """Training rows."""
    points: jax.Array
    """Points of the mean's basis."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Problem:
    """What the bound is a function of besides the parameters.

    Attributes
    ----------
    places : the training rows.
    observed : their responses.
    basis : both bases.
    unit : the prior standard deviation of f.
    """

    places: Places
    observed: Observed
    basis: Basis
    unit: Any

    def first(self, constant: float | None) -> Dual:
        """Where training starts: at the prior."""
        n_mean, n_covariance = self.basis.explained.shape
        level = None if constant is None else jnp.asarray(constant / self.unit)
        return Dual(jnp.zeros(n_mean), Spread.prior(n_covariance), level)

    def posterior(self, dual: Dual) -> DecoupledPosterior:
        """The posterior that parameters stand for."""
        constant = 0.0 if dual.constant is None else self.unit * dual.constant
        return DecoupledPosterior(self.basis, dual, jnp.asarray(constant))


def loss(dual: Dual, batch: Batch, key: jax.Array, problem: Problem) -> jax.Array:
    """Minus the bound, from a batch of rows and some of the points of the mean's basis; linear in their number."""
    posterior = problem.posterior(dual)
    [(mean, variance)] = posterior.components(problem.places.take(batch.rows))
    expected = problem.observed.expected_log_likelihood(mean, variance, batch.rows, key)
    return posterior.divergence(batch.points) - expected


class DGP(GradientGP):
    """Gaussian process with decoupled bases: many points for the mean, few for the covariance.

    A step costs as much as the mean's basis is large, not its square or cube: of the norm of the mean only what the
    covariance's basis doesn't explain is left to chance, and estimated from a batch of the basis.

    Parameters
    ----------
    likelihood, kernel, nugget, mean, inducing, batch_size, epochs, optimizer, learning_rate, budget, patience : as in
        `SVGP`.
    n_inducing : int
        Number of points for the mean.
    n_covariance : int
        Number of points for the covariance; where they are random, the first ones of those for the mean.
    random_state, verbose : as in `SVGP`.

    Attributes
    ----------
    elbo_, fit_info_, kernel_, likelihood_, nugget_, posterior_ : as in `SVGP`, and so are the methods.

    References
    ----------
    Cheng, Boots (2017). Variational inference for Gaussian process models with linear complexity. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from npvi.kernels import RBF
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> model = DGP(kernel=RBF(1.0), n_inducing=40, n_covariance=10).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[np.pi / 2]])[0] - 1.0) < 0.05)
    True
    """

    def __init__(
        self,
        likelihood="gaussian",
        kernel="rbf",
        nugget=1e-4,
        mean="zero",
        n_inducing=1000,
        n_covariance=200,
        inducing="random",
        batch_size=256,
        epochs=200,
        optimizer="adam",
        learning_rate=0.1,
        budget=None,
        patience=None,
        random_state=None,
        verbose=0,
    ):
        self.likelihood, self.kernel, self.nugget, self.mean = likelihood, kernel, nugget, mean
        self.n_inducing, self.n_covariance, self.inducing = n_inducing, n_covariance, inducing
        self.batch_size, self.epochs, self.optimizer, self.learning_rate = batch_size, epochs, optimizer, learning_rate
        self.budget, self.patience, self.random_state, self.verbose = budget, patience, random_state, verbose

    def _check_settings(self) -> None:
        super()._check_settings()
        check_count(self.n_covariance, "n_covariance")

    def _infer(self, task: Task) -> Found:
        alpha = task.points(self.inducing, "n_inducing", self.n_inducing)
        beta = task.points(self.inducing, "n_covariance", self.n_covariance)
        alpha, beta, places = (Places(*map(jnp.asarray, some)) for some in (alpha, beta, task.places))
        basis = decoupled_basis(checked(Inducing.of(task.process, beta)), alpha)
        problem = Problem(places, observed(task.data, task.unit), basis, task.unit)
        trained, info = self._train(
            task,
            loss,
            problem.first(task.constant),
            lambda schedule: _batches(schedule, len(alpha.X)),
            problem,
            lambda dual: (problem.posterior(dual), task.model.likelihood),
        )
        return Found(problem.posterior(trained.parameters), task.model, info)


def _batches(schedule: Schedule, n_points: int) -> Batches:
    """Rows as they come, and as many points of the basis, or all of them."""
    rows, count = schedule.rows(), min(schedule.batch_size, n_points)

    def batches(key: jax.Array, data: Any) -> Batch:
        of_rows, of_points = jax.random.split(key)
        if count == n_points:
            points = jnp.tile(jnp.arange(n_points), (schedule.steps, 1))
        else:
            keys = jax.random.split(of_points, schedule.steps)
            points = jax.vmap(lambda key: jax.random.permutation(key, n_points)[:count])(keys)
        return Batch(rows(of_rows, data), points)

    return batches


# -- the decoupled posterior: one basis for the mean of f, another one for its covariance -----------------------------

# In the dual representation of Cheng and Boots (2017), with bases α and β,
#
#     E f(x) = k(x, α) a        cov(f(x), f(z)) = k(x, z) − k(x, β) (B⁻¹ + K_β)⁻¹ k(β, z)
#
#     KL(q ‖ p) = ½ aᵀK_α a + ½ log |I + K_β B| − ½ tr(K_β (B⁻¹ + K_β)⁻¹).
#
# With K_β = L Lᵀ, B stands for the covariance C Cᵀ = (I + LᵀBL)⁻¹ of the whitened values at β, and is found as C.


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Basis:
    """The basis α of the mean, in coordinates that make the prior nearly white at a cost linear in its size M.

    β explains K_α up to a diagonal and what is left outside of it: P = U Uᵀ + D, with U of shape (M, |β|). The
    coefficients are a = P^{−½} c, so that aᵀPa = |c|²; and where α is β, P is K_α.

    Attributes
    ----------
    covariance : β and the process.
    points : α.
    explained : U.
    left : D, shape (M,).
    low_rank, shrinkage : P^{−½} = D^{−½} (I + low_rank diag(shrinkage) low_rankᵀ), up to a rotation.
    """

    covariance: Inducing
    points: Places
    explained: jax.Array
    left: jax.Array
    low_rank: jax.Array
    shrinkage: jax.Array

    def coefficients(self, c: jax.Array) -> jax.Array:
        """a."""
        return (c + self.low_rank @ (self.shrinkage * (self.low_rank.T @ c))) / jnp.sqrt(self.left)

    def squared_norm(self, c: jax.Array, some: jax.Array) -> jax.Array:
        """aᵀK_α a: |c|², and M/|S| Σ_S a_s ((K_α − P) a)_s for what that leaves out, from some of the points."""
        a, chosen = self.coefficients(c), self.points.take(some)
        exact = self.covariance.process.covariance(chosen, self.points) @ a
        held = self.explained[some] @ (self.explained.T @ a) + self.left[some] * a[some]
        return jnp.sum(c**2) + len(a) * jnp.mean(a[some] * (exact - held))


@jax.jit
def decoupled_basis(covariance: Inducing, points: Places) -> Basis:
    """The basis of the mean at some points, with everything that doesn't change computed."""
    weights, residual = covariance.project(points)
    total = residual + jnp.sum(weights**2, axis=0)
    # a point that is no row has no nugget of its own
    residual = residual - jnp.where(points.rows >= 0, 0.0, covariance.process.nugget)
    left = jnp.maximum(residual, 0.0) + JITTER * jnp.mean(total)
    scaled = weights.T / jnp.sqrt(left)[:, None]
    size, vectors = jnp.linalg.eigh(scaled.T @ scaled)
    size = jnp.maximum(size, 0.0)
    # (√(1/(1 + s)) − 1)/s, without cancellation
    shrinkage = -1.0 / ((1.0 + size) + jnp.sqrt(1.0 + size))
    return Basis(covariance, points, weights.T, left, scaled @ vectors, shrinkage)


class Dual(NamedTuple):
    """What is trained."""

    mean: jax.Array
    """Coefficients of the mean in the coordinates of `Basis`, shape (M,)."""
    spread: Spread
    """C."""
    constant: jax.Array | None
    """The mean of f, in units of its prior standard deviation."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DecoupledPosterior:
    """The posterior with its two bases, and the constant mean of f."""

    basis: Basis
    dual: Dual
    constant: Any

    @property
    def weights(self) -> jax.Array:
        """One component."""
        return jnp.ones(1)

    @property
    def size(self) -> int:
        """How many covariances a place needs."""
        return len(self.dual.mean) + len(self.dual.spread.log_diagonal)

    def components(self, places: Places) -> list[tuple[jax.Array, jax.Array]]:
        """Mean and variance of f at the places."""
        basis = self.basis
        weights, residual = basis.covariance.project(places)
        between = basis.covariance.process.covariance(places, basis.points)
        mean = self.constant + between @ basis.coefficients(self.dual.mean)
        return [(mean, residual + self.dual.spread.along(weights))]

    def divergence(self, some: jax.Array | None = None) -> jax.Array:
        """KL(q ‖ p), or an estimate of it from `some` of the points of the mean's basis."""
        some = jnp.arange(len(self.dual.mean)) if some is None else some
        return 0.5 * self.basis.squared_norm(self.dual.mean, some) + self.dual.spread.divergence()
