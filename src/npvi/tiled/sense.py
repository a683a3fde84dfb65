"""Whether what a folder says can be a model in tiles: its JSON, and the arrays that go on to compiled code.

Checksums tell damage. Who writes a folder can write its checksums, too, and compiled loops trust what they are given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.checks import LARGEST
from npvi.graph import check_parents
from npvi.io import config
from npvi.kernels import Kernel
from npvi.likelihoods import Likelihood, Softmax
from npvi.parameters import check_kinds
from npvi.runtime.fields import anything, each, flag, items, number, record, text, whole
from npvi.tiled.store import StoreError

if TYPE_CHECKING:
    from npvi.graph import Cube, Tiling
    from npvi.tiled.settled import Settled

__all__ = [
    "blaming",
    "check_along",
    "check_layout",
    "check_lent",
    "check_manifest",
    "check_model",
    "check_numbers",
    "check_plan",
    "check_posterior",
    "check_rows",
    "check_said",
    "check_settled",
    "check_ties",
    "check_tiling",
]

Arrays = Mapping[str, NDArray[Any]]

_NUMBERS = items(number())
#: columns of the mean, in standard deviations, at most; how much larger than these the sensitivity may be
_STEEP, _TIMES = 1e9, 30.0
_part = record(
    {
        **{"path": text, "groups": items(whole()), "first": whole(), "rows": whole(), "size": whole()},
        "modified": whole(-(2**63), 2**63),
    }
)
_source = record({"inputs": items(text, 1), "target": text, "extras": each(text), "parts": items(_part)})
_plan = record(
    {
        "source": _source,
        "likelihood": config,
        "settings": record({"learn": flag, "mean": anything, "coefficient_scale": anything, "random_state": anything}),
        "coords": items(whole(), 1),
        **{"halo": number(4.0), "rounds": whole(), "max_iter": whole(1), "learn_rows": whole()},
        **{"tiles": whole(1), "sample": whole(1)},
    }
)


def _evaluation(value: Any, name: str) -> None:
    """The number of an evaluation, of which names of files are made."""
    text(value, name)
    if not re.fullmatch(r"[0-9]{2,9}", value):
        raise ValueError(f"its {name} must be the number of an evaluation such as '01', got {value!r:.60}")


#: what learning from all rows has said of itself
_INFO = {
    **{"sample": whole(), "evaluations": whole(), "promised": number(finite=False), "at_bound": items(text)},
    **{"standard_errors": each(number(finite=False)), "begin": _evaluation, "climbed": flag},
}
check_model = record(
    {
        "model": record(
            {
                "kernel": config,
                "likelihood": config,
                "nugget": number(0.0),
                "neighbors": whole(1),
                "mean": record(
                    {
                        **{"coords": items(whole(), 1), "covariates": items(whole()), "constant": flag},
                        **{"center": _NUMBERS, "scale": items(number(1e-300)), "names": items(text)},
                        "precision": items(number(0.0)),
                    }
                ),
                "info": record({"rows": whole(), "learned": flag}, _INFO),
            },
            {"metric": config},
        ),
        "tiling": record(
            {
                **{"low": _NUMBERS, "side": number(0.0), "cuts": items(items(whole(), 2, 2))},
                "children": items(items(whole(-(2**62)), 2, 2)),
            }
        ),
        "box": items(_NUMBERS, 2, 2),
    }
)
_MATRIX = items(_NUMBERS)
_said = record(
    {
        **{"bound": number(), "converged": flag, "seen": whole(1), "coefficients": _NUMBERS},
        **{"HPf": _NUMBERS, "HPH": _MATRIX, "information": _MATRIX, "sums": each(text)},
    }
)
#: what is left of the equations after a round, and how long the last step was, which there is none of before the first
_left = record({"residual": number(), "largest": number()}, {"step": number(), "farthest": number()})
_manifest = record(
    {
        **{"npvi": text, "rows": whole(1), "tiles": whole(1), "rows_of_tiles": items(whole(), 1), "elbo": number()},
        **{"seen": items(whole()), "files": each(whole()), "coefficients": each(items(number(), 2, 2))},
        "trend": record({"coefficients": _NUMBERS, "covariance": items(_NUMBERS)}),
        "certificate": record({"certified": flag, "rounds": whole(), "history": items(_left, 1)}),
        "updates": items(record({"source": _source, "rows": whole()})),
    }
)


@contextmanager
def blaming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong inside, what is at `path` is to blame."""
    try:
        yield
    except (StoreError, MemoryError):
        raise
    except KeyError as error:
        raise StoreError(f"{os.fspath(path)} can't be used: it has no {error}") from error
    except Exception as error:
        raise StoreError(f"{os.fspath(path)} can't be used: {error}") from error


