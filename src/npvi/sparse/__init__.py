"""The narrow module: the handful of sparse operations that every solver is written against."""

from npvi.sparse.conjugate_gradients import Solution, conjugate_gradients, solve_columns
from npvi.sparse.drawing import draw
from npvi.sparse.factor import ZeroFillFactor, zero_fill_factor
from npvi.sparse.lanczos import inverse_root
from npvi.sparse.noise import Noise
from npvi.sparse.sweep import LowerHalf, lower_half
from npvi.sparse.triangular import Triangular
from npvi.sparse.widen import widened

__all__ = [
    "LowerHalf",
    "Noise",
    "Solution",
    "Triangular",
    "ZeroFillFactor",
    "conjugate_gradients",
    "draw",
    "inverse_root",
    "lower_half",
    "solve_columns",
    "widened",
    "zero_fill_factor",
]
