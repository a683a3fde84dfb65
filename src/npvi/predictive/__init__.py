"""The distribution of new responses: of one model, of several, of labels, where the noise varies; sums of many."""

from npvi.predictive.base import NormalTotal, Predictive, Total, Totals
from npvi.predictive.categorical import CategoricalPredictive
from npvi.predictive.mixture import MixturePredictive
from npvi.predictive.reach import Reach
from npvi.predictive.varying_noise import VaryingNoisePredictive

__all__ = [
    "CategoricalPredictive",
    "MixturePredictive",
    "NormalTotal",
    "Predictive",
    "Reach",
    "Total",
    "Totals",
    "VaryingNoisePredictive",
]
