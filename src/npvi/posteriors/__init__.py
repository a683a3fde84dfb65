"""Approximate posteriors over the training points."""

from npvi.posteriors.factor import FactorPosterior, match_covariance

__all__ = ["FactorPosterior", "match_covariance"]
