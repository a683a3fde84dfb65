"""Where learning starts: from the data, so that units don't matter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference.learning import Model
from npvi.kernels import Kernel, Stationary
from npvi.likelihoods import Gaussian, Likelihood, LogNormal
from npvi.likelihoods.support import BINARY

__all__ = ["limits", "starting_model"]

Vector = NDArray[np.float64]

#: variance of f beyond which a yes or no is certain nearly everywhere
_DECIDED = 50.0


def starting_model(
    kernel: Kernel,
    named: bool,
    nugget: float | None,
    likelihood: Likelihood,
    X: NDArray,
    y: Vector,
    row: dict[str, Any],
) -> Model:
    """The model to start from: what the user gave, and the data's own scales for what was only named.

    Parameters
    ----------
    kernel : plain numbers inside; those of a kernel that was only `named` don't count.
    nugget : None where the user gave none.
    likelihood : what it says about itself by `initial_parameters` counts if `named` does not.
    """
    latent = likelihood.initial_latent(y, **row)
    spread = float(np.var(latent))
    if spread <= 1e-24 * np.mean(latent**2):  # nothing but rounding
        spread = 1.0
    if likelihood.support.discrete:  # nearly all counts are 0: the scale of f is that of a logarithm all the same
        spread = max(spread, 0.1)
    if named and isinstance(kernel, Stationary):
        sd = np.std(X, axis=0)
        sd = np.where(sd > 0.0, sd, 1.0)
        lengths = 0.5 * np.sqrt(X.shape[1]) * sd
        share = 0.9 if isinstance(likelihood, Gaussian | LogNormal) else 0.5
        kernel = kernel.replace(length_scale=lengths.tolist(), variance=share * spread)
    if nugget is None:
        # with Gaussian noise the two can't be told apart, and the noise is the one that is learned
        nugget = spread * (1e-6 if isinstance(likelihood, Gaussian | LogNormal) else 0.1)
    return Model(kernel, nugget, likelihood)


def limits(model: Model, X: NDArray) -> dict[str, tuple[Any, Any]]:
    """How far learning may go: beyond, all points are independent, or all are equal, and nothing changes any more."""
    found: dict[str, tuple[Any, Any]] = {"nugget": (1e-3 * model.nugget, np.inf)}
    if isinstance(model.kernel, Stationary):
        extent = np.ptp(X, axis=0)
        extent = np.where(extent > 0.0, extent, 1.0)
        if np.ndim(model.kernel.length_scale) == 0:
            found["kernel__length_scale"] = (1e-5 * extent.max(), 1e2 * extent.max())
        else:
            found["kernel__length_scale"] = (1e-5 * extent, 1e2 * extent)
        # where labels can be told apart without error nothing else would stop it
        highest = _DECIDED if model.likelihood.support is BINARY else np.inf
        found["kernel__variance"] = (1e-6 * model.kernel.variance, min(1e4 * model.kernel.variance, highest))
    return found
