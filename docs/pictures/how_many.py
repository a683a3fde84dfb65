"""How far conditionals on K neighbours are from conditionals on all: standard deviations of predictions."""

import matplotlib.pyplot as plt
import numpy as np

import npvi
from npvi.priors.conditionals import conditionals

rng = np.random.default_rng(0)
X, Z = rng.uniform(size=(1500, 2)), rng.uniform(0.05, 0.95, size=(300, 2))
counts = [1, 2, 3, 5, 8, 12, 20, 30, 40, 60]
near = np.argsort(((Z[:, None] - X[None]) ** 2).sum(axis=2), axis=1).astype(np.int32)

figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
kernels = {
    "Matérn 1/2": npvi.kernels.Matern12,
    "Matérn 3/2": npvi.kernels.Matern32,
    "Matérn 5/2": npvi.kernels.Matern52,
}
for name, kernel in kernels.items():
    k = kernel(0.2, 1.0)
    K = npvi.kernels.matrix(k, X, X) + 0.1 * np.eye(len(X))  # a nugget: measurements are not exact
    cross = npvi.kernels.matrix(k, X, Z)
    exact = np.sqrt(1.1 - np.einsum("ij,ij->j", cross, np.linalg.solve(K, cross)))
    errors = [np.sqrt(conditionals(k, 0.1, X, near[:, :count].copy(), Z)[1]) / exact - 1.0 for count in counts]
    axis.loglog(counts, [100.0 * np.sqrt(np.mean(error**2)) for error in errors], "o-", ms=4, label=name)
axis.axvline(20, c="0.7", lw=1, zorder=0)
axis.annotate("default", (20, axis.get_ylim()[1]), (4, -12), textcoords="offset points", color="0.5")
axis.set(xlabel="K, neighbours looked at", ylabel="error of standard deviations, %")
axis.set_xticks(counts, counts)
axis.minorticks_off()
axis.legend()
