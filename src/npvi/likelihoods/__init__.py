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

# for other rooms, not for users
from npvi.likelihoods.families.rates import Rates as Rates
from npvi.likelihoods.families.rates import largest_count as largest_count
from npvi.likelihoods.families.rates import typical_count as typical_count
from npvi.likelihoods.families.scales import hardly_varies as hardly_varies
from npvi.likelihoods.families.softmax import Softmax as Softmax
from npvi.likelihoods.families.student_t import StudentT
from npvi.likelihoods.families.tweedie import Tweedie
from npvi.likelihoods.families.weibull import Weibull
from npvi.likelihoods.families.zero_inflated_negative_binomial import ZeroInflatedNegativeBinomial
from npvi.likelihoods.families.zero_inflated_poisson import ZeroInflatedPoisson
from npvi.likelihoods.integrals.density import predictive_log_prob
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.expectations import Curvatures, Expectations, curvatures, expectations
from npvi.likelihoods.integrals.expectations import by_quadrature as by_quadrature
from npvi.likelihoods.integrals.expectations import has_closed_form as has_closed_form
from npvi.likelihoods.integrals.learning import parameter_gradient as parameter_gradient
from npvi.likelihoods.integrals.moments import conditional_moments, predictive_moments
from npvi.likelihoods.integrals.quadrature import rule_of_tier as rule_of_tier
from npvi.likelihoods.integrals.quadrature import tiers as tiers
from npvi.likelihoods.integrals.quadrature import trapezoid as trapezoid
from npvi.likelihoods.integrals.quantiles import mixture_quantile as mixture_quantile
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from npvi.likelihoods.integrals.rows_cdf import Component as Component
from npvi.likelihoods.integrals.softmax import expected_log_sum_exp as expected_log_sum_exp
from npvi.likelihoods.labels import codes_of as codes_of
from npvi.likelihoods.labels import refuse_no_column as refuse_no_column
from npvi.likelihoods.labels import refuse_no_labels as refuse_no_labels
from npvi.likelihoods.links import Link
from npvi.likelihoods.registry import LIKELIHOODS, as_likelihood
from npvi.likelihoods.support import BINARY as BINARY
from npvi.likelihoods.support import REAL as REAL
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
