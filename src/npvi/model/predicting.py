"""What a fitted model says of new rows: the latent function there, and how responses are distributed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.graph import build_tree
from npvi.model.fitted import Fitted
from npvi.predictive import CategoricalPredictive, JointSampler, MixturePredictive, Predictive, Reach, reach_of
from npvi.runtime import progress
from npvi.runtime.parallel import threads

__all__ = ["Latent", "latent_at", "predict", "predict_alone"]

#: neighbours of a new row, in units of K: far from all data, where the nearest ones are all on one side, more of them
#: say more, and unlike in a fit they are cheap
_TIMES = 3
#: those of a new row among old and new ones, where all are taken together: with K of them standard deviations of single
#: rows were up to 1 % off in rms, with one and a half times as many 0.1 to 0.4 %
_JOINT_TIMES = 1.5
#: new rows handled at a time, which bounds the memory of prediction
_ROWS = 2**16


def predict(
    fitted: Fitted,
    X: NDArray[np.float64],
    row: dict[str, NDArray] | None = None,
    labels: NDArray | None = None,
    n_jobs: int | None = None,
) -> Predictive | MixturePredictive | CategoricalPredictive:
    """The predictive distribution of the response at each row of X.

    Parameters
    ----------
    fitted : the model, with those beside it.
    X : (rows, d) new inputs, all columns.
    row : what there is per row besides, checked by the likelihood.
    labels : of several classes; their numbers where None.
    n_jobs : threads; None means all cores.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> from npvi.likelihoods import Gaussian
    >>> from npvi.model import Spec, fit
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> spec = Spec(RBF(), Gaussian(0.01), np.arange(1), learn=False)
    >>> fitted = fit(spec, X, spec.data(np.sin(X[:, 0]), {}))
    >>> predict(fitted, np.array([[1.5]])).mean.round(2)
    array([1.])
    """
    row = {} if row is None else row
    if fitted.several:
        latent = latent_at(fitted, X, n_jobs)
        classes = np.arange(latent.mean.shape[1]) if labels is None else labels
        about = (_ClassSampler(latent), latent.nugget, latent.reach)
        return CategoricalPredictive(classes, latent.mean, latent.variance, *about)
    shares = fitted.shares()
    parts = [predict_alone(one, X, row, n_jobs) for one, _ in shares]
    return parts[0] if len(parts) == 1 else MixturePredictive(parts, [share for _, share in shares])


def predict_alone(
    fitted: Fitted, X: NDArray[np.float64], row: dict[str, NDArray] | None = None, n_jobs: int | None = None
) -> Predictive:
    """The same at the hyper-parameters that were found best, without the models beside it; not for several classes."""
    latent = latent_at(fitted, X, n_jobs)
    about = (latent.sampler(), latent.nugget, latent.reach, latent.skewness)
    return Predictive(fitted.model.likelihood, latent.mean, latent.variance, row or {}, *about)


@dataclass(frozen=True)
class Latent:
    """f at new rows: what the process and the mean function see of them, means and variances.

    The variance is that of the surface; a response has the nugget of its row besides.
    """

    fitted: Fitted
    places: NDArray[np.float64]
    basis: NDArray[np.float64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    nugget: float
    n_jobs: int | None = None

    def reach(self) -> Reach:
        """How far the rows are from the data."""
        return reach_of(self.fitted.prior, self.places, self.variance, self.n_jobs)

    def skewness(self) -> NDArray[np.float64]:
        """Of f at the rows, which a Gaussian posterior leaves out, from third derivatives at the training rows.

        The posterior is q exp(Σ r_i), r_i what log p(y_i | f_i) has beyond a parabola. At the best q the first three
        Hermite coefficients of r_i are 0 and the next is s_i³ E[∂³ log p]/6. So to first order in r the posterior has
        q's means and variances, and third cumulants Σ_i Cov(f, f_i)³ E[∂³ log p(y_i | f_i)].
        """
        fitted, out = self.fitted, np.zeros(len(self.mean))
        found = getattr(fitted.posterior, "third_cumulants", None)
        if (
            found is None or not fitted.third.any()
        ):  # of q on a sparse pattern, or by inducing points, more than that is left out
            return out
        times = _TIMES if fitted.spec.method == "full" else 1
        with threads(self.n_jobs):
            visit = build_tree(fitted.model.kernel.coordinates(self.places)).rows
            for start in range(0, len(out), _ROWS):
                rows = visit[start : start + _ROWS]
                given = fitted.prior.conditional(self.places[rows], times)
                out[rows] = found(given.neighbors, given.weights, fitted.third)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.divide(out, self.variance**1.5, out=np.zeros(len(out)), where=self.variance > 0.0)

    def sampler(self, nugget: bool = False) -> JointSampler:
        """Draws of f at all of the rows together, with or without the nugget."""
        return self._sampler(self.fitted.posterior, self.mean, self.fitted.trend, nugget)

    def _sampler(self, posterior: Any, mean: NDArray[np.float64], trend: Any, nugget: bool = False) -> JointSampler:
        prior, neighbors = self.fitted.prior, _joint_neighbors(self.fitted)
        return JointSampler(prior, posterior, self.places, mean, neighbors, self.n_jobs, trend, self.basis, nugget)


def _joint_neighbors(fitted: Fitted) -> int:
    """How many points, old and new, a new row is conditioned on where all are taken together.

    The paper's method has K, like everything else of it; and where those are all, so they stay."""
    graph = fitted.prior.graph
    if fitted.spec.method != "full" or graph.n_neighbors >= graph.n_points - 1:
        return fitted.neighbors
    return int(_JOINT_TIMES * graph.n_neighbors)


