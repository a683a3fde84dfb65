"""Checks that more than one part of the library needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.parameters import Parametrised

__all__ = ["check_positive", "codes_of"]


def check_positive(obj: Parametrised, name: str) -> None:
    """Raise ValueError unless the parameter `name` of `obj` is a positive number, or an array of them.

    >>> from npvi.kernels import RBF
    >>> check_positive(RBF(variance=-1.0), "variance")
    Traceback (most recent call last):
    ValueError: RBF: variance must be positive and finite, got -1.0
    """
    value = getattr(obj, name)
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{type(obj).__name__}: {name} must be a positive number, got {value!r}") from None
    if values.size == 0 or not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(f"{type(obj).__name__}: {name} must be positive and finite, got {value!r}")


def codes_of(labels: Any, classes: NDArray) -> NDArray[np.int64]:
    """The place of each label among `classes`, which are sorted.

    >>> codes_of(["b", "a"], np.array(["a", "b", "c"]))
    array([1, 0])
    """
    labels = np.asarray(labels)
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        raise ValueError(f"y has labels that weren't in the training data, such as {labels[unknown][0]!r}")
    return np.searchsorted(classes, labels)
