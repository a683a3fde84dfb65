"""Standard deviations of predictions against the dense posterior at the same sites, and what they cost.

    python -m benchmarks variances [--parts errors smooth dense] [--n 4000] [--only "RBF"]

Errors: each row is one fit: the error of sd at new points, root mean square and largest, relative to
sqrt(bᵀ(P+W)⁻¹b + d) with the dense inverse; that of the marginal sds at the training points; what `fit_info_` says of
it; and, for comparison, the error of 64 draws. Smooth: counts at held parameters, Matérn 5/2 with a length scale of 130
spacings beside Matérn 1/2. Dense: CPU seconds of a fit by dense matrices and by the factor.
"""

from __future__ import annotations

import argparse
import time
from unittest import mock

import numpy as np

from benchmarks.common import show
from npvi import GPRegressor
from npvi.graph import build_graph
from npvi.inference.families import full
from npvi.kernels import RBF, Matern12, Matern32, Matern52
from npvi.likelihoods import Bernoulli, Gamma, Poisson
from npvi.linalg import Noise, draw, zero_fill_factor
from npvi.priors import NNGP

_KERNELS = {
    "Matérn 1/2, ℓ .3": Matern12(0.3),
    "Matérn 3/2, ℓ .1": Matern32(0.1),
    "Matérn 3/2, ℓ .5": Matern32(0.5),
    "Matérn 5/2, ℓ .1": Matern52(0.1),
    "RBF, ℓ .1": RBF(0.1),
}
_NUGGET = 1e-3
#: of the error, root mean square and largest: Matérn, RBF
_LIMITS = ((0.01, 0.05), (0.02, 0.08))


