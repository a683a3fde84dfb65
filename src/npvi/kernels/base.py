"""The contract of a kernel, a formula for one pair of points in JAX, and the kernels that + and * make of others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from numbers import Real
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from npvi.parameters import Parametrised, check_positive
from npvi.runtime.arrays import Array, Number
from npvi.runtime.lazy import jax

__all__ = ["Frame", "Kernel", "Part", "Product", "Scaled", "Sum"]

Answer = TypeVar("Answer")


class Frame(NamedTuple):
    """Points as one part of a kernel sees them, and what a squared distance along each column counts for."""

    points: Array
    """(N, p) coordinates, in their own units."""
    precision: Array
    """(p,) inverse squared length scales."""


class Part(NamedTuple):
    """A kernel inside another one."""

    name: str
    """What stands before the names of its parameters: ``k1__``, or nothing."""
    kernel: Kernel
    X: Array
    """The inputs as it sees them."""
    factor: bool = False
    """Whether it multiplies another one that has the scale of f."""


class Kernel(Parametrised):
    """Base class of covariance functions k(x, z).

    A subclass stores its parameters in the constructor, all of them positive numbers (so that they can be
    learned on the log scale), and implements ``__call__``. ``vmap`` does the rest. The nugget is not part of
    a kernel: it belongs to the index of a point, not to its place, and is a parameter of the model.

    >>> import jax.numpy as jnp
    >>> class Cosine(Kernel):
    ...     def __init__(self, frequency=1.0):
    ...         self.frequency = frequency
    ...     def __call__(self, x, z):
    ...         return jnp.cos(self.frequency * (x - z)[0])
    >>> float((2.0 * Cosine(frequency=3.0))(jnp.ones(1), jnp.ones(1)))
    2.0
    """

    named: ClassVar[dict[str, type[Kernel]]] = {}
    """The classes that have a name."""
    amplitude: ClassVar[str | None] = None
    """The parameter that is the variance of f, where learning is to start from the data's own scale of it."""

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        """k(x, z) for one pair of points, each of shape (d,)."""
        raise NotImplementedError

    def validate(self, n_inputs: int) -> None:
        """Raise ValueError where a parameter is not allowed or does not fit `n_inputs` columns of inputs."""
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                value.validate(n_inputs)
            elif name not in self.static:
                check_positive(self, name)

    def with_numbered_columns(self, names: Sequence[str] | None) -> Kernel:
        """The same kernel, with column numbers where it has names of columns; `names` are those of the inputs that it
        sees, None where they have none."""
        inside = {key: value for key, value in self.get_params(deep=False).items() if isinstance(value, Kernel)}
        numbered = {key: kernel.with_numbered_columns(names) for key, kernel in inside.items()}
        changed = {key: kernel for key, kernel in numbered.items() if kernel is not inside[key]}
        return self.replace(**changed) if changed else self

    def parts(self, X: Array, name: str = "") -> Iterator[Part]:
        """The kernels that this one is made of, or itself where it is of a piece."""
        yield Part(name, self, X)

    # -- what learning asks; a kernel that says nothing is learned from the numbers that it has
    # -----------------------------------------------------------------------------------------

    def start(self, X: Array) -> dict[str, Array]:
        """Parameters that are lengths, and typical ones along each input: where learning starts, and weak priors are
        highest.

        >>> from npvi.kernels import RBF, Linear, Subset
        >>> (Subset(RBF(), [1]) + Linear()).start(np.array([[0.0, 1.0], [0.0, 5.0]]))
        {'k1__kernel__length_scale': array([1.])}
        """
        return self._asked(X, lambda kernel, X: kernel.start(X))

    def limits(self, X: Array) -> dict[str, tuple[Number, Number]]:
        """How far learning may take parameters: beyond, nothing changes any more."""
        return self._asked(X, lambda kernel, X: kernel.limits(X))

    def choices(self, X: Array) -> dict[str, tuple[float, ...]]:
        """Parameters that are one of a few numbers, for the data to say which.

        >>> from npvi.kernels import Matern, Sphere
        >>> Sphere(Matern()).choices(np.zeros((1, 2)))
        {'kernel__smoothness': (0.5, 1.5, 2.5)}
        """
        return self._asked(X, lambda kernel, X: kernel.choices(X))

    def _asked(self, X: Array, question: Callable[[Kernel, Array], dict[str, Answer]]) -> dict[str, Answer]:
        """What the parts say, under their full names."""
        inside = [part for part in self.parts(X) if part.kernel is not self]
        return {part.name + name: said for part in inside for name, said in question(part.kernel, part.X).items()}

    def frames(self, X: Array) -> dict[Hashable, Frame]:
        """The spaces in which this kernel measures distance; parts that share a space share its key."""
        return {"inputs": Frame(X, np.ones(X.shape[1]))}

    def coordinates(self, X: Array) -> Array:
        """The inputs as the kernel's distance sees them, so that Euclidean neighbours are the most correlated
        points.

        Shape (N, p). Where one space and one length scale is all there is, the points themselves are
        returned, unscaled: points on a lattice keep their exact ties.
        """
        X = np.asarray(X, dtype=np.float64)
        frames = list(self.frames(X).values())
        if not frames:
            return X
        if len(frames) == 1 and np.all(frames[0].precision == frames[0].precision[0]):
            return frames[0].points
        return np.hstack([points * np.sqrt(precision) for points, precision in frames])

    def scaled_coordinates(self, X: Array) -> Array:
        """The same in units of length scales throughout, also where `coordinates` leaves them out; the inputs
        themselves where there is no length scale.

        Of a sum or product, whose parts have a length scale each in the same space, squared distances add.
        """
        X = np.asarray(X, dtype=np.float64)
        frames = self.frames(X).values()
        return np.hstack([points * np.sqrt(precision) for points, precision in frames]) if frames else X

    def __add__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Real):
            other = Kernel.named["constant"]().replace(variance=float(other))
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Real):
            return Scaled(self, float(other))
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__

    def _check_one_per_input(self, name: str, n_inputs: int) -> None:
        shape = np.shape(getattr(self, name))
        if shape not in [(), (n_inputs,)]:
            got = f"{shape[0]} values" if len(shape) == 1 else f"an array of shape {shape}"
            raise ValueError(
                f"{type(self).__name__}: {name} has {got}, but the kernel sees {n_inputs} inputs; "
                f"give one number for all of them, or a sequence with one per input"
            )


