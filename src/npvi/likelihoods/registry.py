"""Likelihoods by name."""

from __future__ import annotations

from typing import Any

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.custom.likelihood import Custom
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

__all__ = ["LIKELIHOODS", "as_likelihood"]

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "lognormal": LogNormal,
    "poisson": Poisson,
    "bernoulli": Bernoulli,
    "negative_binomial": NegativeBinomial,
    "zero_inflated_poisson": ZeroInflatedPoisson,
    "zero_inflated_negative_binomial": ZeroInflatedNegativeBinomial,
    "hurdle_poisson": HurdlePoisson,
    "binomial": Binomial,
    "beta_binomial": BetaBinomial,
    "ordinal": Ordinal,
    "tweedie": Tweedie,
    "gamma": Gamma,
    "exponential": Exponential,
    "weibull": Weibull,
    "beta": Beta,
    "student_t": StudentT,
    "laplace": Laplace,
    "censored_gaussian": CensoredGaussian,
    "censored_lognormal": CensoredLogNormal,
}


def as_likelihood(obj: Any) -> Likelihood:
    """A likelihood from its name, with default parameters, from a function log p(y | f), or from a likelihood.

    >>> as_likelihood("poisson")
    Poisson()
    """
    choices = ", ".join(repr(name) for name in LIKELIHOODS)
    if isinstance(obj, Likelihood):
        return obj
    if isinstance(obj, str):
        if obj not in LIKELIHOODS:
            raise ValueError(f"no likelihood is named {obj!r}; the names are {choices}")
        return LIKELIHOODS[obj]()
    if isinstance(obj, type):
        raise TypeError(f"expected a likelihood, got the class {obj.__name__}; write {obj.__name__}()")
    if callable(obj):
        return Custom(obj)
    raise TypeError(
        f"expected a likelihood from npvi.likelihoods, a function log_prob(y, f), or one of {choices}; "
        f"got {type(obj).__module__}.{type(obj).__name__}"
    )
