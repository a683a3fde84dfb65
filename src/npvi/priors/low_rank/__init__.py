"""Priors whose points have all in common that goes through inducing points (FITC, Nyström)."""

from npvi.priors.low_rank.inducing import WAYS, choose_inducing
from npvi.priors.low_rank.prior import FITC, LowRank, Nystrom

__all__ = ["FITC", "WAYS", "LowRank", "Nystrom", "choose_inducing"]
