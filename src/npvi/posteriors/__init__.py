"""Gaussians over the training points."""

from npvi.posteriors.ancestors import PrecisionPosterior
from npvi.posteriors.base import Posterior
from npvi.posteriors.draws import DrawsPosterior
from npvi.posteriors.factor import FactorPosterior, match_covariance

__all__ = ["DrawsPosterior", "FactorPosterior", "Posterior", "PrecisionPosterior", "match_covariance"]