def latent_at(fitted: Fitted, X: NDArray[np.float64], n_jobs: int | None = None) -> Latent:
    """Means and variances of f at new rows, without the nugget; with a column per class where there are several."""
    places, basis = fitted.linear_part.places(X), fitted.linear_part.basis(X)
    prior, trend = fitted.prior, fitted.trend
    mean, variance = np.empty((2, len(X), *fitted.residual.shape[1:]))
    times = _TIMES if fitted.spec.method == "full" else 1  # the paper's look at K, like everything else of it
    with threads(n_jobs):
        # neighbours in space one after the other: they have their neighbours in common
        visit = build_tree(fitted.model.kernel.coordinates(places)).rows
        for start in range(0, len(X), _ROWS):
            rows = visit[start : start + _ROWS]
            given = prior.conditional(places[rows], times)
            mean[rows] = basis[rows] @ trend.coefficients + given.mean(fitted.residual)
            unsure = given.projected_variance(fitted.posterior)
            unsure += trend.projected_variance(basis[rows], given)
            variance[rows] = (given.variance + unsure.T).T
            progress.report("predict", rows=min(len(X), start + _ROWS), of=len(X))
    return Latent(fitted, places, basis, mean, np.maximum(variance - prior.nugget, 0.0), prior.nugget, n_jobs)


class _ClassSampler:
    """Joint draws of the functions of all classes: independent of each other, with the same neighbours."""

    def __init__(self, latent: Latent) -> None:
        self._latent = latent

    def __call__(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n draws, shape (rows, n, C)."""
        return np.stack([sampler(n, rng) for sampler in self._samplers], axis=2)

    @cached_property
    def _samplers(self) -> list[JointSampler]:
        latent, fitted = self._latent, self._latent.fitted
        posteriors: Any = fitted.posterior
        with threads(latent.n_jobs):
            prediction = fitted.prior.joint(latent.places, _joint_neighbors(fitted))
        samplers = []
        for c, (posterior, trend) in enumerate(zip(posteriors.parts, fitted.trends)):
            sampler = latent._sampler(posterior, np.ascontiguousarray(latent.mean[:, c]), trend)
            vars(sampler)["_prediction"] = prediction  # found once for all classes
            samplers.append(sampler)
        return samplers
