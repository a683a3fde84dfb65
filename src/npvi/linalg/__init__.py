"""The narrow module: the handful of sparse operations that every solver is written against."""

from npvi.linalg.cg import Solution, conjugate_gradients, solve_columns
from npvi.linalg.dense import DenseFactor, dense_factor, stacked_factor
from npvi.linalg.drawing import draw
from npvi.linalg.lanczos import Rooted, inverse_root
from npvi.linalg.lanes import LANES, VectorRows, add_blocks, add_slopes, list_squares, solve_last
from npvi.linalg.many_columns import count_of
from npvi.linalg.normals import Noise
from npvi.linalg.sweep import LowerHalf, lower_half, lower_half_of
from npvi.linalg.triangular import Triangular, combined, products
from npvi.linalg.widen import narrowed, widened
from npvi.linalg.woodbury import WoodburyFactor, divided, gram, low_rank_lower_half, raised_root
from npvi.linalg.zero_fill import ZeroFillFactor, scratch, zero_fill_factor

__all__ = [
    "LANES",
    "DenseFactor",
    "LowerHalf",
    "Noise",
    "Rooted",
    "Solution",
    "Triangular",
    "VectorRows",
    "WoodburyFactor",
    "ZeroFillFactor",
    "add_blocks",
    "add_slopes",
    "combined",
    "conjugate_gradients",
    "count_of",
    "dense_factor",
    "divided",
    "draw",
    "gram",
    "inverse_root",
    "list_squares",
    "low_rank_lower_half",
    "lower_half",
    "lower_half_of",
    "narrowed",
    "products",
    "raised_root",
    "scratch",
    "solve_columns",
    "solve_last",
    "stacked_factor",
    "widened",
    "zero_fill_factor",
]
