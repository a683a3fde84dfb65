"""Covariance functions: one formula for one pair of points each, in JAX."""

from npvi.kernels.base import Kernel, Part, Product, Scaled, Sum
from npvi.kernels.custom import Custom
from npvi.kernels.evaluation import diagonal, evaluate, evaluate_distances, matrix
from npvi.kernels.families.linear import Constant, Linear
from npvi.kernels.families.matern import Matern, Matern12, Matern32, Matern52
from npvi.kernels.families.periodic import Periodic

# for other rooms, not for users
from npvi.kernels.families.random_walk import RandomWalk as RandomWalk
from npvi.kernels.families.rational_quadratic import RationalQuadratic
from npvi.kernels.families.rbf import RBF
from npvi.kernels.inputs import EARTH_RADIUS, Sphere, Subset
from npvi.kernels.registry import KERNELS, as_kernel
from npvi.kernels.stationary import Stationary

__all__ = [
    "EARTH_RADIUS",
    "KERNELS",
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

# What has a name is here as well, written out above or not: those are for editors, which run nothing.
_FOUND = {cls.__name__: cls for cls in KERNELS.values()}
globals().update(_FOUND)
__all__ += [name for name in _FOUND if name not in __all__]
