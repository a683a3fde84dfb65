"""What a table suggests: columns for places, likelihood, exposure and covariates, with the reason for each."""

from npvi.suggesting.suggestion import Suggestion, suggest

__all__ = ["Suggestion", "suggest"]
