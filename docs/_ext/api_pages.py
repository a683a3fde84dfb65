"""The list of all public names, from what the modules say is public, under headings by subject."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx

__all__ = ["pages", "setup"]

_HEAD = """\
API
===

Every public class and function, with inherited methods. The commands of the shell have :doc:`a page of their own
<commands>`.

.. toctree::
   :hidden:

   commands
"""

#: heading, a few words, and names of `npvi` or whole modules
SECTIONS: list[tuple[str, str, list[str]]] = [
    (
        "Models",
        "",
        [
            "npvi.GPRegressor",
            "npvi.GPClassifier",
            "npvi.VaryingNoiseRegressor",
            "npvi.TiledRegressor",
            "npvi.Pipeline",
            "npvi.fit_points",
            "npvi.load",
        ],
    ),
    (
        "Parts of a predictor",
        ":doc:`How they are put together <../parts>`.",
        [
            "npvi.Linear",
            "npvi.Group",
            "npvi.Smooth",
            "npvi.Field",
            "npvi.Varying",
            "npvi.Offset",
            "npvi.AR1",
            "npvi.RandomWalk",
        ],
    ),
    (
        "Predictions",
        """\
``predict_dist`` returns one of these. All of them answer the same questions (``mean``, ``std``, ``quantile``,
``interval``, ``log_prob``, ``sample``, ``joint_sample``, ``total``) but the last, which is about labels.

=========================================================  ====================================================
model                                                      ``predict_dist`` returns
=========================================================  ====================================================
``GPRegressor``, one set of hyper-parameters               `npvi.predictive.Predictive`
``GPRegressor`` that mixes several, the default for few    `npvi.predictive.MixturePredictive`
rows or where two smoothnesses predict better than one
``VaryingNoiseRegressor``                                  `npvi.predictive.VaryingNoisePredictive`, or a mixture
``GPClassifier``, two labels                               as ``GPRegressor``, of 0 and 1
``GPClassifier``, three labels or more                     `npvi.predictive.CategoricalPredictive`
=========================================================  ====================================================

``total`` returns a `npvi.predictive.Total`, ``latent_total`` a `npvi.predictive.NormalTotal`.
""",
        ["npvi.predictive"],
    ),
    (
        "What is known of a number",
        "Given to a kernel, a likelihood or ``nugget=`` in the place of a number.",
        ["npvi.fixed", "npvi.bounded", "npvi.positive", "npvi.pc", "npvi.half_normal"],
    ),
    (
        "Judging and choosing",
        "",
        [
            "npvi.diagnose",
            "npvi.Diagnosis",
            "npvi.report",
            "npvi.compare",
            "npvi.suggest",
            "npvi.Suggestion",
            "npvi.log_score_scorer",
            "npvi.grid_search",
            "npvi.GridResult",
            "npvi.SpatialBlockSplit",
            "npvi.LeaveLocationOut",
            "npvi.diagnostics",
        ],
    ),
    (
        "Maps",
        "``predict_grid`` and ``predict_polygons`` are methods of models as well.",
        [
            "npvi.fill",
            "npvi.maps.predict_grid",
            "npvi.maps.predict_polygons",
            "npvi.maps.read_raster",
            "npvi.maps.write_map",
            "npvi.maps.Grid",
        ],
    ),
    ("Pictures", "", ["npvi.plot"]),
    ("Kernels", "", ["npvi.kernels"]),
    ("Likelihoods", "", ["npvi.likelihoods"]),
    (
        "Networks",
        'For ``method="npvi-nn"``.',
        [
            "npvi.fit_network",
            "npvi.fit_network_on_simulations",
            "npvi.stream_posterior",
            "npvi.Recognizer",
            "npvi.amortized",
        ],
    ),
    ("Stochastic gradients", 'For ``optimizer="sgd"``.', ["npvi.SGD"]),
    ("Real data", "", ["npvi.datasets"]),
    ("More", "", ["npvi"]),
    (
        "The paper's own",
        "What :doc:`the paper, equation by equation <../paper>` speaks of.",
        [
            "npvi.inference.stochastic",
            "npvi.priors.conditionals.conditionals",
            "npvi.linalg.LowerHalf",
            "npvi.linalg.zero_fill_factor",
            "npvi.amortized.gcn.networks.adjacency",
            "npvi.amortized.gcn.networks.forward",
            "npvi.amortized.gcn.networks.recognise",
        ],
    ),
    (
        "Parts inside",
        "What models are made of, for those who build on them: :doc:`the rooms of the house <../architecture>`.",
        ["npvi.graph", "npvi.priors", "npvi.posteriors", "npvi.model"],
    ),
]


def pages() -> list[tuple[str, str, list[str]]]:
    """The sections with the full names of what they list; nothing is listed twice."""
    listed: set[int] = set()
    found = []
    for heading, words, names in SECTIONS:
        items = [item for name in names for item in _listed(name, listed)]
        if items:
            found.append((heading, words, items))
    return found


def _listed(name: str, listed: set[int]) -> list[str]:
    module, _, last = name.rpartition(".")
    subject = getattr(importlib.import_module(module), last) if module else importlib.import_module(name)
    if not isinstance(subject, ModuleType):
        listed.add(id(subject))
        return [name]
    items = []
    for item in subject.__all__:
        value = getattr(subject, item)
        if (inspect.isclass(value) or inspect.isfunction(value)) and id(value) not in listed:
            listed.add(id(value))
            items.append(f"{name}.{item}")
    return items


def _write(app: Sphinx, config: object) -> None:
    text = _HEAD
    for heading, words, items in pages():
        names = "\n".join(f"   {item}" for item in items)
        text += f"\n{heading}\n{'-' * len(heading)}\n\n{words}\n\n.. autosummary::\n   :toctree: generated\n\n{names}\n"
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    page = folder / "index.rst"
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", _write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