def check_plan(plan: Any) -> None:
    """Raise ValueError where it isn't what a fit writes down first."""
    _plan(plan, "")
    columns, rows = len(plan["source"]["inputs"]), sum(part["rows"] for part in plan["source"]["parts"])
    if max(plan["coords"]) >= columns:
        raise ValueError(f"its coords are not some of its {columns} inputs")
    if plan["tiles"] > max(1, rows):
        raise ValueError(f"its tiles are more than its {rows} rows")


def check_manifest(about: Any, rows: NDArray[np.integer], coefficients: int) -> None:
    """Raise ValueError where it isn't that of tiles with so many rows each, and of so many coefficients of the mean."""
    _manifest(about, "")
    p, tiles = coefficients, int(np.sum(rows > 0))
    if about["rows_of_tiles"] != rows.tolist() or not tiles:
        raise ValueError("its rows_of_tiles are not those of its tiles")
    for name, expected in {"rows": int(rows.sum()), "tiles": tiles}.items():
        if about[name] != expected:
            raise ValueError(f"its {name} must be those of its rows_of_tiles, {expected}; got {about[name]}")
    if len(about["seen"]) != tiles:
        raise ValueError(f"its seen has {len(about['seen'])} numbers for {tiles} tiles with rows")
    trend, covariance = about["trend"], np.array(about["trend"]["covariance"], np.float64)
    if len(trend["coefficients"]) != p or covariance.size != p * p:
        raise ValueError("its trend isn't that of its coefficients")
    if any(("step" in left) != ("farthest" in left) for left in about["certificate"]["history"]):
        raise ValueError("its certificate.history must say of a step how long it was, and how long at most")


def check_settled(settled: Settled, columns: int) -> None:
    """Raise ValueError where it is no model of so many columns."""
    part = settled.part
    kernels = [settled.kernel] if settled.metric is None else [settled.kernel, settled.metric]
    if not all(isinstance(one, Kernel) for one in kernels) or not isinstance(settled.likelihood, Likelihood):
        raise ValueError("its kernel or its likelihood is none")
    if isinstance(settled.likelihood, Softmax):
        raise ValueError("its likelihood isn't served in tiles")
    named = {*part.coords.tolist(), *part.covariates.tolist()}
    if named != set(range(columns)) or len(part.covariates) != len(set(part.covariates.tolist())):
        raise ValueError(f"its coords and covariates are not all of its {columns} columns")
    covariates, coefficients = len(part.covariates), len(part.covariates) + int(part.constant)
    sizes = {"center": covariates, "scale": covariates, "names": coefficients}
    for name, size in sizes.items():
        if len(getattr(part, name)) != size:
            raise ValueError(f"its {name} has {len(getattr(part, name))} numbers for {size}")
    if len(settled.coefficient_precision) != coefficients:
        raise ValueError("its precision doesn't fit its coefficients")
    for one in (*kernels, settled.likelihood):
        check_kinds(one)
    for kernel in kernels:
        kernel.validate(len(part.coords))
    settled.likelihood.validate()


