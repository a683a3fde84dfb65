"""Recognised posteriors of data larger than memory: tile by tile, each with a halo from its neighbours.

Rows are first sorted into tiles on disk, with one pass to see where they lie and one to put them there. A tile and the
rows around it are then a data set of their own, whose order every row carries with it: a random number, so that two
tiles agree about who comes before whom.

These boxes aren't yet those of `npvi.graph.tiles`, because rows stand in the order of their random numbers here, not in
the nested one that tiles and halos follow from there.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from npvi.amortized.recognition import recognised
from npvi.amortized.recognizer import Recognizer, exact_sites, pretrained
from npvi.checks import (
    as_numbers,
    check_count,
    check_jobs,
    check_path,
    generator,
    refuse_masked,
    refuse_repeated_names,
)
from npvi.components import Process, SolverLog, Stack
from npvi.graph import build_graph
from npvi.inference import Data, SparseFactors
from npvi.kernels import Kernel, as_kernel
from npvi.learning import unwrapped
from npvi.likelihoods import Likelihood, as_likelihood
from npvi.parameters import check_nugget
from npvi.priors import NNGP
from npvi.runtime import progress
from npvi.runtime.parallel import threads

__all__ = ["stream_posterior"]

#: rows that are read at a time, and rows that tell where tiles begin and end
_ROWS, _SAMPLE = 2**17, 2**17
#: how far a halo reaches, in distances to the K-th neighbour
_REACH = 4.0


def stream_posterior(
    source: str | os.PathLike[str] | Iterable[Any],
    target: str,
    inputs: str | Sequence[str],
    *,
    kernel: str | Kernel,
    nugget: float,
    likelihood: str | Likelihood,
    network: Recognizer | str = "pretrained",
    exposure: str | None = None,
    trials: str | None = None,
    n_neighbors: int = 10,
    tile: int = 20_000,
    seed: int = 0,
    n_jobs: int | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Iterator[pd.DataFrame]:
    """The posterior of f at every row of a table that need not fit in memory.

    Parameters
    ----------
    source : a Parquet file, a table (of pandas, polars or pyarrow), or tables one after the other.
    target, inputs : columns.
    kernel, nugget, likelihood : of the model, whose mean is zero; kernel and likelihood may be named, as in
        `GPRegressor`.
    network : a recognizer, or the one that comes with the package.
    exposure, trials : columns with what the noise takes per row.
    n_neighbors : K.
    tile : rows of a tile; memory is in proportion to it.
    seed : of the order.
    n_jobs : threads.
    folder : where rows wait on disk; a temporary one by default. It takes about the room of the numbers themselves.

    Yields
    ------
    DataFrame with ``row`` (number in the source, from 0), ``mean`` and ``variance`` of f, one tile after the other.

    Examples
    --------
    >>> import npvi
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.uniform(size=2000), "y": rng.poisson(2.0, 2000)})
    >>> kernel = npvi.kernels.Matern32(0.2, 0.5)
    >>> parts = list(stream_posterior([table], "y", ["x"], kernel=kernel, nugget=0.1, likelihood="poisson", tile=500))
    >>> len(parts), sum(map(len, parts))
    (4, 2000)
    """
    refuse_masked(inputs, "inputs")
    names = [inputs] if isinstance(inputs, str) else inputs
    names = _check_names(list(names) if np.iterable(names) else [names], "inputs")
    _check_names([target], "target")
    extras = {name: column for name, column in (("exposure", exposure), ("trials", trials)) if column is not None}
    for name, column in extras.items():
        _check_names([column], name)
    covariance, _ = unwrapped(as_kernel(kernel).with_numbered_columns(names), "kernel")
    noise, _ = unwrapped(as_likelihood(likelihood), "likelihood")
    covariance.validate(len(names))
    noise.validate()
    check_nugget(nugget)
    check_count(n_neighbors, "n_neighbors")
    if check_count(tile, "tile") < 10 * n_neighbors:
        raise ValueError(f"tile must have at least ten times n_neighbors rows, {10 * n_neighbors}; got {tile}")
    check_jobs(n_jobs)
    check_path(folder, "folder", optional=True)
    if folder is not None and not Path(folder).is_dir():
        raise ValueError(f"folder must be a folder that is there, got {os.fspath(folder)!r}")
    model = _Model(covariance, float(nugget), noise, _network(network, noise, len(names)), n_neighbors)
    tables = _tables(source)
    return _stream(tables, target, names, extras, model, tile, generator(seed), n_jobs, folder)


@dataclass(frozen=True)
class _Model:
    """What the posterior is of, and how it is recognised."""

    kernel: Kernel
    nugget: float
    likelihood: Likelihood
    network: Recognizer | None
    n_neighbors: int


def _stream(
    source: Any,
    target: str,
    inputs: list[str],
    extras: dict[str, str],
    model: _Model,
    tile: int,
    rng: np.random.Generator,
    n_jobs: int | None,
    folder: str | os.PathLike[str] | None,
) -> Iterator[pd.DataFrame]:
    """Tile by tile, what was checked."""
    columns = [*inputs, target, *extras.values()]
    with tempfile.TemporaryDirectory(dir=folder, prefix="npvi-stream-") as scratch, threads(n_jobs):
        spool = _Spool(Path(scratch), model.kernel, model.likelihood, inputs, target, extras, rng)
        read = _reader(source, columns, Path(scratch))
        spool.survey(read, tile)
        spool.sort(read)
        done, started = 0, time.perf_counter()
        for number in range(len(spool.tiles)):
            part = _posterior(spool.load(number, model.n_neighbors), model)
            done += len(part)
            rate = done / (time.perf_counter() - started)
            progress.report("stream", rows=done, of=spool.rows, rows_per_second=rate)
            yield part


def _check_names(names: list[Any], argument: str) -> list[str]:
    """Names of columns, at least one."""
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong or not names:
        got = repr(wrong[0]) if wrong else "none"
        raise ValueError(f"{argument} must be named by text, as the columns of the tables are; got {got}")
    return names


def _tables(source: Any) -> Any:
    """A path, or something to go through whose items are tables."""
    if isinstance(source, str | os.PathLike):
        return source
    refuse_masked(source, "source")
    refuse_repeated_names(source, "source")
    if _table(source) is not None:
        return [source]
    if not np.iterable(source):
        raise TypeError(f"source must be the path of a Parquet file, a table, or tables; got {source!r}")
    return source


def _table(given: Any) -> nw.DataFrame | None:
    found = nw.from_native(given, eager_only=True, pass_through=True)
    return found if isinstance(found, nw.DataFrame) else None


def _network(network: Recognizer | str, likelihood: Likelihood, n_inputs: int) -> Recognizer | None:
    if exact_sites(likelihood):
        return None
    if network != "pretrained" if isinstance(network, str) else not isinstance(network, Recognizer):
        raise ValueError(f"network must be a npvi.Recognizer or 'pretrained', got {network!r}")
    found = pretrained(likelihood) if isinstance(network, str) else network
    found.check(likelihood, n_inputs)
    return found


def _reader(source: Any, columns: list[str], scratch: Path) -> Callable[[], Iterator[pd.DataFrame]]:
    """What gives all rows, as often as it is called; tables that come only once are kept in a file."""
    if not isinstance(source, str | os.PathLike):
        path, writer = scratch / "all.parquet", None
        for given in source:
            refuse_masked(given, "a table of source")
            refuse_repeated_names(given, "a table of source")
            table = _table(given)
            if table is None:
                raise TypeError(f"source must give tables, of pandas, polars or pyarrow; got {type(given).__name__}")
            _check_columns(columns, table.columns, "the table")
            rows = pa.Table.from_pandas(_numeric(table, columns), preserve_index=False)
            writer = writer or pq.ParquetWriter(path, rows.schema)
            writer.write_table(rows)
        if writer is None:
            raise ValueError("source has no tables in it")
        writer.close()
        source = path
    try:
        file = pq.ParquetFile(source)
    except (OSError, ValueError) as error:
        raise ValueError(f"{os.fspath(source)} can't be read as a Parquet file: {error}") from error
    _check_columns(columns, file.schema_arrow.names, os.fspath(source))
    return lambda: (
        _numeric(nw.from_native(pa.Table.from_batches([batch]), eager_only=True), columns)
        for batch in pq.ParquetFile(source).iter_batches(_ROWS, columns=columns)
    )


def _numeric(table: nw.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Some columns as numbers; an error names one that has others."""
    names = dict.fromkeys(columns)
    return pd.DataFrame({name: as_numbers(table[name].to_numpy(), f"column {name!r}") for name in names})


