"""What the pages name in the library exists, the functions of the paper's equations among it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ROLE = re.compile(r"\{(?:func|class|meth|attr|mod)\}`~?([\w.]+)`")
NAMED = sorted({(page, name) for page in DOCS.rglob("*.md") for name in ROLE.findall(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize(("page", "name"), NAMED, ids=lambda item: item.name if isinstance(item, Path) else item)
def test_what_a_page_names_exists(page, name):
    subject, rest = importlib.import_module("npvi"), name.split(".")[1:]
    for number, part in enumerate(rest, 2):
        if not hasattr(subject, part):
            importlib.import_module(".".join(name.split(".")[:number]))
        subject = getattr(subject, part)
    assert inspect.getdoc(subject)


def test_each_equation_of_the_paper_has_its_function():
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    for label in ("gp", "prediction", "elbo", "bandsigma", "est_elbo", "hatlell", "cond_cross", "nystr_cross"):
        after = text.partition(f"(*{label}*)")[2]
        assert after, f"paper.md has no equation labelled {label}"
        assert ROLE.search(after.partition("\n## ")[0]), f"no function is named below equation {label}"
