"""Site precisions beyond all numbers."""

from __future__ import annotations

import numpy as np

from npvi.inference.data import Data
from npvi.inference.newton import _agreeing
from npvi.likelihoods import Poisson


def test_bisection_begins_at_infinity():
    """Under a wide prior exp(m + v/2) is infinite at first; the w that agrees with its own v is an ordinary number."""
    data, others = Data(Poisson(), np.zeros(2)), np.full(2, 1e-4)
    for far in (1e300, np.inf):
        w = _agreeing(data, np.zeros(2), others, np.full(2, 1e-3), np.full(2, far), np.zeros(2))
        agreed = np.exp(0.5 / (others + w))  # falls with w, so that w is between itself and this
        np.testing.assert_array_less(np.abs(np.log(w)), 3.0)
        np.testing.assert_array_less(np.abs(np.log(agreed / w)), 3.0)
