"""Labels, and the numbers that stand for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from npvi.checks import refuse_masked

__all__ = ["codes_of", "refuse_no_column", "refuse_no_labels"]


def refuse_no_column(values: Any, name: str) -> None:
    """Raise where something masked, sparse or ragged was given for a column.

    >>> refuse_no_column([[1, 2], [3]], "y")
    Traceback (most recent call last):
    ValueError: y is no column: its rows differ in length
    """
    refuse_masked(values, name)
    if scipy.sparse.issparse(values):
        raise TypeError(f"{name} is a sparse matrix and must be a column: give {name}.toarray().ravel()")
    try:
        np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} is no column: its rows differ in length") from None


def refuse_no_labels(labels: Any, name: str) -> None:
    """Raise unless it is a column of words or numbers.

    >>> refuse_no_labels(np.array(["2020-01-01"], dtype="datetime64[D]"), "y")
    Traceback (most recent call last):
    ValueError: y holds datetime64[D], not labels: turn them into text or whole numbers
    """
    refuse_no_column(labels, name)
    kind = np.asarray(labels).dtype
    if kind.kind in "cVmM":
        raise ValueError(f"{name} holds {kind}, not labels: turn them into text or whole numbers")


def codes_of(labels: Any, classes: NDArray, name: str = "y") -> NDArray[np.int64]:
    """The place of each label among `classes`, which are sorted.

    >>> codes_of(["b", "a"], np.array(["a", "b", "c"]))
    array([1, 0])
    """
    refuse_no_labels(labels, name)
    labels = np.asarray(labels)
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        raise ValueError(f"{name} has labels that weren't in the training data, such as {labels[unknown][0]!r}")
    return np.searchsorted(classes, labels)
