"""What the three methods share as estimators: checking, fitting, predicting."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from npvi.checks import Kind, check_choice, check_count, check_flag, check_number, random_state
from npvi.estimators import PredictsNumbers, check_inputs, check_response, per_row
from npvi.inference import Data
from npvi.learning import Model
from npvi.likelihoods import as_likelihood
from npvi.model import plain_parts
from npvi.paper.rivals.posteriors import InducingPosterior, bound, marginals, weights_of
from npvi.paper.rivals.process import Places, new_places
from npvi.paper.rivals.task import CHOICES, Clock, Found, Task, Validation
from npvi.parameters import Parameter, check_nugget
from npvi.predictive import MixturePredictive, Predictive
from npvi.runtime import progress
from npvi.runtime.parallel import threads
from npvi.runtime.precision import float64

__all__ = ["InducingPointGP"]

_SECONDS = Kind("a positive number of seconds, or None", lambda value: value > 0.0)


class InducingPointGP(PredictsNumbers, BaseEstimator):
    """What the three methods share; the parameters are documented in `SVGP`."""

    likelihood: Any
    kernel: Any
    nugget: Any
    mean: str
    n_inducing: int
    inducing: str
    batch_size: int
    epochs: int
    budget: float | None
    patience: int | None
    random_state: Any
    verbose: int
    posterior_: InducingPosterior

    @property
    def _row_of_fit(self) -> tuple[str, ...]:
        return getattr(self, "_row_names", ())

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        extras_val: dict[str, Any] | None = None,
    ) -> Self:
        """Fit the posterior of f.

        Parameters
        ----------
        X : (N, d) array or DataFrame of pandas or polars.
        y : (N,) responses.
        exposure, trials, noise_variance, censored : data per row, as in `GPRegressor`.
        X_val, y_val : rows that are not learned from, optional. How well they are predicted goes into
            ``fit_info_["trace"]``, and the parameters that predict them best are the ones that stay.
        extras_val : what there is per row of `X_val`, such as ``{"exposure": …}``.

        Returns
        -------
        self
        """
        self._check_settings()
        clock = Clock(self.budget)
        X, y = check_response(self, X, y)
        model, said = self._model(X.shape[1])
        y = model.likelihood.check_response(y)
        row = model.likelihood.check_row(per_row(exposure, trials, noise_variance, censored), len(y), y)
        self._row_names = tuple(row)
        model = self._start(model, X, y, row)
        data = Data(model.likelihood, y, row)
        rng = random_state(self.random_state)
        task = Task(
            model,
            said,
            Places(X, np.arange(len(X))),
            data,
            self._first_constant(data),
            int(rng.randint(np.iinfo(np.int32).max)),
            clock,
            self._validation(data, X_val, y_val, extras_val, clock),
        )
        with threads(None), progress.reporting(progress.print_progress if self.verbose else None):
            with float64():
                found = self._infer(task)
            self._keep(found, task)
        return self

    def _infer(self, task: Task) -> Found:
        """Find the posterior; called where JAX computes in float64."""
        raise NotImplementedError

    def _keep(self, found: Found, task: Task) -> None:
        model = found.model
        self.kernel_, self.likelihood_, self.nugget_ = model.kernel, model.likelihood, model.nugget
        self.posterior_ = jax.tree.map(np.asarray, found.posterior)  # which a pickle keeps in double precision
        seconds = task.clock.seconds
        data = Data(model.likelihood, task.data.y, task.data.row)
        self.elbo_ = bound(self.posterior_, task.places, data)
        trace = [] if task.validation is None else task.validation.trace
        self.fit_info_ = {**found.info, "trace": trace, "total_seconds": seconds}

    def _model(self, n_inputs: int) -> tuple[Model, dict[str, Parameter]]:
        """The model with plain numbers inside, and what the user said about those."""
        kernel, likelihood, nugget, said = plain_parts(
            self.kernel,
            as_likelihood(self.likelihood),
            self.nugget,
            n_inputs,
            getattr(self, "feature_names_in_", None),
        )
        assert nugget is not None  # as `_check_settings` knows
        return Model(kernel, nugget, likelihood), said

    def _start(self, model: Model, X: NDArray[np.float64], y: NDArray[np.float64], row: dict[str, Any]) -> Model:
        """The model to start from."""
        return model

    def _first_constant(self, data: Data) -> float | None:
        """The mean of f at y's own fitted values, or None where the mean is zero."""
        if self.mean == "zero":
            return None
        return float(np.mean(data.likelihood.initial_latent(data.y, **data.row)))

    def _validation(self, data: Data, X: Any, y: Any, extras: dict[str, Any] | None, clock: Clock) -> Validation | None:
        if (X is None) != (y is None):
            raise ValueError("X_val and y_val go together: give both, or neither")
        if X is None:
            for name, value in (("patience", self.patience), ("extras_val", extras)):
                if value is not None:
                    raise ValueError(f"{name} is about rows held out: give X_val and y_val as well")
            return None
        X = check_inputs(self, X, reset=False)
        y = data.likelihood.check_response(y, "y_val")
        if y.shape != (len(X),):
            raise ValueError(f"y_val must have one number per row of X_val, {len(X)} in all; got shape {y.shape}")
        row = data.likelihood.check_row(extras, len(X), y)
        if set(row) != set(data.row):
            raise ValueError(
                f"extras_val must have what there is per row of X, {sorted(data.row) or 'nothing'}; got {sorted(row)}"
            )
        return Validation(X, y, row, clock)

    def _check_settings(self) -> None:
        """Raise ValueError where a parameter of the constructor is not allowed."""
        check_choice(self.mean, "mean", ("zero", "constant"))
        check_choice(self.inducing, "inducing", CHOICES)
        for name in ("n_inducing", "batch_size", "epochs"):
            check_count(getattr(self, name), name)
        if self.patience is not None:
            check_count(self.patience, "patience")
        check_nugget(self.nugget)
        if self.budget is not None:
            check_number(self.budget, "budget", _SECONDS)
        check_flag(self.verbose, "verbose")

    # -- prediction ---------------------------------------------------------------------------------------------------

    def _predictive(self, X: NDArray[np.float64], row: dict[str, NDArray]) -> Any:
        nugget = float(self.nugget_)
        parts = [
            Predictive(self.likelihood_, mean, np.maximum(variance - nugget, 0.0), row, self._no_joint_draws, nugget)
            for mean, variance in marginals(self.posterior_, new_places(X))
        ]
        return parts[0] if len(parts) == 1 else MixturePredictive(parts, weights_of(self.posterior_))

    def _no_joint_draws(self, n: int, rng: np.random.Generator) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__} has no joint draws: use `sample`, which draws every row on its own, or GPRegressor"
        )
