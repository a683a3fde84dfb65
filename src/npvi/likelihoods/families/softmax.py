"""One of several classes, with a latent function for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.support import Support

__all__ = ["Softmax"]


class Softmax(Likelihood):
    """Unordered classes 0, …, C − 1: P(y = c) = exp f_c / Σ_b exp f_b.

    It has a latent function per class where other likelihoods have one, so that only `GPClassifier` takes it.

    Parameters
    ----------
    n_classes : C

    Examples
    --------
    >>> Softmax(3).initial_latent([0.0, 2.0]).round(2)
    array([[ 1.33, -0.67, -0.67],
           [-0.67, -0.67,  1.33]])
    """

    log_concave = True
    static = ("n_classes",)

    def __init__(self, n_classes: int = 3) -> None:
        self.n_classes = n_classes

    @property
    def support(self) -> Support:
        last = self.n_classes - 1
        return Support("classes", f"whole numbers from 0 to {last}", lower=0.0, upper=float(last), discrete=True)

    def validate(self) -> None:
        if not (isinstance(self.n_classes, int | np.integer) and self.n_classes >= 2):
            raise ValueError(f"Softmax: n_classes must be a whole number of at least 2, got {self.n_classes!r}")

    def indicators(self, y: Any) -> NDArray[np.float64]:
        """1 in the column of each row's class, 0 elsewhere; shape (rows, C)."""
        return np.eye(self.n_classes)[np.asarray(y, dtype=np.int64)]

    def initial_latent(self, y: np.ndarray, **row: np.ndarray) -> np.ndarray:
        return 2.0 * (self.indicators(y) - 1.0 / self.n_classes)
