"""Where modules were before: the names that users may have written into their programs still lead to them."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["MOVED", "install"]

MOVED = {
    "npvi.baselines": "npvi.paper.rivals",
    "npvi.batching": "npvi.runtime.batching",
    "npvi.calibration": "npvi.predictive.calibration",
    "npvi.categorical": "npvi.predictive.categorical",
    "npvi.checkpoints": "npvi.runtime.checkpoints",
    "npvi.compiling": "npvi.runtime.compiling",
    "npvi.demo_picture": "npvi.demo.picture",
    "npvi.experiments": "npvi.paper.experiments",
    "npvi.files": "npvi.runtime.files",
    "npvi.interrupts": "npvi.runtime.interrupts",
    "npvi.joint": "npvi.predictive.joint",
    "npvi.mixture": "npvi.predictive.mixture",
    "npvi.model_file": "npvi.io.archive",
    "npvi.model_file_checks": "npvi.io.checks",
    "npvi.model_packing": "npvi.io.packing",
    "npvi.model_parts": "npvi.model.spec",
    "npvi.model_selection": "npvi.selection.grid",
    "npvi.model_unpacking": "npvi.io.unpacking",
    "npvi.networks": "npvi.amortized",
    "npvi.parallel": "npvi.runtime.parallel",
    "npvi.persistence": "npvi.io.persistence",
    "npvi.places": "npvi.graph.places",
    "npvi.precision": "npvi.runtime.precision",
    "npvi.predicting": "npvi.estimators.predicting",
    "npvi.progress": "npvi.runtime.progress",
    "npvi.reach": "npvi.predictive.reach",
    "npvi.sparse": "npvi.linalg",
    "npvi.splitters": "npvi.selection.splitters",
    "npvi.training": "npvi.runtime.training",
    "npvi.training_state": "npvi.runtime.training",
    "npvi.validation": "npvi.estimators.validation",
    "npvi.varying_predictive": "npvi.predictive.varying_noise",
    "npvi.graph.tree": "npvi.graph.neighbors",
    "npvi.graph.index": "npvi.graph.neighbors",
    "npvi.graph.parents": "npvi.graph.build",
    "npvi.graph.checks": "npvi.graph.graph",
    "npvi.graph.search": "npvi.graph.neighbors",
    "npvi.inference.stochastic.expected_likelihood": "npvi.inference.stochastic.bound",
    "npvi.inference.stochastic.cross_entropy": "npvi.inference.stochastic.bound",
    "npvi.runtime.training_state": "npvi.runtime.training",
    "npvi.amortized.simulation": "npvi.amortized.api",
    "npvi.diagnostics.units": "npvi.diagnostics.diagnosis",
    "npvi.diagnostics.text": "npvi.diagnostics.diagnosis",
    "npvi.paper.rivals.sampling": "npvi.paper.rivals.savigp",
    "npvi.paper.rivals.mixtures": "npvi.paper.rivals.savigp",
    "npvi.paper.rivals.climbing": "npvi.paper.rivals.savigp",
    "npvi.paper.rivals.decoupled": "npvi.paper.rivals.dgp",
    "npvi.paper.rivals.hyperparameters": "npvi.paper.rivals.svgp",
    "npvi.paper.rivals.gradients": "npvi.paper.rivals.stochastic",
    "npvi.paper.rivals.tracing": "npvi.paper.rivals.task",
    "npvi.paper.rivals.choosing": "npvi.paper.rivals.task",
    "npvi.paper.experiments.page": "npvi.paper.experiments.tables",
    "npvi.estimators.terms_tables": "npvi.estimators.summary",
    "npvi.estimators.comparing": "npvi.estimators.leaving_out",
    "npvi.estimators.places": "npvi.estimators.validation",
    "npvi.likelihoods.families.compound_table": "npvi.likelihoods.families.tweedie",
    "npvi.priors.low_rank.conditionals": "npvi.priors.low_rank.prior",
    "npvi.priors.low_rank.gradient": "npvi.priors.low_rank.prior",
    "npvi.learning.stacking": "npvi.learning.learner",
    "npvi.amortized.whole": "npvi.amortized.recognition",
    "npvi.amortized.verdicts": "npvi.amortized.recognition",
    "npvi.inference.ascent": "npvi.learning.bfgs",
    "npvi.inference.family": "npvi.inference.families.base",
    "npvi.inference.hyper": "npvi.learning.integration",
    "npvi.inference.iteration": "npvi.inference.newton",
    "npvi.inference.learning": "npvi.learning.objective",
    "npvi.inference.leaving_out": "npvi.inference.cavity",
    "npvi.inference.mean_function": "npvi.components.stack",
    "npvi.inference.mean_solve": "npvi.components.process",
    "npvi.inference.parameter_table": "npvi.learning.standard_errors",
    "npvi.inference.search_space": "npvi.learning.space",
    "npvi.inference.softmax_learning": "npvi.learning.softmax",
    "npvi.inference.stacking": "npvi.learning.learner",
    "npvi.inference.starting": "npvi.learning.start",
    "npvi.kernels.compiled": "npvi.kernels.fast",
    "npvi.kernels.composition": "npvi.kernels.base",
    "npvi.likelihoods.custom_marginals": "npvi.likelihoods.custom.marginals",
    "npvi.likelihoods.custom_sums": "npvi.likelihoods.custom.sums",
    "npvi.likelihoods.integrals.curvatures": "npvi.likelihoods.integrals.expectations",
    "npvi.likelihoods.softmax_integrals": "npvi.likelihoods.integrals.softmax",
    "npvi.networks.gcn_bound": "npvi.amortized.gcn.bound",
    "npvi.networks.gcn_fit": "npvi.amortized.gcn.fit",
    "npvi.priors.low_rank_conditionals": "npvi.priors.low_rank.prior",
    "npvi.sparse.conjugate_gradients": "npvi.linalg.cg",
    "npvi.sparse.factor": "npvi.linalg.zero_fill",
    "npvi.sparse.low_rank": "npvi.linalg.woodbury",
    "npvi.sparse.noise": "npvi.linalg.normals",
}
"""Old names of modules and packages, and what they are now; what is in a package goes along."""
for _before, _after, _names in (
    (
        "npvi.inference",
        "npvi.inference.families",
        "factored full npvi",
    ),
    (
        "npvi.inference",
        "npvi.learning",
        "learner links table",
    ),
    (
        "npvi.kernels",
        "npvi.kernels.families",
        "linear matern periodic rational_quadratic rbf",
    ),
    (
        "npvi.likelihoods",
        "npvi.likelihoods.families",
        "bernoulli beta beta_binomial binomial censored exponential gamma gaussian hurdle_poisson "
        "laplace lognormal negative_binomial ordinal poisson rates scales softmax student_t "
        "thresholds tweedie weibull zero_inflated zero_inflated_negative_binomial "
        "zero_inflated_poisson",
    ),
    (
        "npvi.likelihoods",
        "npvi.likelihoods.integrals",
        "density distribution grid learning log_gamma logistic_normal moments normal quadrature "
        "quantiles responses root_finding rows_cdf",
    ),
    (
        "npvi.networks",
        "npvi.amortized.gcn",
        "layout",
    ),
    (
        "npvi.priors",
        "npvi.priors.low_rank",
        "inducing",
    ),
):
    MOVED |= {f"{_before}.{_name}": f"{_after}.{_name}" for _name in _names.split()}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for an old name with the module itself, not with another copy of it."""

    def __init__(self) -> None:
        self._specs: dict[str, importlib.machinery.ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        name = _present(fullname)
        there = name is not None and importlib.util.find_spec(name) is not None
        return importlib.machinery.ModuleSpec(fullname, self) if there else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        name = _present(spec.name)
        assert name is not None
        module = importlib.import_module(name)
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # the import system has given it the spec of its old name
        assert module.__spec__ is not None
        module.__spec__ = self._specs.pop(module.__spec__.name)


def _present(name: str) -> str | None:
    """What a name is now; None where it hasn't moved.

    >>> _present("npvi.networks.streaming"), _present("npvi.kernels")
    ('npvi.amortized.streaming', None)
    """
    if not name.startswith("npvi."):
        return None
    head, rest = name, ""
    while head != "npvi":  # the longest name first
        if head in MOVED:
            return MOVED[head] + rest
        head, _, last = head.rpartition(".")
        rest = f".{last}{rest}"
    return None


def install() -> None:
    """Let old names be imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # before others, who would find what is in a package by its folder and load it a second time
        sys.meta_path.insert(0, _Finder())
