"""What a tree is like: its modules, what imports what, and the files that a fit passes through.

    python tools/shape.py                  # the checkout that this file is in
    python tools/shape.py /path/to/other --trace
    python tools/shape.py --list           # with the modules and imports that are counted

Imports are read from the source, nothing is run: those of a module itself, and apart from them those inside functions.
What stands under ``if TYPE_CHECKING`` is none. ``from npvi.a import b`` is an import of the module ``npvi.a.b`` where
there is one, else of the package ``npvi.a``; that Python runs the ``__init__`` of packages on the way isn't counted.
``--trace`` fits 600 counts twice, and follows the second fit.
"""

from __future__ import annotations

import argparse
import ast
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["Import", "Trace", "Tree", "cycles", "longest_chain", "main", "read_tree"]

Graph = Mapping[str, set[str]]


# -- what imports what ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """One module importing from another; `inside` where it happens in a function, `line` where it stands."""

    importer: str
    target: str
    inside: bool
    line: int


@dataclass(frozen=True)
class Tree:
    """All modules of a package, by name, with what they import from each other.

    Attributes
    ----------
    package : its name.
    modules : number of lines of each module; packages are there by their ``__init__``.
    packages : names of the modules that are packages.
    imports : of modules of this package only.
    numba : modules that import numba, in functions too.
    compiled : those, and the ones that have it from a module ``compiling``.
    """

    package: str
    modules: dict[str, int]
    packages: set[str]
    imports: list[Import]
    numba: set[str]
    compiled: set[str]

    @property
    def hall(self) -> list[str]:
        """Modules that stand beside the packages, in the folder of the package itself."""
        return [name for name in self.modules if name.count(".") == 1 and name not in self.packages]

    def graph(self, functions: bool = False, except_in: str | None = None) -> dict[str, set[str]]:
        """What each module imports; with imports in functions too, save those of one package."""
        found: dict[str, set[str]] = {name: set() for name in self.modules}
        for one in self.imports:
            if not one.inside or (functions and not (except_in and _within(one.importer, except_in))):
                found[one.importer].add(one.target)
        return found

    def across(self) -> list[Import]:
        """Imports of something in a package by a module that isn't in it."""
        return [one for one in self.imports if self._doors(one, itself=True)]

    def climbing(self) -> list[Import]:
        """Imports past the ``__init__`` of a package, from outside of it."""
        return [one for one in self.imports if self._doors(one)]

    def intruding(self) -> list[Import]:
        """Those among them from one room into another, a package straight below this one, and not into a package of it:
        at the module level, as what waits in a function has its reasons."""
        return [
            one
            for one in self.climbing()
            if not one.inside
            and one.importer != self.package
            and one.target not in self.packages
            and one.importer.split(".")[:2] != one.target.split(".")[:2]
        ]

    def _doors(self, one: Import, itself: bool = False) -> list[str]:
        """Packages around the target that the importer isn't in; the target itself is one if `itself` says so."""
        around = [name for name in self.packages - {self.package} if _within(one.target, name)]
        return [name for name in around if (itself or name != one.target) and not _within(one.importer, name)]


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def read_tree(source: Path, package: str = "npvi") -> Tree:
    """Read the package in the folder `source`."""
    files = {_name(path, source): path for path in sorted((source / package).rglob("*.py"))}
    if package not in files:
        raise SystemExit(f"there is no {package}/__init__.py in {source}")
    packages = {name for name, path in files.items() if path.name == "__init__.py"}
    modules, imports, numba, compiled = {}, [], set(), set()
    for name, path in files.items():
        text = path.read_text()
        modules[name] = len(text.splitlines())
        for node, inside in _statements(ast.parse(text), False):
            for target in _targets(node, name, name in packages):
                if _within(target, "numba"):
                    numba.add(name)
                found = _module(target, files)
                if found is not None and found != name:
                    imports.append(Import(name, found, inside, node.lineno))
                    if found.rpartition(".")[2] == "compiling":
                        compiled.add(name)
    return Tree(package, modules, packages, list(dict.fromkeys(imports)), numba, numba | compiled)


