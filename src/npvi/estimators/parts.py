"""Kernel, likelihood and nugget as a user gives them to an estimator: checked, and as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from npvi.kernels import Kernel, as_kernel
from npvi.learning.space import unwrapped
from npvi.likelihoods import Likelihood
from npvi.parameters import Parameter

__all__ = ["check_nugget", "plain_parts"]


def check_nugget(nugget: Any) -> None:
    """Raise ValueError where it is no finite number, or negative.

    >>> check_nugget(-1.0)
    Traceback (most recent call last):
    ValueError: nugget must be a finite number that isn't negative, got -1.0
    """
    value = nugget.value if isinstance(nugget, Parameter) else nugget
    if not (isinstance(value, Real) and 0.0 <= float(value) < np.inf):
        raise ValueError(f"nugget must be a finite number that isn't negative, got {nugget!r}")


def plain_parts(
    kernel: Any, likelihood: Likelihood, nugget: Any, n_inputs: int, names: Sequence[str] | None = None
) -> tuple[Kernel, Likelihood, float | None, dict[str, Parameter]]:
    """Kernel, likelihood and nugget with plain numbers inside, and what the user said about those, by full name.

    `names` are those of the kernel's inputs, by which it may call them.

    Raises
    ------
    ValueError
        Where a number is not allowed, or there are too many of them for so many inputs.

    Examples
    --------
    >>> from npvi.likelihoods import Poisson
    >>> from npvi.parameters import fixed
    >>> kernel, likelihood, nugget, said = plain_parts("rbf", Poisson(), fixed(0.1), n_inputs=2)
    >>> nugget, said["nugget"].fixed
    (0.1, True)
    """
    plain_kernel, said = unwrapped(as_kernel(kernel).with_numbered_columns(names), "kernel")
    plain_likelihood, more = unwrapped(likelihood, "likelihood")
    plain_kernel.validate(n_inputs)
    plain_likelihood.validate()
    said = {**said, **more}
    if isinstance(nugget, Parameter):
        said["nugget"], nugget = nugget, nugget.value
    return plain_kernel, plain_likelihood, None if nugget is None else float(nugget), said
