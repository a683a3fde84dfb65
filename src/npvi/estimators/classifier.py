"""Gaussian process classification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from npvi.estimators.base import BaseGP
from npvi.estimators.validation import check_column, check_labels, check_weights
from npvi.likelihoods import Bernoulli, Likelihood, Softmax, as_likelihood, codes_of

if TYPE_CHECKING:
    from npvi.predictive import CategoricalPredictive, Predictive

__all__ = ["GPClassifier"]


class GPClassifier(ClassifierMixin, BaseGP):
    """Gaussian process for labels, by variational inference over nearest neighbours.

    Labels may be of any kind. Two have one latent function: the likelihood is "bernoulli" (logit link) or
    ``npvi.likelihoods.Bernoulli(link="probit")``. Three or more have a function each, P(c) = exp f_c / Σ_b exp f_b,
    which share a kernel and a nugget and have a prior mean each. The other parameters are those of `GPRegressor`.

    Attributes
    ----------
    classes_ : the labels, in order; ``predict_proba`` has a column for each.
    mean_coefficients_ : as in `GPRegressor`; of three or more labels a row for each.

    Examples
    --------
    >>> import npvi, numpy as np
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> y = np.where(np.sin(X[:, 0]) > 0, "yes", "no")
    >>> model = npvi.GPClassifier().fit(X, y)
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['yes', 'no']
    >>> colour = np.array(["red", "green", "blue"])[(X[:, 0] // 2 % 3).astype(int)]
    >>> model = npvi.GPClassifier().fit(X, colour)
    >>> model.predict([[1.0], [3.0], [5.0]]).tolist()
    ['red', 'green', 'blue']
    """

    def __init__(
        self,
        likelihood="bernoulli",
        kernel="matern",
        nugget=None,
        mean="constant",
        method="full",
        prior="nngp",
        optimizer="closed",
        n_neighbors="auto",
        rule="nearest",
        order="maximin",
        inducing="kmeans",
        n_inducing=200,
        network="sites",
        solve="cg",
        refine=0,
        learn=True,
        coords=None,
        coefficient_scale="weak",
        hyperprior="weak",
        hyper="auto",
        tol=1e-7,
        max_iter=200,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        super().__init__(
            likelihood=likelihood,
            kernel=kernel,
            nugget=nugget,
            mean=mean,
            method=method,
            prior=prior,
            optimizer=optimizer,
            n_neighbors=n_neighbors,
            rule=rule,
            order=order,
            inducing=inducing,
            n_inducing=n_inducing,
            network=network,
            solve=solve,
            refine=refine,
            learn=learn,
            coords=coords,
            coefficient_scale=coefficient_scale,
            hyperprior=hyperprior,
            hyper=hyper,
            tol=tol,
            max_iter=max_iter,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    def partial_fit(self, X: Any, y: Any, classes: Any = None, **extras: Any) -> Self:
        """`fit` the first time, `update` from then on; at first `classes` may name labels that are yet to come."""
        self._to_come = classes
        try:
            return super().partial_fit(X, y, **extras)
        finally:
            del self._to_come

    def predict_dist(  # type: ignore[override]
        self,
        X: Any,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> Predictive | CategoricalPredictive:
        """The predictive distribution of the label at each row of X.

        Returns
        -------
        Predictive
            of 1 for the second label and 0 for the first, where there are two. Where there is one label only, 1 is for
            any other, of which `predict_proba` has no column.
        CategoricalPredictive
            where there are more: with ``probabilities``, ``mode``, ``log_prob(labels)``, ``sample(n, seed)``,
            ``latent_mean`` and ``latent_var`` (without the nugget) of each row and label, ``reach``, and
            ``joint_sample(n, seed)`` of all rows together.
        """
        return super().predict_dist(X, exposure, trials, noise_variance, censored)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each of ``classes_`` at each row of X."""
        dist: Any = self.predict_dist(X)
        if self._several:
            return dist.probabilities
        second = dist.mean
        if len(self.classes_) == 1:  # nothing else was ever seen
            return np.ones((len(second), 1))
        return np.column_stack([1.0 - second, second])

    def predict(self, X: Any) -> NDArray:
        """The most probable label at each row of X."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of labels that are predicted rightly."""
        found = self.predict(X)
        labels = check_labels(check_column(y, "y"))
        if len(labels) != len(found):
            raise ValueError(f"y must have one label per row, {len(found)} in all; got {len(labels)}")
        weight = check_weights(sample_weight, found)
        return float(np.average(labels == found, weights=weight))

    @property
    def mean_coefficients_(self) -> NDArray[np.float64]:
        """Coefficients of the prior mean, for the covariates as they came; of three or more labels a row for each."""
        rows = [[value for value, _ in one.values()] for one in self.fitted_.coefficients()]
        return np.array(rows) if self._several else np.array(rows[0])

    @property
    def _several(self) -> bool:
        """Whether every label has a function of its own."""
        return len(self.classes_) > 2

    def _coefficients(self) -> dict[str, tuple[float, float]]:
        if not self._several:
            return super()._coefficients()
        pairs = zip(self.classes_, self.fitted_.coefficients())
        return {f"{name}[{label}]": both for label, one in pairs for name, both in one.items()}

    def _likelihood(self) -> Likelihood:
        if isinstance(self.likelihood, Softmax) or (isinstance(self.likelihood, str) and self.likelihood == "softmax"):
            return Softmax(len(self.classes_)) if self._several else Bernoulli()
        likelihood = as_likelihood(self.likelihood)
        if not isinstance(likelihood, Bernoulli):
            raise ValueError(
                f"GPClassifier needs a Bernoulli likelihood, got {likelihood!r}; GPRegressor takes any other"
            )
        if not self._several:
            return likelihood
        if likelihood.link != "logit":
            raise ValueError(
                f"the {likelihood.link} link is for two labels, and there are {len(self.classes_)}: leave out the "
                "likelihood"
            )
        return Softmax(len(self.classes_))

    def _mean(self, y: NDArray, weight: NDArray[np.float64] | None) -> str:
        seen = y if weight is None else y[weight > 0.0]
        # of several labels the mean of one that was never seen would be infinite
        return self.mean if not self._several or len(np.unique(seen)) == len(self.classes_) else "zero"

    def _encode(self, y: NDArray, every: Any = None) -> NDArray:
        y = check_labels(y)
        with np.errstate(invalid="ignore"):  # of labels that are no whole numbers
            check_classification_targets(y)
        every, name = (getattr(self, "_to_come", None), "classes") if every is None else (every, "y")
        self.classes_ = np.unique(y if every is None else check_labels(every, name))
        return self._encode_new(y)

    def _encode_new(self, y: Any) -> NDArray[np.float64]:
        return codes_of(check_labels(y), self.classes_).astype(np.float64)

    def _scored(self, y: Any) -> Any:
        return check_labels(y) if self._several else self._encode_new(y)
