"""Observation models: one formula for one observation each, in JAX; the rest follows from it."""

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.custom import Custom
from npvi.likelihoods.families.bernoulli import Bernoulli
from npvi.likelihoods.families.beta import Beta
from npvi.likelihoods.families.beta_binomial import BetaBinomial
from npvi.likelihoods.families.binomial import Binomial
from npvi.likelihoods.families.censored import CensoredGaussian, CensoredLogNormal
from npvi.likelihoods.families.exponential import Exponential
from npvi.likelihoods.families.gamma import Gamma
from npvi.likelihoods.families.gaussian import Gaussian
from npvi.likelihoods.families.hurdle_poisson import HurdlePoisson
from npvi.likelihoods.families.laplace import Laplace
from npvi.likelihoods.families.lognormal import LogNormal
from npvi.likelihoods.families.negative_binomial import NegativeBinomial
from npvi.likelihoods.families.ordinal import Ordinal
from npvi.likelihoods.families.poisson import Poisson
from npvi.likelihoods.families.student_t import StudentT
from npvi.likelihoods.families.tweedie import Tweedie
from npvi.likelihoods.families.weibull import Weibull
from npvi.likelihoods.families.zero_inflated_negative_binomial import ZeroInflatedNegativeBinomial
from npvi.likelihoods.families.zero_inflated_poisson import ZeroInflatedPoisson
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.expectations import Curvatures, Expectations, curvatures, expectations
from npvi.likelihoods.integrals.moments import conditional_moments, predictive_moments
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from npvi.likelihoods.links import Link
from npvi.likelihoods.registry import LIKELIHOODS, as_likelihood
from npvi.likelihoods.support import Support

__all__ = [
    "LIKELIHOODS",
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

# What has a name is here as well, written out above or not: those are for editors, which run nothing.
_FOUND = {cls.__name__: cls for cls in LIKELIHOODS.values()}
globals().update(_FOUND)
__all__ += [name for name in _FOUND if name not in __all__]
