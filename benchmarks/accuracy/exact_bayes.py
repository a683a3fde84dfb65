"""How often do intervals of exact Bayes miss, where truths are drawn from the very priors that it has?

    python -m benchmarks exact_bayes [--open] [--rows 100] [--seeds 0 1 …] [--jobs N]

The Gaussian data sets of *coverage*, once more without anything of npvi's: the posterior of length scales, standard
deviation and smoothness by importance sampling (from their prior, then from kernels about its best draws), f by dense
matrices; the noise and the constant are known, or with --open no more than a fit knows them. New places of one data set
err together (where the length scale is large they are nearly one number), so that intervals which cover 90 % on average
cover much less in some sets: "below .7" is the share of such sets, and no honest method has fewer. "known" is the same
with the true hyper-parameters. "draws" is the effective number of draws: sets with fewer than 20 are left out of the
means, and counted. "log ℓ, log σ²": how many of the true numbers are in central 95 % intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special, stats
from scipy.spatial.distance import cdist

from benchmarks.accuracy.coverage import CONSTANT, NEW, SMOOTHNESS, draw_truth, truth_of
from benchmarks.battery import Row, column, fan_out, groups, parser
from benchmarks.common import show
from benchmarks.fields import dense_draw, matern

_NOISE, _DRAWS, _POSTERIOR_DRAWS, _ENOUGH = 0.25, 2000, 200, 20.0
#: where they are open, the standard deviation of the logarithm of the noise's variance and the variance of the constant
_WIDE, _ANYWHERE = 2.0, 1e4


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=200)
    options.add_argument("--rows", type=int, nargs="+", default=[100])
    options.add_argument("--open", action="store_true", help="noise and constant are not known")
    chosen = options.parse_args(arguments)
    cases = [{"rows": rows, "seed": seed, "open_": chosen.open} for rows in chosen.rows for seed in chosen.seeds]
    found = fan_out(one, cases, chosen)
    lines = []
    for (rows,), part in groups(found, "rows"):
        sure = [row for row in part if row["draws"] >= _ENOUGH]
        line: list[object] = [rows, len(sure), len(part) - len(sure), float(np.median(column(part, "draws")))]
        for which in ("covered", "known"):
            values = column(sure, which)
            below = np.mean(values < 0.7)
            line += [f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}", f"{values.min():.2f}"]
            line.append(f"{below:.3f} ± {np.sqrt(below * (1.0 - below) / len(values)):.3f}")
        for which in ("lengths", "variance"):
            values = column(sure, which)
            line.append(f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}")
        lines.append(line)
    header = ("rows", "sets", "left out", "draws", "exact (.90)", "least", "below .7", "known", "least", "below .7")
    header += ("log ℓ", "log σ²")
    show("90 % intervals of f by exact Bayes, Gaussian noise", header, lines)


def one(rows: int, seed: int, open_: bool = False) -> list[Row]:
    rng = np.random.default_rng([seed, rows, 0])  # as in `coverage`
    X = rng.uniform(size=(rows + NEW, 2))
    truth = (*draw_truth(rng), _NOISE, 0.0)
    f = CONSTANT + truth[1] * dense_draw(X, truth[0], truth[2], rng)
    residual = f[:rows] + np.sqrt(_NOISE) * rng.standard_normal(rows) - CONSTANT
    draws, weight = _importance(X[:rows], residual, rng, open_)
    inside = [_inside(*numbers, weight) for numbers in zip((*truth[0], truth[1]), zip(*((*d[0], d[1]) for d in draws)))]
    chosen = rng.choice(len(draws), size=_POSTERIOR_DRAWS, p=weight)
    parts = {k: _posterior(X, residual, draws[k]) for k in np.unique(chosen)}
    mixture = [np.array([parts[k][i] for k in chosen]) for i in (0, 1)]
    return [
        {
            "draws": float(1.0 / np.sum(weight**2)),
            "covered": _covered(f[rows:] - CONSTANT, *mixture),
            "known": _covered(f[rows:] - CONSTANT, *(part[None] for part in _posterior(X, residual, truth))),
            "lengths": float(np.mean(inside[:2])),
            "variance": float(inside[2]),
        }
    ]


def _inside(true: float, values: Sequence[float], weight: np.ndarray) -> bool:
    """Whether a number is in the central 95 % of weighted ones."""
    return bool(0.025 <= weight @ (np.asarray(values) < true) <= 0.975)


def _importance(
    X: np.ndarray, residual: np.ndarray, rng: np.random.Generator, open_: bool
) -> tuple[list[tuple], np.ndarray]:
    """Draws of the hyper-parameters and their weights: twice a kernel is put about the best of the draws before."""
    z, nu = np.log(rng.exponential(size=(_DRAWS, 3))), rng.choice(len(SMOOTHNESS), size=_DRAWS)
    if open_:  # the logarithm of the noise's variance
        z = np.column_stack([z, np.log(_NOISE) + _WIDE * rng.standard_normal(_DRAWS)])
    log_density = _log_prior(z)  # of the proposal
    for last in (False, False, True):
        draws = [_draw(row, SMOOTHNESS[k], open_) for row, k in zip(z, nu)]
        likelihood = np.array([_log_likelihood(X, residual, draw) for draw in draws])
        weight = special.softmax(likelihood + _log_prior(z) - log_density)
        if last:
            break
        spread = np.cov(z.T, aweights=weight + 1e-3 / _DRAWS) * 0.5
        picked = rng.choice(_DRAWS, size=_DRAWS, p=weight)
        means = z[np.unique(picked)]
        share = np.bincount(np.unique(picked, return_inverse=True)[1]) / _DRAWS
        d = z.shape[1]
        z = z[picked] + rng.multivariate_normal(np.zeros(d), spread, size=_DRAWS)
        nu = rng.choice(len(SMOOTHNESS), size=_DRAWS)
        kernel = stats.multivariate_normal(np.zeros(d), spread, allow_singular=True)
        each = kernel.logpdf(z[:, None] - means[None])
        log_density = special.logsumexp(each, b=share, axis=1)
    return draws, weight


def _log_prior(z: np.ndarray) -> np.ndarray:
    """Of logarithms of exponential numbers, and of the noise's variance, of which next to nothing is known."""
    return np.sum(z[:, :3] - np.exp(z[:, :3]), axis=1) - 0.5 * np.sum(
        ((z[:, 3:] - np.log(_NOISE)) / _WIDE) ** 2, axis=1
    )


