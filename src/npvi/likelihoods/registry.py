"""Likelihoods by name: those of `families`, and any other class that has one."""

from __future__ import annotations

from typing import Any

from npvi.likelihoods import families
from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.custom import Custom
from npvi.parameters import check_kinds
from npvi.runtime.catalogue import import_all

__all__ = ["LIKELIHOODS", "as_likelihood"]

import_all(families)
LIKELIHOODS: dict[str, type[Likelihood]] = Likelihood.named


def as_likelihood(obj: Any) -> Likelihood:
    """A likelihood from its name, with default parameters, from a function log p(y | f), or from a likelihood.

    >>> as_likelihood("poisson")
    Poisson()
    """
    choices = ", ".join(repr(name) for name in sorted(LIKELIHOODS))
    if isinstance(obj, Likelihood):
        check_kinds(obj)
        return obj
    if isinstance(obj, str):
        if obj not in LIKELIHOODS:
            raise ValueError(f"no likelihood is named {obj!r}; the names are {choices}")
        return LIKELIHOODS[obj]()
    if isinstance(obj, type):
        raise TypeError(f"expected a likelihood, got the class {obj.__name__}; write {obj.__name__}()")
    if callable(obj):
        return Custom(obj)
    raise TypeError(
        f"expected a likelihood from npvi.likelihoods, a function log_prob(y, f), or one of {choices}; "
        f"got {type(obj).__module__}.{type(obj).__name__}"
    )
