"""Gaussians over the training points."""

from npvi.posteriors.ancestors import PrecisionPosterior
from npvi.posteriors.base import Posterior
from npvi.posteriors.draws import DrawsPosterior
from npvi.posteriors.factor import FactorPosterior, match_covariance

# for other rooms, not for users
from npvi.posteriors.low_rank import LowRankPosterior as LowRankPosterior
from npvi.posteriors.projection import covariance_times as covariance_times
from npvi.posteriors.projection import projected_covariance as projected_covariance
from npvi.posteriors.stacked import StackedPosterior as StackedPosterior

__all__ = ["DrawsPosterior", "FactorPosterior", "Posterior", "PrecisionPosterior", "match_covariance"]
