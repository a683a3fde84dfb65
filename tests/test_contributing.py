"""The skeletons of CONTRIBUTING.md are true: the files that it names are there, and its code does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from npvi.kernels import matrix
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from npvi.runtime.precision import float64
from tests.kernels import test_kernels
from tests.support import likelihood_cases, noises

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, flags=re.DOTALL)
TOYS = {"src/npvi/likelihoods/families/logistic.py": "Logistic", "src/npvi/kernels/cauchy.py": "Cauchy"}


def toy(path):
    """The class of a block of the page, as if its file were there."""
    names = {"__name__": "contributing"}
    exec(compile(dict(BLOCKS)[path], "CONTRIBUTING.md", "exec"), names)
    return {TOYS[path]: names[TOYS[path]]}


def entry(module, given, number=0):
    """What the page has for a dictionary or a list in a module of the tests."""
    path = str(Path(module.__file__).relative_to(ROOT))
    code = [code for at, code in BLOCKS if at == path][number]
    return eval(f"{{{code}}}" if code.startswith('"') else f"[{code}]", {**vars(module), **given})


def test_files_that_the_page_names_are_there():
    named = set(re.findall(r"`((?:src|tests|docs|\.github)/[\w./-]+)`", PAGE)) | {path for path, _ in BLOCKS}
    assert set(TOYS) < named
    assert {path for path in named if not (ROOT / path).exists()} == set(TOYS)


def test_the_likelihood():
    given = toy("src/npvi/likelihoods/families/logistic.py")
    case, noise = (entry(module, given)["logistic"] for module in (likelihood_cases, noises))
    case.likelihood.validate()
    y, f = np.array(case.responses), np.array([0.2, 0.3, -7.0])
    with float64():
        found = np.asarray(case.likelihood.log_prob(y, f))
    np.testing.assert_allclose(found, case.log_prob(y, f), rtol=1e-12)
    np.testing.assert_allclose(found, noise.of(y, {})(f[:, None])[:, 0], rtol=1e-12)
    np.testing.assert_allclose(case.likelihood.cdf(y, f), case.given(f, 1.0).cdf(y))
    quantile = predictive_quantile(case.likelihood, 0.9, f, np.full(3, 0.5))
    np.testing.assert_allclose(predictive_cdf(case.likelihood, quantile, f, np.full(3, 0.5)), 0.9, atol=1e-10)


def test_the_kernel():
    given = toy("src/npvi/kernels/cauchy.py")
    kernel, dense = entry(test_kernels, given)["cauchy"]
    kernel.validate(2)
    X = np.random.default_rng(0).normal(size=(9, 2))
    np.testing.assert_allclose(matrix(kernel, X), dense(X, X), rtol=1e-12)
    (random,) = entry(test_kernels, given, 1)
    assert random.validate() is None
