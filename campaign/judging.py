"""What a call may do: give something finite, or refuse in words that name what was wrong."""

from __future__ import annotations

import dataclasses
import linecache
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd

from campaign.cases import Surprise, check

__all__ = ["attempt", "check_finite", "numbers_in", "watched"]

#: whose warnings no user should see
_INNARDS = ("/jax/", "/jaxlib/", "/numba/", "/numpy/", "/scipy/", "/optax/", "/llvmlite/")


def attempt(call: Callable[[], Any], words: Sequence[str], finite: bool = True) -> str:
    """Call it; "worked" or "refused", or a `Surprise`. An error must have one of `words` in it."""
    try:
        with watched():
            result = call()
            if finite:
                check_finite(result)
    except Surprise:
        raise
    except Exception as error:
        _check_refusal(error, words)
        return "refused"
    return "worked"


class watched(warnings.catch_warnings):
    """Warnings of npvi for its user are fine; those of NumPy, JAX, numba or Python are a `Surprise`."""

    def __init__(self) -> None:
        super().__init__(record=True)

    def __enter__(self) -> None:  # type: ignore[override]
        self._seen = super().__enter__()
        warnings.simplefilter("always")

    def __exit__(self, *about: Any) -> None:
        super().__exit__(*about)
        for warning in self._seen or ():
            own = warning.category is UserWarning or warning.category.__module__.startswith("npvi.")
            known = warning.category.__name__ in ("DataConversionWarning", "ResourceWarning")
            if not (own or known) or any(part in warning.filename for part in _INNARDS):
                where = f"{warning.filename.rpartition('site-packages/')[2]}:{warning.lineno}"
                raise Surprise(f"{warning.category.__name__} reaches the user: {warning.message} ({where})") from about[
                    1
                ]


def _check_refusal(error: Exception, words: Sequence[str]) -> None:
    kind, message = type(error), str(error)
    what = f"{kind.__name__}: {message[:300]}\n    {_where(error.__traceback__)}"
    ours = kind.__module__.startswith("npvi.") or kind.__name__ in ("NotFittedError", "InvalidParameterError")
    check(ours or kind in (ValueError, TypeError) or isinstance(error, OSError), f"an error of a wrong kind: {what}")
    named = any(re.search(rf"(?<![^\W_]){re.escape(word)}(s|es)?(?![^\W_])", message, re.IGNORECASE) for word in words)
    if not named:
        whose = "npvi's words" if _raised_by_npvi(error.__traceback__) else "someone else's words"
        raise Surprise(f"{whose}, and none of {', '.join(words)} is named: {what}")
    check("nugget=nan" not in message, f"advice that is nonsense: {what}")


def _last(tb: TracebackType | None) -> traceback.FrameSummary:
    return traceback.extract_tb(tb)[-1]


def _raised_by_npvi(tb: TracebackType | None) -> bool:
    """Whether the error comes from a line that says `raise`, in npvi."""
    frame = _last(tb)
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return "/npvi/" in frame.filename and line.startswith("raise")


def _where(tb: TracebackType | None) -> str:
    """The last line of npvi that was passed."""
    frames = [frame for frame in traceback.extract_tb(tb) if "/npvi/" in frame.filename]
    return f"{frames[-1].filename.rpartition('/npvi/')[2]}:{frames[-1].lineno}" if frames else "(not in npvi)"


def check_finite(result: Any) -> None:
    """Raise a `Surprise` where there is NaN or infinity in something that a call returned."""
    for name, values in numbers_in(result, "the result"):
        bad = ~np.isfinite(values)
        if bad.any():
            at = np.flatnonzero(bad.ravel())[0]
            raise Surprise(
                f"{name} has {bad.sum()} of {bad.size} numbers that are not finite (first: {values.ravel()[at]})"
            )


def numbers_in(result: Any, name: str, depth: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """All floating-point numbers of arrays, tables, records and containers, with where they are."""
    if isinstance(result, float | complex | np.ndarray | np.generic):
        values = np.asarray(result)
        if values.dtype.kind in "fc":
            yield name, values
    elif isinstance(result, pd.DataFrame):
        yield name, result.select_dtypes("number").dropna().to_numpy(dtype=np.float64)  # a gap says "not known"
    elif depth > 2:
        return
    elif isinstance(result, Mapping):
        for key, value in result.items():
            yield from numbers_in(value, f"{name}[{key!r}]", depth + 1)
    elif isinstance(result, tuple | list):
        for number, value in enumerate(result):
            yield from numbers_in(value, f"{name}[{number}]", depth + 1)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            if not field.name.startswith("_"):
                yield from numbers_in(getattr(result, field.name), f"{name}.{field.name}", depth + 1)
    elif hasattr(result, "latent_mean"):  # a predictive distribution
        parts = ("latent_mean", "mean", "var") if hasattr(result, "mean") else ("latent_mean", "probabilities")
        yield from ((f"{name}.{part}", np.asarray(getattr(result, part))) for part in parts)
