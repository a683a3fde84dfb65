"""Figures of results that are made up: what is drawn, where, and that nothing is cut off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from npvi.paper.experiments import ordering, speed, surfaces
from npvi.paper.experiments.figures import draw
from npvi.paper.experiments.figures.style import LOOKS
from npvi.paper.experiments.methods import METHODS
from npvi.paper.experiments.paper import LENGTH_SCALES, published
from npvi.paper.experiments.plan import TINY
from npvi.paper.experiments.store import Store
from npvi.paper.experiments.tables import table_cells

PLAN = replace(TINY, n_inducing=(200, 1000), n_neighbors=(10, 20), seeds=(0, 1), length_scales=(0.05, 0.5, 2.5))


def table_result(cell, chosen=1, test=2.0):
    scores = [3.0, 2.0, 2.5]
    told = zip(PLAN.length_scales, scores)
    candidates = [{"length_scale": length, "validation": score} for length, score in told]
    return {"candidates": candidates, "chosen": chosen, "test": test + 0.1 * cell.seed, "out_of_time": False}


def fill(store):
    """Something of everything: the bird counts' tables, speed, orders and maps."""
    for experiment in ("paper", "tuned"):
        for cell in table_cells(PLAN, "bird_counts", experiment):
            store.put(cell, table_result(cell))
    for number, cell in enumerate(speed.cells(PLAN)):
        trace = [[0.1 * 2.0**step, 1.0 + number + 2.0**-step] for step in range(number + 1)]
        told = {"final": trace[-1][1], "seconds_to_final": trace[-1][0], "out_of_time": number == 0}
        store.put(cell, {"length_scale": 0.5, "trace": trace, **told})
    for number, cell in enumerate(ordering.cells(PLAN)):
        store.put(cell, {"test": 2.0 + 0.01 * np.sin(number)})
    for cell in surfaces.cells(PLAN):
        rates = np.random.default_rng(cell.size).gamma(0.5, 10.0, 12).round(3).tolist()
        seen = {"east": [0.1, 1.9], "north": [0.2, 1.2], "count": [0.0, 7.0]}
        grid = {"west": 0.0, "south": 0.0, "step": 0.5, "shape": (3, 4)}
        told = {"length_scale": 0.1, "test": 3.1, "observed": seen}
        store.put(cell, {**grid, **told, "mean": [None, *rates[1:]], "std": [None, *rates[1:]]})


@pytest.fixture
def figures(monkeypatch):
    """Those that were written, as Matplotlib has them."""
    found, write = [], Figure.savefig

    def savefig(self, *given, **settings):
        found.append(self)
        write(self, *given, **settings)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return found


def test_everything_is_drawn_and_nothing_is_cut_off(figures, tmp_path):
    store = Store(tmp_path / "cells")
    fill(store)
    paths = draw(store, PLAN, tmp_path / "new")
    assert [path.name for path in paths] == [
        "scores-bird-counts.png",
        "length-scale-bird-counts.png",
        "validation-bird-counts.png",
        "speed.png",
        "surfaces.png",
        "surfaces-deviation.png",
        "ordering.png",
    ]
    for path, figure in zip(paths, figures, strict=True):
        assert path.read_bytes().startswith(b"\x89PNG")
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert 0.0 <= box.x0 < box.x1 <= width, path.name
        assert 0.0 <= box.y0 < box.y1 <= height, path.name


def test_nothing_stored_nothing_drawn(tmp_path):
    store = Store(tmp_path / "cells")
    assert draw(store, PLAN, tmp_path) == []
    for cell in [*table_cells(PLAN, "flights", "paper"), *speed.cells(PLAN), *surfaces.cells(PLAN)]:
        store.put(cell, {"error": "MemoryError"})
    other = replace(PLAN, rows=77)  # results of another plan in the same folder
    store.put(speed.cells(other)[0], {"length_scale": 0.5, "trace": [[1.0, 1.0]]})
    assert draw(store, PLAN, tmp_path) == []


