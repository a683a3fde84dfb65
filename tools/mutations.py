"""Would the tests notice? Lines that they pass are changed one at a time, and the tests nearest to each are run.

    git worktree add --detach /tmp/checkout && cd /tmp/checkout
    PYTHONPATH=src python -m coverage run --rcfile=tools/coverage.ini -m pytest -m "not browser"
    python tools/mutations.py --tree /tmp/checkout --number 40 --seed 1

Lines are drawn, with a seed, from those in functions that tests pass and in which something can be changed: a
comparison, an operator, a number, a condition, what is returned, a statement left out. What numba compiles isn't
drawn, as coverage doesn't see it. The tests nearest to a line are those that pass fewest other lines: eight, then forty
more.

`--tree` is a checkout of its own, whose files are changed and put back. The exit code is the number of lines whose
change no test noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Change", "changes", "main"]

#: what an operator becomes
_OPERATORS: Mapping[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
#: what says no more than a name, a type or an error
_LEFT_ALONE = ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr | ast.arguments
#: how many of the nearest tests are run, one after the other
_NEAREST = (8, 40)


@dataclass(frozen=True)
class Change:
    """Another text between two columns of a line, counted from 1; columns are in bytes, as `ast` counts them."""

    line: int
    start: int
    stop: int
    text: str

    def made(self, source: str) -> str:
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        lines[self.line - 1] = (line[: self.start] + self.text.encode() + line[self.stop :]).decode()
        return "".join(lines)


def changes(source: str) -> list[Change]:
    """All that can be changed in the functions of a module.

    >>> source = "def f(x):\\n    return x + 1\\n"
    >>> [change.made(source).splitlines()[1].strip() for change in changes(source)]
    ['return None', 'return (x - 1)', 'return x + 2']
    """
    return list(_below(ast.parse(source), False))


def _below(node: ast.AST, inside: bool) -> Iterator[Change]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _LEFT_ALONE) or (isinstance(child, ast.FunctionDef) and _is_compiled(child)):
            continue
        if inside and getattr(child, "lineno", None) is not None and child.lineno == child.end_lineno:
            for other in _altered(child, node):
                yield Change(child.lineno, child.col_offset, child.end_col_offset, other)
        if isinstance(child, ast.AnnAssign):
            children: list[ast.AST] = [child.value] if child.value is not None else []
            yield from _below(ast.Module(children, []), inside)
        elif isinstance(child, ast.FunctionDef):
            yield from _below(ast.Module(child.body, []), True)
        else:
            yield from _below(child, inside)


def _is_compiled(function: ast.FunctionDef) -> bool:
    decorators = [ast.unparse(each) for each in function.decorator_list]
    return any(word in each for each in decorators for word in ("compiled", "inner", "reordered", "njit", "intrinsic"))


def _altered(node: ast.AST, parent: ast.AST) -> Iterator[str]:
    """Other texts for a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        operator = _OPERATORS[type(node.ops[0])]()
        yield f"({ast.unparse(ast.Compare(node.left, [operator], node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield f"({ast.unparse(ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right))})"
    elif isinstance(node, ast.BoolOp):
        yield f"({ast.unparse(ast.BoolOp(_OPERATORS[type(node.op)](), node.values))})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield repr(node.value + 1)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return None"
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "pass"
    if isinstance(parent, ast.If | ast.While | ast.IfExp) and node is parent.test:
        yield f"(not ({ast.unparse(node)}))"


# -- drawing, and running tests ----------------------------------------------------------------------------------------


def drawn(tree: Path, data: Path, number: int, seed: int) -> Iterator[tuple[Path, Change, list[str]]]:
    """Changes of different lines, each with the tests that pass its line, nearest first."""
    from coverage import CoverageData

    covered = CoverageData(str(data))
    covered.read()
    passed: dict[tuple[str, int], list[str]] = {}
    size: Counter[str] = Counter()
    for file in sorted(covered.measured_files()):
        for line, contexts in covered.contexts_by_lineno(file).items():
            tests = [context for context in contexts if context.startswith("tests.")]
            size.update(tests)
            if tests:
                passed[file, line] = tests
    possible: dict[tuple[str, int], list[Change]] = {}
    for file in {file for file, _ in passed}:
        for change in changes(Path(file).read_text()):
            if (file, change.line) in passed:
                possible.setdefault((file, change.line), []).append(change)
    rng = random.Random(seed)
    for file, line in rng.sample(sorted(possible), number):
        tests = sorted(passed[file, line], key=lambda test: (size[test], test))
        yield Path(file).relative_to(tree), rng.choice(possible[file, line]), tests


def noticed(tree: Path, tests: Sequence[str], limit: float) -> str | None:
    """Who notices a change that is made already: a test, or the clock; None where nobody does."""
    for start, stop in zip((0, *_NEAREST), _NEAREST):
        if not tests[start:stop]:
            break
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        try:
            done = subprocess.run(
                [*command, *map(_node, tests[start:stop])],
                cwd=tree,
                env=environment,
                timeout=limit,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return "the clock"
        if done.returncode:
            failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return failed[0].split(" - ")[0] if failed else f"pytest, by exit code {done.returncode}"
    return None


def _node(test: str) -> str:
    """``tests.room.test_x.test_y`` as pytest names it."""
    module, _, name = test.partition(".test_")
    file, _, function = name.partition(".")
    return f"{module.replace('.', '/')}/test_{file}.py::{function.replace('.', '::')}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Change lines, and print who noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--tree", type=Path, required=True, help="a checkout, whose files are changed and put back")
    parser.add_argument("--data", type=Path, help="what coverage found (TREE/.coverage)")
    parser.add_argument("--number", type=int, default=40, help="how many lines (40)")
    parser.add_argument("--seed", type=int, default=0, help="which lines (0)")
    parser.add_argument("--only", type=int, nargs=2, metavar=("FIRST", "LAST"), help="some of them, counted from 1")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for the tests of a line (240)")
    options = parser.parse_args(arguments)
    tree = options.tree.resolve()
    lines = list(drawn(tree, options.data or tree / ".coverage", options.number, options.seed))
    first, last = options.only or (1, len(lines))
    missed = 0
    for number, (file, change, tests) in enumerate(lines[first - 1 : last], first):
        path = tree / file
        source, times = path.read_text(), path.stat()
        changed = change.made(source)
        before, after = (text.splitlines()[change.line - 1].strip() for text in (source, changed))
        try:
            path.write_text(changed)
            by = noticed(tree, tests, options.limit)
        finally:
            path.write_text(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what was compiled of it is still right
        missed += by is None
        print(f"{number:3}  {file}:{change.line}  ({len(tests)} tests)\n     - {before}\n     + {after}", flush=True)
        print(f"     {'NOBODY NOTICED' if by is None else by}", flush=True)
    print(f"{last - first + 1 - missed} of {last - first + 1} changes were noticed")
    return missed


if __name__ == "__main__":
    sys.exit(main())