def _draw(z: np.ndarray, smoothness: float, open_: bool) -> tuple:
    """Lengths, standard deviation, smoothness, the noise's variance and that of the constant."""
    noise, constant = (np.exp(z[3]), _ANYWHERE) if open_ else (_NOISE, 0.0)
    return (*truth_of(np.exp(z[:3]), smoothness), noise, constant)


def _log_likelihood(X: np.ndarray, residual: np.ndarray, draw: tuple) -> float:
    L = np.linalg.cholesky(_covariance(X, X, draw) + draw[3] * np.eye(len(X)))
    return float(-0.5 * np.sum(np.linalg.solve(L, residual) ** 2) - np.log(np.diag(L)).sum())


def _posterior(X: np.ndarray, residual: np.ndarray, draw: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of f at the new places."""
    n = len(residual)
    cross = _covariance(X[n:], X[:n], draw)
    solved = np.linalg.solve(
        _covariance(X[:n], X[:n], draw) + draw[3] * np.eye(n), np.column_stack([residual, cross.T])
    )
    variance = draw[1] ** 2 + draw[4] - np.einsum("ij,ji->i", cross, solved[:, 1:])
    return cross @ solved[:, 0], np.sqrt(np.maximum(variance, 0.0))


def _covariance(A: np.ndarray, B: np.ndarray, draw: tuple) -> np.ndarray:
    length, sd, smoothness, _, constant = draw
    return sd**2 * matern(cdist(A / length, B / length), smoothness) + constant


def _covered(f: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> float:
    """Share of f within the central 90 % of a mixture of normal distributions (draws × places)."""
    below = special.ndtr((f - mean) / np.maximum(sd, 1e-12)).mean(axis=0)
    return float(np.mean((below > 0.05) & (below < 0.95)))


if __name__ == "__main__":
    main()
