"""Quantiles of many rows at once from P(Y ≤ y | f) on a lattice of f and y that all of them share.

Φ⁻¹(P(Y ≤ y)) of a row is smooth in y. So it is found at 24 evenly spaced y around the quantile, each a sum over evenly
spaced f, a nanosecond for a term, and the quantile by a polynomial through the fourteen y nearest to it. Searches begin
from the quantile of one model that is like all of them together. P(Y ≤ y | f) is made in tiles of 8 by 8 when a row
first needs it, and kept for the next search. Rows that don't settle to all digits are left to `MixedCdf`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.integrals.moments import conditional_moments
from npvi.likelihoods.integrals.root_finding import to_x, to_y
from npvi.likelihoods.integrals.rows_cdf import Component, shape_of, start_of, step_of
from npvi.likelihoods.support import Support
from npvi.linalg.lanes import LANES, add_blocks
from npvi.runtime.compiling import compiled, inner, reordered

__all__ = ["forget", "lattice_quantile"]

_FEWEST, _TAIL = 64, 1e-3
"""Rows that a lattice is worth it for, and how far out its digits suffice."""
_TILE, _COLUMNS, _NODES = LANES, 3, 14
"""Points of a tile in either direction; columns of tiles that are looked at; y that the polynomial goes through."""
_SEEN = _COLUMNS * _TILE
_REACH = 7.3
"""Standard deviations of f that sums cover."""
_FINE = 0.9
"""Of the step that a rule of its own has, which comes in sizes, the next larger one."""
_PER_UNIT = 4.0
"""y for the width of P(Y ≤ y), at least."""
_MOST_NODES, _MOST_SLOTS = 2048, 2**20
_WORTH = 32
"""Tiles for each row, beyond which its own integral is as quick."""
_ROUNDS, _FINER = 6, (0, 1, 3, 5)
"""Looks that a row takes, and by which powers of two the spacing is made finer where that is needed."""
_WHOLE = 100
"""That makes it 1."""
_CLOSE = 2e-11
"""By how much polynomials through these y and through one or two less may differ in P."""
_TIE = 1e-9
"""P(Y ≤ y) of whole y that is nearer to q is left to integrals that are right to all digits."""
_UNKNOWN, _NEVER, _ALWAYS = -1, 0, 1
_CERTAIN = 1e-15
_KEPT = 2**20
"""Rows of tiles, of 64 bytes, of all lattices together."""


class _Spacing(NamedTuple):
    """2^f and 2^y are the distances; `atom` is the only y where it is one."""

    f: int
    y: int
    atom: float | None = None


class _Tiles(NamedTuple):
    """values[8 slots[i, j]] is the first row of the tile that begins at f = 8 (first_f + i) 2^f, and so in y."""

    first_f: int
    first_y: int
    slots: np.ndarray
    values: np.ndarray


class _Lattice:
    """P(Y ≤ y | f) of one likelihood at one spacing."""

    def __init__(self, likelihood: Likelihood, row: dict[str, float], spacing: _Spacing) -> None:
        self._likelihood, self._spacing = likelihood, spacing
        self._row = {name: np.array(value) for name, value in row.items()}
        constant = np.repeat([[0.0], [1.0]], _TILE, axis=0) * np.ones(_TILE)
        self.tiles = _Tiles(0, 0, np.full((1, 1), _UNKNOWN), constant)
        self._lock = Lock()

    def add(self, mean: np.ndarray, sd: np.ndarray, share: float, column: np.ndarray, out: np.ndarray) -> bool:
        """To `out` share · E P(Y ≤ y | f), f ~ N(mean, sd²), at the y of columns of tiles from `column` on; False where
        the tiles for it aren't worth it."""
        step = 2.0**self._spacing.f
        while not _add(mean, sd, share, step, column, *self.tiles, out):
            with self._lock:
                if not self._reach(mean, sd, column):
                    return False
            _trim()
        return True

    def _reach(self, mean: np.ndarray, sd: np.ndarray, column: np.ndarray) -> bool:
        """Make what tiles are missing."""
        first, last = _ends(mean, sd, 2.0**self._spacing.f)
        low, high = int(first.min()) // _TILE, int(last.max()) // _TILE
        tiles = _grown(self.tiles, low, high, int(column.min()), int(column.max()) + _COLUMNS - 1)
        if tiles is None:
            return False
        wanted = np.zeros(tiles.slots.shape, dtype=np.bool_)
        _mark(first // _TILE - tiles.first_f, last // _TILE - tiles.first_f, column - tiles.first_y, wanted)
        cells = np.argwhere(wanted & (tiles.slots == _UNKNOWN))
        if len(cells) > _WORTH * len(mean):
            return False
        self.tiles = self._made(tiles, cells)
        return True

    def _made(self, tiles: _Tiles, cells: np.ndarray) -> _Tiles:
        f, y = (_TILE * (cells + np.array([tiles.first_f, tiles.first_y]))).T
        corner = _TILE - 1
        # P(Y ≤ y | f) falls with f and grows with y
        most, least = self._at(f, y + corner), self._at(f + corner, y)
        label = np.where(most < _CERTAIN, _NEVER, np.where(least > 1.0 - _CERTAIN, _ALWAYS, _UNKNOWN))
        todo = np.flatnonzero(label == _UNKNOWN)
        label[todo] = len(tiles.values) // _TILE + np.arange(len(todo))
        inside = np.arange(_TILE)
        f, y = f[todo, None, None] + inside, y[todo, None, None] + inside[:, None]
        shape = len(todo), _TILE, _TILE
        flat = self._at(np.broadcast_to(f, shape).reshape(-1, _TILE), y.reshape(-1, 1)).reshape(shape)
        slots = tiles.slots.copy()
        slots[tuple(cells.T)] = label
        return tiles._replace(
            slots=slots, values=np.concatenate([tiles.values, flat.transpose(0, 2, 1).reshape(-1, _TILE)])
        )

    def _at(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        step = self._spacing
        f = f * 2.0**step.f
        with np.errstate(all="ignore"):
            if step.atom is None:
                found = self._likelihood.cdf_at(y * 2.0**step.y, f, **self._row)
            else:
                found = self._likelihood.cdf(np.full(y.shape, step.atom), f, **self._row)
        return np.broadcast_to(found, np.broadcast_shapes(f.shape, y.shape))


class _Part(NamedTuple):
    """One model: f ~ N(mean, sd²) in each row, `row` what all rows have in common."""

    weight: float
    likelihood: Likelihood
    mean: np.ndarray
    sd: np.ndarray
    row: dict[str, float]
    key: Any
    """What lattices of it are kept under, or None."""


def lattice_quantile(components: Sequence[Component], q: float) -> tuple[np.ndarray, np.ndarray]:
    """The smallest y with P(Y ≤ y) ≥ q, for each row, and which rows have it to all digits.

    >>> from npvi.likelihoods import Gamma
    >>> y, settled = lattice_quantile([Component(1.0, Gamma(3.0), np.zeros(64), np.ones(64), {})], 0.5)
    >>> y[:2].round(6), settled.all()
    (array([0.910373, 0.910373]), np.True_)
    """
    n = len(components[0].mean)
    out, settled = np.zeros(n), np.zeros(n, dtype=bool)
    zeros, parts = _parts(components)
    if n < _FEWEST or not _TAIL <= q <= 1.0 - _TAIL or parts is None:
        return out, settled
    search = _Search(zeros, parts, q)
    if len(parts) > 1:  # from where one like all of them together has it
        for spacing, rows in search.groups(np.arange(n)):
            search.begin(rows, *search([search.together], spacing, rows))
    for finer in _FINER if not parts[0].likelihood.support.discrete else (*_FINER, _WHOLE):
        for spacing, rows in search.groups(np.flatnonzero(~settled), finer):
            out[rows], settled[rows] = search(parts, spacing, rows)
            search.begin(rows, out[rows], out[rows] != 0.0)
    return out, settled


def _parts(components: Sequence[Component]) -> tuple[float, list[_Part] | None]:
    """The probability of zeros whatever f is, and the models beside it, if a lattice serves them all."""
    zeros, parts = 0.0, []
    for part in components:
        share, likelihood = part.likelihood.beside_zeros() or (0.0, part.likelihood)
        found = likelihood.shared(**part.row)
        if found is None or _is_closed(likelihood, part):
            return zeros, None
        zeros += part.weight * share
        mean, sd = part.mean + found[1], np.sqrt(part.variance)
        parts.append(_Part(part.weight * (1.0 - share), likelihood, mean, sd, found[0], _key(likelihood, found[0])))
    return zeros, parts


def _is_closed(likelihood: Likelihood, part: Component) -> bool:
    """Whether there is a formula for the quantile, and then for sums over models too: quicker than any table."""
    row = {name: value[:1] for name, value in part.row.items()}
    return likelihood.marginal_quantile(0.5, part.mean[:1], part.variance[:1], **row) is not None


class _Search:
    """For F(y) = q, F(y) = zeros + Σ weight P(Y ≤ y) of the parts."""

    def __init__(self, zeros: float, parts: list[_Part], q: float) -> None:
        self._zeros, self._parts, self._q = zeros, parts, q
        self._support = parts[0].likelihood.support
        beside = np.clip((q - zeros) / (1.0 - zeros), _TAIL, 1.0 - _TAIL) if zeros < 1.0 else 0.5
        self._prepare(float(beside))

    def _prepare(self, q: float) -> None:
        """Where each row begins, and the spacing that it needs."""
        weights = np.array([part.weight for part in self._parts])
        weights = weights / max(weights.sum(), 1e-300)
        means, sds = (np.array([getattr(part, name) for part in self._parts]) for name in ("mean", "sd"))
        mean, narrow = weights @ means, sds.min(axis=0)
        sd = np.sqrt(weights @ (sds**2 + (means - mean) ** 2))
        largest = self._parts[int(np.argmax(weights))]
        self.together = largest._replace(weight=1.0 - self._zeros, mean=mean, sd=sd)
        row = {name: np.full(len(mean), value) for name, value in largest.row.items()}
        centre, spread, slope, width, least = shape_of(largest.likelihood, q, mean, sd, row)
        finer, resolution = self._beside(largest, np.linspace(mean.min(), mean.max(), 33))
        noise = finer * spread
        with np.errstate(all="ignore"):
            step = _FINE * step_of(narrow, finer * width, resolution)
            trials = largest.row.get("trials", np.inf)
            # of many trials a share, in the logistic coordinate
            support = replace(self._support, discrete=trials == np.inf and self._support.discrete, upper=trials)
            support = self._support if trials == np.inf else support
            start = start_of(support, centre, spread, slope * sd)
            unit = start_of(support, centre, noise, slope * narrow).unit
            x = start.centre + special.ndtri(q) * start.unit
            if self._support.discrete:
                # in the coordinate of the lattice, y itself
                x = np.expm1(np.minimum(x, 690.0)) if trials == np.inf else to_y(support)(x)
                per_unit = (x + 1.0) * np.minimum((trials - x + 1.0) / trials if trials < np.inf else 1.0, 1.0)
                self._unit = start.unit * per_unit
                unit = np.maximum(np.minimum(unit * per_unit, np.hypot(finer * least, slope * narrow)), _PER_UNIT)
            else:
                self._unit = start.unit
            self._x = np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
            self._f_power = np.floor(np.log2(step))
            # sums of more terms are left to others
            reach = _REACH * np.maximum(sds.max(axis=0), sd)
            self._f_power[reach > (0.5 * _MOST_NODES - 4.0) * 2.0**self._f_power] = np.nan
            self._y_power = np.floor(np.log2(unit / _PER_UNIT))

    def _beside(self, largest: _Part, f: np.ndarray) -> tuple[float, float]:
        """How much narrower than the largest part's noise that of others is, at worst; the finest resolution."""
        ratio, resolution = 1.0, np.inf
        distinct = {id(part.likelihood): part for part in self._parts}
        spread = _noise(largest, f)
        for part in distinct.values():
            resolution = min(resolution, part.likelihood.resolution)
            with np.errstate(all="ignore"):
                ratio = min(ratio, float(np.nanmin(_noise(part, f) / spread, initial=1.0)))
        return ratio, resolution

    def groups(self, rows: np.ndarray, finer: int = 0) -> list[tuple[_Spacing, np.ndarray]]:
        """These rows, those of one spacing together."""
        usable = np.isfinite(self._f_power) & np.isfinite(self._y_power) & (np.abs(self._x) < 1e15)
        rows = rows[usable[rows]]
        f, y = self._f_power[rows], self._y_power[rows] - finer
        if self._support.discrete:
            y = np.maximum(y, 0.0)
        found, place = np.unique(f + 1j * y, return_inverse=True)
        return [(_Spacing(int(key.real), int(key.imag)), rows[place == k]) for k, key in enumerate(found)]

    def begin(self, rows: np.ndarray, y: np.ndarray, known: np.ndarray) -> None:
        """Where they are known roughly, begin there."""
        x = to_x(self._support, y)
        self._x[rows] = np.where(known & np.isfinite(x), x, self._x[rows])

    def __call__(self, parts: Sequence[_Part], spacing: _Spacing, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles of these rows, and which of them are certain."""
        out, settled, todo = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool), np.arange(len(rows))
        atom, base = self._support.atom, np.full(len(rows), self._zeros)
        if atom is not None:
            at = self._seen(parts, spacing._replace(y=0, atom=atom), rows, np.zeros(len(rows), dtype=np.int64))
            if at is None:
                return out, settled
            base = at[:, 0]
            reached = base >= self._q
            out[reached], settled[reached] = atom, True
            todo = np.flatnonzero(~reached)
        scale = 2.0**spacing.y
        lowest = 0 if self._support.discrete else -(2**40)
        column = self._column(self._x[rows] / scale, lowest)
        for _ in range(_ROUNDS):
            if not len(todo):
                break
            seen = self._seen(parts, spacing, rows[todo], column[todo])
            if seen is None:
                break
            below = np.sum(seen < self._q - _TIE * self._support.discrete, axis=1)
            inside = (below >= _NODES // 2) & (below <= _SEEN - _NODES // 2) & np.isfinite(seen).all(axis=1)
            if self._support.discrete and spacing.y == 0:
                inside = (below < _SEEN) & ((below > 0) | (column[todo] == 0)) & np.isfinite(seen).all(axis=1)
            here = todo[inside]
            solve = self._whole if self._support.discrete and spacing.y == 0 else self._between
            out[here], settled[here] = solve(seen[inside], below[inside], _TILE * column[here], scale, base[here])
            todo, seen, below = todo[~inside], seen[~inside], below[~inside]
            # on from the end that is nearer, by the distance in Φ⁻¹
            left = below < _NODES // 2
            end = np.where(left, seen[:, 0], seen[:, -1])
            away = np.clip(_score(self._q, base[todo]) - _score(end, base[todo]), -8.0, 8.0)
            place = np.where(left, 0.0, _SEEN) + away * self._unit[rows[todo]] / scale
            to = self._column(_TILE * column[todo] + place, lowest)
            to = np.where(left, np.minimum(to, column[todo] - 1), np.maximum(to, column[todo] + 1))
            column[todo], moves = to, to >= lowest
            todo = todo[moves]
        return out, settled

    @staticmethod
    def _column(place: np.ndarray, lowest: int) -> np.ndarray:
        """The first of two columns of tiles with this place about in the middle."""
        return np.maximum((np.floor(np.nan_to_num(place)).astype(np.int64) - _TILE) // _TILE, lowest)

    def _seen(
        self, parts: Sequence[_Part], spacing: _Spacing, rows: np.ndarray, column: np.ndarray
    ) -> np.ndarray | None:
        """F at 24 y from each column on."""
        out = np.zeros((len(rows), _SEEN))
        for part in parts:
            if not _lattice(part, spacing).add(part.mean[rows], part.sd[rows], part.weight, column, out):
                return None
        return out + self._zeros

    def _whole(
        self, seen: np.ndarray, below: np.ndarray, first: np.ndarray, scale: float, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first of whole numbers that reaches q."""
        each = np.arange(len(seen))
        here, before = seen[each, below], np.where(below > 0, seen[each, below - 1], 0.0)
        clear = (here > self._q + _TIE) & (before < self._q - _TIE)
        return (first + below).astype(np.float64), clear

    def _between(
        self, seen: np.ndarray, below: np.ndarray, first: np.ndarray, scale: float, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where a polynomial through Φ⁻¹(F) reaches q."""
        start = below - _NODES // 2
        near = np.take_along_axis(seen, start[:, None] + np.arange(_NODES), axis=1)
        place, apart = _inverse(_score(near, base[:, None]), _score(self._q, base))
        middle = _NODES // 2
        slope = near[:, middle] - near[:, middle - 1]
        with np.errstate(invalid="ignore", divide="ignore"):
            error = apart * slope
            settled = error <= _CLOSE * (100.0 if self._support.discrete else 1.0)
            # a finer spacing begins from a straight line
            place = np.where(settled, place, middle - 1.0 + (self._q - near[:, middle - 1]) / slope)
        x = (first + start + place) * scale
        if not self._support.discrete:
            return to_y(self._support)(x), settled & _exact(self._support, x)
        y = np.ceil(x)
        with np.errstate(invalid="ignore"):
            settled &= np.minimum(y - x, x - y + 1.0) / scale * slope > 10.0 * _TIE
        return y, settled


def _noise(part: _Part, f: np.ndarray) -> np.ndarray:
    row = {name: np.full(len(f), value) for name, value in part.row.items()}
    return np.sqrt(conditional_moments(part.likelihood, f, row)[1])


def _exact(support: Support, x: np.ndarray) -> np.ndarray:
    """Where a number has the digits that its distance from the ends needs."""
    return np.abs(x) < 600.0 if np.isfinite(support.lower) else np.isfinite(x)


def _score(f: np.ndarray | float, base: np.ndarray) -> np.ndarray:
    """Φ⁻¹ of the share of F beyond that of an atom, kept finite."""
    return special.ndtri(np.clip((f - base) / np.maximum(1.0 - base, 1e-300), 1e-300, 1.0 - 1e-16))


@compiled
def _inverse(score, level):
    """The place in 0, 1, … where the score is `level`, by Neville's scheme, and the most by which it is another one
    without the first point, the last or both: two of these may agree by chance."""
    rows, n = score.shape
    found, apart, place = np.empty(rows), np.empty(rows), np.empty(n)
    for i in range(rows):
        for k in range(n):
            place[k] = k
        for d in range(1, n):
            for k in range(n - d):
                before, after = level[i] - score[i, k], level[i] - score[i, k + d]
                place[k] = (after * place[k] - before * place[k + 1]) / (after - before)
            if d == n - 3:
                inner = place[1]
            elif d == n - 2:
                left, right = place[0], place[1]
        found[i] = place[0]
        apart[i] = max(abs(found[i] - inner), abs(found[i] - left), abs(found[i] - right))
    return found, apart


@inner
def _bounds(mean, sd, step):
    """The first and the last f of a sum, in steps."""
    reach = min(_REACH * sd / step, 0.5 * _MOST_NODES - 2.0)
    return int(np.ceil(mean / step - reach)), int(np.floor(mean / step + reach))


@compiled
def _ends(mean, sd, step):
    first, last = np.empty(len(mean), np.int64), np.empty(len(mean), np.int64)
    for row in range(len(mean)):
        first[row], last[row] = _bounds(mean[row], sd[row], step)
    return first, last


def _grown(tiles: _Tiles, low: int, high: int, left: int, right: int) -> _Tiles | None:
    """With slots for these too."""
    some = tiles.slots.shape
    known = bool(np.any(tiles.slots != _UNKNOWN))
    if known:
        low, high = min(low, tiles.first_f), max(high, tiles.first_f + some[0] - 1)
        left, right = min(left, tiles.first_y), max(right, tiles.first_y + some[1] - 1)
        if (high - low + 1, right - left + 1) == some:
            return tiles
    if (high - low + 1) * (right - left + 1) > _MOST_SLOTS:
        return None
    slots = np.full((high - low + 1, right - left + 1), _UNKNOWN)
    if known:
        i, j = tiles.first_f - low, tiles.first_y - left
        slots[i : i + some[0], j : j + some[1]] = tiles.slots
    return tiles._replace(first_f=low, first_y=left, slots=slots)


def _key(likelihood: Likelihood, row: dict[str, float]) -> Any:
    parameters = vars(likelihood).values()
    if not all(isinstance(value, (str, float, int, np.ndarray, list, tuple)) for value in parameters):
        return None
    numbers = (value if isinstance(value, str) else np.asarray(value, float).tobytes() for value in parameters)
    return type(likelihood), *numbers, *row.values()


_kept: OrderedDict[Any, _Lattice] = OrderedDict()
_keeping = Lock()


def _lattice(part: _Part, spacing: _Spacing) -> _Lattice:
    """The lattice of this model, one for all searches where its parameters say what it is."""
    if part.key is None:
        return _Lattice(part.likelihood, part.row, spacing)
    key = part.key, spacing
    with _keeping:
        if key not in _kept:
            _kept[key] = _Lattice(part.likelihood.replace(), part.row, spacing)
        _kept.move_to_end(key)
        return _kept[key]


def _trim() -> None:
    """Forget the lattices that were not asked for longest."""
    with _keeping:
        total = sum(len(one.tiles.values) for one in _kept.values())
        while total > _KEPT and len(_kept) > 1:
            total -= len(_kept.popitem(last=False)[1].tiles.values)


def forget() -> None:
    """Forget all lattices."""
    with _keeping:
        _kept.clear()


@compiled
def _mark(first, last, column, wanted):
    for row in range(len(first)):
        for i in range(first[row], last[row] + 1):
            for j in range(_COLUMNS):
                wanted[i, column[row] + j] = True


@reordered
def _add(mean, sd, share, step, column, first_f, first_y, slots, values, out):
    """To out[row] share · Σ density P(Y ≤ y | f), densities that sum to 1: a quotient of quotients is one. Whether all
    the tiles for it are there."""
    height, width = slots.shape
    for row in range(len(mean)):
        first, last = _bounds(mean[row], sd[row], step)
        low, high, j = first // _TILE - first_f, last // _TILE - first_f, column[row] - first_y
        if low < 0 or high >= height or j < 0 or j + _COLUMNS > width:
            return False
        for i in range(low, high + 1):
            for k in range(_COLUMNS):
                if slots[i, j + k] == _UNKNOWN:
                    return False
    weights = np.empty(_MOST_NODES)
    seen = np.empty((_COLUMNS, LANES))
    for row in range(len(mean)):
        first, last = _bounds(mean[row], sd[row], step)
        d = step / sd[row]
        middle = min(max(int(np.rint(mean[row] / step)), first), last)
        z = (middle * step - mean[row]) / sd[row]
        curve = np.exp(-d * d)
        # to both sides at once: a product waits for the one before
        up = down = np.exp(-0.5 * z * z)
        above, below = np.exp(-d * (z + 0.5 * d)), np.exp(d * (z - 0.5 * d))
        weights[middle - first] = total = up
        for n in range(1, max(last - middle, middle - first) + 1):
            up *= above
            down *= below
            above *= curve
            below *= curve
            if middle + n <= last:
                weights[middle + n - first] = up
                total += up
            if middle - n >= first:
                weights[middle - n - first] = down
                total += down
        low, high, j = first // _TILE - first_f, last // _TILE - first_f, column[row] - first_y
        seen[:] = 0.0
        for i in range(low, high + 1):
            one, two, three = slots[i, j], slots[i, j + 1], slots[i, j + 2]
            if one == _NEVER and two == _NEVER and three == _NEVER:
                continue
            begin, end = max(first, (first_f + i) * _TILE), min(last + 1, (first_f + i + 1) * _TILE)
            r = begin - (first_f + i) * _TILE
            places = one * _TILE + r, two * _TILE + r, three * _TILE + r
            add_blocks(weights, begin - first, end - begin, values, *places, seen)  # type: ignore[call-arg]
        for k in range(_COLUMNS):
            for c in range(_TILE):
                out[row, k * _TILE + c] += share / total * seen[k, c]
    return True
