"""What a new process imports, and that JAX finds kernels and likelihoods whoever imports it."""

from __future__ import annotations

import subprocess
import sys


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_fit_of_counts_needs_no_jax():
    code = """
import sys, numpy as np, npvi
rng = np.random.default_rng(0)
X = rng.random((60, 2))
npvi.GPRegressor("poisson", kernel=npvi.kernels.Matern32(0.3), hyper="plug-in").fit(X, rng.poisson(2.0, 60))
print([name for name in ("jax", "optax", "matplotlib") if name in sys.modules])
"""
    assert _run(code).strip() == "[]"


def test_help_of_the_command_line_waits_for_no_library_of_numbers():
    code = """
import sys, npvi.cli
print([name for name in ("jax", "matplotlib", "numba", "pandas", "scipy", "sklearn") if name in sys.modules])
"""
    assert _run(code).strip() == "[]"


def test_kernels_are_pytrees_for_those_who_import_jax_later():
    code = """
import importlib.util, sys, npvi
kernel = npvi.kernels.RBF(2.0)
importlib.util.find_spec("jax")  # which only looks
import jax, jax.numpy as jnp
print(len(jax.tree.leaves(kernel)), len(jax.tree.leaves(npvi.likelihoods.Poisson())))
print(float(jax.grad(lambda k: k(jnp.zeros(1), jnp.ones(1)))(kernel).variance) > 0.0)
print(any("lazy" in type(finder).__module__ for finder in sys.meta_path), type(jax.__spec__.loader).__module__)
"""
    assert _run(code).splitlines() == ["2 1", "True", "False _frozen_importlib_external"]
