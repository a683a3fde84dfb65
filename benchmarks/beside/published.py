"""Models made of terms beside published estimates: sdmTMB's cod, spAbundance's warblers, trees, an example of lme4's.

    NPVI_DATA=... python -m benchmarks.beside.published

sdmTMB's numbers are for a Matérn of smoothness 1 on a mesh, whose nodes are those places of tows, in the order of rows,
that are no nearer than 10 km (the trend: 5 km) to each other. "ours" is a field of smoothness 3/2 without a mesh;
"mesh" has these nodes, and some around them. "off" is the difference in published standard errors.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist

import npvi
from benchmarks.common import say, show, skip
from npvi.components import Mesh


def _field(mesh: Any) -> npvi.Field:
    return npvi.Field("X", "Y", mesh=mesh)


def _by_year(mesh: Any) -> npvi.Field:
    return npvi.Field("X", "Y", by="year", range="shared", mesh=mesh)


def _trend(mesh: Any) -> npvi.Varying:
    return npvi.Varying("scaled_year", over=npvi.Field("X", "Y", range="shared", mesh=mesh))


#: name → likelihood, response, terms beside fields, fields on a mesh or without one, its shortest edge, and published
#: (value, standard error or None) by the name in our summary
_COD: dict[str, tuple[str, str, list[Any], list[Any], float, dict[str, tuple[float, float | None]]]] = {
    "presence, field": (
        "bernoulli",
        "present",
        [npvi.Linear("depth_scaled", "depth_scaled2")],
        [_field],
        10.0,
        {
            "constant": (1.14, 0.44),
            "depth_scaled": (-2.17, 0.21),
            "depth_scaled2": (-1.59, 0.13),
            "gp(X, Y)__range": (43.54, None),
            "gp(X, Y)__sd": (1.65, None),
        },
    ),
    "presence, fields of years": (
        "bernoulli",
        "present",
        [npvi.Linear("depth_scaled", "depth_scaled2")],
        [_field, _by_year],
        10.0,
        {
            "constant": (1.37, 0.58),
            "depth_scaled": (-2.47, 0.25),
            "depth_scaled2": (-1.83, 0.15),
            "gp(X, Y)__range": (49.96, None),
            "gp(X, Y)__sd": (1.91, None),
            "gp(X, Y, by=year)__sd": (0.95, None),
        },
    ),
    "density, fields of years": (
        "tweedie",
        "density",
        [npvi.Linear("poly(log_depth, 2)")],
        [_field, _by_year],
        10.0,
        {
            "constant": (1.86, 0.208),
            "poly(log_depth, 2)[0]": (-65.1, 6.32),
            "poly(log_depth, 2)[1]": (-96.5, 5.98),
            "gp(X, Y)__range": (19.8, 3.03),
            "gp(X, Y)__sd": (1.40, 0.162),
            "gp(X, Y, by=year)__sd": (1.55, 0.129),
            "likelihood__dispersion": (11.0, 0.377),
            "likelihood__power": (1.50, 0.012),
        },
    ),
    "density, smooth of depth": (
        "tweedie",
        "density",
        [npvi.Smooth("depth")],
        [_field],
        10.0,
        {
            "constant": (2.37, 0.215),
            "gp(X, Y)__range": (16.4, 4.47),
            "gp(X, Y)__sd": (1.86, 0.218),
            "likelihood__dispersion": (12.7, 0.406),
            "likelihood__power": (1.58, 0.010),
        },
    ),
    "density, trend in space": (
        "tweedie",
        "density",
        [npvi.Linear("scaled_year")],
        [_field, _trend],
        5.0,
        {
            "constant": (2.26, 0.326),
            "scaled_year": (-0.0632, 0.205),
            "gp(X, Y)__range": (20.5, 2.49),
            "gp(X, Y)__sd": (2.40, 0.175),
            "scaled_year:gp(X, Y)__sd": (1.23, 0.180),
            "likelihood__dispersion": (11.8, None),
            "likelihood__power": (1.52, None),
        },
    ),
}
#: published 95 % intervals of yearly totals
_INDEX = {
    2003: (653_699, 1_340_716),
    2004: (1_359_020, 2_469_943),
    2005: (1_224_189, 2_522_360),
    2007: (328_786, 621_698),
    2009: (518_713, 1_007_692),
    2011: (1_028_851, 1_792_147),
    2013: (1_037_721, 1_950_358),
    2015: (1_116_301, 1_982_062),
    2017: (543_622, 1_034_867),
}
#: posterior means and standard deviations of spAbundance: with observers, and with a field besides
_WARBLERS = {
    "constant": (-0.2307, 0.3418, -0.1236, 0.3074),
    "bio2": (-0.2743, 0.1144, 0.0306, 0.1939),
    "bio8": (-0.0837, 0.1597, -0.0696, 0.2031),
    "bio18": (0.0744, 0.1259, -0.0608, 0.1988),
    "forest": (0.7173, 0.1454, 0.8874, 0.2337),
    "devel": (-0.1723, 0.1381, 0.1285, 0.2021),
    "day": (-0.5673, 0.1561, -0.5628, 0.2165),
    "day2": (-0.3732, 0.1384, -0.2963, 0.1924),
    "tod": (1.4681, 0.3777, 1.0473, 0.3391),
}


def _fit(likelihood: str, response: str, terms: list[Any], table: pd.DataFrame) -> tuple[Any, float]:
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = npvi.GPRegressor(likelihood, terms=terms, hyper="plug-in").fit(table, response)
    return model, time.process_time() - started


def _nodes(table: pd.DataFrame, edge: float) -> np.ndarray:
    """Places of rows in their order, none nearer than an edge to one before it, and nodes around them."""
    kept: list[np.ndarray] = []
    for place in table[["X", "Y"]].to_numpy():
        if not kept or np.linalg.norm(np.array(kept) - place, axis=1).min() >= edge:
            kept.append(place)
    return Mesh.of(np.array(kept), edge).nodes


def _cod(folder: Path) -> None:
    table = pd.read_csv(folder / "pcod.csv")
    table = table.assign(
        log_depth=np.log(table["depth"]),
        scaled_year=(table["year"] - table["year"].mean()) / 10.0,
        fyear=table["year"].astype(str),
    )
    nodes = {edge: _nodes(table, edge) for edge in (5.0, 10.0)}
    say(f"  nodes of meshes: {', '.join(f'{len(of):,} ({edge:g} km)' for edge, of in nodes.items())}")
    for mesh in (None, nodes[10.0]):
        _fit("bernoulli", "present", [_field(mesh)], table)  # compiles
    for name, (likelihood, response, others, fields, edge, published) in _COD.items():
        found = [
            _fit(likelihood, response, [*others, *(field(mesh) for field in fields)], table)
            for mesh in (None, nodes[edge])
        ]
        values = [model.summary()["value"] for model, _ in found]
        rows: list[tuple[object, ...]] = []
        for parameter, (value, error) in published.items():
            ours = [float(of[parameter]) for of in values]
            off = ["" if error is None else f"{abs(one - value) / error:.1f}" for one in ours]
            both = [text for pair in zip((f"{one:.3g}" for one in ours), off) for text in pair]
            rows.append((parameter, value, "" if error is None else error, *both))
        rows.append(("CPU seconds", "", "", *(t for _, seconds in found for t in (f"{seconds:.1f}", ""))))
        show(f"Cod: {name}", ("parameter", "sdmTMB", "s.e.", "ours", "off", "mesh", "off"), rows)
    grid = pd.read_csv(folder / "pcod_qcs_grid.csv")
    years = sorted(_INDEX)
    cells = pd.concat([grid.assign(year=year, fyear=str(year)) for year in years], ignore_index=True)
    columns = []
    for mesh in (None, nodes[10.0]):
        terms = [npvi.Linear("fyear", intercept=False), _field(mesh), _by_year(mesh)]
        dist = _fit("tweedie", "density", terms, table)[0].predict_dist(cells[["X", "Y", "year", "fyear"]])
        columns.append(dist.total(np.full(len(cells), 4.0), level=0.95, of="mean", by="year", n=500, seed=0))
    rows = []
    for year in years:
        low, high = _INDEX[year]
        ours = [(f"{one[year].mean:,.0f}", "yes" if low <= one[year].mean <= high else "no") for one in columns]
        rows.append((year, f"{low:,}", f"{high:,}", *(text for pair in ours for text in pair)))
    header = ("year", "from", "to", "ours", "within", "mesh", "within")
    show("Cod: yearly totals of mean density, beside published 95 % intervals", header, rows)


def _warblers(folder: Path) -> None:
    """spAbundance's Hooded warblers: 95 routes, 59 observers.

    Its φ = 2/range is uniform between 3 over the largest and 3 over the smallest distance of routes; "prior" has a
    range whose logarithm is normal with the mean and the standard deviation that this gives it, "free" our weak prior.
    """
    table = pd.read_csv(folder / "bbs.csv")
    columns = ["bio2", "bio8", "bio18", "forest", "devel", "day", "tod"]
    table[columns] = (table[columns] - table[columns].mean()) / table[columns].std()
    table["day2"] = table["day"] ** 2
    effects = [npvi.Group("obs"), npvi.Linear(*columns, "day2", scale=np.sqrt(2.72))]
    stated = npvi.Field("X", "Y", kernel="matern12", range=_range_of_decay(table), n_neighbors=15)
    free = npvi.Field("X", "Y", kernel="matern12", n_neighbors=15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = [
            npvi.GPRegressor("poisson", terms=terms, link="exp").fit(table, "HOWA").summary()["value"]
            for terms in (effects, [*effects, stated], [*effects, free])
        ]
    rows: list[tuple[object, ...]] = []
    for name, (alone, alone_sd, space, space_sd) in _WARBLERS.items():
        off = (found[0][name] - alone) / alone_sd, *((one[name] - space) / space_sd for one in found[1:])
        rows.append((name, alone, alone_sd, found[0][name], off[0], space, space_sd, *_pairs(found[1:], name, off[1:])))
    for name, alone, space in (("1|obs__sd", 1.742, 1.030), ("gp(X, Y)__sd", "", 1.043), ("gp(X, Y)__range", "", 1.59)):
        ours = found[0].get(name, "")
        rows.append((name, alone, "", ours, "", space, "", *_pairs(found[1:], name, ("", ""))))
    header = ("coefficient", "observers", "sd", "ours", "off", "and space", "sd", "prior", "off", "free", "off")
    show("Hooded warblers: coefficients, and by how many posterior standard deviations they are off", header, rows)


def _range_of_decay(table: pd.DataFrame) -> Any:
    """A range with the prior that φ = 2/range has."""
    places = table[["X", "Y"]].drop_duplicates().to_numpy()
    distances = pdist(places)
    low, high = 3.0 / distances.max(), 3.0 / distances.min()
    # moments of log φ, by the integrals of log φ and its square
    upper, lower = np.log(high), np.log(low)
    mean = (high * upper - low * lower) / (high - low) - 1.0
    square = (high * (upper**2 - 2.0 * upper) - low * (lower**2 - 2.0 * lower)) / (high - low) + 2.0
    prior = (float(np.log(2.0) - mean), float(np.sqrt(square - mean**2)))
    return npvi.positive(float(np.exp(prior[0])), prior=prior)


def _pairs(found: list[pd.Series], name: str, off: tuple[object, ...]) -> list[object]:
    return [number for one, by in zip(found, off) for number in (one[name], by)]


def _others(folder: Path) -> None:
    rows = []
    table = pd.read_csv(folder / "sleepstudy.csv")
    plain = {"hyperprior": None, "coefficient_scale": None, "hyper": "plug-in"}
    model = npvi.GPRegressor(formula="Reaction ~ Days + (1 + Days|Subject)", **plain).fit(table)
    rows.append(("sleepstudy", "log restricted likelihood", -871.8141, model.elbo_))
    trees = pd.read_csv(folder / "bei.csv")
    pattern = npvi.fit_points(trees, (0.0, 0.0, 1000.0, 500.0), cell=10.0, hyper="plug-in")
    values = pattern.summary()["value"]
    rows.append(("trees (bei)", "range, m", 57.49, values["gp(x, y)__range"]))
    rows.append(("trees (bei)", "sd", 1.73, values["gp(x, y)__sd"]))
    show("Others", ("data", "number", "published", "ours"), rows)


def main() -> None:
    folder = Path(os.environ.get("NPVI_DATA", ""), "models")
    if not (folder / "pcod.csv").exists():
        skip("published", "NPVI_DATA names no folder with the data")
        return
    _cod(folder)
    _warblers(folder)
    _others(folder)
    say("  (a mesh has no field finer than its nodes: without one ours follows single tows)")


if __name__ == "__main__":
    main()