def _places(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    if kind == "clustered":
        return rng.uniform(size=(20, 2))[rng.integers(20, size=n)] + 0.02 * rng.standard_normal((n, 2))
    if kind == "duplicates":
        return rng.uniform(size=(n // 2, 2))[rng.integers(n // 2, size=n)]
    if kind == "8 inputs":
        return rng.uniform(size=(n, 8))
    return rng.uniform(size=(n, 2))


def cases(n: int):
    """(name, places, kernel, likelihood, mean of f, K)."""
    for kernel in _KERNELS:
        for mean, count in ((0.0, "1"), (-2.3, "0.1")):
            yield f"Poisson, counts of about {count}", "uniform", kernel, Poisson(), mean, 20
        yield "Bernoulli", "uniform", kernel, Bernoulli(), 0.0, 20
        yield "gamma", "uniform", kernel, Gamma(2.0), 0.0, 20
    for kind in ("clustered", "duplicates", "8 inputs"):
        for kernel in ("Matérn 3/2, ℓ .1", "Matérn 5/2, ℓ .1", "RBF, ℓ .1"):
            yield f"Poisson, {kind}", kind, kernel, Poisson(), 0.0, 20
    for K in (10, 30):
        for kernel in ("Matérn 3/2, ℓ .5", "Matérn 5/2, ℓ .1", "RBF, ℓ .1"):
            yield f"Poisson, K = {K}", "uniform", kernel, Poisson(), 0.0, K


def measured(n: int, kind: str, kernel, likelihood, mean: float, K: int, seed: int = 0) -> dict[str, float]:
    """Errors of one fit."""
    rng = np.random.default_rng(seed)
    X, Z = _places(rng, n, kind), _places(rng, 500, kind)
    if kind == "8 inputs":
        kernel = type(kernel)(10.0 * float(kernel.length_scale))  # so that neighbours say something
    graph = build_graph(X, K)
    prior = NNGP(kernel, _NUGGET, X[graph.order], graph)
    f = np.empty(n)
    f[graph.order] = mean + prior.root.solve(rng.standard_normal(n))
    y = likelihood.sample(rng, f)
    model = GPRegressor(likelihood, kernel=kernel, nugget=_NUGGET, n_neighbors=K, mean="zero", learn=False)
    model.fit(X, y) if mean == 0.0 else model.set_params(mean="constant").fit(X, y)
    prior, posterior = model.prior_, model.posterior_
    P = prior.block(np.arange(n))
    V = np.linalg.inv(P + np.diag(posterior.site_precision))
    given = prior.conditional(Z, 3)
    b = np.zeros((len(Z), n))
    np.put_along_axis(b, given.neighbors.astype(np.int64), given.weights, 1)
    own = np.maximum(given.variance - _NUGGET, 0.0)
    exact = np.sqrt(np.einsum("ij,ij->i", b @ V, b) + own)
    got = np.sqrt(posterior.projected_variance(given.neighbors, given.weights) + own)
    factor = zero_fill_factor(prior.root, posterior.site_precision)
    draws, _ = draw(factor.transpose, Noise(graph.order), 64)
    drawn = np.sqrt(np.mean((b @ draws.astype(float)) ** 2, axis=1) + own)
    off, off_drawn = got / exact - 1.0, drawn / exact - 1.0
    at_rows = np.sqrt(posterior.variance / np.diag(V)) - 1.0
    return {
        "sd error, rms": float(np.sqrt(np.mean(off**2))),
        "max": float(np.abs(off).max()),
        "at training rows, rms": float(np.sqrt(np.mean(at_rows**2))),
        "64 draws, rms": float(np.sqrt(np.mean(off_drawn**2))),
        "64 draws, max": float(np.abs(off_drawn).max()),
        "variance_error": model.fit_info_.get("variance_error", np.nan),
        "iterations": model.n_iter_,
        "modes": len(getattr(posterior, "gains", ())),
        "width": posterior.transpose.edges.shape[1] if hasattr(posterior, "transpose") else 0,
    }


def _errors(n: int, only: str) -> None:
    rows = []
    for name, kind, kernel, likelihood, mean, K in cases(n):
        if only not in f"{name}, {kernel}":
            continue
        found = measured(n, kind, _KERNELS[kernel], likelihood, mean, K)
        rms, largest = _LIMITS[kernel.startswith("RBF")]
        over = "over" if found["sd error, rms"] > rms or found["max"] > largest else ""
        rows.append(
            (kernel, name, *(f"{value:.4f}" if value % 1 else f"{value:.0f}" for value in found.values()), over)
        )
        print(".", end="", flush=True)
    header = ("kernel", "noise", *found, "rms ≤ .01 / max ≤ .05 (RBF .02 / .08)")
    show(f"Errors of standard deviations, N = {n}", header, rows)


def _counts(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, rng.poisson(np.exp(np.sin(8.0 * X[:, 0]) * np.cos(6.0 * X[:, 1]))).astype(float)


def _timed(name: str, kernel, X, y) -> tuple[float, GPRegressor]:
    started = time.process_time()
    model = GPRegressor(name, kernel=kernel, nugget=_NUGGET, learn=False).fit(X, y)
    return time.process_time() - started, model


def _smooth(n: int) -> None:
    length = 130.0 / np.sqrt(n)
    kernels = {"Matérn 1/2": Matern12(length), "Matérn 5/2": Matern52(length)}
    X, y = _counts(n)
    best = dict.fromkeys(kernels, (np.inf, np.inf))
    for run in range(3):
        for name, kernel in kernels.items():
            seconds, model = _timed("poisson", kernel, X, y)
            if run:  # the first one compiles
                now = (model.fit_info_["seconds"]["inference"], seconds)
                best[name] = tuple(map(min, best[name], now))
    one, other = best.values()
    rows = [(name, *numbers) for name, numbers in best.items()]
    rows.append(("ratio (≤ 2)", *(b / a for a, b in zip(one, other))))
    show(f"{n} counts, a length scale of 130 spacings", ("kernel", "inference s", "CPU s of the fit"), rows)


def _dense() -> None:
    rows = []
    for name in ("poisson", "bernoulli", "gamma"):
        for n in (150, 300, 400, 500, 700, 1000):
            X, y = _counts(n)
            y = {"poisson": y, "bernoulli": 1.0 * (y > 0.0), "gamma": y + 0.5}[name]
            seconds = []
            for most in (n, 0):
                with mock.patch.object(full, "DENSE", most):
                    seconds.append(min(_timed(name, Matern32(0.2), X, y)[0] for _ in range(5)))
            rows.append((name, n, *seconds, seconds[0] / seconds[1]))
    show("CPU seconds of a fit at held parameters", ("noise", "N", "dense", "by the factor", "ratio"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["errors", "smooth", "dense"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--n", type=int, default=4000, help="of errors")
    parser.add_argument("--rows", type=int, default=200_000, help="of smooth")
    parser.add_argument("--only", default="", help="part of a case's name")
    given = parser.parse_args()
    if "errors" in given.parts:
        _errors(given.n, given.only)
    if "smooth" in given.parts:
        _smooth(given.rows)
    if "dense" in given.parts:
        _dense()


if __name__ == "__main__":
    main()
