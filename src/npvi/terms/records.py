"""What a user says a predictor is a sum of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from npvi.checks import SCALE, Kind, as_numbers, check_choice, check_count, check_flag, check_number
from npvi.parameters import Parameter

__all__ = ["AR1", "Field", "Group", "Linear", "Offset", "RandomWalk", "Smooth", "Term", "Varying"]

#: kernels that a field may have: those whose range means the same
KERNELS = ("matern12", "matern32", "matern52", "rbf")

#: of a mesh
_NODES = 4000

#: beyond them rounding takes a smooth for something else
_SMOOTHING = Kind("a positive number from 1e-12 to 1e12", lambda value: 1e-12 <= value <= 1e12)


class Term:
    """One part of a predictor."""

    @property
    def name(self) -> str:
        """What the part is called in tables: as in a formula."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Levels:
    """From level to level of a column that is a time."""

    column: str

    def __post_init__(self) -> None:
        _check_text(self.column, f"{type(self).__name__}: column", "a name")


class AR1(_Levels):
    """``by=npvi.AR1("year")``: a field of its own at each time, correlated with the one before; ``rho`` is learned.

    >>> AR1("year")
    AR1(column='year')
    """


class RandomWalk(_Levels):
    """``by=npvi.RandomWalk("year")``: a field that changes from time to time by an independent field, for good.

    >>> RandomWalk("year")
    RandomWalk(column='year')
    """


@dataclass(frozen=True, init=False)
class Linear(Term):
    """Linear effects: ``npvi.Linear("forest", "habitat", "forest:slope", "poly(depth, 2)")``.

    Parameters
    ----------
    *terms : str
        Each as in a formula: the name of a column (words become contrasts with the first level), products with ``:`` or
        ``*``, and transformations that formulae knows (``poly``, ``bs``, ``center``, ``scale``, ``C``) or NumPy has
        (``log``, ``sqrt``, ``exp``, …).
    intercept : whether there is a constant.
    scale : standard deviation of the prior of each coefficient; the model's ``coefficient_scale`` unless given.

    Examples
    --------
    >>> Linear("forest", "C(habitat)").name
    'linear'
    """

    terms: tuple[str, ...]
    intercept: bool
    scale: float | None

    def __init__(self, *terms: str, intercept: bool = True, scale: float | None = None) -> None:
        for term in terms:
            _check_text(term, "Linear", "a column or an expression")
        if scale is not None:
            check_number(scale, "Linear: scale", SCALE)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "intercept", check_flag(intercept, "Linear: intercept"))
        object.__setattr__(self, "scale", scale)

    @property
    def name(self) -> str:
        return "linear"


@dataclass(frozen=True, init=False)
class Group(Term):
    """Effects of levels that are alike: of observers, sites, herds. In a formula ``(1|site)``, ``(1 + effort|site)``.

    Parameters
    ----------
    *columns : names of the column with the levels, of any kind; of several, each combination is a level.
    slope : column, or columns, whose coefficient differs from level to level.
    intercept : whether there is an effect of the level itself; slopes are correlated with it, and with each other.
    sd : standard deviation: where learning starts, `npvi.fixed`, `npvi.bounded`, `npvi.pc(above=…)`,
        `npvi.half_normal`; one for all effects or one for each. Unless given, a weak prior in units of the predictor.

    Examples
    --------
    >>> Group("site").name, Group("site", slope="effort").name, Group("site", "year").name
    ('1|site', '1 + effort|site', '1|site:year')
    """

    columns: tuple[str, ...]
    slope: tuple[str, ...]
    intercept: bool
    sd: Any

    def __init__(
        self, *columns: str, slope: str | Sequence[str] | None = None, intercept: bool = True, sd: Any = None
    ) -> None:
        _check_columns(columns, "Group")
        if not isinstance(slope, str | list | tuple | None):
            raise ValueError(f"Group: slope must be a column, or a list of them; got {slope!r:.60}")
        slopes = () if slope is None else (slope,) if isinstance(slope, str) else tuple(slope)
        for one in slopes:
            _check_text(one, "Group: slope", "a column")
        intercept = check_flag(intercept, "Group: intercept")
        if not (slopes or intercept):
            raise ValueError("Group: without an intercept there must be a slope: give slope=, or intercept=True")
        for name, value in (("columns", columns), ("slope", slopes), ("intercept", intercept), ("sd", sd)):
            object.__setattr__(self, name, value)
        _check_parameter(sd, "Group: sd", several=True)

    @property
    def name(self) -> str:
        effects = " + ".join((*(("1",) if self.intercept else ("0",)), *self.slope))
        return f"{effects}|{':'.join(self.columns)}"


