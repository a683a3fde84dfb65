"""The shape of a toy package with a chain, a cycle that functions hide, and doors that are passed."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from .scripts import script

shape = script("shape")

FILES = {
    "__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy import top\n",
    "top.py": "from toy.a import one\nfrom toy.a.deep import thing\n",
    "alone.py": "import numba\n",
    "compiling.py": "def compiled():\n    from numba import njit\n",
    "a/__init__.py": "from .one import x\n",
    "a/one.py": "from . import two\nfrom toy.compiling import compiled\n",
    "a/two.py": "try:\n    import toy.a.deep.thing\nexcept ImportError:\n    pass\n",
    "a/deep/__init__.py": "",
    "a/deep/thing.py": "def later():\n    from toy.a import one\n    from ..one import x\n",
    "cli/__init__.py": "from toy.cli.run import go\n",
    "cli/run.py": "def go():\n    from toy import cli\n",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "src" / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return shape.read_tree(tmp_path / "src", "toy")


def test_imports(tree):
    found = {(one.importer, one.target, one.inside) for one in tree.imports}
    assert found == {
        ("toy.top", "toy.a.one", False),
        ("toy.top", "toy.a.deep.thing", False),
        ("toy.a", "toy.a.one", False),
        ("toy.a.one", "toy.a.two", False),
        ("toy.a.one", "toy.compiling", False),
        ("toy.a.two", "toy.a.deep.thing", False),
        ("toy.a.deep.thing", "toy.a.one", True),
        ("toy.cli", "toy.cli.run", False),
        ("toy.cli.run", "toy.cli", True),
    }
    assert tree.hall == ["toy.alone", "toy.compiling", "toy.top"]
    assert tree.numba == {"toy.alone", "toy.compiling"}
    assert tree.compiled - tree.numba == {"toy.a.one"}


def test_chain_and_cycles(tree):
    assert shape.longest_chain(tree.graph()) == ["toy.top", "toy.a.one", "toy.a.two", "toy.a.deep.thing"]
    assert shape.cycles(tree.graph()) == []
    hidden = ["toy.a.deep.thing", "toy.a.one", "toy.a.two"]
    assert shape.cycles(tree.graph(functions=True)) == [hidden, ["toy.cli", "toy.cli.run"]]
    assert shape.cycles(tree.graph(functions=True, except_in="toy.cli")) == [hidden]


def test_this_tree_has_no_cycle():
    tree = shape.read_tree(Path(__file__).parents[2] / "src")
    assert shape.cycles(tree.graph()) == []
    assert shape.cycles(tree.graph(functions=True, except_in="npvi.cli")) == []


def test_doors(tree):
    past = {(one.importer, one.target) for one in tree.climbing()}
    assert past == {("toy.top", "toy.a.one"), ("toy.top", "toy.a.deep.thing"), ("toy.a.two", "toy.a.deep.thing")}
    assert len(tree.across()) == len(past)


def test_a_cycle_counts_as_a_chain():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert sorted(shape.longest_chain(graph)) == ["a", "b", "c", "d"]


def test_trace(tmp_path):
    for name, text in {"one": "def f(g):\n    return [g(), g()]\n", "two": "def g():\n    return 1\n"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    spaces = {}
    for name in ("one", "two"):
        spaces[name] = {}
        path = tmp_path / f"{name}.py"
        exec(compile(path.read_text(), str(path), "exec"), spaces[name])
    with shape.Trace(tmp_path) as trace:
        spaces["one"]["f"](spaces["two"]["g"])
        spaces["one"]["f"](lambda: spaces["two"]["g"]())
    assert trace.files == ["one.py", "two.py"]
    assert trace.functions == {("one.py", "f"): 2, ("two.py", "g"): 4}
    assert trace.crossings == {("one.py", "two.py"): 2}
    assert (trace.through, trace.depth) == (4, 2)


def test_printed(tree, tmp_path, capsys):
    assert shape.main([str(tmp_path), "--package", "toy", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "    3: toy.a.deep.thing, toy.a.one, toy.a.two\n" in printed
    assert "toy.top:2 toy.a.deep.thing" in printed


def test_doctests():
    assert doctest.testmod(shape).failed == 0
