"""Tables with the paper's numbers beside ours."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from npvi.paper.experiments.paper import LENGTH_SCALES, published
from npvi.paper.experiments.plan import FULL
from npvi.paper.experiments.store import Store
from npvi.paper.experiments.tables import length_scale_table, score_table, table_cells

# the paper's own rows: M, SVGP, SAVIGP, DGP, K, NPVI, NPVI-NN (flights without NPVI)
PAPER = {
    "bird_counts": r"""
    200  & 2.29$\pm$.10 \textbackslash 691s & 2.26$\pm$.07 \textbackslash 220s & 2.05$\pm$.06 \textbackslash 201s
    & 10 & \textbf{1.57$\pm$.04} \textbackslash 23ks& 1.78$\pm$.05 \textbackslash 5.1s \\
    1000 & 2.28$\pm$.10 \textbackslash 50ks ~& 2.20$\pm$.07 \textbackslash 939s ~& 1.99$\pm$.06 \textbackslash 212s
    & 20 & \textbf{1.61$\pm$.04} \textbackslash 15ks& 1.79$\pm$.05 \textbackslash 10s~~\\
    2000 & 2.38$\pm$.10 \textbackslash 50ks ~& 2.20$\pm$.07 \textbackslash 2.7ks & 1.98$\pm$.06 \textbackslash 256s
    & 40 & \textbf{1.60$\pm$.04} \textbackslash 50ks & 1.79$\pm$.05 \textbackslash 36s~~\\""",
    "nightlight": r"""
    200 & 0.71$\pm$.04 \textbackslash 674s & 0.72$\pm$.01 \textbackslash 867s & 0.45$\pm$.01 \textbackslash 1.1ks
    & 10 & -0.36$\pm$.01 \textbackslash 22ks & \textbf{-0.47$\pm$.01} \textbackslash 17s\\
    1000 & 0.34$\pm$.03 \textbackslash 50ks & 0.64$\pm$.02 \textbackslash 11ks & -0.12$\pm$.01 \textbackslash 1.3ks
    & 20 & -0.20$\pm$.03 \textbackslash 50ks&  \textbf{-0.42$\pm$.01} \textbackslash 27s\\
    2000 & 0.41$\pm$.03 \textbackslash 50ks & 0.64$\pm$.03 \textbackslash 16ks & -0.24$\pm$.01 \textbackslash 1.5ks
    & 40 & -0.07$\pm$.02 \textbackslash 50ks& \textbf{-0.46$\pm$.01} \textbackslash 93s\\""",
    "flights": r"""
    200 & -1.07$\pm$.04  \textbackslash 43s & -0.90$\pm$.06 \textbackslash 13ks & -1.10$\pm$.002 \textbackslash 770s
    & 10 & \textbf{-1.27$\pm$.002} \textbackslash 34s~~~\\
    1000 & -1.01$\pm$.03 \textbackslash 1.1ks & -0.84$\pm$.04 \textbackslash 50ks & -1.04$\pm$.002 \textbackslash 900s
    & 20 &\textbf{-1.28$\pm$.002} \textbackslash 86s~~~\\
    2000 & -1.02$\pm$.05 \textbackslash 3.8ks & -0.86$\pm$.07 \textbackslash 50ks & -1.11$\pm$.002 \textbackslash 3.3ks
    & 40 & \textbf{-1.27$\pm$.002} \textbackslash 533s\\""",
    "precipitation": r"""
    200 & -0.64$\pm$.17 \textbackslash 1.6ks & -0.29$\pm$.20 \textbackslash 364s~ & -1.26$\pm$.02 \textbackslash 917s
    & 10 &  \textbf{-1.57$\pm$.03} \textbackslash 37ks & -1.48$\pm$.03 \textbackslash 30s \\
    1000 & -1.24$\pm$.12 \textbackslash 34ks & -0.76$\pm$.20 \textbackslash 1.5ks & -1.30$\pm$.02 \textbackslash 1.0ks
    & 20 & \textbf{-1.60$\pm$.02} \textbackslash 20ks &  -1.42$\pm$.02 \textbackslash 50s \\
    2000 & -1.26$\pm$.16 \textbackslash 50ks~ & -1.12$\pm$.16 \textbackslash 3.1ks & -1.31$\pm$.02 \textbackslash 1.2ks
    & 40 & \textbf{-1.55$\pm$.02} \textbackslash 22ks &~  -1.33$\pm$.02 \textbackslash 179s \\""",
}


@pytest.mark.parametrize("data", PAPER)
def test_the_papers_numbers_are_the_papers(data):
    ours = ["npvi-nn"] if data == "flights" else ["npvi", "npvi-nn"]
    number = r"(-?\d\.\d+)\$\\pm\$(\.\d+)\}? *\\textbackslash ([\d.]+)(k?)s"
    count = 0
    for row in PAPER[data].split(r"\\")[:-1]:
        m, k = re.match(r"\s*(\d+)\s*&", row), re.search(r"&\s*(\d+)\s*&", row)
        keys = [(method, int(m[1])) for method in ("svgp", "savigp", "dgp")] + [(method, int(k[1])) for method in ours]
        found = re.findall(number, row)
        assert len(found) == len(keys)
        for key, (nlpd, error, seconds, thousands) in zip(keys, found):
            expected = (float(nlpd), float(error), float(seconds) * (1000.0 if thousands else 1.0))
            assert published(data, *key) == pytest.approx(expected)
            count += 1
    assert count == 3 * (3 + len(ours))
    assert published(data, "full", 10) is None


PLAN = replace(FULL, methods=("svgp", "npvi", "gcn", "full"), n_inducing=(200, 1000), n_neighbors=(10, 20))
MADE = {"npvi": "1.2.3", "jax": "0.9", "date": "2026-01-31", "device": "cpu", "cores": 2}


def result(test, *, length_scale=0.5, seconds=12.0, out_of_time=False):
    told = {"length_scale": length_scale, "variance": 1.0, "nugget": 0.01, "validation": test, "seconds": seconds}
    return {
        "candidates": [{**told, "validation": 99.0, "length_scale": 2.5, "outcome": "finished"}, told],
        "chosen": 1,
        "test": test,
        "seconds": seconds,
        "total_seconds": 100.0,
        "out_of_time": out_of_time,
        "budget": 600.0,
        "n_train": 10_000,
        "made": MADE,
    }


@pytest.fixture
def store(tmp_path):
    """SVGP at M = 200 whole, at 1000 two of three seeds and out of time; NPVI failed at 20; nothing of `full` at 20."""
    store = Store(tmp_path)
    scores = {("svgp", 200): [2.1, 2.2, 2.6], ("npvi", 10): [1.5, 1.6, 1.7], ("gcn", 10): [1.8] * 3}
    scores |= {("full", 10): [1.55] * 3, ("svgp", 1000): [2.0, 2.2], ("gcn", 20): [1.9] * 3}
    for cell in table_cells(PLAN, "bird_counts", "paper"):
        key = (cell.method, cell.size)
        if key == ("npvi", 20):
            store.put(cell, {"error": "ValueError: too | many", "budget": 600.0, "made": MADE})
        elif cell.seed < len(scores.get(key, [])):
            length_scale = 0.1 if key == ("npvi", 10) and cell.seed == 2 else 0.5
            store.put(cell, result(scores[key][cell.seed], out_of_time=key[1] == 1000, length_scale=length_scale))
    return store


def cells_of(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_a_table_has_ours_and_the_papers_numbers(store):
    table = score_table(store, PLAN, "bird_counts", "paper", "npvi reproduce bird-counts")
    lines = [line for line in table.markdown.splitlines() if line.startswith("|")]
    assert cells_of(lines[0]) == ["M", "SVGP", "K", "NPVI", "NPVI-NN as published (GCN)", "full"]
    error = np.std([2.1, 2.2, 2.6], ddof=1) / np.sqrt(3)
    assert cells_of(lines[2]) == [
        "200",
        rf"2.300 ± {error:.3f} \ 12 s (paper: 2.29 ± .10 \ 691 s)",
        "10",
        r"1.600 ± 0.058 \ 12 s (paper: 1.57 ± .04 \ 23 ks)",
        r"1.800 ± 0.000 \ 12 s (paper: 1.78 ± .05 \ 5.1 s)",
        r"**1.550 ± 0.000** \ 12 s (paper: –)",
    ]
    assert cells_of(lines[3]) == [
        "1000",
        r"2.100 ± 0.100 (2 of 3 splits) † \ 12 s (paper: 2.28 ± .10 \ 50 ks)",
        "20",
        r"failed [1] (paper: 1.61 ± .04 \ 15 ks)",
        r"**1.900 ± 0.000** \ 12 s (paper: 1.79 ± .05 \ 10 s)",
        "– (paper: –)",
    ]
    below = table.markdown.split(lines[3])[1]
    assert "† The time was up" in below
    assert "[1] failed: ValueError: too | many" in below
    assert "10,000 training rows" in below
    for text in ("`npvi reproduce bird-counts`", "600 s a cell", "npvi 1.2.3, JAX 0.9", "cpu, 2 cores", "2026-01-31"):
        assert text in below


def test_the_csv_file_has_a_line_per_seed(store):
    table = score_table(store, PLAN, "bird_counts", "paper", "npvi reproduce")
    rows = list(csv.DictReader(io.StringIO(table.csv)))
    assert len(rows) == len(store.all()) == 20
    [row] = [row for row in rows if (row["method"], row["size"], row["seed"]) == ("svgp", "1000", "1")]
    told = ("data", "table", "nlpd", "seconds", "length_scale", "variance", "nugget", "validation")
    assert [row[name] for name in told] == ["bird_counts", "paper", "2.2", "12.0", "0.5", "1.0", "0.01", "2.2"]
    assert [float(row[name]) for name in ("paper_nlpd", "paper_error", "paper_seconds")] == [2.28, 0.10, 50e3]
    assert row["out_of_time"] == "True"
    failed = [row for row in rows if row["error"]]
    assert [row["nlpd"] for row in failed] == ["", "", ""]


def test_length_scales_beside_the_papers(store):
    table = length_scale_table(store, PLAN, "npvi reproduce length-scale")
    lines = [line for line in table.markdown.splitlines() if line.startswith("|")]
    assert cells_of(lines[2]) == [
        "200",
        "0.5 (paper: 0.5)",
        "10",
        "0.1, 0.5 (paper: 0.1)",
        "0.5 (paper: 0.1)",
        "0.5 (paper: –)",
    ]
    assert cells_of(lines[3])[3] == "failed (paper: 0.1)"
    assert LENGTH_SCALES["dgp"] == {200: 1.5, 1000: 1.0, 2000: 1.0}


def test_files_are_written(store, tmp_path):
    table = score_table(store, PLAN, "bird_counts", "paper", "npvi reproduce")
    paths = table.write(tmp_path)
    assert [path.name for path in paths] == ["bird-counts.md", "bird-counts.csv"]
    assert paths[0].read_text(encoding="utf-8") == table.markdown
    assert paths[1].read_text(encoding="utf-8") == table.csv


def test_without_results_there_is_no_table(tmp_path):
    assert score_table(Store(tmp_path), PLAN, "flights", "tuned", "") is None
    assert length_scale_table(Store(tmp_path), PLAN, "") is None
