"""Beside scikit-learn's dense Gaussian process: seconds and scores as rows grow, Gaussian noise, everything learned.

    python -m benchmarks dense

Rows of a rough surface on the unit square; Matérn 3/2 with a length scale per input and noise on both sides, the one
climb of scikit-learn's default. CPU seconds of the fit and of means and standard deviations at 1,000 new rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import npvi
from benchmarks.common import say, show

_NEW, _ROWS = 1000, (500, 1000, 2000, 4000)


def _simulated(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows + _NEW, 2))
    waves = 5.0 * rng.standard_normal((2, 300)) / np.sqrt(rng.chisquare(3, 300) / 3)  # a Matérn's of smoothness 3/2
    phases = rng.uniform(0.0, 2.0 * np.pi, 300)
    f = np.cos(X @ waves + phases) @ rng.standard_normal(300) * np.sqrt(2.0 / 300)
    return X, f + 0.3 * rng.standard_normal(len(X))


def _dense(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kernel = ConstantKernel() * Matern([0.3, 0.3], nu=1.5) + WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y).predict(new, return_std=True)


def _ours(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return npvi.GPRegressor(kernel="matern32").fit(X, y).predict(new, return_std=True)


def _timed(
    side: Callable[..., tuple[np.ndarray, np.ndarray]], X: np.ndarray, y: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, sd = side(X[:-_NEW], y[:-_NEW], X[-_NEW:])
    return time.process_time() - started, mean, sd


def main() -> None:
    """Print the table."""
    _timed(_ours, *_simulated(300))  # compiles
    rows: list[tuple[object, ...]] = []
    for count in _ROWS:
        X, y = _simulated(count)
        (dense, *theirs), (ours, *own) = _timed(_dense, X, y), _timed(_ours, X, y)
        scores = [-stats.norm.logpdf(y[-_NEW:], *answer).mean() for answer in (theirs, own)]
        rows.append((count, dense, ours, *scores, float(np.abs(own[0] - theirs[0]).mean() / theirs[1].mean())))
        say(f"  {count} rows: {dense:.1f} and {ours:.1f} CPU s")
    header = ("rows", "scikit-learn CPU s", "npvi CPU s", "scikit-learn NLPD", "npvi NLPD", "means differ, sd")
    show("Dense and nearest-neighbour, Gaussian noise, learned", header, rows)


if __name__ == "__main__":
    main()
