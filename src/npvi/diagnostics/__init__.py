"""Is a fitted model any good? Scores, calibration, what the residuals still hold, and warnings in words."""

from npvi.diagnostics.advice import about_coverage
from npvi.diagnostics.diagnosis import Diagnosis, diagnose
from npvi.diagnostics.kernel_range import KernelRange, range_of
from npvi.diagnostics.means import NEIGHBORS, Means
from npvi.diagnostics.refit import Refit, refit_with_more_neighbors
from npvi.diagnostics.residuals import Correlogram, correlogram
from npvi.diagnostics.scores import Scores, score
from npvi.diagnostics.summed import places_of_terms

__all__ = [
    "NEIGHBORS",
    "Correlogram",
    "Diagnosis",
    "KernelRange",
    "Means",
    "Refit",
    "Scores",
    "about_coverage",
    "correlogram",
    "diagnose",
    "places_of_terms",
    "range_of",
    "refit_with_more_neighbors",
    "score",
]
