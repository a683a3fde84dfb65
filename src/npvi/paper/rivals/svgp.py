"""SVGP: stochastic variational inference with inducing points (Hensman, Matthews and Ghahramani 2015)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from npvi.checks import check_flag
from npvi.inference.stochastic import Observed, observed
from npvi.learning import Model, SearchSpace, learnable, limits, starting_model
from npvi.likelihoods import Likelihood
from npvi.paper.rivals.posteriors import GaussianPosterior, Whitened
from npvi.paper.rivals.process import Inducing, Places, Process, checked, new_places
from npvi.paper.rivals.stochastic import GradientGP, Schedule
from npvi.paper.rivals.task import Found, Task
from npvi.parameters import POSITIVE_NUMBER, Interval, Parameter, PenalisedComplexity, fixed

__all__ = ["SVGP", "Bound", "Hyperparameters", "Parameters", "Problem"]


class Parameters(NamedTuple):
    """What is trained; None for what is not."""

    q: Whitened
    constant: jax.Array | None
    """The mean of f, in units of its prior standard deviation."""
    numbers: jax.Array | None
    """Hyper-parameters, as `Hyperparameters` has them."""
    shift: jax.Array | None
    """Of the inducing points, in units of the rows' spread, shape (M, d)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Problem:
    """What the bound is a function of besides the parameters.

    Attributes
    ----------
    places : the training rows.
    observed : their responses.
    inducing : inducing points before they move, with their factor before anything is learned.
    unit : the prior standard deviation of f.
    spread : standard deviations of the inputs, shape (d,).
    """

    places: Places
    observed: Observed
    inducing: Inducing
    unit: Any
    spread: Any

    @classmethod
    def of(cls, task: Task, points: Places, widest: float) -> Problem:
        """`widest` is the largest standard deviation of f that expectations must be right for."""
        places, points = (Places(*map(jnp.asarray, some)) for some in (task.places, points))
        inducing = checked(Inducing.of(task.process, points))
        return cls(places, observed(task.data, widest), inducing, task.unit, np.std(task.places.X, axis=0))


@dataclass(frozen=True)
class Bound:
    """The bound from a batch of rows, as a loss: −(N/|S| Σ_S E log p(y_i|f_i) − KL(q ‖ p)).

    Attributes
    ----------
    learned : the hyper-parameters that are learned, if any.
    """

    learned: Hyperparameters | None = None

    def first(self, problem: Problem, constant: float | None, moving: bool) -> Parameters:
        """Where training starts: at the prior."""
        points = problem.inducing.points.X
        return Parameters(
            Whitened.prior(len(points)),
            None if constant is None else jnp.asarray(constant / problem.unit),
            None if self.learned is None else jnp.asarray(self.learned.start),
            jnp.zeros(points.shape) if moving else None,
        )

    def parts(self, parameters: Parameters, problem: Problem) -> tuple[GaussianPosterior, Likelihood]:
        """The posterior and the likelihood that parameters stand for."""
        inducing, likelihood = problem.inducing, problem.observed.likelihood
        process, points = inducing.process, inducing.points
        if parameters.shift is not None:
            points = Places(points.X + problem.spread * parameters.shift, points.rows)
        if self.learned is not None and parameters.numbers is not None:
            process, likelihood = self.learned.parts(parameters.numbers)
        if parameters.shift is not None or parameters.numbers is not None:
            inducing = Inducing.of(process, points)
        constant = 0.0 if parameters.constant is None else problem.unit * parameters.constant
        return GaussianPosterior(inducing, parameters.q, jnp.asarray(constant)), likelihood

    def __call__(self, parameters: Parameters, rows: jax.Array, key: jax.Array, problem: Problem) -> jax.Array:
        posterior, likelihood = self.parts(parameters, problem)
        seen = dataclasses.replace(problem.observed, likelihood=likelihood)
        [(mean, variance)] = posterior.components(problem.places.take(rows))
        value = seen.expected_log_likelihood(mean, variance, rows, key) - posterior.divergence()
        if self.learned is not None and parameters.numbers is not None:
            value += self.learned.log_prior(parameters.numbers)
        return -value


