"""What is read of a store makes sense, or is refused."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.tiled.sense import check_layout


@pytest.mark.filterwarnings("error")
def test_numbers_of_single_precision_are_compared_without_a_warning():
    layout = {"rows": np.ones(2, np.int64), "thin": np.ones(2, np.int64), "first": np.ones(2, np.int16)}
    layout |= {"boxes": np.ones((2, 2, 3), np.float32), "coarse": np.ones(2)}
    check_layout(layout, 2, 3)
    layout["boxes"][0, 0, 0] = np.inf
    with pytest.raises(ValueError, match="boxes has numbers that are not finite"):
        check_layout(layout, 2, 3)
