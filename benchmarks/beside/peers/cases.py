"""What runs: every program on every data set, with each kind of noise that suits both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["CASES", "DATA", "Case"]


@dataclass(frozen=True)
class Case:
    """A program on a data set.

    Attributes
    ----------
    data : name of the arrays.
    software : key of `sides.SOFTWARE`.
    noise : of y given f, or what stands for it.
    options : of the program's side.
    """

    data: str
    software: str
    noise: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """In words that a file name may have."""
        return f"{self.data}-{self.software}-{self.noise}"


#: data: kinds of noise, the one for programs with a single suitable kind first, and the smoothness for kernels that
#: don't learn it. It is the better of 1/2 and 3/2 for GPBoost, by test score: a choice in the peers' favour
DATA = {
    "bird_counts": (("poisson", "negative_binomial"), 0.5),
    "precipitation": (("lognormal", "gamma"), 1.5),
    "nightlight": (("lognormal", "gamma"), 0.5),
    "flights50k": (("lognormal",), 0.5),
}


def _cases() -> list[Case]:
    found = []
    for data, (noises, smoothness) in DATA.items():
        kernel = {"smoothness": smoothness}
        found += [Case(data, "npvi", noise) for noise in (*noises, *_VARYING.get(noises[0], ()))]
        found += [Case(data, "gpboost", noise, kernel) for noise in noises]
        found += [Case(data, software, noises[0], kernel) for software in ("svgp", "vnngp", "subset")]
        for software in ("knn", "trees"):
            found.append(Case(data, software, _MIXTURE.get((software, noises[0]), noises[0])))
    return found


#: kinds of noise that only we have besides
_VARYING = {"lognormal": ("varying_lognormal",)}
#: what stands for noise in forecasts of programs that have no likelihood
_MIXTURE = {
    ("knn", "poisson"): "negative_binomial",
    ("trees", "poisson"): "negative_binomial",
    ("knn", "lognormal"): "varying_lognormal",
}
CASES = _cases()
