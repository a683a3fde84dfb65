"""What distances between rows are measured in."""

from __future__ import annotations

from typing import Any

import numpy as np

from npvi.kernels.inputs import EARTH_RADIUS

__all__ = ["distance_unit"]

#: names of longitudes and of latitudes, in lower case
_DEGREES = ({"lon", "lng", "long", "longitude"}, {"lat", "latitude"})


def distance_unit(model: Any) -> str:
    """In words: kilometres, the units of the inputs, or length scales, as the kernel of a fitted model measures.

    >>> import npvi
    >>> X = np.random.default_rng(0).uniform(0.0, 9.0, (40, 2))
    >>> [distance_unit(npvi.GPRegressor(kernel=k, learn=False).fit(X, X[:, 0])) for k in (
    ...     npvi.kernels.RBF(1.0), npvi.kernels.RBF([1.0, 2.0]), npvi.kernels.Sphere(npvi.kernels.RBF(100.0)))]
    ['units of the inputs', 'length scales', 'km']
    """
    X = model.prior_.X[:8]
    seen = model.kernel_.coordinates(X)
    if seen.shape[1] == 3 and np.allclose(np.linalg.norm(seen, axis=1), EARTH_RADIUS):
        return "km"
    if seen.shape != X.shape or not np.allclose(seen, X):
        return "length scales"
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        return "units of the inputs"
    named = [names[column] for column in model.linear_part_.coords]
    if len(named) == 2 and all(name.lower() in known for name, known in zip(named, _DEGREES)):
        return "degrees"
    return f"units of {', '.join(named)}"
