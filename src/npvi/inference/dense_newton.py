"""Newton's step for means and variances together, where V is at hand in full.

The bound is a function of (m, v) with V the best covariance of these variances, V = (P̃ + W)⁻¹. A change of v goes with
δw = −(V∘V)⁻¹ δv, so that

    [ P̃ − E_mm      −E_mv          ] [δm]   [ E_m − P̃m   ]
    [   −E_mv    ½(V∘V)⁻¹ − E_vv   ] [δv] = [ E_v + ½w   ],

which knows what all variances do to each other. Where neighbours answer for each other's, as all zeros of a count under
a wide prior do, taking the others for given (`npvi.inference.newton`) crawls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npvi.likelihoods import Curvatures

__all__ = ["DenseStep", "dense_step"]

Vector = NDArray[np.float64]

#: steps whose squares are numbers
_LARGEST = 1e120


class DenseStep(NamedTuple):
    """Of means and site precisions."""

    mean: Vector
    site_precision: Vector

    def from_sites(self, w: Vector, share: float) -> Vector:
        """w after a share of the step; where it falls 1/w moves along the line, in which w > 0 stays so."""
        change = share * self.site_precision
        falling = (w > 0.0) & (change < 0.0)
        left = np.divide(w, w - change, out=np.ones_like(w), where=falling)  # of w
        return np.where(falling, w * left, w + change)


def dense_step(V: NDArray[np.float64], w: Vector, at: Curvatures, pull: Vector) -> DenseStep | None:
    """The step from N(m, V); None where there is none.

    Parameters
    ----------
    V : (P̃ + W)⁻¹, shape (N, N).
    w : site precisions of V.
    at : what the data say, and its derivatives in m and the standard deviations.
    pull : P̃m.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # of what is far astray no step is made
        found = _solved(V, w, at, pull)
    usable = found is not None and all(np.max(np.abs(part)) <= _LARGEST for part in found)
    return found if usable else None


def _solved(V: NDArray[np.float64], w: Vector, at: Curvatures, pull: Vector) -> DenseStep | None:
    v = np.diag(V)
    sd = np.sqrt(v)
    in_v, in_mean_v = 0.5 * at.in_sd / sd, 0.5 * at.in_mean_sd / sd
    in_v_v = 0.25 * (at.in_sd_sd - at.in_sd / sd) / v
    squares, identity = V**2, np.eye(len(w))
    slope, slope_v = at.in_mean - pull, in_v + 0.5 * w
    try:
        # δv = A (slope_v + E_mv δm); neither P̃ nor the inverse of V∘V is asked for
        A = np.linalg.solve(identity - 2.0 * squares * in_v_v, 2.0 * squares)
        bend = np.diag(w + at.in_mean_mean) + in_mean_v[:, None] * A * in_mean_v
        mean = np.asarray(np.linalg.solve(identity - V @ bend, V @ (slope + in_mean_v * (A @ slope_v))), dtype=float)
    except np.linalg.LinAlgError:
        return None
    slope_v = slope_v + in_mean_v * mean
    return DenseStep(mean, -2.0 * (slope_v + in_v_v * (A @ slope_v)))
