"""Whether variances are true where the truth is known: E[(f − m)²/v] on test points, 1 is right.

    python -m benchmarks calibration

f is simulated at 20,000 points of the unit square, 14,000 of them for training, at the true hyper-parameters.
"""

from __future__ import annotations

import numpy as np

import npvi
from benchmarks.common import show
from npvi.graph import build_graph
from npvi.kernels import RBF, Matern32
from npvi.likelihoods import Bernoulli, LogNormal, NegativeBinomial, Poisson
from npvi.priors import NNGP

_LIKELIHOODS = {
    "Poisson, mean about 1": Poisson(),
    "Bernoulli": Bernoulli(),
    "negative binomial": NegativeBinomial(2.0),
    "log-normal": LogNormal(0.01),
}
_NUGGET = 1e-3


def main() -> None:
    rows = []
    for kernel_name, kernel in (("RBF", RBF(0.05)), ("Matérn-3/2", Matern32(0.1))):
        for name, likelihood in _LIKELIHOODS.items():
            found: dict[str, list[float]] = {"full": [], "npvi": []}
            for seed in range(3):
                X, f = _surface(kernel, seed)
                y = likelihood.sample(np.random.default_rng(seed), f)
                for method, ratios in found.items():
                    model = npvi.GPRegressor(
                        likelihood, kernel, nugget=_NUGGET, mean="zero", method=method, learn=False, n_neighbors=40
                    )
                    dist = model.fit(X[:14_000], y[:14_000]).predict_dist(X[14_000:])
                    variance = dist.latent_var + dist.nugget  # the simulated f has a nugget
                    ratios.append(float(np.mean((f[14_000:] - dist.latent_mean) ** 2 / variance)))
            spread = f"{min(found['full']):.2f}–{max(found['full']):.2f}"
            rows.append((kernel_name, name, np.mean(found["full"]), spread, np.mean(found["npvi"])))
    header = ("kernel", "likelihood", "full (0.9–1.15)", "over 3 seeds", "npvi")
    show("E[(f − m)²/v] at test points, K = 40", header, rows)


def _surface(kernel, seed):
    """Points in random order, and a draw of the process at them, nugget included."""
    rng = np.random.default_rng(seed)
    X = rng.random((20_000, 2))
    graph = build_graph(X, 60)
    f = np.empty(len(X))
    f[graph.order] = NNGP(kernel, _NUGGET, X[graph.order], graph).root.solve(rng.standard_normal(len(X)))
    return X, f


if __name__ == "__main__":
    main()
