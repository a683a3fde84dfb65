"""Tiles: points cut into boxes, an order that doesn't know of them, and the others around that each has to see.

An order for data that no memory holds must follow from the coordinates alone, tile by tile. The *nested* order does: a
cube around all points is halved again and again, one axis after the other, and the point with the smallest key of a
cell, the key being a hash of its coordinates, comes before all others of that cell. A point's *level* is that of the
largest cell that it is first in. So the order goes from coarse to fine, and whether a point is first in a cell is
known to whoever has all points of that cell: only cells that lie in several tiles need a word between these, and few
points of a tile have any (`straddling`).

A point's *spacing*, the side of that cell, is about the distance to those before it. The halo of a tile is one rule: a
point belongs to it that is no further away than `reach` times its own spacing. So halos are counted in neighbours, not
in length scales; the parents of a tile's points, which come earlier and have larger spacings, are among them; and what
is further away is there as an ever thinner sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.runtime.compiling import compiled

__all__ = [
    "Cube",
    "Tiling",
    "halo",
    "nested_levels",
    "nested_order",
    "place_levels",
    "point_keys",
    "straddling",
]

#: bits of a code, and of one axis: beyond, coordinates have none
_BITS, _AXIS = 64, 52
#: where a tile may be cut, in shares of its points: there the coarsest line is taken
_MIDDLE = (0.45, 0.55)


class Cube(NamedTuple):
    """The cube that is halved: its lowest corner and its side.

    >>> cube = Cube.around(np.array([[0.0, 1.0], [4.0, 2.0]]))
    >>> cube.low.tolist(), cube.side
    ([0.0, 1.0], 4.0)
    """

    low: NDArray[np.float64]
    side: float

    @classmethod
    def around(cls, points: NDArray[np.float64]) -> Cube:
        """The smallest around some points."""
        low = points.min(axis=0)
        return cls(low, float((points.max(axis=0) - low).max()) or 1.0)

    @property
    def bits(self) -> int:
        """How often an axis is halved."""
        return min(_BITS // len(self.low), _AXIS)

    def numbers(self, points: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Coordinates as whole numbers, from 0 to 2^bits − 1; points outside count as on the edge."""
        parts = 2.0**self.bits
        scaled = (points - self.low) / self.side * parts
        return np.clip(scaled, 0.0, np.nextafter(parts, 0.0)).astype(np.uint64)

    def spacing(self, levels: NDArray[np.integer]) -> NDArray[np.float64]:
        """The side of a cell of each level, as if it were a cube."""
        return self.side * 2.0 ** (-np.asarray(levels, np.float64) / len(self.low))


def point_keys(columns: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A hash of each row's numbers (SplitMix64's): the same wherever the row is.

    >>> keys = point_keys(np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]]))
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    found = np.zeros(len(columns), np.uint64)
    for column in columns.T:
        found = _mixed((found + np.uint64(0x9E3779B97F4A7C15)) ^ (column + 0.0).view(np.uint64))  # + 0 turns −0 into 0
    return found


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def nested_levels(numbers: NDArray[np.uint64], keys: NDArray[np.uint64], bits: int) -> NDArray[np.int16]:
    """The level of the largest cell that each point is first in: 0 for the first of all, one beyond the last level for
    those that have another point at their place before them.

    >>> numbers = np.array([[0], [1], [3], [3]], dtype=np.uint64)
    >>> nested_levels(numbers, np.array([5, 2, 7, 9], dtype=np.uint64), bits=2).tolist()
    [2, 0, 1, 3]
    """
    codes = np.empty(len(numbers), np.uint64)
    _interleave(numbers, bits, codes)
    order = np.argsort(codes, kind="stable")
    levels = np.empty(len(numbers), np.int16)
    found = np.zeros(len(numbers), np.int16)
    _levels(codes[order], keys[order], bits * numbers.shape[1], found, np.empty(len(numbers), np.int64))
    levels[order] = found
    return levels


