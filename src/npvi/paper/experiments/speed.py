"""The paper's figure of speed: how well validation rows of the night light are predicted after how much training."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from npvi import GPRegressor
from npvi.amortized.gcn import HeldOut, fit_gcn
from npvi.components import Process, Stack
from npvi.datasets import Split
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.kernels import RBF
from npvi.paper.experiments.methods import LIKELIHOODS, METHODS, RIVALS, fit_within, nlpd, our_model
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Cell, Store
from npvi.paper.experiments.tables import Table, in_seconds
from npvi.priors import NNGP

__all__ = ["DATA", "cells", "chosen_length_scale", "compute", "speed_table"]

DATA = "nightlight"
#: the prior's, as in the first table
_VARIANCE, _NUGGET = 1.0, 0.01
#: the length scale where the first table has chosen none yet
_LENGTH_SCALE = 0.1
#: seconds that are added to a rival's budget: it has to compile, which isn't training
_COMPILING = 5.0
#: a score this close to the final one, as a share of that, is as good
_CLOSE = 0.02
#: training has settled where twice the epochs change the score by less than this share of it
_SETTLED = 0.002

#: seconds of training and the score after them
Trace = list[tuple[float, float]]

_KINDS = {
    "svgp": "mini-batches",
    "savigp": "L-BFGS-B",
    "dgp": "mini-batches",
    "npvi": "closed form",
    "npvi-sgd": "mini-batches",
    "npvi-nn": "recognised at once",
    "gcn": "mini-batches",
    "full": "closed form",
}


#: those that have no state to choose from
_AT_ONCE = ("npvi", "npvi-nn", "full")


def cells(plan: Plan) -> list[Cell]:
    """A cell per method, at the middle one of its sizes; NPVI also by stochastic gradients.

    >>> from npvi.paper.experiments.plan import FULL
    >>> [(cell.method, cell.size) for cell in cells(FULL)][1:5]
    [('savigp', 1000), ('dgp', 1000), ('npvi', 20), ('npvi-sgd', 20)]
    """
    return [
        Cell("speed", DATA, method, middle(plan.sizes(method)), plan.seeds[0], plan.table_settings)
        for method in _KINDS
        if method.removesuffix("-sgd") in plan.methods
    ]


def middle(sizes: tuple[int, ...]) -> int:
    """A typical M or K: the one in the middle, the larger of two.

    >>> middle((10, 20, 40)), middle((10, 20))
    (20, 20)
    """
    return sizes[len(sizes) // 2]


def chosen_length_scale(store: Store | None, cell: Cell, plan: Plan, otherwise: float) -> float:
    """What the first table chose for the method of a cell, at the same size and split, or `otherwise`."""
    method = cell.method.removesuffix("-sgd")
    first = Cell("paper", cell.data, method, cell.size, cell.seed, plan.table_settings)
    result = None if store is None else store.get(first)
    if result is None or "error" in result:
        return otherwise
    return float(result["candidates"][result["chosen"]]["length_scale"])


def compute(cell: Cell, plan: Plan, store: Store | None = None) -> dict[str, Any]:
    """Scores of validation rows on the way, against seconds of training without those of compiling.

    Parameters
    ----------
    cell, plan : what is computed.
    store : where the first table's length scale is looked up; without it, or where it isn't there yet, 0.1 is used.

    Returns
    -------
    dict
        with ``trace`` (pairs of seconds and negative log density), ``final`` (the last one, or the best one where
        training looks at validation rows and keeps its best state), ``seconds_to_final`` (after which the score is
        within 2 % of that), ``length_scale``, ``seconds`` and ``out_of_time``.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from npvi.datasets import Dataset
    >>> from npvi.paper.experiments.plan import TINY
    >>> X = np.random.default_rng(0).uniform(0.0, 3.0, (150, 2))
    >>> light = Dataset("light", X, np.exp(np.sin(X[:, 0])), (), "", "", "")
    >>> plan = replace(TINY, load=lambda name: light, methods=("npvi-nn",))
    >>> result = compute(cells(plan)[0], plan)
    >>> len(result["trace"]), result["out_of_time"]
    (4, False)
    """
    split = plan.split(cell.data, cell.seed)
    kernel = RBF(chosen_length_scale(store, cell, plan, _LENGTH_SCALE), variance=_VARIANCE)
    with warnings.catch_warnings():  # about what is cut short, which is what it is for
        warnings.simplefilter("ignore", UserWarning)
        if cell.method in RIVALS:
            trace, finished = _trace_of_rival(cell, plan, split, kernel)
        else:
            model = our_model(cell.method, LIKELIHOODS[cell.data], kernel, _NUGGET, cell.size, cell.seed)
            trace, finished = _TRACES[cell.method](model, split, plan.budget)
    final = trace[-1][1] if cell.method in _AT_ONCE else min(score for _, score in trace)
    return {
        "length_scale": kernel.length_scale,
        "trace": trace,
        "final": final,
        "seconds_to_final": next(seconds for seconds, score in trace if score <= final + _CLOSE * abs(final)),
        "seconds": trace[-1][0],
        "out_of_time": not finished,
        "n_train": len(split.y_train),
    }


def speed_table(store: Store, plan: Plan) -> Table | None:
    """Seconds until each method is close to its final score; None where nothing is stored."""
    results = ((cell, store.get(cell)) for cell in cells(plan))
    found = [(cell, result) for cell, result in results if result is not None and "error" not in result]
    if not found:
        return None
    header = ["method", "M or K", "by", "length scale", "final score", f"to within {_CLOSE:.0%} of it", "in all"]
    rows = [
        [
            _name(cell.method),
            str(cell.size),
            _KINDS[cell.method],
            f"{result['length_scale']:g}",
            f"{result['final']:.3f}{' †' if result['out_of_time'] else ''}",
            in_seconds(result["seconds_to_final"]),
            in_seconds(result["seconds"]),
        ]
        for cell, result in found
    ]
    names = ("length_scale", "final", "seconds_to_final", "seconds", "out_of_time", "budget", "n_train")
    records = [
        {"data": cell.data, "method": cell.method, "size": cell.size, "by": _KINDS[cell.method], "seed": cell.seed}
        | {name: result.get(name) for name in names}
        for cell, result in found
    ]
    notes = [
        f"Negative log density per validation row, lower is better, of {found[0][1]['n_train']:,} training rows, and "
        "seconds of training; compiling and looking at validation rows are left out. Closed forms were stopped after "
        "1, 2, 4 … iterations, each timed by a fit of its own, and NPVI-NN after 0 to 3 sweeps on top of what it "
        "recognises; the others were looked at on their way, and their best state counts.",
    ]
    if any(result["out_of_time"] for _, result in found):
        notes.append("† The time ended before training did.")
    short = [[row[0], row[1], *row[4:]] for row in [header, *rows]]
    title = "Night light: how soon each method is near its final score"
    return Table("speed", title, header, rows, short, records, notes)


def _name(method: str) -> str:
    return METHODS.get(method, "NPVI by AdaGrad")


def _trace_of_rival(cell: Cell, plan: Plan, split: Split, kernel: RBF) -> tuple[Trace, bool]:
    likelihood, seconds = LIKELIHOODS[cell.data], plan.budget + _COMPILING
    fitted = fit_within(cell.method, split, likelihood, kernel, _NUGGET, cell.size, cell.seed, seconds)
    compiling = _compiling(fitted.model.fit_info_["seconds"])
    on_its_way = fitted.trace[:-1] or fitted.trace  # what comes last is the best of them once more
    trace = [(max(seconds - compiling, 0.0), score) for seconds, score in on_its_way if np.isfinite(score)]
    return trace, fitted.outcome == "finished"


def _compiling(ends: ArrayLike) -> float:
    """Seconds that the first of several equal rounds took longer than the others; preparations are among them.

    >>> _compiling([7.0, 8.0, 9.1, 10.0])
    6.0
    """
    took = np.diff(ends, prepend=0.0)
    return max(0.0, float(took[0] - np.median(took[1:]))) if len(took) > 1 else 0.0


def _trace_of_iterations(model: GPRegressor, split: Split, budget: float) -> tuple[Trace, bool]:
    """Fits that end after 1, 2, 4 … iterations; the first one, which compiles, goes all the way and isn't timed."""
    last = clone(model).fit(split.X_train, split.y_train).n_iter_
    counts = [2**power for power in range(int(last).bit_length()) if 2**power < last]
    return _timed([clone(model).set_params(max_iter=count) for count in (*counts, int(last))], split), True


