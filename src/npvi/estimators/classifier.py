"""Gaussian process classification."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from npvi.estimators.base import BaseGP
from npvi.likelihoods import Bernoulli

__all__ = ["GPClassifier"]


class GPClassifier(ClassifierMixin, BaseGP):
    """Gaussian process for yes/no responses, by variational inference over nearest neighbours.

    Parameters are those of `GPRegressor`; the likelihood is "bernoulli" (logit link) or
    ``npvi.likelihoods.Bernoulli(link="probit")``. Labels may be of any kind, two of them at most.

    Attributes
    ----------
    classes_ : the labels, in order; ``predict_proba`` has a column for each.

    Examples
    --------
    >>> import npvi, numpy as np
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> y = np.where(np.sin(X[:, 0]) > 0, "yes", "no")
    >>> model = npvi.GPClassifier().fit(X, y)
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['yes', 'no']
    """

    def __init__(
        self,
        likelihood="bernoulli",
        kernel="matern",
        nugget=None,
        mean="constant",
        method="full",
        prior="nngp",
        n_neighbors=20,
        rule="nearest",
        order="maximin",
        learn=True,
        coords=None,
        coefficient_scale=None,
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
            n_neighbors=n_neighbors,
            rule=rule,
            order=order,
            learn=learn,
            coords=coords,
            coefficient_scale=coefficient_scale,
            tol=tol,
            max_iter=max_iter,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def partial_fit(self, X: Any, y: Any, classes: Any = None, **extras: Any) -> Self:
        """`fit` the first time, `update` from then on; at first `classes` may name labels that are yet to come."""
        self._to_come = classes
        try:
            return super().partial_fit(X, y, **extras)
        finally:
            del self._to_come

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each of ``classes_`` at each row of X."""
        second = self.predict_dist(X).mean
        if len(self.classes_) == 1:  # nothing else was ever seen
            return np.ones((len(second), 1))
        return np.column_stack([1.0 - second, second])

    def predict(self, X: Any) -> NDArray:
        """The more probable label at each row of X."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def _parts(self, n_inputs: int) -> tuple[Any, Any, Any, Any]:
        kernel, likelihood, nugget, said = super()._parts(n_inputs)
        if not isinstance(likelihood, Bernoulli):
            raise ValueError(
                f"GPClassifier needs a Bernoulli likelihood, got {likelihood!r}; GPRegressor takes any other"
            )
        return kernel, likelihood, nugget, said

    def _mean(self, y: NDArray, weight: NDArray[np.float64] | None) -> str:
        seen = y if weight is None else y[weight > 0.0]
        return self.mean if np.ptp(seen) > 0.0 else "zero"  # with one label only, any other mean would be infinite

    def _encode(self, y: NDArray) -> NDArray:
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        to_come = getattr(self, "_to_come", None)
        self.classes_ = np.unique(y if to_come is None else np.asarray(to_come))
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}, with {len(self.classes_)} "
                "classes."
            )
        return self._encode_new(y)

    def _encode_new(self, y: Any) -> NDArray[np.float64]:
        y = np.asarray(y)
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(f"y has labels that weren't in the training data, such as {y[unknown][0]!r}")
        return np.searchsorted(self.classes_, y).astype(np.float64)