def test_scores_stand_beside_the_papers(figures, tmp_path):
    store = Store(tmp_path / "cells")
    for cell in table_cells(PLAN, "flights", "paper"):
        if cell.method in ("svgp", "npvi"):
            far = cell.method == "svgp" and cell.size == 1000
            store.put(cell, table_result(cell, test=1000.0 if far else -1.2))
    draw(store, PLAN, tmp_path)
    axis = figures[0].axes[0]
    hollow = {round(float(line.get_ydata()[0]), 3) for line in axis.lines if line.get_markerfacecolor() == "white"}
    assert hollow == {published("flights", "svgp", size).nlpd for size in PLAN.n_inducing}  # it has no NPVI there
    ours = [line for line in axis.lines if line.get_marker() == LOOKS["npvi"].marker]
    assert [float(line.get_ydata()[0]) for line in ours] == pytest.approx([-1.15, -1.15])  # the mean of two splits
    # what is off the scale is written at its edge
    assert axis.get_ylim()[1] < 100.0
    assert [text.get_text() for text in axis.texts if "→" in text.get_text()] == ["1e+03 →"]


def test_chosen_length_scales_and_the_papers(figures, tmp_path):
    store = Store(tmp_path / "cells")
    for cell in table_cells(PLAN, "bird_counts", "paper"):
        if cell.method in ("dgp", "npvi"):
            store.put(cell, table_result(cell, chosen=cell.seed))
    draw(store, PLAN, tmp_path)
    for axis, method, sizes in zip(figures[1].axes, ("dgp", "npvi"), (PLAN.n_inducing, PLAN.n_neighbors)):
        drawn = [marks for marks in axis.collections if len(marks.get_offsets())]
        filled = [marks.get_offsets()[:, 1].tolist() for marks in drawn if len(marks.get_facecolor())]
        hollow = [float(marks.get_offsets()[0, 1]) for marks in drawn if not len(marks.get_facecolor())]
        assert filled == [[0.05, 0.5]] * len(sizes)  # a mark per split
        assert hollow == [LENGTH_SCALES[method][size] for size in sizes]


def test_figures_say_how_many_splits_there_are_not_how_many_were_planned(figures, tmp_path):
    store = Store(tmp_path / "cells")
    for cell in table_cells(PLAN, "nightlight", "paper"):
        if cell.seed == 0:
            store.put(cell, table_result(cell))
    draw(store, PLAN, tmp_path)
    said = [" ".join(text.get_text() for text in figure.axes[0].texts) for figure in figures]
    assert len(said) == 3
    for text in said:
        assert "one split" in text
        assert "per split" not in text
    store.put(table_cells(PLAN, "nightlight", "paper")[-1], table_result(table_cells(PLAN, "nightlight", "paper")[-1]))
    draw(store, PLAN, tmp_path)
    assert "mean and standard error of 1 to 2 splits" in " ".join(t.get_text() for t in figures[3].axes[0].texts)


def test_every_line_is_seen_to_its_end(figures, tmp_path):
    store = Store(tmp_path / "cells")
    starts, ends = {"svgp": 500.0, "savigp": 3.0, "dgp": 3.0}, {"svgp": 2.0, "savigp": 2.5, "dgp": 90.0}
    for cell in speed.cells(PLAN):  # many scores of ours lie together, few of theirs apart
        end = ends.get(cell.method, 0.2)
        trace = [[0.1, starts.get(cell.method, 0.2)], *([0.1 * step, end] for step in range(2, 30))]
        told = {"final": end, "seconds_to_final": 0.2, "out_of_time": False}
        store.put(cell, {"length_scale": 0.5, "trace": trace, **told})
    draw(store, PLAN, tmp_path)
    axis = figures[0].axes[0]
    low, high = axis.get_ylim()
    assert low < 0.2
    assert 2.5 < high < 10.0
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert [label for label in labels if "off the scale: 90" in label] == [labels[2]]


def test_every_method_has_its_own_colour_and_marker():
    assert set(METHODS) | {"npvi-sgd"} == set(LOOKS)
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.marker for look in LOOKS.values()}) == len(LOOKS)
