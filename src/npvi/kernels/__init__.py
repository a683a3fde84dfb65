"""Covariance functions: one formula for one pair of points each, in JAX."""

from npvi.kernels.base import Kernel, Part
from npvi.kernels.composition import Product, Scaled, Sum
from npvi.kernels.custom import Custom
from npvi.kernels.evaluation import diagonal, evaluate, evaluate_distances, matrix
from npvi.kernels.inputs import EARTH_RADIUS, Sphere, Subset
from npvi.kernels.linear import Constant, Linear
from npvi.kernels.matern import Matern, Matern12, Matern32, Matern52
from npvi.kernels.periodic import Periodic
from npvi.kernels.rational_quadratic import RationalQuadratic
from npvi.kernels.rbf import RBF
from npvi.kernels.registry import as_kernel
from npvi.kernels.stationary import Stationary

__all__ = [
    "EARTH_RADIUS",
    "RBF",
    "Constant",
    "Custom",
    "Kernel",
    "Linear",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "Part",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sphere",
    "Stationary",
    "Subset",
    "Sum",
    "as_kernel",
    "diagonal",
    "evaluate",
    "evaluate_distances",
    "matrix",
]
