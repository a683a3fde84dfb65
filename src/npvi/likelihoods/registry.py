"""Likelihoods by name."""

from __future__ import annotations

from typing import Any

from npvi.likelihoods.base import Likelihood
from npvi.likelihoods.bernoulli import Bernoulli
from npvi.likelihoods.gaussian import Gaussian
from npvi.likelihoods.lognormal import LogNormal
from npvi.likelihoods.poisson import Poisson

__all__ = ["LIKELIHOODS", "as_likelihood"]

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "lognormal": LogNormal,
    "poisson": Poisson,
    "bernoulli": Bernoulli,
}


def as_likelihood(obj: Any) -> Likelihood:
    """A likelihood from its name, with default parameters, or from a likelihood.

    >>> as_likelihood("poisson")
    Poisson()
    """
    choices = ", ".join(repr(name) for name in LIKELIHOODS)
    if isinstance(obj, Likelihood):
        return obj
    if isinstance(obj, str):
        if obj not in LIKELIHOODS:
            raise ValueError(f"no likelihood is named {obj!r}; the names are {choices}")
        return LIKELIHOODS[obj]()
    if isinstance(obj, type):
        raise TypeError(f"expected a likelihood, got the class {obj.__name__}; write {obj.__name__}()")
    raise TypeError(
        f"expected a likelihood from npvi.likelihoods or one of {choices}; "
        f"got {type(obj).__module__}.{type(obj).__name__}"
    )
