"""Kernels that look at the inputs in another way before they measure a distance."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from npvi.checks import refuse_masked
from npvi.kernels.base import Frame, Kernel, Part
from npvi.runtime.lazy import jax, jnp

__all__ = ["EARTH_RADIUS", "Sphere", "Subset"]

EARTH_RADIUS = 6371.0088
"""Mean radius of the Earth in kilometres (IUGG)."""


class Subset(Kernel):
    """A kernel on some of the inputs: k(x, z) = kernel(x[columns], z[columns]).

    Parameters
    ----------
    kernel : Kernel
        Sees ``len(columns)`` inputs.
    columns : int, str or sequence of them
        Numbers of columns, counted from 0, or their names, where the model gets a table that has names. Where the model
        has `coords`, the kernel sees those alone, in that order.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from npvi.kernels import RBF
    >>> time = Subset(RBF(), [2])
    >>> float(time(jnp.array([0.0, 0.0, 1.0]), jnp.array([5.0, 5.0, 1.0])))
    1.0
    """

    static = ("columns",)

    def __init__(self, kernel: Kernel, columns: int | str | Sequence[int | str]) -> None:
        self.kernel = kernel
        self.columns = columns

    @property
    def columns(self) -> tuple[int | str, ...]:
        """The columns that the kernel sees."""
        return self._columns

    @columns.setter
    def columns(self, columns: int | str | Sequence[int | str]) -> None:
        # A tuple, because it is part of the pytree's structure and so must be hashable. One that is a tuple
        # already is kept as it is: scikit-learn's clone insists on getting back the very object that it
        # passed.
        if not isinstance(columns, tuple):
            refuse_masked(columns, "columns")
            given: Any = [columns] if isinstance(columns, str) or not np.iterable(columns) else columns
            columns = tuple(column.item() if isinstance(column, np.generic) else column for column in given)
        self._columns: tuple[int | str, ...] = columns

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        columns = np.asarray(self._numbers)
        return self.kernel(x[columns], z[columns])

    @property
    def _numbers(self) -> list[int]:
        """The columns, which must be numbers by now."""
        named = [column for column in self.columns if isinstance(column, str)]
        if named:
            raise ValueError(
                f"Subset: columns: there is no {named[0]!r}, because the inputs have no names; give numbers, or fit a "
                "DataFrame"
            )
        try:
            return [operator.index(column) for column in self.columns]  # type: ignore[arg-type]
        except TypeError:
            raise ValueError(f"Subset: columns must be whole numbers or names, got {self.columns!r}") from None

    def with_numbered_columns(self, names: Sequence[str] | None) -> Kernel:
        if names is None:
            return self
        known = {str(name): number for number, name in enumerate(names)}
        unknown = [column for column in self.columns if isinstance(column, str) and column not in known]
        if unknown:
            raise ValueError(
                f"Subset: columns: there is no {unknown[0]!r} among the inputs of the kernel, which are "
                f"{', '.join(known)}"
            )
        columns = tuple(known[column] if isinstance(column, str) else column for column in self.columns)
        inner = None
        if all(isinstance(column, int) and 0 <= column < len(names) for column in columns):
            inner = [str(names[column]) for column in columns]
        kernel = self.kernel.with_numbered_columns(inner)
        return (
            self if columns == self.columns and kernel is self.kernel else self.replace(kernel=kernel, columns=columns)
        )

    def validate(self, n_inputs: int) -> None:
        columns = self._numbers
        wrong = [column for column in columns if not 0 <= column < n_inputs]
        if wrong or not columns or len(set(columns)) < len(columns):
            raise ValueError(
                f"Subset: columns must be different numbers from 0 to {n_inputs - 1} (there are {n_inputs} "
                f"inputs), got {self.columns!r}"
            )
        self.kernel.validate(len(columns))

    def parts(self, X: np.ndarray, name: str = "") -> Iterator[Part]:
        yield from self.kernel.parts(np.ascontiguousarray(X[:, self._numbers]), f"{name}kernel__")

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        inner = self.kernel.frames(np.ascontiguousarray(X[:, self._numbers]))
        return {(*self.columns, key): frame for key, frame in inner.items()}


class Sphere(Kernel):
    """A kernel on the surface of the Earth.

    The first two inputs are longitude and latitude in degrees. They become points on a sphere of radius
    6371.0088 km, and `kernel` sees those three coordinates: its distance is the straight chord through the
    Earth in kilometres (1 % shorter than the way along the surface at 3,000 km), and so are its length
    scales. Any kernel that is valid in three dimensions stays valid, and nothing happens at the date line or
    the poles. Further inputs are ignored; for those multiply by `Subset` kernels.

    Parameters
    ----------
    kernel : Kernel
        Sees three inputs in kilometres.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from npvi.kernels import Matern32
    >>> kernel = Sphere(Matern32(length_scale=500.0))
    >>> round(float(kernel(jnp.array([180.0, 10.0]), jnp.array([-180.0, 10.0]))), 4)
    1.0
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.kernel(_on_sphere(x), _on_sphere(z))

    def with_numbered_columns(self, names: Sequence[str] | None) -> Kernel:
        return self  # what is inside sees three coordinates that have no names

    def validate(self, n_inputs: int) -> None:
        if n_inputs < 2:
            raise ValueError(f"Sphere: needs longitude and latitude, two inputs, but there is {n_inputs}")
        self.kernel.validate(3)

    def parts(self, X: np.ndarray, name: str = "") -> Iterator[Part]:
        points = EARTH_RADIUS * _directions(np.deg2rad(X[:, 0]), np.deg2rad(X[:, 1]))
        yield from self.kernel.parts(points, f"{name}kernel__")

    def frames(self, X: np.ndarray) -> dict[Hashable, Frame]:
        latitude = X[:, 1]
        if np.any(np.abs(latitude) > 90.0):
            raise ValueError(
                f"Sphere: the second input is latitude in degrees, from -90 to 90, but it goes from "
                f"{latitude.min():g} to {latitude.max():g}; are longitude and latitude swapped?"
            )
        points = EARTH_RADIUS * _directions(np.deg2rad(X[:, 0]), np.deg2rad(latitude))
        return {("sphere", key): frame for key, frame in self.kernel.frames(points).items()}


def _directions(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
    horizontal = np.cos(latitude)
    return np.column_stack([horizontal * np.cos(longitude), horizontal * np.sin(longitude), np.sin(latitude)])


def _on_sphere(x: jax.Array) -> jax.Array:
    longitude, latitude = jnp.deg2rad(x[0]), jnp.deg2rad(x[1])
    horizontal = jnp.cos(latitude)
    return EARTH_RADIUS * jnp.stack(
        [horizontal * jnp.cos(longitude), horizontal * jnp.sin(longitude), jnp.sin(latitude)]
    )
