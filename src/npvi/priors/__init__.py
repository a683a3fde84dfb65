"""Gaussian priors over the training points: NNGP, FITC, Nyström."""

from npvi.priors.base import (
    Conditional,
    Joint,
    NeighborConditional,
    NotPositiveDefiniteError,
    PrecisionFactor,
    Prior,
)
from npvi.priors.low_rank import FITC, LowRank, Nystrom
from npvi.priors.nngp import NNGP

__all__ = [
    "FITC",
    "NNGP",
    "Conditional",
    "Joint",
    "LowRank",
    "NeighborConditional",
    "NotPositiveDefiniteError",
    "Nystrom",
    "PrecisionFactor",
    "Prior",
]
