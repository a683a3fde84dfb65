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
from npvi.linalg import LANES, add_blocks
from npvi.runtime.compiling import compiled, inner, inner_reordered, reordered

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
_MOST_NODES, _MOST_SLOTS = 2048, 2**22
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
    """values[8 slots[k, i, j]] is the first row of the tile of model k that begins at f = 8 (first_f + i) 2^f, and so
    in y."""

    first_f: int
    first_y: int
    slots: np.ndarray
    values: np.ndarray


class _Model(NamedTuple):
    """A likelihood, and what all rows have in common."""

    likelihood: Likelihood
    row: dict[str, float]
    key: Any
    """What tells it from others, or None."""


class _Lattice:
    """P(Y ≤ y | f) of some models at one spacing."""

    def __init__(self, models: Sequence[_Model], spacing: _Spacing) -> None:
        self._models, self._spacing = models, spacing
        constant = np.repeat([[0.0], [1.0]], _TILE, axis=0) * np.ones(_TILE)
        self.tiles = _Tiles(0, 0, np.full((len(models), 1, 1), _UNKNOWN, dtype=np.int32), constant)
        self._lock = Lock()

    def add(self, parts: _Parts, column: np.ndarray, out: np.ndarray) -> bool:
        """To `out` Σ weight · E P(Y ≤ y | f), f ~ N(mean, sd²), at the y of columns of tiles from `column` on; False
        where the tiles for it aren't worth it."""
        step = 2.0**self._spacing.f
        while not _add(parts.mean, parts.sd, parts.weight, parts.model, step, column, *self.tiles, out):
            with self._lock:
                if not self._reach(parts, column):
                    return False
            _trim()
        return True

    def _reach(self, parts: _Parts, column: np.ndarray) -> bool:
        """Make what tiles are missing."""
        first, last = _ends(parts.mean, parts.sd, 2.0**self._spacing.f)
        low, high = int(first.min()) // _TILE, int(last.max()) // _TILE
        tiles = _grown(self.tiles, low, high, int(column.min()), int(column.max()) + _COLUMNS - 1)
        if tiles is None:
            return False
        wanted = np.zeros(tiles.slots.shape, dtype=np.bool_)
        first, last = first // _TILE - tiles.first_f, last // _TILE - tiles.first_f
        _mark(first, last, parts.model, column - tiles.first_y, wanted)
        cells = np.argwhere(wanted & (tiles.slots == _UNKNOWN))
        if len(cells) > _WORTH * len(self._models) * len(column):
            return False
        each = np.split(cells, np.searchsorted(cells[:, 0], np.arange(1, len(self._models))))
        for model, some in zip(self._models, each):
            if len(some):
                tiles = self._made(model, tiles, some)
        self.tiles = tiles
        return True

    def _made(self, model: _Model, tiles: _Tiles, cells: np.ndarray) -> _Tiles:
        f, y = (_TILE * (cells[:, 1:] + np.array([tiles.first_f, tiles.first_y]))).T
        corner = _TILE - 1
        # P(Y ≤ y | f) falls with f and grows with y
        most, least = self._at(model, f, y + corner), self._at(model, f + corner, y)
        label = np.where(most < _CERTAIN, _NEVER, np.where(least > 1.0 - _CERTAIN, _ALWAYS, _UNKNOWN))
        todo = np.flatnonzero(label == _UNKNOWN)
        label[todo] = len(tiles.values) // _TILE + np.arange(len(todo))
        inside = np.arange(_TILE)
        f, y = f[todo, None, None] + inside, y[todo, None, None] + inside[:, None]
        shape = len(todo), _TILE, _TILE
        flat = self._at(model, np.broadcast_to(f, shape).reshape(-1, _TILE), y.reshape(-1, 1)).reshape(shape)
        slots = tiles.slots.copy()
        slots[tuple(cells.T)] = label
        return tiles._replace(
            slots=slots, values=np.concatenate([tiles.values, flat.transpose(0, 2, 1).reshape(-1, _TILE)])
        )

    def _at(self, model: _Model, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        step, row = self._spacing, {name: np.array(value) for name, value in model.row.items()}
        f = f * 2.0**step.f
        with np.errstate(all="ignore"):
            if step.atom is None:
                found = model.likelihood.cdf_at(y * 2.0**step.y, f, **row)
            else:
                found = model.likelihood.cdf(np.full(y.shape, step.atom), f, **row)
        return np.broadcast_to(found, np.broadcast_shapes(f.shape, y.shape))


class _Parts(NamedTuple):
    """f ~ N(mean[k], sd[k]²) in each row and y ~ models[model[k]], with probability weight[k]."""

    models: Sequence[_Model]
    weight: np.ndarray
    model: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    def of(self, rows: np.ndarray) -> _Parts:
        return self._replace(mean=self.mean[:, rows], sd=self.sd[:, rows])


def lattice_quantile(components: Sequence[Component], q: float) -> tuple[np.ndarray, np.ndarray]:
    """The smallest y with P(Y ≤ y) ≥ q, for each row, and which rows have it to all digits.

    >>> from npvi.likelihoods import Gamma
    >>> y, settled = lattice_quantile([Component(1.0, Gamma(3.0), np.zeros(64), np.ones(64), {})], 0.5)
    >>> y[:2].round(6), settled.all()
    (array([0.853424, 0.853424]), np.True_)
    """
    n = len(components[0].mean)
    out, settled = np.zeros(n), np.zeros(n, dtype=bool)
    zeros, parts = _parts(components)
    if n < _FEWEST or not _TAIL <= q <= 1.0 - _TAIL or parts is None:
        return out, settled
    search = _Search(zeros, parts, q)
    if len(parts.weight) > 1:  # from where one like all of them together has it
        search(search.together, np.arange(n))
    for finer in _FINER if not search.discrete else (*_FINER, _WHOLE):
        rows = search.untried(np.flatnonzero(~settled), finer)
        if len(rows):
            out[rows], settled[rows] = search(parts, rows, finer)
    return out, settled


def _parts(components: Sequence[Component]) -> tuple[float, _Parts | None]:
    """The probability of zeros whatever f is, and the models beside it, if a lattice serves them all."""
    zeros, models, weight, which, mean = 0.0, dict[Any, _Model](), [], [], []
    for part in components:
        share, likelihood = part.likelihood.beside_zeros() or (0.0, part.likelihood)
        found = likelihood.shared(**part.row)
        if found is None or _is_closed(likelihood, part):
            return zeros, None
        zeros += part.weight * share
        model = _Model(likelihood, found[0], _key(likelihood, found[0]))
        place = id(part) if model.key is None else model.key
        models.setdefault(place, model)
        which.append(list(models).index(place))
        weight.append(part.weight * (1.0 - share))
        mean.append(part.mean + found[1])
    sd = np.sqrt([part.variance for part in components])
    return zeros, _Parts(list(models.values()), np.array(weight), np.array(which), np.array(mean), sd)


def _is_closed(likelihood: Likelihood, part: Component) -> bool:
    """Whether there is a formula for the quantile, and then for sums over models too: quicker than any table."""
    row = {name: value[:1] for name, value in part.row.items()}
    return likelihood.marginal_quantile(0.5, part.mean[:1], part.variance[:1], **row) is not None


class _Search:
    """For F(y) = q, F(y) = zeros + Σ weight P(Y ≤ y) of the parts."""

    def __init__(self, zeros: float, parts: _Parts, q: float) -> None:
        self._zeros, self._parts, self._q = zeros, parts, q
        self._support = parts.models[0].likelihood.support
        self.discrete = self._support.discrete
        self._own: dict[Any, _Lattice] = {}
        beside = np.clip((q - zeros) / (1.0 - zeros), _TAIL, 1.0 - _TAIL) if zeros < 1.0 else 0.5
        self._prepare(float(beside))
        self._tried = np.full(len(self._x), np.inf)

    def _prepare(self, q: float) -> None:
        """Where each row begins, and the spacing that it needs."""
        parts = self._parts
        weights, sds = parts.weight / max(parts.weight.sum(), 1e-300), parts.sd
        mean, narrow = weights @ parts.mean, sds.min(axis=0)
        sd = np.sqrt(weights @ (sds**2 + (parts.mean - mean) ** 2))
        largest = parts.models[parts.model[int(np.argmax(weights))]]
        weight = np.array([1.0 - self._zeros])
        self.together = _Parts([largest], weight, np.zeros(1, dtype=np.int64), mean[None], sd[None])
        row = {name: np.full(len(mean), value) for name, value in largest.row.items()}
        centre, spread, slope, width, least = shape_of(largest.likelihood, q, mean, sd, row)
        finer, resolution = _beside(parts.models, largest, mean, mean + special.ndtri(q) * sd)
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
            if self.discrete:
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

    def untried(self, rows: np.ndarray, finer: int) -> np.ndarray:
        """Those of the rows for which a lattice this much finer is another one than the last."""
        return rows[self._power(rows, finer) != self._tried[rows]]

    def _power(self, rows: np.ndarray, finer: int) -> np.ndarray:
        y = self._y_power[rows] - finer
        return np.maximum(y, 0.0) if self.discrete else y

    def __call__(self, parts: _Parts, rows: np.ndarray, finer: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles of these rows, and which of them are certain; the next search begins there."""
        out, settled, y_power = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool), self._power(rows, finer)
        if parts is self._parts:
            self._tried[rows] = y_power
        usable = np.isfinite(self._f_power[rows]) & np.isfinite(y_power) & (np.abs(self._x[rows]) < 1e15)
        todo, base = np.flatnonzero(usable), np.full(len(rows), self._zeros)
        atom, lowest = self._support.atom, 0 if self.discrete else -(2**40)
        if atom is not None:
            at = self._seen(parts, rows[todo], np.zeros(len(todo)), np.zeros(len(todo), dtype=np.int64), atom)[:, 0]
            base[todo], reached = at, at >= self._q
            out[todo[reached]], settled[todo[reached]] = atom, True
            todo = todo[~reached & np.isfinite(at)]
        scale = np.exp2(np.where(usable, y_power, 0.0))
        whole = self.discrete & (y_power == 0.0)
        column = self._column(np.where(usable, self._x[rows], 0.0) / scale, lowest)
        for _ in range(_ROUNDS):
            if not len(todo):
                break
            seen = self._seen(parts, rows[todo], y_power[todo], column[todo])
            known = np.isfinite(seen).all(axis=1)
            todo, seen = todo[known], seen[known]
            below = np.sum(seen < self._q - _TIE * self.discrete, axis=1)
            inside = (below >= _NODES // 2) & (below <= _SEEN - _NODES // 2)
            inside = np.where(whole[todo], (below < _SEEN) & ((below > 0) | (column[todo] == 0)), inside)
            for solve, chosen in ((self._whole, inside & whole[todo]), (self._between, inside & ~whole[todo])):
                here = todo[chosen]
                if len(here):
                    given = seen[chosen], below[chosen], _TILE * column[here], scale[here], base[here]
                    out[here], settled[here] = solve(*given)
            todo, seen, below = todo[~inside], seen[~inside], below[~inside]
            # on from the end that is nearer, by the distance in Φ⁻¹
            left = below < _NODES // 2
            end = np.where(left, seen[:, 0], seen[:, -1])
            away = np.clip(_score(self._q, base[todo]) - _score(end, base[todo]), -8.0, 8.0)
            place = np.where(left, 0.0, _SEEN) + away * self._unit[rows[todo]] / scale[todo]
            to = self._column(_TILE * column[todo] + place, lowest)
            to = np.where(left, np.minimum(to, column[todo] - 1), np.maximum(to, column[todo] + 1))
            column[todo], moves = to, to >= lowest
            todo = todo[moves]
        x = to_x(self._support, out)
        self._x[rows] = np.where((out != 0.0) & np.isfinite(x), x, self._x[rows])
        return out, settled

    @staticmethod
    def _column(place: np.ndarray, lowest: int) -> np.ndarray:
        """The first of two columns of tiles with this place about in the middle."""
        return np.maximum((np.floor(np.nan_to_num(place)).astype(np.int64) - _TILE) // _TILE, lowest)

    def _seen(
        self, parts: _Parts, rows: np.ndarray, y_power: np.ndarray, column: np.ndarray, atom: float | None = None
    ) -> np.ndarray:
        """F at 24 y from each column on; NaN where no tiles are worth it."""
        out = np.zeros((len(rows), _SEEN))
        keys, place = np.unique(self._f_power[rows] + 1j * y_power, return_inverse=True)
        for k, key in enumerate(keys):
            some = np.flatnonzero(place == k)
            part = np.zeros((len(some), _SEEN))
            lattice = self._lattice(parts.models, _Spacing(int(key.real), int(key.imag), atom))
            out[some] = part if lattice.add(parts.of(rows[some]), column[some], part) else np.nan
        return out + self._zeros

    def _lattice(self, models: Sequence[_Model], spacing: _Spacing) -> _Lattice:
        """One for all searches where parameters say what it is."""
        key = tuple(model.key for model in models), spacing
        if None not in key[0]:
            return _lattice(key, models, spacing)
        if key not in self._own:
            self._own[key] = _Lattice(models, spacing)
        return self._own[key]

    def _whole(
        self, seen: np.ndarray, below: np.ndarray, first: np.ndarray, scale: np.ndarray, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first of whole numbers that reaches q."""
        each = np.arange(len(seen))
        here, before = seen[each, below], np.where(below > 0, seen[each, below - 1], 0.0)
        clear = (here > self._q + _TIE) & (before < self._q - _TIE)
        return (first + below).astype(np.float64), clear

    def _between(
        self, seen: np.ndarray, below: np.ndarray, first: np.ndarray, scale: np.ndarray, base: np.ndarray
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


def _beside(models: Sequence[_Model], largest: _Model, mean: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, float]:
    """How much narrower than that of the largest the noise of others is, at worst, at the mean of f or near the
    quantile; the finest resolution."""
    f = np.linspace(min(mean.min(), near.min()), max(mean.max(), near.max()), 33)
    ratio, spread = np.ones(len(f)), _noise(largest, f)
    for model in models:
        if model is not largest:
            with np.errstate(all="ignore"):
                ratio = np.fmin(ratio, _noise(model, f) / spread)
    finer = np.minimum(np.interp(mean, f, ratio), np.interp(near, f, ratio))
    return finer, min(model.likelihood.resolution for model in models)


def _noise(model: _Model, f: np.ndarray) -> np.ndarray:
    row = {name: np.full(len(f), value) for name, value in model.row.items()}
    return np.sqrt(conditional_moments(model.likelihood, f, row)[1])


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
    first, last = np.empty(mean.shape, np.int64), np.empty(mean.shape, np.int64)
    for part in range(len(mean)):
        for row in range(mean.shape[1]):
            first[part, row], last[part, row] = _bounds(mean[part, row], sd[part, row], step)
    return first, last


def _grown(tiles: _Tiles, low: int, high: int, left: int, right: int) -> _Tiles | None:
    """With slots for these too."""
    models, *some = tiles.slots.shape
    known = bool(np.any(tiles.slots != _UNKNOWN))
    if known:
        low, high = min(low, tiles.first_f), max(high, tiles.first_f + some[0] - 1)
        left, right = min(left, tiles.first_y), max(right, tiles.first_y + some[1] - 1)
        if [high - low + 1, right - left + 1] == some:
            return tiles
    shape = models, high - low + 1, right - left + 1
    if np.prod(shape, dtype=np.float64) > _MOST_SLOTS:
        return None
    slots = np.full(shape, _UNKNOWN, dtype=np.int32)
    if known:
        i, j = tiles.first_f - low, tiles.first_y - left
        slots[:, i : i + some[0], j : j + some[1]] = tiles.slots
    return tiles._replace(first_f=low, first_y=left, slots=slots)


def _key(likelihood: Likelihood, row: dict[str, float]) -> Any:
    parameters = vars(likelihood).values()
    if not all(isinstance(value, (str, float, int, np.ndarray, list, tuple)) for value in parameters):
        return None
    numbers = (value if isinstance(value, str) else np.asarray(value, float).tobytes() for value in parameters)
    return type(likelihood), *numbers, *row.values()


_kept: OrderedDict[Any, _Lattice] = OrderedDict()
_keeping = Lock()


def _lattice(key: Any, models: Sequence[_Model], spacing: _Spacing) -> _Lattice:
    with _keeping:
        if key not in _kept:
            own = [model._replace(likelihood=model.likelihood.replace()) for model in models]
            _kept[key] = _Lattice(own, spacing)
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
def _mark(first, last, model, column, wanted):
    for part in range(len(first)):
        for row in range(len(column)):
            for i in range(first[part, row], last[part, row] + 1):
                for j in range(_COLUMNS):
                    wanted[model[part], i, column[row] + j] = True


@reordered
def _add(mean, sd, share, model, step, column, first_f, first_y, slots, values, out):
    """To out[row] Σ share · Σ density P(Y ≤ y | f), densities that sum to 1: a quotient of quotients is one. Whether
    all the tiles for it are there."""
    height, width = slots.shape[1:]
    for part in range(len(mean)):
        for row in range(len(column)):
            first, last = _bounds(mean[part, row], sd[part, row], step)
            low, high, j = first // _TILE - first_f, last // _TILE - first_f, column[row] - first_y
            if low < 0 or high >= height or j < 0 or j + _COLUMNS > width:
                return False
            for i in range(low, high + 1):
                for k in range(_COLUMNS):
                    if slots[model[part], i, j + k] == _UNKNOWN:
                        return False
    weights = np.empty(_MOST_NODES)
    seen = np.empty((_COLUMNS, LANES))
    for part in range(len(mean)):
        own = slots[model[part]]
        for row in range(len(column)):
            first, last = _bounds(mean[part, row], sd[part, row], step)
            total = _weigh(mean[part, row], sd[part, row], step, first, last, weights)
            low, high, j = first // _TILE - first_f, last // _TILE - first_f, column[row] - first_y
            seen[:] = 0.0
            for i in range(low, high + 1):
                one, two, three = np.int64(own[i, j]), np.int64(own[i, j + 1]), np.int64(own[i, j + 2])
                if one == _NEVER and two == _NEVER and three == _NEVER:
                    continue
                begin, end = max(first, (first_f + i) * _TILE), min(last + 1, (first_f + i + 1) * _TILE)
                r = begin - (first_f + i) * _TILE
                places = one * _TILE + r, two * _TILE + r, three * _TILE + r
                add_blocks(weights, begin - first, end - begin, values, *places, seen)  # type: ignore[call-arg]
            for k in range(_COLUMNS):
                for c in range(_TILE):
                    out[row, k * _TILE + c] += share[part] / total * seen[k, c]
    return True


@inner_reordered
def _weigh(mean, sd, step, first, last, weights):
    """Normal densities at the f of a sum, but for their sum, which it returns."""
    d = step / sd
    middle = min(max(int(np.rint(mean / step)), first), last)
    z = (middle * step - mean) / sd
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
    return total
