"""What is left of the posterior at each point once its own observation is taken out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npvi.inference.data import Data
from npvi.posteriors import Posterior
from npvi.priors import Prior

__all__ = ["without_own"]


def without_own(posterior: Posterior, data: Data, prior: Prior) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of each f given all observations but its own, in the graph's order.

    Each observation enters the posterior through a Gaussian site of its own, which is divided out.
    """
    m, v, w = posterior.mean, posterior.variance, posterior.site_precision
    others = np.maximum(1.0 / v - w, 1.0 / prior.marginal_variance)
    return m - data.expectations(m, v).gradient / others, 1.0 / others
