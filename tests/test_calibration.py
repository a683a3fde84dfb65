"""Right predictions look right, also for counts."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.calibration import coverage, randomised_pit
from npvi.likelihoods import Gaussian, Poisson
from npvi.predictive import Predictive


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), Poisson()], ids=repr)
def test_right_predictions_cover_what_they_say(likelihood):
    rng = np.random.default_rng(0)
    prediction = Predictive(likelihood, rng.normal(size=4000), np.full(4000, 0.4))
    pit = randomised_pit(prediction, prediction.sample(1, seed=1)[0])
    for level in (0.5, 0.9, 0.95):
        assert coverage(pit, level) == pytest.approx(level, abs=0.025)


def test_wrong_predictions_do_not():
    mean = np.zeros(1000)
    y = Predictive(Gaussian(1.0), mean, mean + 1.0).sample(1, seed=0)[0]
    assert coverage(randomised_pit(Predictive(Gaussian(0.1), mean, mean + 0.1), y), 0.9) < 0.6
