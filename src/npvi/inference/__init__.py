"""From a prior and data to a posterior."""

from npvi.inference.data import Data
from npvi.inference.families.full import AllCovariances
from npvi.inference.families.npvi import SparseFactors
from npvi.inference.fit import Fit, Start, fit_posterior

__all__ = [
    "FAMILIES",
    "AllCovariances",
    "Data",
    "Fit",
    "SparseFactors",
    "Start",
    "fit_posterior",
]

#: what the posterior's covariance may be, by the name of the method
FAMILIES = {"full": AllCovariances, "npvi": SparseFactors, "npvi-nn": SparseFactors}
