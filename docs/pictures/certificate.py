"""Both residuals of a fit, iteration by iteration."""

import matplotlib.pyplot as plt
import numpy as np

import npvi

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(3000, 2))
y = rng.poisson(np.exp(0.5 + 1.5 * np.sin(X[:, 0]) * np.cos(X[:, 1])))
held = {"kernel": npvi.kernels.Matern32(2.0, 1.5), "nugget": 0.05, "learn": False}
model = npvi.GPRegressor(npvi.likelihoods.Poisson("exp"), method="npvi", **held).fit(X, y)
info = model.fit_info_

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
left.plot(info["elbo"], "o-", ms=4)
left.set(xlabel="iteration", title="the bound")
right.semilogy(info["mean_residual"], "o-", ms=4, label="equation of the mean")
right.semilogy(info["covariance_residual"], "s-", ms=4, label="equation of the covariance")
right.axhline(model.tol, c="0.6", lw=1, ls="--")
right.set(xlabel="iteration", title="what is left of the equations")
right.legend()
for axis in (left, right):
    axis.xaxis.get_major_locator().set_params(integer=True)
