"""Test scores and times on real data, at the fixed parameters of the published prototype.

NPVI_DATA=... python -m benchmarks real_data
"""

from __future__ import annotations

import time

import numpy as np

import npvi
from benchmarks.common import load, show

_SETS = {
    "precipitation": (npvi.likelihoods.LogNormal(0.01), npvi.kernels.RBF(0.5, 1.0), 0.01, 20, -1.476),
    "nightlight": (npvi.likelihoods.LogNormal(0.01), npvi.kernels.RBF(0.1, 1.0), 0.1, 20, -2.116),
    "bird_counts": (npvi.likelihoods.Poisson("softplus"), npvi.kernels.RBF(0.1, 10.0), 0.1, 10, 1.791),
}


def main() -> None:
    rows = []
    for name, (likelihood, kernel, nugget, K, prototype) in _SETS.items():
        data = load(name)
        if data is None:
            continue
        for _ in range(2):  # the first run compiles
            model = npvi.GPRegressor(
                likelihood, kernel, nugget=nugget, mean="zero", method="npvi", learn=False, n_neighbors=K
            )
            started = time.perf_counter()
            model.fit(data["X_train"], data["y_train"])
            fitted = time.perf_counter()
            dist = model.predict_dist(data["X_test"])
            nlpd = -float(dist.log_prob(data["y_test"]).mean())
            ended = time.perf_counter()
        lower, upper = dist.interval(0.9)
        covered = float(np.mean((data["y_test"] >= lower) & (data["y_test"] <= upper)))
        info = model.fit_info_
        rows.append(
            (
                name,
                len(data["y_train"]),
                K,
                f"{nlpd:.4f}",
                prototype,
                covered,
                f"{model.elbo_:.2f}",
                info["n_iter"],
                max(info["mean_residual"][-1], info["covariance_residual"][-1]),
                fitted - started,
                ended - fitted,
            )
        )
    show(
        "Real data, NPVI at fixed parameters (zero mean, RBF)",
        ("set", "rows", "K", "NLPD", "prototype", "90 % cov.", "ELBO", "it.", "residual", "fit s", "predict s"),
        rows,
    )


if __name__ == "__main__":
    main()
