"""NPVI-NN: networks that recognise a posterior instead of searching for it."""

from npvi.amortized.api import fit_network, fit_network_on_simulations
from npvi.amortized.gcn import GCN
from npvi.amortized.judging import compare_with_optimum, training_curve
from npvi.amortized.recognizer import Recognizer, RecognizerError, pretrained
from npvi.amortized.settings import SiteNetwork
from npvi.amortized.streaming import stream_posterior

__all__ = [
    "GCN",
    "Recognizer",
    "RecognizerError",
    "SiteNetwork",
    "compare_with_optimum",
    "fit_network",
    "fit_network_on_simulations",
    "pretrained",
    "stream_posterior",
    "training_curve",
]
