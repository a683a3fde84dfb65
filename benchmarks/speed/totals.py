"""Totals over a map: their standard deviation beside a dense Gaussian process, and what they cost.

    python -m benchmarks totals [--rows 1500] [--side 50] [--large 100000] [--cells 200000]

Cells of a lattice, length scales from 2 to 20 of them, weights of several kinds. With Gaussian noise the answer is
known. For counts the dense posterior at the fit's own means and site precisions is drawn from, by brute force. Joint
draws have the Monte-Carlo noise of 2,000 of them, 1.6 %.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.common import show
from npvi import GPRegressor
from npvi.kernels import Matern32
from npvi.likelihoods import Gaussian, Poisson

_SCALES = (2.0, 5.0, 10.0, 20.0)
_NOISE, _NUGGET = 0.5, 1e-6


def _covariance(A: np.ndarray, B: np.ndarray, scale: float, variance: float) -> np.ndarray:
    r = np.sqrt(3.0) * np.sqrt(np.maximum(((A[:, None] - B[None]) ** 2).sum(axis=-1), 0.0)) / scale
    return variance * (1.0 + r) * np.exp(-r)


def dense(X: np.ndarray, noise: np.ndarray, Z: np.ndarray, scale: float, variance: float = 1.0) -> np.ndarray:
    """The covariance of f at Z given observations with variances `noise` at X, and a constant with a flat prior."""
    precision = np.linalg.inv(_covariance(X, X, scale, variance) + np.diag(noise))
    across = _covariance(Z, X, scale, variance)
    gain = across @ precision
    left = 1.0 - gain.sum(axis=1)
    return _covariance(Z, Z, scale, variance) - gain @ across.T + np.outer(left, left) / precision.sum()


def weights_of(cells: np.ndarray, side: int) -> dict[str, np.ndarray]:
    """Of all cells, a quarter, a circle, and the difference of two halves."""
    x, y = cells.T / side
    masks = {"all": x >= 0.0, "quarter": (x < 0.5) & (y < 0.5), "circle": np.hypot(x - 0.25, y - 0.6) < 0.12}
    return {**{name: mask.astype(float) for name, mask in masks.items()}, "halves": np.where(x < 0.5, 1.0, -1.0)}


def accuracy(rows: int, side: int, seed: int = 0) -> tuple[list[list[object]], list[list[object]]]:
    """sd over the dense one's: of Gaussian responses, and of counts."""
    rng = np.random.default_rng(seed)
    axis = np.arange(side) + 0.5
    cells = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    X = side * rng.random((rows, 2))
    gaussian: list[list[object]] = []
    counts: list[list[object]] = []
    for scale in _SCALES:
        root = np.linalg.cholesky(_covariance(X, X, scale, 1.0) + 1e-8 * np.eye(rows))
        f = root @ rng.standard_normal(rows)
        model = GPRegressor(Gaussian(_NOISE), Matern32(scale), nugget=_NUGGET, learn=False)
        dist = model.fit(X, f + np.sqrt(_NOISE) * rng.standard_normal(rows)).predict_dist(cells)
        C = dense(X, np.full(rows, _NOISE + _NUGGET), cells, scale)
        surfaces = dist.joint_latent_sample(2000, seed=0)
        for name, w in weights_of(cells, side).items():
            latent = np.sqrt(w @ C @ w)
            response = np.sqrt(latent**2 + (_NOISE + _NUGGET) * w @ w)
            ratios = (dist.latent_total(w).std / latent, dist.total(w).std / response, (surfaces @ w).std() / latent)
            gaussian.append([scale, name, *(f"{ratio:.3f}" for ratio in ratios)])
        model = GPRegressor(Poisson(), Matern32(scale), nugget=_NUGGET, learn=False).fit(X, rng.poisson(np.exp(f)))
        dist = model.predict_dist(cells)
        sites = np.maximum(model.posterior_.site_precision, 1e-12)
        C = dense(model.prior_.X, 1.0 / sites + _NUGGET, cells, scale)
        root = np.linalg.cholesky(C + 1e-9 * np.eye(len(C)))
        drawn = np.exp(dist.latent_mean[:, None] + root @ rng.standard_normal((len(C), 20_000)))
        for name, w in weights_of(cells, side).items():
            mean = w @ drawn
            response = np.sqrt(mean.var() + (w**2 @ drawn).mean())
            found = (dist.total(w, seed=0, of="mean").std / mean.std(), dist.total(w, seed=0).std / response)
            fewer = dist.total(w, n=256, seed=1).std / response
            counts.append([scale, name, *(f"{ratio:.3f}" for ratio in (*found, fewer))])
    return gaussian, counts


def cost(rows: int, cells: int, seed: int = 0) -> list[list[object]]:
    """CPU and wall seconds of marginal predictions and of a total over the same cells."""
    rng = np.random.default_rng(seed)
    side = np.sqrt(rows)
    X, Z = (side * rng.random((n, 2)) for n in (rows, cells))
    y = rng.poisson(np.exp(0.5 * np.sin(X[:, 0] / 20.0) + 0.5 * np.cos(X[:, 1] / 15.0)))
    model = GPRegressor(Poisson(), Matern32(10.0, variance=0.5), nugget=0.01, learn=False).fit(X, y)
    model.predict_dist(Z[:2000]).total(n=64)  # compiles

    def timed(work):
        cpu, wall = time.process_time(), time.perf_counter()
        result = work()
        return result, time.process_time() - cpu, time.perf_counter() - wall

    def marginal():
        dist = model.predict_dist(Z)
        dist.mean, dist.std  # noqa: B018
        return dist

    table: list[list[object]] = []
    dist, *before = timed(marginal)
    table.append(["mean and sd of each", *before, 1.0, 1.0])
    for name, work in (
        ("latent_total()", dist.latent_total),
        ("total()", lambda: marginal_free(dist).total(seed=0)),
        ("total(of='mean')", lambda: marginal_free(dist).total(seed=0, of="mean")),
    ):
        _, *after = timed(work)
        table.append([name, *after, *(b / a for a, b in zip(before, after))])
    return table


def marginal_free(dist):
    """The same prediction, with nothing of the joint one found yet."""
    for name in ("_prediction", "_system", "_along_coefficients"):
        vars(dist.joint).pop(name, None)
    return dist


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--side", type=int, default=50)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--cells", type=int, default=200_000)
    options = parser.parse_args()
    gaussian, counts = accuracy(options.rows, options.side)
    about = f"{options.rows} rows, {options.side}² cells, Matérn 3/2; sd over the dense GP's"
    show(f"Gaussian noise, {about}", ("ℓ", "cells", "latent_total", "total", "2,000 joint draws"), gaussian)
    show(f"counts, {about}", ("ℓ", "cells", "total of means", "total", "total, n=256"), counts)
    table = cost(options.large, options.cells)
    title = f"time of {options.cells} cells, {options.large} rows, counts"
    show(title, ("what", "CPU s", "wall s", "CPU ratio", "wall ratio"), table)


if __name__ == "__main__":
    main()
