"""The distribution of new responses: of one model, of several, of labels, where the noise varies; sums of many."""

from npvi.predictive.base import NormalTotal, Predictive, Total, Totals
from npvi.predictive.calibration import coverage, crps_of_draws, gaussian_crps, numbers_of_our_own, randomised_pit
from npvi.predictive.categorical import CategoricalPredictive
from npvi.predictive.joint import JointSampler
from npvi.predictive.mixture import MixturePredictive
from npvi.predictive.reach import Reach, reach_of
from npvi.predictive.varying_noise import VaryingNoisePredictive

__all__ = [
    "CategoricalPredictive",
    "JointSampler",
    "MixturePredictive",
    "NormalTotal",
    "Predictive",
    "Reach",
    "Total",
    "Totals",
    "VaryingNoisePredictive",
    "coverage",
    "crps_of_draws",
    "gaussian_crps",
    "numbers_of_our_own",
    "randomised_pit",
    "reach_of",
]
