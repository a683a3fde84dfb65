"""Model files as a stranger could make them: metadata and arrays altered, the checksum right again."""

from __future__ import annotations

import copy
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from npvi.io.archive import MODEL
from npvi.io.packing import pack
from npvi.runtime.archive import Kind, header

#: what a stranger may put where JSON has something else
JUNK: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 10**9, -(10**9), 10**30, 0.5, -0.5, 1e300, -1e300, 1e-300, float("nan"),
    float("inf"), -float("inf"), "", "zzz", "x" * 10_000, "\x1b[31mred\x07", "\ud800", "gaussian", "auto", [], [0],
    [None], [[]], ["a", "b"], [1e300, -1.0], {}, {"type": "RBF"}, {"type": "SGD", "checkpoint": "/nowhere"},
    {"parameter": -1.0}, {"function": "f"}, {"mapping": {}}, {"recognizer": "AAAA"}, {"recognizer": 3}, {"tuple": []},
    {"numpy": "x"},
)  # fmt: skip


def contents(model: Any, notes: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The metadata and the arrays of a fitted model's file, to be altered as you like."""
    metadata, arrays = pack(model, notes or {})
    return json.loads(json.dumps(metadata)), {name: array.copy() for name, array in arrays.items()}


def write(path: Path, metadata: dict[str, Any] | bytes, arrays: dict[str, np.ndarray], kind: Kind = MODEL) -> Path:
    """A file of these, whatever they are, with the checksum that belongs to it; `metadata` may be the line itself."""
    if not isinstance(metadata, bytes):
        metadata = json.dumps({"arrays": list(arrays), **metadata}).encode()
    payload = io.BytesIO()
    payload.write(metadata + b"\n")
    for array in arrays.values():
        npy.write_array(payload, np.asarray(array), allow_pickle=True)
    return forge(path, payload.getvalue(), kind)


def altered(model: Any, path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]) -> Path:
    """A model's file after `change(metadata, arrays)`, which works in place."""
    metadata, arrays = contents(model)
    change(metadata, arrays)
    return write(path, metadata, arrays)


def forge(path: Path, payload: bytes, kind: Kind = MODEL) -> Path:
    """A file of any bytes behind the header that belongs to them."""
    path.write_bytes(header(kind, hashlib.sha256(payload).hexdigest(), len(payload)) + payload)
    return path


def places(value: Any, at: tuple = ()) -> Iterator[tuple]:
    """The keys that lead to everything inside JSON, leaves and branches.

    >>> list(places({"a": [1, {"b": 2}]}))
    [('a',), ('a', 0), ('a', 1), ('a', 1, 'b')]
    """
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*at, key)
        yield from places(item, (*at, key))


def mutated(
    metadata: dict[str, Any], arrays: dict[str, np.ndarray], rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The same with one thing of it different, drawn at random, and what that is in words."""
    metadata, arrays = copy.deepcopy(metadata), dict(arrays)
    every = list(places(metadata))
    if (rng.random() < 0.6 and every) or not arrays:
        said = _alter(metadata, every[rng.integers(len(every))], rng)
    else:
        name = list(arrays)[rng.integers(len(arrays))]
        said = _alter_array(arrays, name, rng)
    return metadata, arrays, said


def _alter(metadata: dict[str, Any], place: tuple, rng: np.random.Generator) -> str:
    owner: Any = metadata
    for key in place[:-1]:
        owner = owner[key]
    key, old = place[-1], owner[place[-1]]
    where = "/".join(map(str, place))
    what = rng.integers(8)
    if what == 0:
        del owner[key]
        return f"{where} deleted"
    if what == 1 and isinstance(owner, dict):
        owner[f"{key}x"] = owner.pop(key)
        return f"{where} renamed"
    if what == 2 and isinstance(old, list) and old:
        owner[key] = old * 2 if rng.random() < 0.5 else old[:-1]
    elif what == 3 and isinstance(old, int | float) and not isinstance(old, bool):
        owner[key] = [-old, old + 1, old * 1e6, old / 3 - 1, str(old), [old]][rng.integers(6)]
    elif what == 4:
        nested: Any = old
        for _ in range(int(rng.integers(1, 300))):
            nested = [nested] if rng.random() < 0.5 else {"type": "Sum", "k1": nested, "k2": {"type": "RBF"}}
        owner[key] = nested
        return f"{where} nested"
    else:
        owner[key] = copy.deepcopy(JUNK[rng.integers(len(JUNK))])
    return f"{where}: {str(old)[:60]!r} becomes {str(owner[key])[:60]!r}"


def _alter_array(arrays: dict[str, np.ndarray], name: str, rng: np.random.Generator) -> str:
    old = arrays[name]
    new = old.copy()
    what = int(rng.integers(8))
    if what == 0:
        del arrays[name]
        return f"array {name} deleted"
    if what == 1:
        kinds = ["f4", "f8", "i8", "i4", "u1", "?", "c16", "U3", "O", "M8[s]"]
        kind = kinds[rng.integers(len(kinds))]
        try:
            new = old.astype(kind)
        except (TypeError, ValueError):
            new = np.zeros(old.shape, kind)
        said = f"of kind {kind}"
    elif what == 2 and old.ndim:
        shapes = [new[:0], new[:1], new[..., None], new.ravel(), np.array(0.0), np.repeat(new, 2, axis=-1)]
        new = shapes[rng.integers(len(shapes))]
        said = f"of shape {new.shape}"
    else:
        values = [np.nan, np.inf, -1.0, 0.0, 1e300, -1e300, 1e-300, 1e9, 0.5, 7.0]
        value = values[rng.integers(len(values))]
        with np.errstate(all="ignore"):
            try:
                filled = np.array(value).astype(new.dtype)
            except (TypeError, ValueError):
                filled = np.zeros((), new.dtype)
        everywhere = rng.random() < 0.3 or not new.size
        if everywhere:
            new[...] = filled
        else:
            new.reshape(-1)[rng.integers(new.size)] = filled
        said = f"with {value} {'everywhere' if everywhere else 'somewhere'}"
    arrays[name] = new
    return f"array {name} {said}"
