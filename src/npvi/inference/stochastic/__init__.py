"""The paper's own optimiser: stochastic gradients of the bound from batches of points."""

from npvi.inference.stochastic.bound import StochasticBound, stochastic_bound
from npvi.inference.stochastic.cross_entropy import ConditionalPrior, LowRankPrior
from npvi.inference.stochastic.expected_likelihood import Observed, observed
from npvi.inference.stochastic.fit import fit_stochastic
from npvi.inference.stochastic.gaussian import SparseGaussian, entropy, neighbourhoods
from npvi.inference.stochastic.settings import SGD

__all__ = [
    "SGD",
    "ConditionalPrior",
    "LowRankPrior",
    "Observed",
    "SparseGaussian",
    "StochasticBound",
    "entropy",
    "fit_stochastic",
    "neighbourhoods",
    "observed",
    "stochastic_bound",
]
