"""Experiments by name: their cells, in order, those that are missing; then tables and figures of what there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import jax
from jax.experimental.compilation_cache import compilation_cache

from npvi.paper.experiments import ordering, speed, surfaces
from npvi.paper.experiments.choosing import choose_all, choose_length_scale
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Cell, Store, provenance
from npvi.paper.experiments.tables import Table, length_scale_table, score_table, table_cells

__all__ = ["NAMES", "Report", "Watch", "cells_of", "reproduce"]

#: the experiments that are tables, and their data
_TABLES = {
    "bird-counts": "bird_counts",
    "nightlight": "nightlight",
    "flights": "flights",
    "precipitation": "precipitation",
}
#: seconds of compiling that reading from a file is faster than
_WORTH_KEEPING = 0.2

#: all experiments
NAMES = (*_TABLES, "ordering", "length-scale", "speed", "surfaces")


class Watch(Protocol):
    """Told how a run goes."""

    def start(self, total: int, stored: int) -> None:
        """There are so many cells, of which some are stored already."""

    def begin(self, cell: Cell) -> None:
        """A cell is next."""

    def notice(self, text: str) -> None:
        """What is being done in it."""

    def end(self, cell: Cell, result: dict[str, Any] | None) -> None:
        """It is stored, or was skipped."""


class _Quiet:
    """Keeps it to itself."""

    def start(self, total: int, stored: int) -> None: ...
    def begin(self, cell: Cell) -> None: ...
    def notice(self, text: str) -> None: ...
    def end(self, cell: Cell, result: dict[str, Any] | None) -> None: ...


@dataclass
class Report:
    """What a run did.

    Attributes
    ----------
    computed, stored : cells that were computed now, and that were stored before.
    failed : what went wrong, by cell; they are tried again next time.
    skipped : why a data set could not be had, by its name.
    tables : what was written, to be shown.
    files : what was written.
    """

    computed: list[Cell] = field(default_factory=list)
    stored: list[Cell] = field(default_factory=list)
    failed: dict[Cell, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def cells_of(name: str, plan: Plan) -> list[Cell]:
    """The cells of an experiment, in the order in which they are computed.

    >>> from npvi.paper.experiments.plan import TINY
    >>> len(cells_of("flights", TINY)), len(cells_of("length-scale", TINY))
    (14, 7)
    """
    if name in _TABLES:
        return [cell for experiment in ("paper", "tuned") for cell in table_cells(plan, _TABLES[name], experiment)]
    if name == "length-scale":
        return table_cells(plan, "bird_counts", "paper")
    return {"ordering": ordering, "speed": speed, "surfaces": surfaces}[name].cells(plan)


def reproduce(
    names: Sequence[str], plan: Plan, output: Path, command: str = "npvi reproduce", watch: Watch | None = None
) -> Report:
    """Compute the cells that are missing, then write tables and figures.

    Each cell is stored as soon as it is finished, in the folder ``cells`` of `output`, and never computed again, unless
    it failed, or ran out of a smaller budget than the plan's.

    Parameters
    ----------
    names : of experiments, out of `NAMES`.
    plan : how much is computed.
    output : the folder for everything.
    command : what the tables say that they were made by.
    watch : told how it goes.

    Raises
    ------
    FileNotFoundError
        Where none of the data can be had, and nothing is stored.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from npvi.datasets import Dataset
    >>> from npvi.paper.experiments.plan import TINY
    >>> X = np.random.default_rng(0).uniform(0.0, 3.0, size=(150, 2))
    >>> rain = Dataset("rain", X, np.exp(np.sin(X[:, 0])), ("east", "north"), "rain", "lognormal", "simulated")
    >>> plan = replace(TINY, load=lambda name: rain, methods=("npvi", "full"))
    >>> report = reproduce(["precipitation"], plan, Path(tempfile.mkdtemp()))
    >>> len(report.computed), [table.name for table in report.tables]
    (4, ['precipitation', 'precipitation-tuned'])
    """
    watch = _Quiet() if watch is None else watch
    store, report = Store(output / "cells"), Report()
    cells = list(dict.fromkeys(cell for name in names for cell in cells_of(name, plan)))
    report.stored = [cell for cell in cells if _is_done(store.get(cell), plan.budget)]
    before = set(report.stored)
    watch.start(len(cells), len(report.stored))
    with _compiled_once():
        for cell in cells:
            if cell not in before:
                watch.begin(cell)
                watch.end(cell, _compute(cell, plan, store, report, watch))
    if report.skipped and not (report.computed or report.stored):
        raise FileNotFoundError(next(iter(report.skipped.values())))
    _write(names, plan, output, command, store, report)
    return report


def _is_done(result: dict[str, Any] | None, budget: float) -> bool:
    """Whether there is nothing to gain by computing a cell again."""
    if result is None or "error" in result:
        return False
    return not (result.get("out_of_time", False) and result["budget"] < budget)


def _compute(cell: Cell, plan: Plan, store: Store, report: Report, watch: Watch) -> dict[str, Any] | None:
    """Compute and store a cell; None where its data can't be had."""
    if cell.data in report.skipped:
        return None
    try:
        plan.dataset(cell.data)
    except Exception as error:  # the other data sets may be fine
        report.skipped[cell.data] = str(error)
        return None
    made = {"budget": plan.budget, "made": provenance()}
    try:
        result = {**made, **_result(cell, plan, store, watch)}
        store.put(cell, result)
    except Exception as error:  # hours of other cells don't hang on this one
        result = {**made, "error": f"{type(error).__name__}: {error}"}
        report.failed[cell] = result["error"]
        store.put(cell, result)
    report.computed.append(cell)
    return result


