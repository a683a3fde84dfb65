"""Estimators whose parts may be only named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from npvi.kernels import as_kernel
from npvi.likelihoods import as_likelihood

__all__ = ["NamedParts"]


class NamedParts:
    """An estimator whose kernel, likelihood or model may be only a name, or None."""

    #: what such a word becomes, once a number of it is set
    _made: ClassVar[dict[str, Callable[[Any], Any]]] = {"kernel": as_kernel, "likelihood": as_likelihood}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, of the kernel and the likelihood too: ``set_params(kernel__length_scale=2.0)``.

        A kernel or likelihood that is only named becomes an object.
        """
        for part, make in self._made.items():
            inner = any(name.startswith(f"{part}__") for name in params)
            value = params.get(part, getattr(self, part, None))
            if inner and (value is None or isinstance(value, str)):
                params = {**params, part: make(value)}
        return super().set_params(**params)  # type: ignore[misc]