def _trace_of_refinements(model: GPRegressor, split: Split, budget: float) -> tuple[Trace, bool]:
    """Recognition with 0 to 3 sweeps after it."""
    model.set_params(refine=3).fit(split.X_train, split.y_train)  # compiles
    return _timed([clone(model).set_params(refine=sweeps) for sweeps in range(4)], split), True


def _timed(models: Sequence[GPRegressor], split: Split) -> Trace:
    """Fits, each of which does more than the one before and can't take less time, if there were no other programs."""
    trace: Trace = []
    for model in models:
        seconds = sum(model.fit(split.X_train, split.y_train).fit_info_["seconds"].values())
        trace.append((max([seconds, *(before for before, _ in trace)]), nlpd(model, split.X_val, split.y_val)))
    return trace


def _trace_of_epochs(model: GPRegressor, split: Split, budget: float) -> tuple[Trace, bool]:
    """Training that goes on from its checkpoint, looked at after 1, 2, 4 … epochs.

    AdaGrad doesn't know how many epochs there will be, so that stopping and going on changes nothing.
    """

    def train(epochs: int, checkpoint: str | None) -> dict[str, Any]:
        settings = model.optimizer.replace(epochs=epochs, checkpoint=checkpoint)
        return dict(model.set_params(optimizer=settings).fit(split.X_train, split.y_train).fit_info_)

    train(1, None)  # compiles
    trace: Trace = []
    epochs, before = 1, 0.0
    with TemporaryDirectory() as folder:
        while True:
            info = train(epochs, str(Path(folder) / "checkpoint"))
            before = before or info["seconds"]["graph"] + info["seconds"]["prior"]
            seconds = info["epoch_seconds"][-1]
            trace.append((before + seconds, nlpd(model, split.X_val, split.y_val)))
            if _has_settled(trace):
                return trace, True
            if before + seconds >= budget:
                return trace, False
            affordable = int((budget - before - seconds) / (seconds / epochs))
            epochs += max(1, min(epochs, affordable))