def check_tiling(tiling: Tiling, dimensions: int) -> None:
    """Raise ValueError where cuts don't make a tree, or not of points in so many dimensions."""
    nodes = len(tiling.cuts)
    if tiling.cube.low.shape != (dimensions,) or tiling.children.shape != (nodes, 2):
        raise ValueError("its tiling isn't one of its points")
    if nodes and not np.all(tiling.cuts[:, 0] < dimensions):
        raise ValueError("its tiling cuts along an axis that isn't there")
    found = np.sort(tiling.children.ravel())
    after = np.where(tiling.children >= 0, tiling.children > np.arange(nodes)[:, None], True)
    if nodes and not (np.array_equal(found, np.r_[np.arange(-nodes - 1, 0), np.arange(1, nodes)]) and after.all()):
        raise ValueError("its tiling is no tree")


def check_layout(layout: Arrays, tiles: int, dimensions: int) -> None:
    """Raise ValueError where it isn't that of so many tiles."""
    _check_shapes(layout, {"boxes": (tiles, 2, dimensions), "coarse": (tiles,)}, {"rows": (tiles,), "thin": (tiles,)})
    _check_shapes(layout, {}, {"first": (tiles,)}, 2)
    if not np.all((layout["thin"] >= 0) & (layout["thin"] <= layout["rows"])):
        raise ValueError("its thin rows are not some of its rows")
    if np.any(layout["first"] < 0):
        raise ValueError("its first levels are not from 0")


def check_rows(
    rows: Arrays, coarse: Arrays, border: Arrays, layout: Arrays, tile: int, columns: int, cube: Cube
) -> None:
    """Raise ValueError where a tile's rows, or those of them that tiles far away read, or those that others have a say
    in, are not of the kinds and shapes that they must have, or not some of the tile's, or their levels not those of the
    order."""
    count, thin, first = (int(layout[name][tile]) for name in ("rows", "thin", "first"))
    axes = len(cube.low)
    for found, n in ((rows, count), (coarse, len(coarse["number"]))):
        _check_shapes(found, {"rows": (n, columns)}, {})
        _check_shapes(found, {}, {"levels": (n,), "places": (n,)}, 2)
    n = len(border["number"])
    _check_shapes(border, {}, {"numbers": (n, axes), "keys": (n,)})
    _check_shapes(border, {}, {"levels": (n,)}, 2)
    for some in (coarse, border):
        number = some["number"]
        _check_shapes(some, {}, {"number": (len(number),)})
        if np.any(np.diff(number) <= 0) or np.any((number < 0) | (number >= count)):
            raise ValueError("its rows are not some of the tile's")
    if not (coarse["number"][:thin] == np.arange(thin)).all():
        raise ValueError("its first rows are not those that are thin")
    for which, some, names in (("coarse", coarse, ("rows", "levels", "places")), ("border", border, ("levels",))):
        for name in names:
            if not np.array_equal(some[name], rows[name][some["number"]]):
                raise ValueError(f"its {which} {name} are not those of the tile")
    levels, places, last = rows["levels"], rows["places"], cube.bits * axes + 1
    if np.any((levels < 0) | (levels > last)) or np.any((places < 0) | (places > levels)):
        raise ValueError(f"its levels are not from 0 to {last}, or its places come after their rows")
    if count and places.min() != first:
        raise ValueError(f"its first level is {places.min()}, and not {first} as in the layout")


def check_said(about: Mapping[str, Any], coefficients: int, vectors: Collection[str]) -> None:
    """Raise ValueError where a tile with rows doesn't say what updates of others ask for."""
    _said(about, "")
    p = coefficients
    for name, size in {"coefficients": p, "HPf": p, "HPH": p * p, "information": p * p}.items():
        if np.array(about[name], np.float64).size != size:
            raise ValueError(f"its {name} is not that of {p} coefficients")
    if set(about["sums"]) != set(vectors):
        raise ValueError("its sums are not those of its files")


def check_ties(ties: Arrays, tiles: int, thin: int) -> None:
    """Raise ValueError where thin rows that a tile sees are not some of so many, or what it lends isn't lent to tiles
    in turn."""
    index, lent = ties["index"], ties["lent"]
    _check_shapes(ties, {}, {"index": (len(index),), "lent": (len(lent), 3)})
    if np.any((index < 0) | (index >= thin)) or len(np.unique(index)) != len(index):
        raise ValueError("its index does not name thin rows, each of them once")
    to, start, stop = lent.T
    if np.any((to < 0) | (to >= tiles)) or not np.array_equal(start, np.r_[0, stop][:-1]) or np.any(stop < start):
        raise ValueError("its lent does not say which tile has what")


