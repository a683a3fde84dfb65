"""What a part of the campaign is made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol, cast

__all__ = ["Case", "Name", "Outcome", "Part", "Surprise", "check", "part"]


class Surprise(AssertionError):
    """What a case found: something that must not happen."""


def check(holds: bool, otherwise: str) -> None:
    """Raise a `Surprise` unless something holds."""
    if not holds:
        raise Surprise(otherwise)


@dataclass(frozen=True)
class Name:
    """Which case: all that is needed to make it again.

    >>> Name.read("misuse:3:1207")
    Name(part='misuse', seed=3, number=1207)
    """

    part: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.part}:{self.seed}:{self.number}"

    @classmethod
    def read(cls, text: str) -> Name:
        parts = re.fullmatch(r"(\w+):(\d+):(\d+)", text)
        if not parts:
            raise ValueError(f"a case has a name such as misuse:3:1207, got {text!r}")
        return cls(parts[1], int(parts[2]), int(parts[3]))


@dataclass(frozen=True)
class Case:
    """What is tried, in words, and how: a function that returns what came of it ("worked", "refused") or raises."""

    what: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Outcome:
    name: Name
    what: str
    came: str
    """ "worked", "refused", …; "finding" where `finding` says which."""
    seconds: float
    finding: str = ""
    cpu: float = 0.0

    @property
    def cause(self) -> str:
        """What findings of one cause have in common: the line of npvi, or the first words."""
        *_, last = self.finding.strip().splitlines() or [""]
        return last.strip() if re.fullmatch(r"\s*[\w/]+\.py:\d+", last) else re.sub(r"[\d.]+", "#", self.finding)[:90]


class Part(Protocol):
    """A module of this package with cases."""

    SECONDS: float
    """Most for one case."""
    SHARES: dict[str, float]
    """Largest share of cases that may end so, such as {"did not converge": 0.01}."""

    def count(self) -> int:
        """How many cases a whole campaign has."""

    def case(self, seed: int, number: int) -> Case:
        """The case of this number, from 0."""


def part(name: str) -> Part:
    """A part by name."""
    import importlib

    return cast(Part, cast(ModuleType, importlib.import_module(f"campaign.{name}")))
