"""Finished cells in files."""

from __future__ import annotations

import json

import pytest

from npvi.paper.experiments.store import Cell, Store, StoreError, provenance

CELL = Cell("paper", "bird_counts", "svgp", 200, 0, (("rows", None), ("length_scales", (0.1, 0.5))))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "made" / "when needed")


def test_what_is_put_comes_back(store):
    assert store.get(CELL) is None
    assert store.all() == []
    store.put(CELL, {"test": -1.25, "candidates": [{"length_scale": 0.1, "validation": None}]})
    assert store.get(CELL) == {"test": -1.25, "candidates": [{"length_scale": 0.1, "validation": None}]}
    # nested tuples of the settings come back as tuples: the cell is the same one, and can be looked up
    [(cell, _)] = store.all()
    assert cell == CELL
    store.put(CELL, {"test": 2.0})
    assert store.get(CELL) == {"test": 2.0}
    assert [path.name for path in store.folder.iterdir()] == [CELL.file]  # no litter


def test_cells_that_differ_in_anything_have_files_of_their_own(store):
    others = [
        Cell("tuned", "bird_counts", "svgp", 200, 0, CELL.settings),
        Cell("paper", "bird_counts", "svgp", 200, 0, (("rows", 2000), ("length_scales", (0.1, 0.5)))),
        Cell("paper", "bird_counts", "svgp", 200, 1, CELL.settings),
    ]
    assert len({cell.file for cell in [CELL, *others]}) == 4
    for number, cell in enumerate([CELL, *others]):
        store.put(cell, {"number": number})
    assert [store.get(cell)["number"] for cell in [CELL, *others]] == [0, 1, 2, 3]
    assert [cell for cell, _ in store.all("tuned")] == [others[0]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"format": 1, "cell": {"experiment": "pap', "JSONDecodeError"),
        (b'{"format": 99, "cell": {}, "result": {}}', "format 99, and this version reads 1"),
        (b'{"notes": "mine"}', "KeyError"),
        (b"[1, 2]", "TypeError"),
        (b"\xff\xfe\x00", "UnicodeDecodeError"),
    ],
)
def test_a_broken_file_is_named(store, content, reason):
    store.put(CELL, {"test": 1.0})
    path = store.folder / CELL.file
    path.write_bytes(content)
    for read in (lambda: store.get(CELL), store.all):
        with pytest.raises(StoreError, match="delete it, and it is computed again") as error:
            read()
        assert str(path) in str(error.value)
        assert reason in str(error.value)


def test_a_file_of_another_cell_is_no_result(store):
    store.put(CELL, {"test": 1.0})
    path = store.folder / CELL.file
    content = json.loads(path.read_text())
    content["cell"]["seed"] = 7
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="another cell"):
        store.get(CELL)


def test_numbers_that_json_lacks_are_refused_before_anything_is_written(store):
    with pytest.raises(ValueError, match="JSON compliant"):
        store.put(CELL, {"test": float("nan")})
    assert list(store.folder.iterdir()) == []


def test_provenance_says_with_what():
    made = provenance()
    assert made.keys() == {"npvi", "jax", "date", "device", "cores"}
    json.dumps(made, allow_nan=False)
