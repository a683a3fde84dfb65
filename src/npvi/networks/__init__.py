"""NPVI-NN: networks that recognise a posterior instead of searching for it."""

from npvi.networks.api import fit_network, fit_network_on_simulations
from npvi.networks.gcn import GCN
from npvi.networks.judging import compare_with_optimum, training_curve
from npvi.networks.recognizer import Recognizer, RecognizerError, pretrained
from npvi.networks.settings import SiteNetwork
from npvi.networks.streaming import stream_posterior

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
