"""Gaussian priors over the training points: NNGP, FITC, Nyström."""

from npvi.priors.base import (
    Conditional,
    Joint,
    NeighborConditional,
    NotPositiveDefiniteError,
    PrecisionFactor,
    Prior,
)
from npvi.priors.gradient import PriorGradient, expected_log_density_gradient, marginal_gradient
from npvi.priors.joint import JointPrediction
from npvi.priors.low_rank import FITC, LowRank, Nystrom
from npvi.priors.nngp import FACTORS, NNGP, conditional_root
from npvi.priors.structure import LOW_RANK, InducingPoints, NearestNeighbors, Part, Structure

__all__ = [
    "FACTORS",
    "FITC",
    "LOW_RANK",
    "NNGP",
    "Conditional",
    "InducingPoints",
    "Joint",
    "JointPrediction",
    "LowRank",
    "NearestNeighbors",
    "NeighborConditional",
    "NotPositiveDefiniteError",
    "Nystrom",
    "Part",
    "PrecisionFactor",
    "Prior",
    "PriorGradient",
    "Structure",
    "conditional_root",
    "expected_log_density_gradient",
    "marginal_gradient",
]
