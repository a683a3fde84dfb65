"""Where modules were before they had rooms."""

from __future__ import annotations

import importlib
import sys

import pytest

import npvi
from npvi.aliases import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_old_names_are_the_modules_themselves(old):
    module = importlib.import_module(old)
    assert module is importlib.import_module(MOVED[old])
    assert module.__name__ == MOVED[old] == module.__spec__.name
    if old.count(".") == 1:
        assert getattr(npvi, old.removeprefix("npvi.")) is module


def test_what_is_in_a_package_goes_along():
    from npvi.baselines import SVGP
    from npvi.networks.gcn import GCN
    from npvi.networks.recognizer import Recognizer

    from npvi.likelihoods.custom import Custom
    from npvi.paper import rivals
    from npvi.predictive import Predictive

    assert SVGP is rivals.SVGP
    assert Custom is npvi.likelihoods.Custom
    assert GCN is npvi.amortized.GCN
    assert Recognizer is npvi.Recognizer
    assert Predictive.__module__ == "npvi.predictive.base"
    assert sys.modules["npvi.networks.recognizer"] is sys.modules["npvi.amortized.recognizer"]


def test_functions_with_the_name_of_a_module_stay_functions():
    import npvi.likelihoods.moments

    assert callable(npvi.likelihoods.expectations)
    assert callable(npvi.likelihoods.curvatures)


def test_what_never_was_is_an_error():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("npvi.networks.nothing")
    with pytest.raises(AttributeError, match="nothing"):
        npvi.nothing  # noqa: B018
