"""The narrow module: the handful of sparse operations that every solver is written against."""

from npvi.linalg.cg import Solution, conjugate_gradients, solve_columns
from npvi.linalg.dense import DenseFactor, dense_factor
from npvi.linalg.drawing import draw
from npvi.linalg.lanczos import inverse_root
from npvi.linalg.normals import Noise
from npvi.linalg.sweep import LowerHalf, lower_half
from npvi.linalg.triangular import Triangular
from npvi.linalg.widen import widened
from npvi.linalg.zero_fill import ZeroFillFactor, zero_fill_factor

__all__ = [
    "DenseFactor",
    "LowerHalf",
    "Noise",
    "Solution",
    "Triangular",
    "ZeroFillFactor",
    "conjugate_gradients",
    "dense_factor",
    "draw",
    "inverse_root",
    "lower_half",
    "solve_columns",
    "widened",
    "zero_fill_factor",
]