def _result(cell: Cell, plan: Plan, store: Store, watch: Watch) -> dict[str, Any]:
    if cell.experiment == "paper":
        return choose_length_scale(cell, plan, watch.notice)
    if cell.experiment == "tuned":
        first = store.get(replace(cell, experiment="paper", settings=plan.table_settings))
        if first is None or "error" in first:
            raise RuntimeError("the first table has no number to start from")
        return choose_all(cell, plan, first, watch.notice)
    if cell.experiment == "ordering":
        return ordering.compute(cell, plan)
    return (speed if cell.experiment == "speed" else surfaces).compute(cell, plan, store)


def _write(names: Sequence[str], plan: Plan, output: Path, command: str, store: Store, report: Report) -> None:
    from npvi.paper.experiments.figures import draw  # which needs Matplotlib

    for name in names:
        if name in _TABLES:
            tables = [score_table(store, plan, _TABLES[name], experiment, command) for experiment in ("paper", "tuned")]
        elif name == "length-scale":
            tables = [length_scale_table(store, plan, command)]
        elif name == "speed":
            tables = [speed.speed_table(store, plan)]
        elif name == "ordering":
            tables = [ordering.order_table(store, plan)]
        else:
            tables = []
        report.tables += [table for table in tables if table is not None]
    output.mkdir(parents=True, exist_ok=True)
    for table in report.tables:
        report.files += table.write(output)
    report.files += draw(store, plan, output)


@contextmanager
def _compiled_once() -> Iterator[None]:
    """Keep what JAX compiles in a folder: every training is a new program to it, though often the same as another."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None:  # the user has one
        yield
        return
    with TemporaryDirectory(prefix="npvi-compiled-") as folder:
        usual = config.jax_persistent_cache_min_compile_time_secs
        _keep_compiled(folder, _WORTH_KEEPING)
        try:
            yield
        finally:
            _keep_compiled(None, usual)


def _keep_compiled(folder: str | None, seconds: float) -> None:
    """From now on, where compiling took longer than so many seconds."""
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)
    compilation_cache.reset_cache()  # which otherwise goes on with what it found at first