@dataclass(frozen=True, init=False)
class Smooth(Term):
    """A smooth function of one covariate, or of two: ``npvi.Smooth("depth")``, in a formula ``s(depth)``.

    Cubic B-splines whose second derivative is penalised, as mgcv's ``s(x, bs="bs")``; how much, ``sd``, is learned, and
    where it is nothing a straight line is left. Of two covariates, products of those of each, penalised along both, as
    mgcv's ``te``.

    Parameters
    ----------
    *columns : one or two.
    k : number of functions, along each.
    by : a column of words, or of numbers. Of words each level has a smooth of its own; a number multiplies the smooth.
    cyclic : whether the end joins the beginning, as of a year; the ends are those of the data, or `period`.
    period : first and last value that are the same, for a cyclic one.
    sd : standard deviation of what is not a straight line, over the data: where learning starts, `npvi.fixed`,
        `npvi.pc(above=…)`, `npvi.half_normal`, ….
    smoothing : mgcv's smoothing parameter ``sp`` instead, held; with Gaussian noise divided by its variance.
    knots : {"even", "quantiles"}: whether knots are evenly spaced, or have as many values between them.

    Examples
    --------
    >>> Smooth("depth").name, Smooth("x", "y", k=6).name, Smooth("depth", by="gear").name
    ('s(depth)', 's(x, y)', 's(depth, by=gear)')
    """

    columns: tuple[str, ...]
    k: int
    by: str | None
    cyclic: bool
    period: tuple[float, float] | None
    sd: Any
    smoothing: float | None
    knots: str

    def __init__(
        self,
        *columns: str,
        k: int = 10,
        by: str | None = None,
        cyclic: bool = False,
        period: Sequence[float] | None = None,
        sd: Any = None,
        smoothing: float | None = None,
        knots: str = "even",
    ) -> None:
        _check_columns(columns, "Smooth", most=2)
        check_count(k, "Smooth: k", 4, 40 if len(columns) == 2 else 1000)
        check_flag(cyclic, "Smooth: cyclic")
        if by is not None:
            _check_text(by, "Smooth: by", "a column")
        if len(columns) == 2 and (by is not None or cyclic or smoothing is not None):
            raise ValueError("Smooth: of two covariates there is no by=, cyclic= or smoothing=: leave it out")
        check_choice(knots, "Smooth: knots", ("even", "quantiles"))
        if knots != "even" and cyclic:
            raise ValueError("Smooth: knots around a circle are evenly spaced: leave knots= out")
        if period is not None and not (cyclic and len(period) == 2 and period[0] < period[1]):
            raise ValueError(f"Smooth: period is two numbers, the first one smaller, with cyclic=True; got {period!r}")
        if smoothing is not None:
            check_number(smoothing, "Smooth: smoothing", _SMOOTHING)
            if cyclic or sd is not None:
                raise ValueError("Smooth: smoothing, mgcv's sp, goes without cyclic= and sd=")
        _check_parameter(sd, "Smooth: sd")
        period = None if period is None else (float(period[0]), float(period[1]))
        given = (columns, k, by, cyclic, period, sd, smoothing, knots)
        for one, value in zip(fields(self), given):
            object.__setattr__(self, one.name, value)

    @property
    def name(self) -> str:
        by = "" if self.by is None else f", by={self.by}"
        return f"s({', '.join(self.columns)}{by})"


