"""Gaussian priors over the training points: NNGP."""

from npvi.priors.base import Conditional, NotPositiveDefiniteError, Prior
from npvi.priors.nngp import NNGP

__all__ = ["NNGP", "Conditional", "NotPositiveDefiniteError", "Prior"]
