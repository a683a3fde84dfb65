"""NPVI-NN as published: two graph convolutional networks."""

from npvi.amortized.gcn.fit import HeldOut, fit_gcn
from npvi.amortized.gcn.networks import GCN

__all__ = ["GCN", "HeldOut", "fit_gcn"]