def _check_columns(wanted: list[str], have: list[str], where: str) -> None:
    missing = [name for name in wanted if name not in have]
    if missing:
        raise ValueError(
            f"{where} has no column {', '.join(missing)}; it has {', '.join(map(str, have))}: see "
            "target, inputs, exposure and trials"
        )


@dataclass
class _Tile:
    """A box of the coordinates, its rows' file, and how many are in it."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    path: Path
    rows: int = 0


class _Spool:
    """All rows on disk, sorted into tiles."""

    def __init__(
        self,
        folder: Path,
        kernel: Kernel,
        likelihood: Likelihood,
        inputs: list[str],
        target: str,
        extras: dict[str, str],
        rng: np.random.Generator,
    ) -> None:
        self.folder, self.kernel, self.likelihood = folder, kernel, likelihood
        self.inputs, self.target, self.extras, self.rng = inputs, target, extras, rng
        self.tiles: list[_Tile] = []
        self.rows = 0

    def survey(self, read: Callable[[], Iterator[pd.DataFrame]], tile: int) -> None:
        """See where rows lie, from a sample of them, and cut space into boxes with about `tile` rows each."""
        kept: list[NDArray] = []
        for table in read():
            points = self._coordinates(table)
            share = min(1.0, _SAMPLE / max(self.rows + len(points), 1))
            kept.append(points[self.rng.random(len(points)) < share])
            self.rows += len(points)
        if not self.rows:
            raise ValueError("source has no rows")
        sample = np.concatenate(kept)
        if not len(sample):
            sample = points[:1]
        width = sample.shape[1]
        boxes = [(sample, np.full(width, -np.inf), np.full(width, np.inf))]
        while len(boxes) < -(-self.rows // tile):
            boxes.sort(key=lambda box: -len(box[0]))
            points, low, high = boxes.pop(0)
            axis = int(np.argmax(np.ptp(points, axis=0)))
            cut = float(np.median(points[:, axis]))
            left = points[:, axis] < cut
            if not left.any():  # all the rest is in one place
                boxes.append((points, low, high))
                break
            upper, lower = high.copy(), low.copy()
            upper[axis], lower[axis] = cut, cut
            boxes += [(points[left], low, upper), (points[~left], lower, high)]
        self.tiles = [_Tile(low, high, self.folder / f"{k}.rows") for k, (_, low, high) in enumerate(boxes)]

    def sort(self, read: Callable[[], Iterator[pd.DataFrame]]) -> None:
        """Put every row into the file of its tile: number, place in the order, inputs, response, extras."""
        first = 0
        for table in read():
            numbers = self._numbers(table, first)
            points = self._coordinates(table)
            for one in self.tiles:
                inside = ((points >= one.low) & (points < one.high)).all(axis=1)
                if inside.any():
                    with open(one.path, "ab") as file:
                        numbers[inside].tofile(file)
                    one.rows += int(inside.sum())
            first += len(table)
            progress.report("sort", rows=first, of=self.rows)

    def load(self, number: int, n_neighbors: int) -> _Rows:
        """A tile and the rows around it."""
        own = self.tiles[number]
        core = self._read(own)
        points = self.kernel.coordinates(core[:, 2 : 2 + len(self.inputs)])
        low, high = points.min(axis=0), points.max(axis=0)
        spread = np.maximum(high - low, 1e-12 * np.maximum(np.abs(high), 1.0))
        spacing = float(np.prod(spread) * n_neighbors / max(len(core), 1)) ** (1.0 / points.shape[1])
        low, high = low - _REACH * spacing, high + _REACH * spacing
        parts = [core]
        for other in self.tiles:
            if other is own or not other.rows or (other.low > high).any() or (other.high < low).any():
                continue
            rows = self._read(other)
            at = self.kernel.coordinates(rows[:, 2 : 2 + len(self.inputs)])
            parts.append(rows[((at >= low) & (at <= high)).all(axis=1)])
        return _Rows(np.concatenate(parts), len(core), self)

    def _read(self, one: _Tile) -> NDArray[np.float64]:
        width = 3 + len(self.inputs) + len(self.extras)
        return np.fromfile(one.path).reshape(-1, width) if one.rows else np.empty((0, width))

    def _coordinates(self, table: pd.DataFrame) -> NDArray[np.float64]:
        return self.kernel.coordinates(table[self.inputs].to_numpy(np.float64))

    def _numbers(self, table: pd.DataFrame, first: int) -> NDArray[np.float64]:
        X = table[self.inputs].to_numpy(np.float64)
        y = self.likelihood.check_response(table[self.target].to_numpy(np.float64), self.target)
        extras = {name: table[column].to_numpy(np.float64) for name, column in self.extras.items()}
        extras = self.likelihood.check_row(extras, len(y), y)
        if not np.isfinite(X).all():
            row = first + int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
            raise ValueError(f"row {row}: {', '.join(self.inputs)} must be finite numbers")
        number = np.arange(first, first + len(y), dtype=np.float64)
        return np.column_stack([number, self.rng.random(len(y)), X, y, *extras.values()])


class _Rows:
    """Rows of a tile, those of its core first."""

    def __init__(self, numbers: NDArray[np.float64], core: int, spool: _Spool) -> None:
        d = len(spool.inputs)
        self.number, self.key = numbers[:, 0].astype(np.int64), numbers[:, 1]
        self.X, self.y = np.ascontiguousarray(numbers[:, 2 : 2 + d]), numbers[:, 2 + d]
        self.row = {name: numbers[:, 3 + d + k] for k, name in enumerate(spool.extras)}
        self.core = core


def _posterior(rows: _Rows, model: _Model) -> pd.DataFrame:
    order = np.argsort(rows.key)
    k = max(1, min(model.n_neighbors, len(order) - 1))
    graph = build_graph(model.kernel.coordinates(rows.X), k, order=order).packed()
    prior = NNGP(model.kernel, model.nugget, rows.X[graph.order], graph)
    data = Data(model.likelihood, rows.y, rows.row).take(graph.order)
    found = recognised(model.network, data, Stack(Process(prior)), SolverLog())
    swept = SparseFactors(prior).covariance(found.site_precision)
    assert swept is not None  # P + W is positive definite for w ≥ 0
    mine = graph.order < rows.core
    part = {"row": rows.number[graph.order[mine]], "mean": found.mean[mine], "variance": swept.variance[mine]}
    return pd.DataFrame(part).sort_values("row", ignore_index=True)
