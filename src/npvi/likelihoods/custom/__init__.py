"""A likelihood of your own, from a function log p(y | f)."""

from npvi.likelihoods.custom.likelihood import SUPPORTS, Custom

__all__ = ["SUPPORTS", "Custom"]
