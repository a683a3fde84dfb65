"""From a prior and data to a posterior."""

from npvi.inference.data import Data
from npvi.inference.npvi import Fit, Start, fit_npvi

__all__ = ["Data", "Fit", "Start", "fit_npvi"]
