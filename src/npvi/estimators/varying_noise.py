"""Regression whose noise differs from place to place: a second Gaussian process for the logarithm of its variance.

y ~ N(f, exp g), both Gaussian processes, under q(f) q(g). Each is the best given the other, and both are models that
there are already: given q(g), f has Gaussian noise of known variance 1/E exp(−g); given q(f), the bound as a function
of q(g) is that of Gamma responses r = (y − E f)² + Var f of shape ½ with mean exp g. (For small data: Lázaro-Gredilla
& Titsias, ICML 2011.)
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from npvi.checks import as_numbers, check_count, check_flag
from npvi.estimators import validation
from npvi.estimators.mapping import MapsNumbers
from npvi.estimators.named import NamedParts
from npvi.estimators.predicting import r_squared
from npvi.estimators.regressor import GPRegressor
from npvi.inference.stochastic import SGD
from npvi.kernels import as_kernel
from npvi.likelihoods import Gamma, Gaussian, Likelihood, LogNormal, as_likelihood
from npvi.model import Fitted, in_rows, latent_at, latent_left_out, most_integrated
from npvi.parameters import fixed
from npvi.predictive import MixturePredictive, Predictive, VaryingNoisePredictive, gaussian_crps
from npvi.priors import NotPositiveDefiniteError
from npvi.runtime import progress
from npvi.runtime.interrupts import interrupts_remembered

__all__ = ["VaryingNoiseRegressor"]

Vector = NDArray[np.float64]

#: nats per row, by leaving out one at a time, that another round must gain
_GAIN = 0.01
#: standard errors by which noise that varies must predict better than one variance
_CLEARLY = 2.0
#: variance that all rows share, relative to the smallest that is found: next to nothing, but a number
_SHARED = 1e-3
_NONE = 1e-300


class VaryingNoiseRegressor(NamedParts, MapsNumbers, RegressorMixin, BaseEstimator):
    """Gaussian process regression whose noise differs from place to place.

    For Gaussian noise, or log-normal noise (errors in proportion): its variance is exp(g), with g a Gaussian process of
    its own. It takes ten to thirty times as long as a `GPRegressor`, and is worth it where residuals are small in some
    regions and large in others: measurements in mountains and on plains, light of cities and of forests.

    Parameters
    ----------
    model : GPRegressor or None
        What f is like, and how it is fitted; its likelihood is "gaussian" (None: ``GPRegressor()``) or "lognormal".
    kernel : str or Kernel
        Covariance of g, as in `GPRegressor`. All other settings are those of `model`.
    max_rounds : int
        Most rounds of fitting g given f, then f given g. They end where leaving out one observation at a time says that
        another one would make predictions no better: by less than 0.01 nats a row, or by a larger CRPS.

    Attributes
    ----------
    model_ : GPRegressor, fitted: f, its noise known in each row.
    noise_model_ : GPRegressor, fitted: g, the logarithm of the noise's variance; None where one variance for all rows
        predicts as well, by two standard errors of leaving out one observation at a time, which a warning says.
    likelihood_ : that of `model_`.
    rounds_ : list of dict
        How well each observation is predicted from all others: ``log_score`` and ``crps`` (both on the scale of f) with
        one variance for all rows, then after each round that made it better.

    Examples
    --------
    >>> import npvi, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(600, 1))
    >>> y = np.sin(X[:, 0]) + np.where(X[:, 0] < 5, 0.02, 0.5) * rng.standard_normal(600)
    >>> model = npvi.VaryingNoiseRegressor().fit(X, y)
    >>> quiet, loud = model.predict_dist([[2.0], [8.0]]).noise_std
    >>> bool(quiet < 0.05), bool(loud > 0.3)
    (True, True)
    """

    _takes_points = True
    model_: GPRegressor
    noise_model_: GPRegressor | None
    rounds_: list[dict[str, float]]
    likelihood_: Likelihood
    _made: ClassVar = {"model": lambda _: GPRegressor(), "kernel": as_kernel}

    def __init__(self, model=None, kernel="matern", max_rounds=5):
        self.model = model
        self.kernel = kernel
        self.max_rounds = max_rounds

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **row: Any) -> Self:
        """Learn both functions.

        Parameters
        ----------
        X : (N, d) array or DataFrame of pandas or polars.
        y : (N,) responses.
        sample_weight : (N,) weights, optional.
        **row : nothing; what a `GPRegressor` takes per row is refused, `noise_variance` because it is what is learned.
        """
        _refuse(row)
        template = GPRegressor() if self.model is None else self.model
        likelihood = self._check(template)
        inputs, responses = validation.check_response(self, X, y)
        values = likelihood.check_response(as_numbers(responses, "y"))
        weight = validation.check_weights(sample_weight, inputs)
        latent = np.log(values) if isinstance(likelihood, LogNormal) else values
        hyper, template = template.hyper, clone(template).set_params(hyper="plug-in")  # on the way
        pair = _Pair(clone(template).fit(X, y, weight), None)
        score, by_row = pair.leave_one_out(latent, weight)
        self._keep(pair, [score])  # an interrupt leaves what there is
        if len(np.unique(latent if weight is None else latent[weight > 0.0])) < 2:
            return self
        with interrupts_remembered():
            self._rounds(X, y, latent, weight, template, likelihood, by_row)
            g = self.noise_model_
            if hyper == "integrate" or (hyper == "auto" and len(latent) <= most_integrated(collapsed=g is None)):
                template.set_params(hyper=hyper)
                self._keep(_Pair(self._mean(X, y, weight, g, template, likelihood), g), self.rounds_)
        if self.noise_model_ is None:
            warnings.warn(
                "noise that differs from place to place predicts no better than one variance for all rows, which is "
                "what the model has now",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _rounds(
        self,
        X: Any,
        y: Any,
        latent: Vector,
        weight: Any,
        template: GPRegressor,
        likelihood: Likelihood,
        by_row: Vector,
    ) -> None:
        """Round after round, until another one would make predictions no better; `by_row` are log scores of before."""
        pair = alone = _Pair(self.model_, None)
        first, clearly = self.rounds_, True
        for number in range(self.max_rounds):
            progress.report("noise", round=number + 1, of=self.max_rounds, **self.rounds_[-1])
            try:
                pair = self._round(X, y, latent, weight, pair.mean, template, likelihood)
            except NotPositiveDefiniteError:  # variances too far apart for float64
                break
            (score, rows), best = pair.leave_one_out(latent, weight), self.rounds_[-1]
            if not (score["log_score"] > best["log_score"] and score["crps"] < best["crps"]):
                break
            self._keep(pair, [*self.rounds_, score])
            clearly = _clearly(rows - by_row, weight)
            if score["log_score"] < best["log_score"] + _GAIN:
                break
        if not clearly:  # a surface of noise that chance has made is worse than none
            self._keep(alone, first)

    def _keep(self, pair: _Pair, scores: list[dict[str, float]]) -> None:
        self.model_, self.noise_model_, self.rounds_ = pair.mean, pair.noise, scores
        self.likelihood_ = pair.mean.likelihood_

    def _check(self, template: Any) -> Likelihood:
        """The likelihood, where this can be done with the model's settings."""
        check_count(self.max_rounds, "max_rounds")
        if not isinstance(template, GPRegressor):
            raise ValueError(f"model must be a GPRegressor, or None for one with default settings; got {template!r}")
        if template.terms is not None or template.formula is not None:
            raise ValueError("noise that varies is for models of one surface: leave terms= and formula= out")
        if template.learn is not True:
            raise ValueError(f"model must have learn=True, because the noise is learned; got learn={template.learn!r}")
        if isinstance(template.optimizer, SGD) and template.optimizer.checkpoint is not None:
            raise ValueError("checkpoints are of one training, and there are several here: leave `checkpoint` out")
        likelihood = as_likelihood(template.likelihood)
        if type(likelihood) not in (Gaussian, LogNormal):
            raise ValueError(
                "noise that varies is for the likelihoods 'gaussian' and 'lognormal'; got "
                f"{type(likelihood).__name__}, whose variance differs with its mean already"
            )
        return likelihood

    def _round(
        self, X: Any, y: Any, latent: Vector, weight: Any, mean: GPRegressor, template: GPRegressor, noise: Likelihood
    ) -> _Pair:
        """g given f, then f given g."""
        f_before = mean.fitted_
        squares = (latent - in_rows(f_before, f_before.posterior.mean)) ** 2
        squares += in_rows(f_before, f_before.marginal_variance)
        squares += _rounding_variance(latent)
        half: Any = Gamma(fixed(0.5))  # type: ignore[arg-type]
        # what is given about f's level is in the units of y, and says nothing about a logarithm of variances
        level = "constant" if template.mean == "zero" else template.mean
        g = clone(template).set_params(likelihood=half, kernel=self.kernel, nugget=None, mean=level)
        g.set_params(coefficient_scale="weak").fit(X, squares, weight)
        g.fitted_ = replace(g.fitted_, companion=None, companion_weight=0.0)  # one is enough for a variance
        return _Pair(self._mean(X, y, weight, g, template, noise), g)

    def _mean(
        self, X: Any, y: Any, weight: Any, g: GPRegressor | None, template: GPRegressor, noise: Likelihood
    ) -> GPRegressor:
        """f given g."""
        if g is None:
            return clone(template).fit(X, y, weight)
        of_g = g.fitted_
        variance = np.exp(in_rows(of_g, of_g.posterior.mean) - 0.5 * in_rows(of_g, of_g.marginal_variance))
        shared = noise.replace(variance=fixed(_SHARED * float(variance.min())))
        return clone(template).set_params(likelihood=shared).fit(X, y, weight, noise_variance=variance)

    def predict_dist(self, X: Any, **row: Any) -> Predictive:
        """The predictive distribution of the response at each row of X.

        Returns
        -------
        Predictive
            with all that `GPRegressor.predict_dist` gives, and ``noise_std``.
        """
        check_is_fitted(self, "model_")
        _refuse(row)
        if self.noise_model_ is None:
            return _with_noise_std(self.model_.predict_dist(X), np.sqrt(self.likelihood_.variance))  # type: ignore[attr-defined]
        rows = validation.check_inputs(self, X, reset=False)
        n_jobs = self.model_.n_jobs
        log_noise = latent_at(self.noise_model_.fitted_, rows, n_jobs)
        of_noise = (log_noise.mean, log_noise.variance + log_noise.nugget)  # that of a new response
        joint = log_noise.sampler(nugget=True)
        parts, shares = [], []
        for fitted, share in self.model_.fitted_.shares():
            f = latent_at(fitted, rows, n_jobs)
            of_f = (fitted.model.likelihood, f.mean, f.variance)
            draws = (f.sampler(), joint)
            parts.append(VaryingNoisePredictive(*of_f, *of_noise, *draws, nugget=f.nugget, reach=f.reach))
            shares.append(share)
        if len(parts) == 1:
            return parts[0]
        return _with_noise_std(MixturePredictive(parts, shares), parts[0].noise_std)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of the response at each row of X; with `return_std` also its standard deviation."""
        return_std = check_flag(return_std, "return_std")
        dist = self.predict_dist(X)
        return (dist.mean, dist.std) if return_std else dist.mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the means, as that of a `GPRegressor`."""
        return r_squared(y, self.predict(X), sample_weight)

    def log_score(self, X: Any, y: Any) -> float:
        """Mean log predictive density of the responses `y` at `X`: higher is better."""
        return float(np.mean(self.predict_dist(X).log_prob(y)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; `npvi.load` reads it back."""
        from npvi.io import save  # rarely needed

        save(self, path)


def _with_noise_std(dist: Any, sd: Any) -> Any:
    """The same, and ``noise_std`` of each row."""
    dist.noise_std = np.broadcast_to(sd, (len(dist),)).copy()
    return dist


def _refuse(row: dict[str, Any]) -> None:
    given = [name for name, values in row.items() if values is not None]
    if given:
        raise ValueError(f"VaryingNoiseRegressor takes no {', '.join(given)}: it learns how large the noise is")


@dataclass(frozen=True)
class _Pair:
    """f and g, or f alone with one variance for all rows."""

    mean: GPRegressor
    noise: GPRegressor | None

    def leave_one_out(self, latent: Vector, weight: Vector | None) -> tuple[dict[str, float], Vector]:
        """How well each observation is predicted from all others, its logarithm where the noise is log-normal: in the
        mean, and the log score of each row.

        The log score alone would go on rising where noise takes the place of structure, and means get worse.
        """
        parts: list[Predictive] = []
        weights: list[float] = []
        f, share = self.mean.fitted_, self.mean.companion_weight_
        for fitted, own in ((f, 1.0 - share), (f.companion, share)):
            if fitted is not None:
                noise = _one_for_all(fitted) if self.noise is None else latent_left_out(self.noise.fitted_)
                dist = VaryingNoisePredictive(Gaussian(_NONE), *latent_left_out(fitted), *noise)
                parts += dist.parts
                weights += (own * dist.weights).tolist()
        mixed = MixturePredictive(parts, weights)
        scores = {"log_score": mixed.log_prob(latent), "crps": gaussian_crps(mixed, latent)}
        counted = slice(None) if weight is None else weight > 0.0
        some = None if weight is None else weight[counted]
        means = {name: float(np.average(values[counted], weights=some)) for name, values in scores.items()}
        return means, scores["log_score"]


def _clearly(gains: Vector, weight: Vector | None) -> bool:
    """Whether the mean of gains is more than two of its standard errors.

    >>> _clearly(np.array([1.0, 1.1, 0.9]), None), _clearly(np.array([3.0, -1.0, 0.5]), None)
    (True, False)
    """
    w = np.ones(len(gains)) if weight is None else weight
    w, gains = w[w > 0.0] / w.sum(), gains[w > 0.0]
    mean = float(w @ gains)
    return mean > _CLEARLY * float(np.sqrt(w**2 @ (gains - mean) ** 2))


def _one_for_all(fitted: Fitted) -> tuple[Vector, Vector]:
    """The logarithm of a variance that is known, and the same in all rows."""
    n, noise = fitted.graph.n_points, fitted.model.likelihood
    return np.full(n, np.log(noise.variance)), np.zeros(n)  # type: ignore[attr-defined]


def _rounding_variance(values: Vector) -> Vector:
    """What rounding has to do with each value: δ²/12, with δ the distance to the next one, where both occur twice.

    Without it, noise would shrink from round to round where rounded responses are all the same, and the density of
    what can only be a few numbers grow without end.

    >>> _rounding_variance(np.array([0.0, 0.0, 0.5, 0.5, 1.7])).round(4).tolist()
    [0.0208, 0.0208, 0.0208, 0.0208, 0.0]
    """
    distinct, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    gaps = np.diff(distinct)
    gaps = np.where((counts[:-1] > 1) & (counts[1:] > 1), gaps, np.inf)
    nearest = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf))
    return np.where(np.isfinite(nearest), nearest, 0.0)[place] ** 2 / 12.0
