"""Penalised B-splines: mgcv's on its own data, straight lines and what lies beyond the knots."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npvi.components import Coefficients, Parts
from npvi.components.spline import Spline

FOLDER = Path(os.environ.get("NPVI_DATA", ""), "models")
X = np.random.default_rng(0).uniform(2.0, 5.0, 200)


@pytest.mark.parametrize("at", ["even", "quantiles"])
def test_straight_lines_cost_nothing(at):
    spline = Spline.of(X, 10, at)
    line = X - X.mean()
    z = np.linalg.lstsq(spline.functions(X), line, rcond=None)[0]
    np.testing.assert_allclose(spline.functions(X) @ z, line, atol=1e-12)
    assert z @ spline.penalty @ z < 1e-15 * np.abs(spline.penalty).max()
    np.testing.assert_allclose(z / np.linalg.norm(z), spline.linear, atol=1e-9)


def test_the_penalty_is_the_integral_of_the_bend():
    spline = Spline.of(X, 10)
    z = np.random.default_rng(1).standard_normal(9)
    low, high = spline.knots[3], spline.knots[-4]
    at = np.linspace(low, high, 200_001)
    f = spline.functions(at) @ z
    bend = np.gradient(np.gradient(f, at), at)[2:-2]
    assert z @ spline.penalty @ z == pytest.approx(np.trapezoid(bend**2, at[2:-2]), rel=1e-3)


def test_beyond_the_knots_it_goes_straight_on():
    spline = Spline.of(X, 10)
    z = np.random.default_rng(1).standard_normal(9)
    high = spline.knots[-4]
    f = spline.functions(high + np.array([-1e-6, 0.0, 1.0, 2.0])) @ z
    assert f[3] - f[2] == pytest.approx(f[2] - f[1], rel=1e-9)
    assert f[2] - f[1] == pytest.approx((f[1] - f[0]) / 1e-6, rel=1e-3)


@pytest.mark.skipif(not (FOLDER / "mpg.csv").exists(), reason="NPVI_DATA names no folder with the data")
def test_smooths_of_cars_as_mgcv_has_them():
    """gam(city.mpg ~ fuel + drive + s(weight, bs = "bs", k = 12) + s(hp, bs = "bs", k = 10)) at its penalties."""
    table = pd.read_csv(FOLDER / "mpg.csv")[["city.mpg", "fuel", "drive", "weight", "hp"]].dropna()
    mgcv = json.loads((FOLDER / "mpg_mgcv_reference.json").read_text())["mpg_bs"]
    levels = [table["fuel"] == "gas", table["drive"] == "fwd", table["drive"] == "rwd"]
    fixed = np.column_stack([np.ones(len(table)), *levels]).astype(float)
    parts: list[Any] = [Coefficients(fixed)]
    for name, k, strength in zip(("weight", "hp"), (12, 10), mgcv["sp"]):
        x = table[name].to_numpy(float)
        spline = Spline.of(x, k, "quantiles")
        parts.append(spline.part(x, strength * spline.mgcv_scale(x)))
    y, together = table["city.mpg"].to_numpy(float), Parts(parts)
    precision = together.at(np.ones(len(y)))
    z = precision.solve(together.transpose_times(y))
    np.testing.assert_allclose(together.split(z)[0], mgcv["p_coeff"], rtol=1e-6)
    assert np.sum((y - together.times(z)) ** 2) == pytest.approx(mgcv["deviance"], rel=1e-8)
    # effective degrees of freedom: the trace of Λ⁻¹AᵀA, in the part's own numbers
    whole = np.hstack([part.matrix().toarray() for part in parts])
    own = np.split(np.diag(precision.solve(whole.T @ whole)), np.cumsum([part.size for part in parts])[:-1])
    np.testing.assert_allclose([edf.sum() for edf in own[1:]], mgcv["edf"], rtol=1e-6)
    errors = np.sqrt(mgcv["sig2"] * precision.variances().numbers[0])
    np.testing.assert_allclose(errors, mgcv["se"][:4], rtol=1e-6)
