"""Standard deviations at new places beside those of the dense model: all covariances, and L on the graph."""

import matplotlib.pyplot as plt
import numpy as np

import npvi

rng = np.random.default_rng(1)
X, Z = rng.uniform(0, 10, size=(400, 2)), rng.uniform(0.5, 9.5, size=(300, 2))
y = rng.poisson(np.exp(np.sin(X[:, 0]) + 0.5 * np.cos(X[:, 1])))  # counts of about 1
held = {"likelihood": npvi.likelihoods.Poisson("exp"), "nugget": 1e-3, "learn": False, "mean": "zero"}


def sd(kernel, **settings):
    return np.sqrt(npvi.GPRegressor(kernel=kernel, **held, **settings).fit(X, y).predict_dist(Z).latent_var)


figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for axis, kernel, title in (
    (axes[0], npvi.kernels.Matern12(3.0, 1.0), "rough: Matérn 1/2"),
    (axes[1], npvi.kernels.Matern52(2.0, 1.0), "smooth: Matérn 5/2"),
):
    dense = sd(kernel, n_neighbors=399)  # everyone's parents are all before it: nothing is approximated
    axis.axhline(1.0, c="0.7", lw=1)
    axis.scatter(dense, sd(kernel) / dense, s=7, label='method="full", K = 20')
    axis.scatter(dense, sd(kernel, method="npvi") / dense, s=7, label='method="npvi", K = 20')
    axis.set(xlabel="sd of the dense model", title=title, ylim=(0, 1.15))
axes[0].set_ylabel("sd over that of the dense model")
axes[0].legend(loc="lower right")
