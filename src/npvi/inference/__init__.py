"""From a prior and data to a posterior."""

from npvi.inference.cavity import places_of, without_own, without_place
from npvi.inference.data import Data
from npvi.inference.families.factored import FactoredCovariances, Marginals
from npvi.inference.families.full import AllCovariances, dense_posterior
from npvi.inference.families.npvi import SparseFactors
from npvi.inference.families.parts import AllOfParts, PartsPosterior
from npvi.inference.fit import Fit, Start, fit_from_sites, fit_posterior
from npvi.inference.softmax import StackedTrend, class_noises, fit_softmax

__all__ = [
    "FAMILIES",
    "AllCovariances",
    "AllOfParts",
    "Data",
    "FactoredCovariances",
    "Fit",
    "Marginals",
    "PartsPosterior",
    "SparseFactors",
    "StackedTrend",
    "Start",
    "class_noises",
    "dense_posterior",
    "fit_from_sites",
    "fit_posterior",
    "fit_softmax",
    "places_of",
    "without_own",
    "without_place",
]

#: what the posterior's covariance may be, by the name of the method
FAMILIES = {"full": AllCovariances, "npvi": SparseFactors, "npvi-nn": SparseFactors}
