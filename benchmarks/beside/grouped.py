"""A surface and effects of levels beside GPBoost: Vecchia and grouped random effects, counts, everything learned.

    python -m benchmarks grouped [--rows ROWS …]

Poisson counts at places of their own, by one observer in twenty rows; Matérn 3/2, 20 neighbours. Both sides fit and
predict means and variances of the predictor for 200 new rows with known observers. GPBoost as it recommends for large
data (Vecchia, iterative methods where it has them); a run that takes more than ten minutes of CPU time is stopped.
Needs the `bench` extra.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import say, show

_LIMIT, _NEW, _VISITS = 600, 200, 20


def simulate(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with responses, and the true predictor; the new rows come last."""
    rng = np.random.default_rng(seed)
    n = rows + _NEW
    x, y = rng.uniform(size=(2, n))
    slopes, phases = 8.0 * rng.standard_normal((300, 2)), rng.uniform(0.0, 2.0 * np.pi, 300)
    surface = np.cos(np.column_stack([x, y]) @ slopes.T + phases) @ rng.standard_normal(300) * np.sqrt(2.0 / 300) * 0.7
    observer = rng.integers(max(5, rows // _VISITS), size=n)
    eta = 0.5 + surface + 0.4 * rng.standard_normal(observer.max() + 1)[observer]
    return pd.DataFrame({"x": x, "y": y, "observer": observer, "count": rng.poisson(np.exp(eta))}), eta


def _ours(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    import npvi

    terms = [npvi.Field("x", "y"), npvi.Group("observer")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = npvi.GPRegressor("poisson", terms=terms, hyper="plug-in").fit(table[:-_NEW], "count")
        dist = model.predict_dist(table[-_NEW:])
    return dist.latent_mean, dist.latent_var


def _gpboost(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    import gpboost

    train, new = table[:-_NEW], table[-_NEW:]
    model = gpboost.GPModel(
        group_data=train["observer"].to_numpy(),
        gp_coords=train[["x", "y"]].to_numpy(),
        cov_function="matern",
        cov_fct_shape=1.5,
        likelihood="poisson",
        gp_approx="vecchia",
        num_neighbors=20,
    )
    ones = np.ones((len(train), 1))
    model.fit(y=train["count"].to_numpy(float), X=ones)
    found = model.predict(
        group_data_pred=new["observer"].to_numpy(),
        gp_coords_pred=new[["x", "y"]].to_numpy(),
        X_pred=np.ones((len(new), 1)),
        predict_var=True,
        predict_response=False,
    )
    return found["mu"], found["var"]


_SIDES = {"npvi": _ours, "GPBoost": _gpboost}


def _timed(name: str, rows: int, answer: Any) -> None:
    table, eta = simulate(rows)
    if name == "npvi":
        _SIDES[name](simulate(1500)[0])  # compiles
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _LIMIT,) * 2)
    wall, cpu = time.perf_counter(), time.process_time()
    mean, variance = _SIDES[name](table)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    off = (mean - eta[-_NEW:]) ** 2
    answer.put((wall, cpu, float(np.sqrt(off.mean())), float(np.mean(off / variance))))


def run(name: str, rows: int) -> tuple[float, float, float, float] | None:
    """Wall and CPU seconds, error of the predictor, its squared error over the stated variance; None past the limit."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_timed, args=(name, rows, answer))
    process.start()
    process.join()
    return None if answer.empty() else answer.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=int, default=(400, 2_000, 20_000))
    table: list[tuple[object, ...]] = []
    for rows in parser.parse_args().rows:
        for name in _SIDES:
            found = run(name, rows)
            shown = ("", f"> {_LIMIT}", "", "") if found is None else found
            table.append((rows, name, *shown))
            say(f"  {rows} rows, {name}: {shown[1]} CPU s")
    header = ("rows", "software", "wall s", "CPU s", "error of η", "error² / variance")
    show("A surface and levels, Poisson, learned", header, table)


if __name__ == "__main__":
    main()