class SVGP(GradientGP):
    """Gaussian process with whitened inducing points, fitted by stochastic gradients of the bound.

    Parameters
    ----------
    likelihood : str or Likelihood
        What y is, given f, as in `GPRegressor`.
    kernel : str or Kernel
        Covariance of f; the numbers of one that is only named are 1, unless they are learned.
    nugget : float
        Variance on the diagonal, part of f and fresh for every row.
    mean : {"zero", "constant"}
        Prior mean of f; a constant is found together with the posterior.
    n_inducing : int
        Number of inducing points; all rows, and a warning, where there are fewer.
    inducing : {"random", "kmeans"}
        Where they are put: at random rows, or at the centres of clusters.
    learn_inducing : bool
        Whether they then move to where the bound is largest.
    learn : bool
        Whether the kernel's numbers, the nugget and the likelihood's numbers are learned with the bound.
    batch_size : int
        Rows in a batch; all, where there are fewer.
    epochs : int
        Most passes through the data.
    optimizer : {"adam", "adagrad", "rmsprop", "sgd"}
        The learning rate of all but AdaGrad falls to 0 over the epochs: with a budget, give as many as there is time
        for.
    learning_rate : float
        In units of the prior's standard deviation.
    budget : float or None
        Seconds after which training ends, at the next look at the clock (every 100 steps).
    patience : int or None
        Evaluations of the rows held out, without a better one, after which training ends.
    random_state : int, RandomState or None
        None means 0: the same data give the same answer.
    verbose : int
        1 prints a line per round of steps.

    Attributes
    ----------
    elbo_ : float
        The evidence lower bound of all data, every constant included.
    fit_info_ : dict
        ``outcome`` ("finished", "out of time", "stopped early", "interrupted", "not finite"), ``epochs``, the bound's
        estimates ``elbo`` after ``seconds``, ``trace`` (pairs of seconds and negative log density of the rows held
        out), ``total_seconds``. Seconds count from the start of `fit`, without those of evaluations.
    kernel_, likelihood_, nugget_ : those used, learned or given.
    posterior_ : of the inducing values.

    Methods
    -------
    * ``fit(X, y, exposure, trials, noise_variance, censored, X_val, y_val, extras_val)`` fits the posterior. `X_val`,
      `y_val` and `extras_val` (such as ``{"exposure": …}``) are rows held out: the parameters that predict them best
      are the ones that stay.
    * ``predict``, ``predict_dist``, ``log_score``: as in `GPRegressor`, without draws of all rows together.

    References
    ----------
    Hensman, Matthews, Ghahramani (2015). Scalable variational Gaussian process classification. AISTATS.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> model = SVGP(kernel=RBF(1.0), n_inducing=20).fit(X, np.sin(X[:, 0]))
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
        learn_inducing=False,
        learn=False,
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
        self.n_inducing, self.inducing, self.learn_inducing, self.learn = n_inducing, inducing, learn_inducing, learn
        self.batch_size, self.epochs, self.optimizer, self.learning_rate = batch_size, epochs, optimizer, learning_rate
        self.budget, self.patience, self.random_state, self.verbose = budget, patience, random_state, verbose

    def _check_settings(self) -> None:
        super()._check_settings()
        for name in ("learn", "learn_inducing"):
            check_flag(getattr(self, name), name)

    def _start(self, model: Model, X: NDArray[np.float64], y: NDArray[np.float64], row: dict[str, Any]) -> Model:
        if not self.learn:
            return model
        likelihood = model.likelihood
        if isinstance(self.likelihood, str):
            likelihood = likelihood.replace(**likelihood.initial_parameters(y, **row))
        return starting_model(model.kernel, isinstance(self.kernel, str), model.nugget, likelihood, X, y, row)

    def _infer(self, task: Task) -> Found:
        points = task.points(self.inducing, "n_inducing", self.n_inducing)
        if self.learn_inducing:  # a point that moves is no row
            points = new_places(points.X)
        problem = Problem.of(task, points, 2.0 * task.unit if self.learn else task.unit)
        bound = Bound(Hyperparameters(task.model, task.said, task.places.X) if self.learn else None)
        trained, info = self._train(
            task,
            bound,
            bound.first(problem, task.constant, self.learn_inducing),
            Schedule.rows,
            problem,
            lambda parameters: bound.parts(parameters, problem),
        )
        model = task.model if bound.learned is None else bound.learned.model(trained.parameters.numbers)
        return Found(bound.parts(trained.parameters, problem)[0], model, info)


# -- hyper-parameters as a vector of real numbers that gradients pass through -----------------------------------------


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
