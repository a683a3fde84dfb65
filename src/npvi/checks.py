"""Checks that kernels and likelihoods share."""

from __future__ import annotations

import numpy as np

from npvi.parameters import Parametrised

__all__ = ["check_positive"]


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
