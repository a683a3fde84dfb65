"""Standard deviations of a sum of parts and of each part, beside dense matrices.

    python -m benchmarks part_variances

20,000 Poisson counts at 1,000 places (a surface), by 300 observers, with a linear and a smooth effect, everything held;
counts of .05 to 300 on average, for a rough surface and a smooth one. *Dense* is the same posterior by one matrix of
all 1,300 numbers. In per cent, root mean square and largest, of 500 rows.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg

import npvi
from benchmarks.common import say, show
from npvi.components import Parts

_ROWS, _PLACES, _OBSERVERS, _SHOWN = 20_000, 1_000, 300, 500
_COUNTS, _KERNELS = (0.05, 1.0, 20.0, 300.0), (("matern32", 0.2), ("matern52", 0.6))


def simulate(count: float, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    """A table and its counts."""
    rng = np.random.default_rng(seed)
    places, at = rng.uniform(size=(_PLACES, 2)), rng.integers(_PLACES, size=_ROWS)
    observer = rng.integers(_OBSERVERS, size=_ROWS)
    x, y = places[at].T
    bare, depth = np.sin(3.0 * x) + 0.1 * rng.standard_normal(_ROWS), rng.standard_normal(_ROWS)
    eta = np.sin(6.0 * x) + 0.7 * np.cos(5.0 * y) + (0.4 * rng.standard_normal(_OBSERVERS))[observer] + 0.3 * bare
    table = pd.DataFrame({"x": x, "y": y, "observer": observer.astype(str), "bare": bare, "depth": depth})
    return table, rng.poisson(count * np.exp(eta)).astype(float)


def _said(table: pd.DataFrame, y: np.ndarray, kernel: str, reach: float) -> dict[str, np.ndarray]:
    """Standard deviations at rows: of the sum, and of each part."""
    f: Any = npvi.fixed
    terms = [
        npvi.Field("x", "y", kernel=kernel, range=f(reach), sd=f(1.0)),
        npvi.Group("observer", sd=f(0.4)),
        npvi.Linear("bare"),
        npvi.Smooth("depth", sd=f(0.3)),
    ]
    model = npvi.GPRegressor("poisson", terms=terms, link="exp", learn=False).fit(table, y)
    rows = table.iloc[:_SHOWN]
    found = {name: np.sqrt(model.predict_dist(rows, terms=[name]).latent_var) for name in model.parts_.index}
    return {
        "training": np.sqrt(model.posterior_.variance),
        "predicted": np.sqrt(model.predict_dist(rows).latent_var),
        **found,
    }


def main() -> None:
    """The table."""
    rows: list[list[Any]] = []
    usual = Parts.__init__.__defaults__
    for count, (kernel, reach) in itertools.product(_COUNTS, _KERNELS):
        table, y = simulate(count)
        try:
            Parts.__init__.__defaults__ = (None, 10**6)
            exact = _said(table, y, kernel, reach)
        finally:
            Parts.__init__.__defaults__ = usual
        found = _said(table, y, kernel, reach)
        off = {name: 100.0 * np.abs(found[name] / exact[name] - 1.0) for name in exact}
        header = ["counts", "kernel", *off]
        rows.append(
            [f"{count:g}", kernel, *(f"{linalg.norm(x) / np.sqrt(len(x)):.2f}, {x.max():.2f}" for x in off.values())]
        )
        say(f"  {rows[-1]}")
    show("Standard deviations, per cent off: root mean square, largest", header, rows)


if __name__ == "__main__":
    main()