class _Pair(Kernel):
    """Two kernels on the same inputs."""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        self.k1 = k1
        self.k2 = k2

    def parts(self, X: Array, name: str = "") -> Iterator[Part]:
        yield from self.k1.parts(X, f"{name}k1__")
        for part in self.k2.parts(X, f"{name}k2__"):
            yield part._replace(factor=part.factor or isinstance(self, Product))

    def frames(self, X: Array) -> dict[Hashable, Frame]:
        # Squared distances add, as they do in a product of RBFs; parts that see the same points share their
        # columns.
        merged = dict(self.k1.frames(X))
        for key, frame in self.k2.frames(X).items():
            shared = merged.get(key)
            merged[key] = frame if shared is None else Frame(shared.points, shared.precision + frame.precision)
        return merged


class Sum(_Pair):
    """k(x, z) = k1(x, z) + k2(x, z), written ``k1 + k2``: the sum of two independent functions.

    Examples
    --------
    >>> from npvi.kernels import RBF, Linear
    >>> RBF(length_scale=2.0) + Linear()
    Sum(k1=RBF(length_scale=2.0), k2=Linear())
    """

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.k1(x, z) + self.k2(x, z)


class Product(_Pair):
    """k(x, z) = k1(x, z) · k2(x, z), written ``k1 * k2``: points correlate only where both parts say so.

    Examples
    --------
    >>> from npvi.kernels import Matern12, Matern32, Subset
    >>> Subset(Matern32(length_scale=50.0), [0, 1]) * Subset(Matern12(length_scale=7.0), [2])  # space × time
    Product(k1=Subset(columns=(0, 1), kernel=Matern32(length_scale=50.0)),
            k2=Subset(columns=(2,), kernel=Matern12(length_scale=7.0)))
    """

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.k1(x, z) * self.k2(x, z)


class Scaled(Kernel):
    """k(x, z) = factor · kernel(x, z), written ``2.0 * kernel``.

    Examples
    --------
    >>> from npvi.kernels import RBF
    >>> 2.0 * RBF()
    Scaled(factor=2.0, kernel=RBF())
    """

    def __init__(self, kernel: Kernel, factor: float = 1.0) -> None:
        self.kernel = kernel
        self.factor = factor

    def __call__(self, x: jax.Array, z: jax.Array) -> jax.Array:
        return self.factor * self.kernel(x, z)

    def parts(self, X: Array, name: str = "") -> Iterator[Part]:
        for part in self.kernel.parts(X, f"{name}kernel__"):
            yield part._replace(factor=True)

    def frames(self, X: Array) -> dict[Hashable, Frame]:
        return self.kernel.frames(X)
