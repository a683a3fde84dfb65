"""Observation models: one formula for one observation each, in JAX; the rest follows from it."""

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.bernoulli import Bernoulli
from npvi.likelihoods.curvatures import Curvatures, curvatures
from npvi.likelihoods.density import predictive_log_prob
from npvi.likelihoods.expectations import Expectations, expectations
from npvi.likelihoods.gaussian import Gaussian
from npvi.likelihoods.links import Link
from npvi.likelihoods.lognormal import LogNormal
from npvi.likelihoods.moments import conditional_moments, predictive_moments
from npvi.likelihoods.poisson import Poisson
from npvi.likelihoods.quantiles import predictive_cdf, predictive_quantile
from npvi.likelihoods.registry import as_likelihood
from npvi.likelihoods.support import Support

__all__ = [
    "Bernoulli",
    "Curvatures",
    "Expectations",
    "Gaussian",
    "Likelihood",
    "Link",
    "LogNormal",
    "Poisson",
    "Support",
    "as_likelihood",
    "conditional_moments",
    "curvatures",
    "expectations",
    "predictive_cdf",
    "predictive_log_prob",
    "predictive_moments",
    "predictive_quantile",
]