def _name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _statements(node: ast.AST, inside: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All imports below a node that take place, and whether they wait until a function is called."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _statements(ast.Module([other], []), inside)
        else:
            yield from _statements(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def _targets(node: ast.Import | ast.ImportFrom, importer: str, is_package: bool) -> list[str]:
    """Full names of what a statement imports: modules, or things in them."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = importer.split(".")
        above = parts[: len(parts) - node.level + is_package]
        base = ".".join([*above, base] if base else above)
    return [f"{base}.{alias.name}" for alias in node.names]


def _module(target: str, modules: Iterable[str]) -> str | None:
    """The module that a full name is, or is in."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target or None


def cycles(graph: Graph) -> list[list[str]]:
    """Modules that import each other, on whatever way: strongly connected components, largest first.

    >>> cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}})
    [['b', 'c']]
    """
    return sorted((sorted(part) for part in _components(graph) if len(part) > 1), key=lambda part: (-len(part), part))


def _components(graph: Graph) -> list[list[str]]:
    """Tarjan's strongly connected components: what is imported comes before what imports it."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        path.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in path:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            start = path.index(name)
            found.append(path[start:])
            del path[start:]

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return found


def longest_chain(graph: Graph) -> list[str]:
    """The most modules each of which imports the next; those of a cycle all count, one after the other.

    >>> longest_chain({"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"c"}})
    ['a', 'b', 'c']
    """
    chain: dict[str, list[str]] = {}
    for part in _components(graph):
        below = [chain[other] for name in part for other in graph[name] if other not in part]
        best = [*part, *max(below, key=lambda names: (len(names), names), default=[])]
        chain |= dict.fromkeys(part, best)
    return max(chain.values(), key=lambda names: (len(names), names), default=[])


# -- what a fit passes through ----------------------------------------------------------------------------------------


@dataclass
class Trace:
    """Calls of functions in the files below a folder, seen by ``sys.setprofile`` in all threads.

    Attributes
    ----------
    functions : how often each was called, by file and name.
    crossings : calls straight from one of the files into another, by the two.
    through : those, and the ones with functions of other packages in between.
    depth : most frames of these files at a time.
    """

    folder: Path
    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    crossings: Counter[tuple[str, str]] = field(default_factory=Counter)
    through: int = 0
    depth: int = 0

    @property
    def files(self) -> list[str]:
        return sorted({file for file, _ in self.functions})

    def __enter__(self) -> Trace:
        self._known: dict[str, str | None] = {}
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *details: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _file(self, frame: FrameType) -> str | None:
        path = frame.f_code.co_filename
        if path not in self._known:
            inside = Path(path).is_relative_to(self.folder)
            self._known[path] = str(Path(path).relative_to(self.folder)) if inside else None
        return self._known[path]

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        file = self._file(frame) if event == "call" else None
        if file is None:
            return
        self.functions[file, frame.f_code.co_qualname] += 1
        above = [found for caller in _callers(frame) if (found := self._file(caller)) is not None]
        self.depth = max(self.depth, len(above) + 1)
        self.through += bool(above) and above[0] != file
        caller = self._file(frame.f_back) if frame.f_back is not None else None
        if caller is not None and caller != file:
            self.crossings[caller, file] += 1


def _callers(frame: FrameType) -> Iterator[FrameType]:
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame


def trace_fit(source: Path, rows: int = 600) -> Trace:
    """Follow the second default fit of counts in this process: nothing is compiled any more."""
    sys.path.insert(0, str(source))
    import numpy as np

    import npvi

    if source.resolve() not in Path(npvi.__file__).resolve().parents:
        raise SystemExit(f"npvi was imported from {npvi.__file__}, not from {source}")
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(rows, 2))
    y = rng.poisson(np.exp(1.0 + np.sin(X[:, 0]) + 0.5 * np.cos(X[:, 1])))
    npvi.GPRegressor("poisson", hyper="plug-in").fit(X, y)
    with Trace(Path(npvi.__file__).parent) as trace:
        npvi.GPRegressor("poisson", hyper="plug-in").fit(X, y)
    return trace


# -- printing ---------------------------------------------------------------------------------------------------------


def _show(tree: Tree, everything: bool) -> None:
    chain = longest_chain(tree.graph())
    importers = Counter(target for _, target in {(one.importer, one.target) for one in tree.imports})
    single = sorted(name for name, count in importers.items() if count == 1)
    inside = [one for one in tree.imports if one.inside]
    across, climbing = tree.across(), tree.climbing()
    command_line = f"{tree.package}.cli"
    alone = cycles(tree.graph(functions=True, except_in=command_line))
    started = [part for part in cycles(tree.graph(functions=True)) if part not in alone]
    _line("modules", len(tree.modules))
    _line("lines", sum(tree.modules.values()))
    _line("modules in the hall", len(tree.hall), tree.hall, everything)
    _line("longest import chain", len(chain), chain, everything)
    _line("imported by exactly one other", len(single), single, everything)
    _line("imports across packages", len(across))
    _line("... past an __init__", len(climbing), map(_place, climbing), everything)
    intruding = tree.intruding()
    _line("... of another room", len(intruding), map(_place, intruding), everything)
    _line("imports inside functions", len(inside), map(_place, inside), everything)
    _line("... outside of the command line", sum(not _within(one.importer, command_line) for one in inside))
    _line("modules that import numba", len(tree.numba), sorted(tree.numba), everything)
    _line("... or compile with it", len(tree.compiled), sorted(tree.compiled), everything)
    for title, found in [
        ("cycles at module level", cycles(tree.graph())),
        ("cycles with imports inside functions", alone),
        ("... that the command line's own add", started),
    ]:
        _line(title, len(found))
        for part in found:
            print(f"    {len(part)}: {', '.join(part)}")


def _show_trace(trace: Trace, everything: bool) -> None:
    pairs = [f"{count:6,}  {one} -> {other}" for (one, other), count in trace.crossings.most_common()]
    print()
    _line("files that a fit passes", len(trace.files), trace.files, everything)
    _line("functions", len(trace.functions))
    _line("calls", sum(trace.functions.values()))
    _line("greatest depth", trace.depth)
    _line("calls from one file into another", sum(trace.crossings.values()), pairs, everything)
    _line("... and through other packages", trace.through)


def _place(one: Import) -> str:
    return f"{one.importer}:{one.line} {one.target}"


def _line(title: str, count: int, names: Iterable[str] = (), everything: bool = False) -> None:
    print(f"{title:<38}{count:8,}")
    for name in names if everything else ():
        print(f"    {name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the shape of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("folder", nargs="?", type=Path, default=here, help="checkout, with src/ in it (this one)")
    parser.add_argument("--package", default="npvi", help="package to look at (npvi)")
    parser.add_argument("--trace", action="store_true", help="follow a default fit of 600 counts as well")
    parser.add_argument("--list", action="store_true", help="name what is counted")
    options = parser.parse_args(arguments)
    source = options.folder.resolve() / "src"
    _show(read_tree(source, options.package), options.list)
    if options.trace:
        _show_trace(trace_fit(source), options.list)
    return 0


if __name__ == "__main__":
    sys.exit(main())
