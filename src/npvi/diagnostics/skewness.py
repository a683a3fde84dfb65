"""How skewed the posterior of f is at the training rows, from third derivatives.

The posterior is q exp(Σ r_i), q = N(m, V) and r_i what log p(y_i | f_i) has beyond a parabola. At the best q its first
three Hermite coefficients under q are 0 and the next is s_i³ E[∂³ log p]/6. To first order in r the posterior has q's
means and variances, and third cumulants κ_j = Σ_i V_ij³ E[∂³ log p(y_i | f_i)].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from npvi.model import Fitted

__all__ = ["Skewness", "skewness_of"]

_Z = float(special.ndtri(0.95))


@dataclass(frozen=True, eq=False)
class Skewness:
    """Skewness κ/v^{3/2} of the marginals of f that a Gaussian posterior leaves out.

    Attributes
    ----------
    skewness : (N,) of each training row, in the order of the fit; for several rows of a place, each as one row.
    together : whether all rows' observations count, or only each row's own: the covariances are at hand where N is
        small, and with neighbours of the same sign the skewness is larger than its own observation says.

    Examples
    --------
    >>> found = Skewness(np.array([0.1, -0.9]), True)
    >>> found.shift.round(3)
    array([ 0.028, -0.256])
    """

    skewness: NDArray[np.float64]
    together: bool

    @property
    def shift(self) -> NDArray[np.float64]:
        """By how many sd the 5 % and the 95 % quantile of f lie higher than the stated ones: γ (z² − 1)/6."""
        return self.skewness * (_Z**2 - 1.0) / 6.0


def skewness_of(fitted: Fitted) -> Skewness:
    """The skewness of f at the training rows of a fitted model.

    >>> import npvi
    >>> X = np.linspace(0.0, 3.0, 30)[:, None]
    >>> model = npvi.GPRegressor("poisson", npvi.kernels.Matern32(1.0), mean="zero", learn=False)
    >>> model = model.fit(X, np.zeros(30))
    >>> bool(skewness_of(model.fitted_).skewness.max() < 0.0)  # of counts that are all 0 f may be far below
    True
    """
    posterior: Any = fitted.posterior
    variance = posterior.variance
    sd = np.sqrt(variance)
    third = fitted.data.curvatures(posterior.mean, sd).in_mean_sd / sd
    together = bool(getattr(posterior, "exact", False))
    if together:
        draws = posterior.draws
        cumulant = (draws @ draws.T / draws.shape[1]) ** 3 @ third
    else:
        cumulant = variance**3 * third
    out = np.empty(len(sd))
    out[fitted.graph.order] = np.nan_to_num(cumulant / sd**3)
    return Skewness(out, together)