@dataclass(frozen=True, init=False)
class Field(Term):
    """A Gaussian process over some columns: ``npvi.Field("lon", "lat")``, in a formula ``gp(lon, lat)``.

    Parameters
    ----------
    *columns : its coordinates.
    by : a column each of whose levels has a field of its own, with the same range and standard deviation;
        ``AR1("year")`` and ``RandomWalk("year")`` go from level to level.
    kernel : {"matern32", "matern12", "matern52", "rbf"}
    range : distance at which correlation is small (0.14 for the Matérns: twice the length scale), for all columns or
        one for each: where learning starts, `npvi.fixed`, `npvi.bounded`, `npvi.pc(below=…)`. "each" learns one for
        each column, "shared" takes that of the first field.
    sd : standard deviation: likewise; `npvi.pc(above=…)`, `npvi.half_normal`.
    sphere : whether the columns are longitude and latitude in degrees; distances are then kilometres.
    n_neighbors : earlier points that each point looks at.
    cell : size of cells within which the field is one number, if it is to be no finer than that, as the mesh of SPDE
        models is coarse. There are then as many numbers as cells with data.
    mesh : shortest edge of a mesh of triangles whose nodes have the field's numbers, with straight lines in between:
        the field of INLA and sdmTMB (their ``cutoff``), a Matérn of smoothness 1 that is no finer than the mesh; or the
        nodes themselves, shape (n, 2). For some thousand nodes.
    rho : for `AR1`, the correlation from one time to the next: where learning starts, or `npvi.fixed`.

    Examples
    --------
    >>> Field("lon", "lat").name, Field("lon", "lat", by="year").name, Field("lon", "lat", by=AR1("year")).name
    ('gp(lon, lat)', 'gp(lon, lat, by=year)', 'gp(lon, lat, by=AR1(year))')
    """

    columns: tuple[str, ...]
    by: str | AR1 | RandomWalk | None
    kernel: str
    range: Any
    sd: Any
    sphere: bool
    n_neighbors: int
    cell: float | None
    mesh: float | tuple[tuple[float, float], ...] | None
    rho: Any

    def __init__(
        self,
        *columns: str,
        by: str | AR1 | RandomWalk | None = None,
        kernel: str = "matern32",
        range: Any = None,
        sd: Any = None,
        sphere: bool = False,
        n_neighbors: int = 20,
        cell: float | None = None,
        mesh: Any = None,
        rho: Any = None,
    ) -> None:
        _check_columns(columns, "Field")
        if by is not None and not isinstance(by, str | AR1 | RandomWalk):
            raise ValueError(f'Field: by is a column, npvi.AR1("year") or npvi.RandomWalk("year"); got {by!r}')
        check_choice(kernel, "Field: kernel", KERNELS)
        check_flag(sphere, "Field: sphere")
        if sphere and len(columns) != 2:
            raise ValueError(f"Field: on a sphere there are longitude and latitude; got {', '.join(columns)}")
        check_count(n_neighbors, "Field: n_neighbors", largest=1000)
        if not (isinstance(range, str) and range in ("shared", "each")):
            _check_parameter(range, "Field: range", several=True)
        _check_parameter(sd, "Field: sd")
        if cell is not None:
            check_number(cell, "Field: cell", SCALE)
            if sphere:
                raise ValueError("Field: cells are of columns in a plane: leave cell= or sphere= out")
        if mesh is not None:
            mesh = _as_mesh(mesh)
            if len(columns) != 2 or sphere or cell is not None or kernel != "matern32" or isinstance(by, _Levels):
                raise ValueError(
                    "Field: a mesh is of two columns in a plane, and has a kernel of its own: leave sphere=, cell= and "
                    "kernel= out; by= is a column"
                )
            if (isinstance(range, str) and range == "each") or np.ndim(getattr(range, "value", range)):
                raise ValueError("Field: on a mesh there is one range for both columns")
        if rho is not None and not isinstance(by, AR1):
            raise ValueError("Field: rho goes with by=npvi.AR1(…)")
        given = (columns, by, kernel, range, sd, sphere, n_neighbors, cell, mesh, rho)
        for one, value in zip(fields(self), given):
            object.__setattr__(self, one.name, value)

    @property
    def name(self) -> str:
        if isinstance(self.by, _Levels):
            by = f", by={type(self.by).__name__}({self.by.column})"
        else:
            by = "" if self.by is None else f", by={self.by}"
        return f"gp({', '.join(self.columns)}{by})"

    @property
    def over(self) -> tuple[str, ...]:
        """All columns that it sees."""
        if self.by is None:
            return self.columns
        return (*self.columns, self.by if isinstance(self.by, str) else self.by.column)


@dataclass(frozen=True)
class Varying(Term):
    """A coefficient that is a surface: ``npvi.Varying("year_scaled", over=npvi.Field("lon", "lat"))``.

    Parameters
    ----------
    column : what the surface is multiplied with.
    over : the surface.

    Examples
    --------
    >>> Varying("effort", over=Field("lon", "lat")).name
    'effort:gp(lon, lat)'
    """

    column: str
    over: Field = field(default_factory=lambda: Field("x", "y"))

    def __post_init__(self) -> None:
        _check_text(self.column, "Varying", "a column")
        if not isinstance(self.over, Field):
            raise ValueError(f"Varying: over must be a Field, got {self.over!r}")

    @property
    def name(self) -> str:
        return f"{self.column}:{self.over.name}"


@dataclass(frozen=True)
class Offset(Term):
    """Added to the predictor as it is: ``npvi.Offset("log(hours)")``.

    >>> Offset("log(hours)").name
    'offset(log(hours))'
    """

    expression: str

    def __post_init__(self) -> None:
        _check_text(self.expression, "Offset", "a column or an expression")

    @property
    def name(self) -> str:
        return f"offset({self.expression})"


def _check_text(value: Any, who: str, what: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{who} must be {what}, a text; got {value!r}")


def _check_columns(columns: tuple[Any, ...], who: str, most: int | None = None) -> None:
    for column in columns:
        _check_text(column, who, "names of columns")
    if not columns or len(set(columns)) < len(columns) or (most is not None and len(columns) > most):
        allowed = "at least one column" if most is None else f"one to {most} columns"
        raise ValueError(f"{who} needs {allowed}, each once; got {', '.join(map(repr, columns)) or 'none'}")


def _as_mesh(mesh: Any) -> Any:
    """A number, or nodes as tuples."""
    nodes = as_numbers(mesh, "Field: mesh")
    if nodes.ndim == 0:
        check_number(mesh, "Field: mesh", SCALE)
        return float(mesh)
    if nodes.ndim != 2 or nodes.shape[1] != 2 or not 3 <= len(nodes) <= _NODES or not np.isfinite(nodes).all():
        raise ValueError(
            f"Field: mesh is a number, or the nodes: finite numbers of shape (n, 2), 3 to {_NODES:,} of them; got "
            f"shape {nodes.shape}"
        )
    return tuple(map(tuple, nodes.tolist()))


def _check_parameter(value: Any, name: str, several: bool = False) -> None:
    """A start, or a `Parameter`; positive."""
    if value is None:
        return
    inside = value.value if isinstance(value, Parameter) else value
    numbers = list(inside) if several and isinstance(inside, list | tuple) else [inside]
    for number in numbers:
        check_number(number, name, SCALE)
