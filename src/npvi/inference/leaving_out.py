"""What is left of the posterior at each point once its own observation is taken out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npvi.inference.data import Data

__all__ = ["without_own"]

Vector = NDArray[np.float64]


def without_own(
    data: Data, mean: Vector, variance: Vector, site_precision: Vector, prior_precision: Vector
) -> tuple[Vector, Vector]:
    """Mean and variance of each f given all observations but its own.

    Each observation enters the posterior through a Gaussian site of its own, which is divided out; what is left is
    never less than the prior knows.
    """
    others = np.maximum(1.0 / variance - site_precision, prior_precision)
    return mean - data.expectations(mean, variance).gradient / others, 1.0 / others
