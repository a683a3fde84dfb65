"""Gaussian process classification."""

from __future__ import annotations

from typing import Any

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
    >>> model = npvi.GPClassifier(kernel=npvi.kernels.RBF(variance=10.0)).fit(X, y)
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['yes', 'no']
    """

    def __init__(
        self,
        likelihood="bernoulli",
        kernel="matern32",
        nugget=1e-4,
        mean="zero",
        method="npvi",
        prior="nngp",
        n_neighbors=20,
        rule="nearest",
        order="maximin",
        learn=False,
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

    def _check_parameters(self, n_inputs: int) -> tuple[Any, Any]:
        kernel, likelihood = super()._check_parameters(n_inputs)
        if not isinstance(likelihood, Bernoulli):
            raise ValueError(
                f"GPClassifier needs a Bernoulli likelihood, got {likelihood!r}; GPRegressor takes any other"
            )
        return kernel, likelihood

    def _encode(self, y: NDArray) -> NDArray:
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}, with {len(self.classes_)} "
                "classes."
            )
        return codes.astype(np.float64)

    def _encode_new(self, y: Any) -> NDArray[np.float64]:
        y = np.asarray(y)
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(f"y has labels that weren't in the training data, such as {y[unknown][0]!r}")
        return np.searchsorted(self.classes_, y).astype(np.float64)