def check_numbers(values: NDArray[np.float64], width: int, low: float = -LARGEST) -> None:
    """Raise ValueError unless there are so many numbers for each row, from `low` to the largest that there may be."""
    if values.shape[1] != width:
        raise ValueError(f"it has {values.shape[1]} numbers for each row, not {width}")
    if not np.all((values >= low) & (values <= LARGEST)):
        raise ValueError(f"it has numbers that are not from {low:g} to {LARGEST:g}")


def check_along(values: NDArray[np.float64], most: Sequence[float]) -> None:
    """Raise ValueError where f rises more with β than the largest numbers of the mean's columns allow."""
    check_numbers(values, len(most))
    if np.any(np.abs(values) > (1.0 + _TIMES) * np.array(most)):
        raise ValueError(f"it has numbers more than {1.0 + _TIMES:g} times what the mean's columns can be")


def check_lent(lent: NDArray[np.float64], rows: NDArray[np.integer]) -> None:
    """Raise ValueError unless rows of T are values, tiles and rows of these, as many as `rows` says, or −1 and −1."""
    if lent.shape[1] % 3:
        raise ValueError("it doesn't have three numbers for each entry")
    values, tile, number = np.split(lent, 3, axis=1)
    check_numbers(values, values.shape[1])
    none = (tile == -1.0) & (number == -1.0)
    here = np.isin(tile, np.arange(len(rows))) & (number == np.round(number)) & (number >= 0.0)
    most = rows[np.where(here, tile, 0.0).astype(np.int64)]
    if not np.all(none | (here & (number < most))):
        raise ValueError("it names rows that are not there")


def check_posterior(found: Arrays, about: Mapping[str, Any], dimensions: int, coefficients: int) -> None:
    """Raise ValueError where a tile's arrays are not of the kinds and shapes that they must have, or say what none can.

    f follows β by H + Z = (P + W)⁻¹PH, Z being the sensitivity: an average of H, so that Z is about as large as H.
    """
    n, k = found["parents"].shape
    shapes = {"residual": (n,), "site_precision": (n,), "sensitivity": (n, coefficients), "places": (n, dimensions)}
    _check_shapes(found, shapes, {"parents": (n, k), "spatial": (n,), "keys": (n,)})
    if not n or not np.all(found["site_precision"] >= 0.0):
        raise ValueError("it has no rows, or its site_precision is negative somewhere")
    if not np.array_equal(np.sort(found["spatial"]), np.arange(n)):
        raise ValueError("its spatial does not name every point once")
    check_parents(found["parents"])
    made = record({"coefficients": _NUMBERS, "basis": items(number(0.0, _STEEP))})
    made({name: about[name] for name in ("coefficients", "basis")}, "")
    if not len(about["coefficients"]) == len(about["basis"]) == coefficients:
        raise ValueError("its coefficients are not those of the model")
    most = _TIMES * np.array(about["basis"], np.float64)
    if np.any(np.abs(found["sensitivity"]).max(axis=0) > most):
        raise ValueError(f"its sensitivity is more than {_TIMES:g} times what the mean's columns can be")


def _check_shapes(
    arrays: Arrays,
    floating: Mapping[str, tuple[int, ...]],
    whole_numbers: Mapping[str, tuple[int, ...]],
    itemsize: int = 4,
) -> None:
    for kinds, shapes in (("fiu", floating), ("iu", whole_numbers)):
        for name, shape in shapes.items():
            array = arrays[name]
            if array.dtype.kind not in kinds or array.dtype.itemsize < itemsize or array.shape != shape:
                raise ValueError(f"its {name} is not an array of numbers of shape {shape}")
            if kinds == "fiu" and not np.all(np.abs(array.astype(np.float64)) <= LARGEST):
                raise ValueError(f"its {name} has numbers that are not finite, or beyond {LARGEST:g}")
