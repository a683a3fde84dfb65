"""How a network is to be trained on the data at hand."""

from __future__ import annotations

from numbers import Integral

from npvi.checks import RATE, check_number
from npvi.parameters import Parametrised

__all__ = ["SiteNetwork"]

#: what has an end: each round is a solve, and a network of 1,000 × 1,000 weights is far too large already
_COUNTS = {"rounds": (0, 100), "points": (2, 2**31), "width": (1, 1000), "steps": (1, 2**31)}


class SiteNetwork(Parametrised):
    """A network that is trained on patches of the data, then recognises the posterior of all of them.

    On the patches the optimum is found by the closed form; the network learns what a cheap guess lacks to it.

    Parameters
    ----------
    rounds : int or None
        Newton rounds of the guess, each with one solve more; 0 takes a few steps of message passing instead. None: 0
        where that comes near enough to the optimum of the patches, else 3.
    points : int or None
        How many points are trained on, in compact patches of 384; None: all, together.
    width : int
        Of the two hidden layers.
    steps : int
        Of Adam, each with 256 points.
    learning_rate : float
        Falls to 0 along a cosine.

    Examples
    --------
    >>> SiteNetwork(rounds=3)
    SiteNetwork(rounds=3)
    """

    static = ("rounds", "points", "width", "steps", "learning_rate")

    def __init__(
        self,
        rounds: int | None = None,
        points: int | None = 1536,
        width: int = 32,
        steps: int = 90,
        learning_rate: float = 1e-2,
    ) -> None:
        self.rounds = rounds
        self.points = points
        self.width = width
        self.steps = steps
        self.learning_rate = learning_rate

    def validate(self) -> None:
        """Raise ValueError where a setting is not allowed."""
        for name, (least, most) in _COUNTS.items():
            value = getattr(self, name)
            if value is None and name in ("rounds", "points"):
                continue
            if not (isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most):
                raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
        check_number(self.learning_rate, "learning_rate", RATE)
