"""Observation models: one formula for one observation each, in JAX; the rest follows from it."""

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.bernoulli import Bernoulli
from npvi.likelihoods.beta import Beta
from npvi.likelihoods.beta_binomial import BetaBinomial
from npvi.likelihoods.binomial import Binomial
from npvi.likelihoods.censored import CensoredGaussian, CensoredLogNormal
from npvi.likelihoods.curvatures import Curvatures, curvatures
from npvi.likelihoods.custom import Custom
from npvi.likelihoods.density import predictive_log_prob
from npvi.likelihoods.distribution import predictive_cdf
from npvi.likelihoods.expectations import Expectations, expectations
from npvi.likelihoods.exponential import Exponential
from npvi.likelihoods.gamma import Gamma
from npvi.likelihoods.gaussian import Gaussian
from npvi.likelihoods.hurdle_poisson import HurdlePoisson
from npvi.likelihoods.laplace import Laplace
from npvi.likelihoods.links import Link
from npvi.likelihoods.lognormal import LogNormal
from npvi.likelihoods.moments import conditional_moments, predictive_moments
from npvi.likelihoods.negative_binomial import NegativeBinomial
from npvi.likelihoods.ordinal import Ordinal
from npvi.likelihoods.poisson import Poisson
from npvi.likelihoods.quantiles import predictive_quantile
from npvi.likelihoods.registry import as_likelihood
from npvi.likelihoods.student_t import StudentT
from npvi.likelihoods.support import Support
from npvi.likelihoods.tweedie import Tweedie
from npvi.likelihoods.weibull import Weibull
from npvi.likelihoods.zero_inflated_negative_binomial import ZeroInflatedNegativeBinomial
from npvi.likelihoods.zero_inflated_poisson import ZeroInflatedPoisson

__all__ = [
    "Bernoulli",
    "Beta",
    "BetaBinomial",
    "Binomial",
    "CensoredGaussian",
    "CensoredLogNormal",
    "Curvatures",
    "Custom",
    "Expectations",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HurdlePoisson",
    "Laplace",
    "Likelihood",
    "Link",
    "LogNormal",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "StudentT",
    "Support",
    "Tweedie",
    "Weibull",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "as_likelihood",
    "conditional_moments",
    "curvatures",
    "expectations",
    "predictive_cdf",
    "predictive_log_prob",
    "predictive_moments",
    "predictive_quantile",
]
