"""Gaussian processes: what a `Field` becomes, and a `Varying` coefficient."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.components import OfProcess, Process, Rows
from npvi.graph import build_graph
from npvi.kernels import EARTH_RADIUS, KERNELS, Kernel, Matern12, Subset
from npvi.kernels import RandomWalk as RandomWalkKernel
from npvi.learning import Sought, seen_by
from npvi.parameters import Interval, Parameter
from npvi.priors import NNGP
from npvi.terms.base import Setting, as_range, as_sd
from npvi.terms.records import AR1, Field, RandomWalk, Varying
from npvi.terms.table import labels, numbers

__all__ = ["FieldPart", "SurfacePart"]

Vector = NDArray[np.float64]

#: where learning starts: the standard deviation in units of the predictor, the range in typical extents, and the
#: correlation from one time to the next
_START_SD, _START_RANGE, _START_RHO = 0.7, 1.0, 0.5
#: of the extent of the data: a range beyond these changes nothing any more
_SHORTEST, _LONGEST = 1e-4, 1e2
#: how far the standard deviation may go from its start
_FURTHEST = (1e4, 1e3)
#: variance on the diagonal relative to the field's own, without which systems of near points can't be solved
_NUGGET = {"rbf": 1e-4}
_SMALL_NUGGET = 1e-6
#: distance, in ranges, between levels that have nothing in common
APART = 1e5
#: the range is so many length scales
_RANGE = 2.0


class SurfacePart:
    """What a process at places and one on a mesh have in common: columns, levels, ``range`` and ``sd``.

    Parameters
    ----------
    term : what was said.
    table : with all rows.
    setting : what it is made for.
    """

    def __init__(self, term: Field | Varying, table: pd.DataFrame, setting: Setting) -> None:
        self.name = term.name
        self._column = term.column if isinstance(term, Varying) else None
        self._term = field = term.over if isinstance(term, Varying) else term
        self._levels = self._known_levels(table)
        X = self._inputs(table)
        self.d = X.shape[1] - (self._levels is not None or self._in_time)
        first = X[: setting.rows, : self.d]
        sd = np.std(first, axis=0)
        extent = np.ptp(first, axis=0)
        if not (extent > 0.0).any():
            cell = "" if field.cell is None else f", in cells of {field.cell:g} (cell)"
            raise ValueError(f"{self.name}: all rows are at one place{cell}: there is nothing that a field could tell")
        if self._in_time:
            self._origin = float(X[: setting.rows, self.d].min())
        self._one_each = isinstance(field.range, str) and field.range == "each"
        typical = np.sqrt(self.d) * np.where(sd > 0.0, sd, 1.0)  # twice where length scales start
        if not self._one_each:
            typical = np.sqrt(np.mean(typical[extent > 0.0] ** 2))
        self._extent = np.where(extent > 0.0, extent, 1.0) if self._one_each else float(extent.max())
        self.shared = isinstance(field.range, str) and field.range == "shared"
        said = None if isinstance(field.range, str) else field.range
        mode = float(np.max(typical)) if setting.weak else None
        self._range = as_range(said, (_START_RANGE * typical).tolist(), mode)
        if np.size(self._range.value) not in (1, self.d):
            raise ValueError(f"{self.name}: range has {np.size(self._range.value)} numbers for {self.d} columns")
        self._sd = as_sd(field.sd, _START_SD * setting.unit, setting.unit if setting.weak else None)
        self._rho = field.rho if isinstance(field.rho, Parameter) else Parameter(field.rho or _START_RHO)
        self._weight = self._weights(table)
        self._place(X, setting.rows)

    def _place(self, X: NDArray[np.float64], known: int) -> None:
        """Note what rows at such places see; the first ones are those that the fit knew."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The coordinates."""
        return self._term.columns

    # -- columns ------------------------------------------------------------------------------------------------------

    @property
    def _in_time(self) -> bool:
        return isinstance(self._term.by, AR1 | RandomWalk)

    def _known_levels(self, table: pd.DataFrame) -> NDArray | None:
        if not isinstance(self._term.by, str):
            return None
        return np.unique(labels(table, [self._term.by], self.name).astype(str))

    def _inputs(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """Coordinates, and the level or the time last."""
        X = numbers(table, self._term.columns, self.name)
        if self._term.sphere:
            X = _on_sphere(X, self.name)
        if self._term.cell is not None:
            X = (np.floor(X / self._term.cell) + 0.5) * self._term.cell
        by = self._term.by
        if isinstance(by, str):
            assert self._levels is not None
            found = labels(table, [by], self.name).astype(str)
            at = np.minimum(np.searchsorted(self._levels, found), len(self._levels) - 1)
            unknown = self._levels[at] != found
            if unknown.any():
                level = str(found[unknown][0])
                raise ValueError(
                    f"{self.name}: column {by!r} has the level {level!r}, which the fit has not seen: the "
                    f"field there has nothing in common with the others. by=npvi.AR1({by!r}) can forecast; or predict "
                    "without this part, by terms=[…]"
                )
            return np.column_stack([X, APART * at])
        if by is not None:
            time = numbers(table, [by.column], self.name)
            origin = getattr(self, "_origin", None)
            if isinstance(by, RandomWalk) and origin is not None and time.min() < origin:
                raise ValueError(
                    f"{self.name}: {by.column!r} is {time.min():g} in some rows; a random walk begins with the first "
                    f"time of the data, {origin:g}"
                )
            return np.hstack([X, time])
        return X

    def _weights(self, table: pd.DataFrame) -> Vector | None:
        return None if self._column is None else numbers(table, [self._column], self.name)[:, 0]

    # -- as a model of a part -----------------------------------------------------------------------------------------

    @property
    def sought(self) -> dict[str, Sought]:
        sd = float(np.asarray(self._sd.value))
        range_ = Sought(self._range, low=np.multiply(_SHORTEST, self._extent), high=np.multiply(_LONGEST, self._extent))
        found = {"range": range_, "sd": Sought(self._sd, low=sd / _FURTHEST[0], high=sd * _FURTHEST[1], simplest="low")}
        if isinstance(self._term.by, AR1):
            found["rho"] = Sought(self._rho, Interval(0.0, 1.0), 1e-3, 1.0 - 1e-3)
        return found

    def nothing(self, at_end: Collection[str]) -> bool:
        return "sd" in at_end

    # -- as a term ----------------------------------------------------------------------------------------------------

    def units(self, name: str) -> float:
        return 1.0

    def effects(self, mean: Vector, variance: Vector) -> None:
        """A place has no name."""
        return


class FieldPart(SurfacePart):
    """A process at places, each looking at some neighbours: ``range``, ``sd`` and, from time to time, ``rho``."""

    def _place(self, X: NDArray[np.float64], known: int) -> None:
        places, at = np.unique(X, axis=0, return_inverse=True)
        self.graph = build_graph(self._coordinates(places), self._term.n_neighbors).packed()
        self.X = places[self.graph.order]
        position = np.argsort(self.graph.order)
        self._rows = Rows(len(places), position[at.ravel()], self._weight)

    # -- as a model of a part -----------------------------------------------------------------------------------------

    def _starts(self) -> dict[str, Any]:
        return {name: one.value for name, one in self.sought.items()}

    def _kernel(self, values: Mapping[str, Any]) -> Kernel:
        lengths = np.asarray(values["range"], dtype=np.float64) / _RANGE
        variance = float(np.asarray(values["sd"])) ** 2
        kind: Any = KERNELS[self._term.kernel]
        if self._levels is not None:  # a distance that no range makes up for: between levels there is no correlation
            return kind([*np.broadcast_to(lengths, self.d).tolist(), float(np.max(lengths))], variance)
        plain = kind(lengths.tolist(), variance)
        if not self._in_time:
            return plain
        if isinstance(self._term.by, AR1):
            in_time: Kernel = Matern12(-1.0 / float(np.log(np.asarray(values["rho"]))))
        else:
            in_time = RandomWalkKernel(1.0, self._origin)
        return Subset(plain, range(self.d)) * Subset(in_time, [self.d])

    def component(self, values: Mapping[str, Any]) -> Process:
        nugget = _NUGGET.get(self._term.kernel, _SMALL_NUGGET) * float(np.asarray(values["sd"])) ** 2
        X = self._levels_apart(self.X, values)
        return Process(NNGP(self._kernel(values), nugget, X, self.graph), self._rows)

    def _levels_apart(self, X: NDArray[np.float64], values: Mapping[str, Any]) -> NDArray[np.float64]:
        """The same places, with levels so many length scales apart, whatever these are."""
        if self._levels is None:
            return X
        longest = float(np.max(np.asarray(values["range"]))) / _RANGE
        return np.column_stack([X[:, : self.d], longest * X[:, self.d]])

    def gradient(
        self, component: Process, values: Mapping[str, Any], functions: NDArray[np.float64], factor: Any
    ) -> dict[str, Any]:
        found = component.gradient(functions, factor)
        slopes: Any = found.kernel
        spatial = slopes.k1.kernel if self._in_time else slopes
        in_lengths = np.asarray(spatial.length_scale, dtype=np.float64)
        if self._levels is not None:  # levels move along with the range: nothing depends on their distance
            in_lengths = in_lengths[: self.d] if self._one_each else np.asarray(in_lengths[: self.d].sum())
        sd = float(np.asarray(values["sd"]))
        share = _NUGGET.get(self._term.kernel, _SMALL_NUGGET)
        out: dict[str, Any] = {
            "range": (in_lengths / _RANGE).tolist(),
            "sd": 2.0 * sd * (float(spatial.variance) + share * found.nugget),
        }
        if isinstance(self._term.by, AR1):
            rho = float(np.asarray(values["rho"]))
            out["rho"] = float(slopes.k2.kernel.length_scale) / (rho * np.log(rho) ** 2)
        return out

    @property
    def alike(self) -> NDArray[np.float64]:
        return self._coordinates(self.X)[self._rows.positions]

    def of_rows(self, rows: NDArray[np.intp]) -> FieldPart:
        some = copy(self)
        some.X, some.graph, some._rows = seen_by(rows, self._rows, self.X, self.graph, self._coordinates)
        return some

    def _coordinates(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """In which near places are near, as learning begins."""
        starts = self._starts()
        return self._kernel(starts).coordinates(self._levels_apart(places, starts))

    # -- as a term ----------------------------------------------------------------------------------------------------

    def new_rows(self, component: Process, table: pd.DataFrame) -> OfProcess:
        kernel: Any = component.prior.kernel
        Z = self._inputs(table)
        if self._levels is not None:
            Z = np.column_stack([Z[:, : self.d], float(np.asarray(kernel.length_scale)[-1]) * Z[:, self.d]])
        return OfProcess(component, Z, self._weights(table))


def _on_sphere(X: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Places in space, in kilometres, of longitudes and latitudes in degrees."""
    if np.abs(X[:, 1]).max(initial=0.0) > 90.0 or np.abs(X[:, 0]).max(initial=0.0) > 360.0:
        raise ValueError(
            f"{name}: on a sphere the columns are longitude (up to ±360) and latitude (up to ±90), in this order; got "
            f"up to {np.abs(X[:, 0]).max():g} and {np.abs(X[:, 1]).max():g}"
        )
    lon, lat = np.deg2rad(X).T
    unit = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    return EARTH_RADIUS * unit
