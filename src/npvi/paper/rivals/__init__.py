"""The methods that the paper compares itself with: three ways to do with few inducing points.

All are estimators with the project's own kernels, likelihoods and predictive distributions, so that a comparison is one
of inference alone.
"""

from npvi.paper.rivals.dgp import DGP
from npvi.paper.rivals.savigp import SAVIGP
from npvi.paper.rivals.svgp import SVGP

__all__ = ["DGP", "SAVIGP", "SVGP"]
