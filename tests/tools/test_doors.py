"""A room is entered by its door: what its ``__init__`` names, whichever of its modules that is in."""

from __future__ import annotations

from pathlib import Path

from .scripts import script

shape = script("shape")

#: whose modules are tools that have nothing to do with each other: with one door, what writes a file would import numba
TOOLBOX = "npvi.runtime."
#: modules that others may enter, and why
OPEN = {
    "npvi.components.precision_posterior": "a function of the same name, which a door can't tell from the module",
    "npvi.kernels.fast": "needs numba, which kernels and their formulas do without",
    "npvi.linalg.woodbury": "a function of the same name",
    "npvi.maps.borders": "reads a file",
    "npvi.maps.drawing": "pictures, which maps of numbers do without",
    "npvi.maps.projections": "as drawing",
    "npvi.maps.surfaces": "as drawing",
}


def test_rooms_are_entered_by_their_doors():
    intruding = shape.read_tree(Path(__file__).parents[2] / "src").intruding()
    past = [one for one in intruding if not one.target.startswith(TOOLBOX) and one.target not in OPEN]
    assert not past, "\n".join(f"{one.importer}, line {one.line}: {one.target}" for one in past)


def test_what_is_open_is_entered():
    entered = {one.target for one in shape.read_tree(Path(__file__).parents[2] / "src").climbing()}
    assert entered >= OPEN.keys()