def nested_order(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows in the nested order; those at one place by their number.

    >>> nested_order(np.array([[0.0], [0.1], [1.0], [1.0]])).tolist()
    [1, 2, 0, 3]
    """
    cube, keys = Cube.around(points), point_keys(points)
    return np.lexsort((keys, nested_levels(cube.numbers(points), keys, cube.bits)))


def place_levels(numbers: NDArray[np.uint64], levels: NDArray[np.int16]) -> NDArray[np.int16]:
    """The level of the first point at the place of each: what a halo asks of points that share one, all or none of
    which it has.

    >>> place_levels(np.array([[3], [1], [3]], dtype=np.uint64), np.array([1, 0, 3], dtype=np.int16)).tolist()
    [1, 0, 1]
    """
    _, place = np.unique(numbers, axis=0, return_inverse=True)
    place = place.ravel()
    least = np.full(place.max(initial=0) + 1, np.iinfo(np.int16).max, np.int16)
    np.minimum.at(least, place, levels)
    return least[place]


@compiled
def _interleave(numbers: NDArray, bits: int, codes: NDArray) -> None:
    """The bits of all axes in turn, the highest first."""
    one = np.uint64(1)
    for i in range(len(numbers)):
        code = np.uint64(0)
        for bit in range(bits - 1, -1, -1):
            for c in range(numbers.shape[1]):
                code = (code << one) | ((numbers[i, c] >> np.uint64(bit)) & one)
        codes[i] = code


@compiled
def _levels(codes: NDArray, keys: NDArray, bits: int, levels: NDArray, stack: NDArray) -> None:
    """Of points in the order of their codes. The neighbours with smaller keys to the left and to the right, found with
    a stack whose keys ascend, share the longest cells with a point among all that have smaller ones; `levels` is 0 to
    begin with."""
    top = 0
    for i in range(len(codes)):
        while top > 0 and keys[stack[top - 1]] > keys[i]:
            top -= 1
            j = stack[top]
            different, shared = codes[i] ^ codes[j], bits
            while different != np.uint64(0):
                different >>= np.uint64(1)
                shared -= 1
            levels[j] = max(levels[j], shared + 1)
        if top > 0:
            different, shared = codes[i] ^ codes[stack[top - 1]], bits
            while different != np.uint64(0):
                different >>= np.uint64(1)
                shared -= 1
            levels[i] = shared + 1
        stack[top] = i
        top += 1


def straddling(
    numbers: NDArray[np.uint64], levels: NDArray[np.int16], box: NDArray[np.uint64], bits: int
) -> NDArray[np.bool_]:
    """Which points of a tile are first, as far as the tile knows, in a cell that isn't all inside its `box`: others
    have a say in their level. What it is among all such points of all tiles, it is among all.

    Parameters
    ----------
    numbers, levels : of the tile's points.
    box : (2, d) the first whole number inside and the first beyond.
    """
    d = numbers.shape[1]
    found = np.zeros(len(numbers), dtype=bool)
    for c in range(d):
        # of the bits of this axis those that a cell of the level has fixed
        fixed = np.clip((levels.astype(np.int64) - c + d - 1) // d, 0, bits)
        free = (bits - fixed).astype(np.uint64)
        low = (numbers[:, c] >> free) << free
        found |= (low < box[0, c]) | (low + (np.uint64(1) << free) > box[1, c])
    return found


@dataclass(frozen=True, eq=False)
class Tiling:
    """Boxes with about as many points each, cut like a k-d tree along lines of the nested cells.

    Attributes
    ----------
    cube : what is halved.
    cuts : (nodes, 2) axis, and first whole number above the cut.
    children : (nodes, 2) what is below and above it: another node, or −1 − the number of a tile.

    Examples
    --------
    >>> points = np.random.default_rng(0).random((10_000, 2))
    >>> tiling = Tiling.cut(points, Cube.around(points), 4)
    >>> tiling.count, (np.bincount(tiling.tile_of(points)) // 500).tolist()
    (4, [4, 5, 5, 4])
    """

    cube: Cube
    cuts: NDArray[np.uint64]
    children: NDArray[np.int64]

    @classmethod
    def cut(cls, sample: NDArray[np.float64], cube: Cube, count: int) -> Tiling:
        """About `count` tiles, from a sample of the points; fewer, where points can't be told apart."""
        numbers = cube.numbers(sample)
        cuts: list[tuple[int, int]] = []
        children: list[list[int]] = []
        tiles = 0

        def divide(some: NDArray[np.uint64], wanted: int) -> int:
            nonlocal tiles
            line = _line(some, wanted, cube.bits) if wanted > 1 else None
            if line is None:
                tiles += 1
                return -tiles
            axis, at = line
            node = len(cuts)
            cuts.append(line)
            children.append([0, 0])
            below = some[:, axis] < np.uint64(at)
            children[node][0] = divide(some[below], wanted // 2)
            children[node][1] = divide(some[~below], wanted - wanted // 2)
            return node

        divide(numbers, count)
        return cls(cube, np.array(cuts, np.uint64).reshape(-1, 2), np.array(children, np.int64).reshape(-1, 2))

    @property
    def count(self) -> int:
        """Number of tiles."""
        return len(self.cuts) + 1

    def tile_of(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """The tile of each point."""
        numbers, found = self.cube.numbers(points), np.zeros(len(points), np.int64)
        waiting = [(0, np.arange(len(points)))] if len(self.cuts) else []
        while waiting:
            node, rows = waiting.pop()
            axis, at = int(self.cuts[node, 0]), self.cuts[node, 1]
            below = numbers[rows, axis] < at
            for child, some in zip(self.children[node].tolist(), (rows[below], rows[~below])):
                if child < 0:
                    found[some] = -1 - child
                else:
                    waiting.append((child, some))
        return found

    @cached_property
    def boxes(self) -> NDArray[np.uint64]:
        """(tiles, 2, d): for each tile and axis the first whole number inside and the first beyond."""
        d = len(self.cube.low)
        whole = np.array([[0] * d, [1 << self.cube.bits] * d], np.uint64)
        found = np.repeat(whole[None], self.count, axis=0)
        waiting = [(0, whole)] if len(self.cuts) else []
        while waiting:
            node, box = waiting.pop()
            axis, at = int(self.cuts[node, 0]), self.cuts[node, 1]
            for side, child in enumerate(self.children[node].tolist()):
                part = box.copy()
                part[1 - side, axis] = at
                if child < 0:
                    found[-1 - child] = part
                else:
                    waiting.append((child, part))
        return found

    def touching(self, tiles: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """These tiles, and all that share a border or a corner with one of them.

        >>> points = np.linspace(0.0, 1.0, 1000)[:, None]
        >>> tiling = Tiling.cut(points, Cube.around(points), 4)
        >>> tiling.touching(np.array([True, False, False, False])).tolist()
        [True, True, False, False]
        """
        low, high = self.boxes[:, 0], self.boxes[:, 1]
        found = tiles.copy()
        for tile in np.flatnonzero(tiles).tolist():
            found |= np.all((low <= high[tile]) & (low[tile] <= high), axis=1)
        return found

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "low": self.cube.low.tolist(),
            "side": self.cube.side,
            "cuts": self.cuts.tolist(),
            "children": self.children.tolist(),
        }

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Tiling:
        """What `as_dict` has said."""
        cube = Cube(np.array(about["low"], np.float64), float(about["side"]))
        cuts = np.array(about["cuts"], np.uint64).reshape(-1, 2)
        return cls(cube, cuts, np.array(about["children"], np.int64).reshape(-1, 2))


def _line(numbers: NDArray[np.uint64], wanted: int, bits: int) -> tuple[int, int] | None:
    """Axis and first whole number above a cut near the share of points that goes below it, along the coarsest cells;
    None where all points are at one place."""
    if not len(numbers):
        return None
    share = (wanted // 2) / wanted
    widths = np.ptp(numbers, axis=0)
    for axis in np.argsort(-widths.astype(np.float64), kind="stable").tolist():
        values = np.sort(numbers[:, axis])
        if values[0] == values[-1]:
            return None
        off = 0.5 - share
        low, high = (int(values[min(int((q - off) * len(values)), len(values) - 1)]) for q in _MIDDLE)
        at = _roundest(low, high, bits) if high > low else high
        if int(values[0]) < at <= int(values[-1]):
            return axis, at
        above = values[values > values[0]]  # nearly all are at one place, which the cut leaves to one side
        if len(above):
            return axis, int(above[0])
    return None


def _roundest(low: int, high: int, bits: int) -> int:
    """The number in (low, high] with the most zeros at its end.

    >>> _roundest(5, 11, 4), _roundest(8, 11, 4)
    (8, 10)
    """
    for free in range(bits, -1, -1):
        at = (high >> free) << free
        if at > low:
            return at
    return high


def halo(
    points: NDArray[np.float64], spacing: NDArray[np.float64], box: NDArray[np.float64], reach: float
) -> NDArray[np.bool_]:
    """Which points belong to the halo of a box, given as (2, d) lowest and highest coordinates.

    >>> points = np.array([[1.5], [3.0], [30.0]])
    >>> halo(points, np.array([0.1, 0.1, 8.0]), np.array([[0.0], [1.0]]), reach=6.0).tolist()
    [True, False, True]
    """
    gaps = np.maximum(np.maximum(box[0] - points, points - box[1]), 0.0)
    return np.einsum("ij,ij->i", gaps, gaps) <= (reach * spacing) ** 2
