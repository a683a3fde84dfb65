"""A sum of a surface, observers, years and a smooth, at 10⁴ to 10⁶ counts: CPU time beside the surface alone, memory.

    python -m benchmarks sums [--rows ROWS …] [--held ROWS]

Poisson counts at places of their own, by one observer in twenty rows, in one of 20 years, along a covariate. *Space
alone* are the same counts by a model of one surface, with the same link. Each run is a process of its own; its
compilation is left out. At held parameters memory is the largest resident size of the process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import say, show

_SIZES, _HELD = (20_000, 100_000), 1_000_000
_VISITS, _YEARS, _SMALL = 20, 20, 1_500


def simulate(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with its responses, and the true predictor."""
    rng = np.random.default_rng(seed)
    x, y, depth = rng.uniform(size=(3, rows))
    slopes, phases = 8.0 * rng.standard_normal((300, 2)), rng.uniform(0.0, 2.0 * np.pi, 300)
    amplitudes = rng.standard_normal(300) * np.sqrt(2.0 / 300) * 0.7
    surface = np.zeros(rows)
    for slope, phase, amplitude in zip(slopes, phases, amplitudes):
        surface += amplitude * np.cos(x * slope[0] + y * slope[1] + phase)
    observer = rng.integers(max(5, rows // _VISITS), size=rows)
    year = rng.integers(_YEARS, size=rows)
    eta = 0.5 + surface + 0.4 * rng.standard_normal(observer.max() + 1)[observer]
    eta += 0.2 * np.cumsum(rng.standard_normal(_YEARS))[year] + 0.5 * np.sin(6.0 * depth)
    table = pd.DataFrame({"x": x, "y": y, "observer": observer, "year": year, "depth": depth})
    return table.assign(count=rng.poisson(np.exp(eta)).astype(float)), eta


def _terms(held: bool) -> list[Any]:
    import npvi

    f: Any = npvi.fixed if held else float
    if not held:
        return [npvi.Field("x", "y"), npvi.Group("observer"), npvi.Field("year"), npvi.Smooth("depth")]
    return [
        npvi.Field("x", "y", range=f(0.3), sd=f(0.7)),
        npvi.Group("observer", sd=f(0.4)),
        npvi.Field("year", range=f(10.0), sd=f(0.6)),
        npvi.Smooth("depth", sd=f(1.0)),
    ]


def _sum(table: pd.DataFrame, held: bool = False) -> tuple[Any, np.ndarray]:
    import npvi

    model = npvi.GPRegressor("poisson", terms=_terms(held), hyper="plug-in", learn=not held).fit(table, "count")
    return model, model.fitted_.predictor


def _alone(table: pd.DataFrame, held: bool = False) -> tuple[Any, np.ndarray]:
    import npvi
    from npvi.likelihoods import Poisson

    model = npvi.GPRegressor(Poisson(link="exp"), hyper="plug-in")
    model.fit(table[["x", "y"]].to_numpy(), table["count"].to_numpy())
    return model, model.predict_dist(table[["x", "y"]].to_numpy()[:1000]).latent_mean


_MODELS = {"sum": _sum, "space alone": _alone}


def _timed(name: str, rows: int, held: bool, answer: Any) -> None:
    warnings.simplefilter("ignore")
    _MODELS[name](simulate(_SMALL)[0], held)  # compiles
    table, eta = simulate(rows)
    wall, cpu = time.perf_counter(), time.process_time()
    model, predictor = _MODELS[name](table, held)
    found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    found["error"] = float(np.sqrt(np.mean((predictor - eta[: len(predictor)]) ** 2)))
    learning = model.fit_info_.get("learning", {})
    found["evaluations"] = int(learning.get("evaluations", 0) or 0)
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2.0**20
    if name == "sum":
        found["values"] = {key: np.asarray(value).tolist() for key, value in model.fitted_.values.items()}
        found["elbo"] = float(model.fitted_.elbo)
    answer.put(json.dumps(found))


def run(name: str, rows: int, held: bool = False) -> dict[str, Any]:
    """What one run took, and what it found."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_timed, args=(name, rows, held, answer))
    process.start()
    found: dict[str, Any] = json.loads(answer.get())
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=lambda text: int(float(text)), help="learned")
    parser.add_argument("--held", type=lambda text: int(float(text)), help="rows at held parameters; 0 for none")
    options = parser.parse_args()
    sizes = options.rows or ([] if options.held else _SIZES)
    table: list[tuple[object, ...]] = []
    for rows in sizes:
        alone, both = run("space alone", rows), run("sum", rows)
        ratio = both["cpu"] / alone["cpu"]
        table.append((rows, alone["cpu"], both["cpu"], ratio, both["evaluations"], both["error"], both["peak"]))
        say(f"  {rows:,} rows: {json.dumps(both['values'])}, bound {both['elbo']:.2f}")
    header = ("rows", "space alone, CPU s", "sum, CPU s", "ratio", "evaluations", "error of η", "peak GiB")
    if table:
        show("A surface, observers, years and a smooth; everything learned", header, table)
    held = _HELD if options.held is None and not options.rows else options.held
    if held:
        both = run("sum", held, True)
        row = (held, both["cpu"], both["wall"], both["error"], both["peak"])
        show("The same at held parameters", ("rows", "CPU s", "wall s", "error of η", "peak GiB"), [row])


if __name__ == "__main__":
    main()
