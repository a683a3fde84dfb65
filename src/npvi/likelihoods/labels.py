"""Labels, and the numbers that stand for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import refuse_masked

__all__ = ["codes_of"]


def codes_of(labels: Any, classes: NDArray) -> NDArray[np.int64]:
    """The place of each label among `classes`, which are sorted.

    >>> codes_of(["b", "a"], np.array(["a", "b", "c"]))
    array([1, 0])
    """
    refuse_masked(labels, "y")
    labels = np.asarray(labels)
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        raise ValueError(f"y has labels that weren't in the training data, such as {labels[unknown][0]!r}")
    return np.searchsorted(classes, labels)