def _trace_of_networks(model: GPRegressor, split: Split, budget: float) -> tuple[Trace, bool]:
    """Networks that are looked at after each epoch, the best of which stays."""
    likelihood, first, cut = model.likelihood, 0.0, False

    def prepare() -> tuple[NNGP, Data]:
        coordinates = model.kernel.coordinates(split.X_train)
        graph = build_graph(coordinates, model.n_neighbors, order="random", seed=model.random_state).packed()
        prior = NNGP(model.kernel, model.nugget, split.X_train[graph.order], graph)
        return prior, Data(likelihood, split.y_train[graph.order])

    prepare()  # compiles
    started = time.perf_counter()
    prior, data = prepare()
    before = time.perf_counter() - started

    def watch(numbers: dict[str, float]) -> None:
        nonlocal first, cut
        first = first or numbers["seconds"]  # of the epoch that compiles, which doesn't count
        if numbers["seconds"] - first >= budget:
            cut = True
            raise KeyboardInterrupt  # which ends training between two epochs

    settings = model.network.replace(validation=0.0)  # there are other rows to look at
    held_out = HeldOut(split.X_val, np.zeros((len(split.y_val), 0)), Data(likelihood, split.y_val))
    mean = Stack(Process(prior))
    info = fit_gcn(prior, data, mean, settings, held_out, seed=model.random_state, progress=watch).info
    if info["interrupted"] and not cut:
        raise KeyboardInterrupt
    ends, scores = np.array(info["epoch_seconds"]), info["evaluation"]
    ends += before - _compiling(ends)
    return list(zip(ends.tolist(), scores)), not cut


def _has_settled(trace: Trace) -> bool:
    scores = [score for _, score in trace]
    return len(scores) > 1 and abs(scores[-1] - scores[-2]) <= _SETTLED * abs(scores[-1])


_TRACES: dict[str, Callable[[GPRegressor, Split, float], tuple[Trace, bool]]] = {
    "npvi": _trace_of_iterations,
    "full": _trace_of_iterations,
    "npvi-nn": _trace_of_refinements,
    "gcn": _trace_of_networks,
    "npvi-sgd": _trace_of_epochs,
}
