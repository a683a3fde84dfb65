"""What the contracts ask for and answer is said in full: mypy holds their modules to it, and no annotation is Any."""

from __future__ import annotations

import ast
import inspect
import textwrap
import tomllib
from pathlib import Path

import pytest

from npvi.components import Component, ComponentFactor
from npvi.inference.families.base import Covariance, Family
from npvi.kernels import Kernel
from npvi.likelihoods import Likelihood
from npvi.posteriors import Posterior
from npvi.predictive import Predictive
from npvi.predictive.base import NormalTotal, Total
from npvi.priors.base import Conditional, Joint, PrecisionFactor, Prior

CONTRACTS = [
    Component,
    ComponentFactor,
    Conditional,
    Covariance,
    Family,
    Joint,
    Kernel,
    Likelihood,
    NormalTotal,
    Posterior,
    PrecisionFactor,
    Predictive,
    Prior,
    Total,
]
TOO_WIDE = {"Any", "dict", "list", "tuple", "Callable"}
"""Any itself, and what stands for it where it is said of nothing: a tuple of what?"""


def loose(cls: type) -> list[str]:
    """Annotations of public methods and attributes, as written in the class, that are or contain Any; and arguments
    without one."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (node.name.startswith("__") or not node.name.startswith("_")):
            about = node.args
            given = [*about.posonlyargs, *about.args, *about.kwonlyargs, about.vararg, about.kwarg]
            arguments = [one for one in given if one is not None and one.arg not in ("self", "cls")]
            annotations = [(one.arg, one.annotation) for one in arguments] + [("return", node.returns)]
            found += [f"{node.name}: {name}" for name, said in annotations if said is None or is_wide(said)]
        if isinstance(node, ast.AnnAssign) and is_wide(node.annotation):
            found.append(ast.unparse(node.target))
    return found


def is_wide(annotation: ast.expr) -> bool:
    said_of = {id(node.value) for node in ast.walk(annotation) if isinstance(node, ast.Subscript)}
    names = [node for node in ast.walk(annotation) if isinstance(node, ast.Name)]
    return any(name.id == "Any" or (name.id in TOO_WIDE and id(name) not in said_of) for name in names)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_nothing_is_any(contract):
    assert loose(contract) == []


def test_any_is_found():
    class Loose:
        kept: dict[str, Any]  # noqa: F821

        def ask(self, x: list[Any], *, n: int = 1, **more: float) -> tuple: ...  # noqa: F821

        def answer(self, x) -> Any: ...  # noqa: F821

        def _inside(self, x: Any) -> None: ...  # noqa: F821

    assert loose(Loose) == ["kept", "ask: x", "ask: return", "answer: x", "answer: return"]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_mypy_is_strict_about_it(contract):
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    (strict,) = [part for part in settings if part.get("disallow_any_explicit")]
    assert contract.__module__ in strict["module"]
