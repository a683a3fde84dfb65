"""Bad values, one argument at a time, in calls that are otherwise valid: over every public callable and argument.

A call may work, with finite results, or refuse with a ValueError or TypeError that names the argument.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile

import numpy as np

from campaign import subjects
from campaign.cases import Case, Surprise
from campaign.judging import attempt
from campaign.values import MUST_BE_REFUSED, VALUES

__all__ = ["SECONDS", "SHARES", "case", "count"]

SECONDS = 60.0
SHARES: dict[str, float] = {}

#: what an error may call an argument besides its own name
_WORDS = {
    "X": ("input", "2D array", "dim", "sample", "feature", "row", "coordinate", "column"),
    "Z": ("input", "point", "row", "coordinate"),
    "new": ("point", "row", "coordinate"),
    "points": ("coordinate",),
    "y": ("response", "label", "1d array", "sample", "class"),
    "labels": ("label", "class"),
    "likelihood": ("family", "log_prob"),  # a function is taken for log p(y | f)
    "path": ("file", "folder", "cannot write", "embedded null byte"),
    "estimator": ("model",),
    "test_row": ("takes no",),
    "target": ("column",),
    "inputs": ("column",),
    "folder": ("path", "file", "not a tiled model"),
    "store": ("path", "folder", "cannot write", "embedded null byte"),
    "steps": ("step", "estimator", "transformer"),
    "obj": ("kernel", "likelihood"),
    "kernel": ("function",),
    "custom": ("function",),
    "table": ("file", "column"),
    "slope": ("column",),
    "name": ("data set",),
    "k1": ("kernel",),
    "k2": ("kernel",),
    "function": ("kernel", "custom"),
    "log_prob": ("likelihood", "custom"),
    "value": ("parameter", "length_scale"),
    "lower": ("bound", "length_scale"),
    "upper": ("bound", "length_scale"),
    "source": ("table", "file"),
    "crs": ("coordinate system",),
    "level": ("probability",),
}
#: where infinity is right: the quantile of probability 1 of a distribution without an end
_MAY_BE_INFINITE = ("q", "level")


def count() -> int:
    return len(subjects.arguments()) * len(VALUES)


@functools.cache
def _order(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Arguments in the order of their turns, and for each of them the values in the order of theirs."""
    rng = np.random.default_rng(seed)
    n = len(subjects.arguments())
    return rng.permutation(n), np.array([rng.permutation(len(VALUES)) for _ in range(n)])


def case(seed: int, number: int) -> Case:
    order, values = _order(seed)
    which = order[number % len(order)]
    argument = subjects.arguments()[which]
    value = list(VALUES)[values[which, number // len(order)]]
    return Case(f"{argument.call}({argument.name}: {value})", lambda: _run(argument, value))


def _run(argument: subjects.Argument, value: str) -> str:
    words = (argument.name, argument.name.replace("_", " "), *_WORDS.get(argument.name, ()))
    valid = argument.valid()
    given = VALUES[value](valid)
    with contextlib.chdir(tempfile.mkdtemp(dir=subjects.folder())):  # what a case wrote is none of the next one's files
        came = attempt(lambda: argument.run(given), words, finite=argument.name not in _MAY_BE_INFINITE)
    without_data = argument.call == "datasets.load" and "NPVI_DATA" not in os.environ
    if value == "valid" and came != "worked" and not without_data:
        raise Surprise(f"the valid call doesn't work, with {argument.name}={valid!r}")
    if value in MUST_BE_REFUSED and isinstance(valid, np.ndarray) and came == "worked":
        raise Surprise(f"works, though no numbers can be made of it: {given!r:.200}")
    return came
