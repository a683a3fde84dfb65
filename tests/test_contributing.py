"""The skeletons of CONTRIBUTING.md are true: the files that it names are there, and its code does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npvi.kernels import KERNELS, matrix
from npvi.likelihoods import LIKELIHOODS
from npvi.likelihoods.integrals.distribution import predictive_cdf
from npvi.likelihoods.integrals.quantiles import predictive_quantile
from npvi.runtime.precision import float64
from tests.kernels import test_kernels
from tests.support import likelihood_cases

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, flags=re.DOTALL)
TOYS = {"src/npvi/likelihoods/families/logistic.py": "Logistic", "src/npvi/kernels/families/cauchy.py": "Cauchy"}


def toy(path):
    """The class of a block of the page, as if its file were there."""
    names = {"__name__": "contributing"}
    exec(compile(dict(BLOCKS)[path], "CONTRIBUTING.md", "exec"), names)
    for register in (LIKELIHOODS, KERNELS):  # other tests go through all that have a name
        register.pop(TOYS[path].lower(), None)
    return {TOYS[path]: names[TOYS[path]]}


def entry(module, given):
    """What the page has for a dictionary in a module of the tests."""
    code = dict(BLOCKS)[str(Path(module.__file__).relative_to(ROOT))]
    return eval(f"{{{code}}}", {**vars(module), **given})


def test_files_that_the_page_names_are_there():
    named = set(re.findall(r"`((?:src|tests|docs|\.github)/[\w./-]+)`", PAGE)) | {path for path, _ in BLOCKS}
    assert set(TOYS) < named
    assert {path for path in named if not (ROOT / path).exists()} == set(TOYS)


def test_the_likelihood():
    given = toy("src/npvi/likelihoods/families/logistic.py")
    case = entry(likelihood_cases, given)["logistic"]
    case.likelihood.validate()
    y, f = np.array(case.responses), np.array([0.2, 0.3, -7.0])
    with float64():
        found = np.asarray(case.likelihood.log_prob(y, f))
    np.testing.assert_allclose(found, case.log_prob(y, f), rtol=1e-12)
    np.testing.assert_allclose(case.likelihood.cdf(y, f), case.given(f, 1.0).cdf(y))
    quantile = predictive_quantile(case.likelihood, 0.9, f, np.full(3, 0.5))
    np.testing.assert_allclose(predictive_cdf(case.likelihood, quantile, f, np.full(3, 0.5)), 0.9, atol=1e-10)


def test_the_kernel():
    given = toy("src/npvi/kernels/families/cauchy.py")
    kernel, dense = entry(test_kernels, given)["cauchy"]
    kernel.validate(2)
    X = np.random.default_rng(0).normal(size=(9, 2))
    np.testing.assert_allclose(matrix(kernel, X), dense(X, X), rtol=1e-12)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The library with one new file for each, and no other change; what is compiled of the rest is shared."""
    root, tree = ROOT / "src" / "npvi", tmp_path_factory.mktemp("src") / "npvi"
    folders = [Path(), Path("likelihoods"), Path("likelihoods/families"), Path("kernels"), Path("kernels/families")]
    for folder in folders:
        (tree / folder).mkdir()
        for here in (root / folder).iterdir():
            if here.relative_to(root) not in folders and not (folder.name == "families" and here.name == "__pycache__"):
                (tree / folder / here.name).symlink_to(here)
    for path in TOYS:
        (tree.parent.parent / path.replace("src", tree.parent.name, 1)).write_text(dict(BLOCKS)[path], encoding="utf-8")
    return tree.parent


def run(package, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_file_is_enough_for_the_help(package):
    shown = run(package, "-c", "from npvi.cli import app; app()", "fit", "--help")
    shown = " ".join(re.findall(r"[^\s│]+", shown))
    assert "Numbers with outliers: laplace, logistic, student_t." in shown
    assert "cauchy (smooth, with a long memory)" in shown


@pytest.mark.slow
def test_one_file_is_enough_for_the_batteries(package):
    arguments = ["-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-q", "-k", "logistic or cauchy"]
    shown = run(package, *arguments, "tests/contracts", "tests/inference/test_full.py")
    assert "failed" not in shown
    assert int(re.search(r"(\d+) passed", shown)[1]) >= 16


def test_one_file_is_enough_to_learn_save_and_load(package, tmp_path):
    program = f"""if True:
        import numpy as np, npvi
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(60, 2))
        y = np.sin(5.0 * X[:, 0]) + rng.logistic(scale=0.1, size=60)
        model = npvi.GPRegressor("logistic", kernel="cauchy", n_neighbors=8, hyper="plug-in").fit(X, y)
        assert isinstance(model.likelihood_, npvi.likelihoods.Logistic), model.likelihood_
        assert isinstance(model.kernel_, npvi.kernels.Cauchy) and len(model.kernel_.length_scale) == 2
        assert 0.02 < model.likelihood_.scale < 0.5, model.likelihood_
        model.save(r"{tmp_path / "m.npvi"}")
        again = npvi.load(r"{tmp_path / "m.npvi"}")
        assert np.array_equal(again.predict(X[:5]), model.predict(X[:5]))
    """
    run(package, "-c", program)
