"""From a prior and data to a posterior."""

from npvi.inference.npvi import Data, Fit, Start, fit_npvi

__all__ = ["Data", "Fit", "Start", "fit_npvi"]
