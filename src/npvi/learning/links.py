"""Which link: by what each says of places that it hasn't seen, the density of their counts and their means."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference import Data
from npvi.learning.objective import LeftOut
from npvi.likelihoods import predictive_log_prob, predictive_moments

__all__ = ["Comparison", "Foretold", "compare", "foretell"]

Vector = NDArray[np.float64]

#: how much larger squared errors' root, or how much further off the sum, may be before means can't be used
_WORSE, _OFF = 1.1, 1.2
#: how much smaller a root must be to tell where densities can't
_CLOSER = 0.98
#: nats per row that usable means may cost, and those that are worth another link where both have them
_COST, _GAIN = 0.03, 0.002


@dataclass(frozen=True)
class Foretold:
    """Counts at places that were left out, and what a model says of them.

    Attributes
    ----------
    y : (rows,)
    place : (rows,) which place.
    log_density, mean : (rows,)
    """

    y: Vector
    place: NDArray[np.int64]
    log_density: Vector
    mean: Vector

    @property
    def rmse(self) -> float:
        """Root of the mean squared error of the means."""
        with np.errstate(over="ignore"):
            return float(np.sqrt(np.mean((self.mean - self.y) ** 2)))

    @property
    def sum_error(self) -> float:
        """The standard error of `sum_ratio`; rows of a place count as one."""
        with np.errstate(over="ignore"):
            off = np.bincount(self.place, self.mean - self.y)
            return float(np.sqrt(np.sum(off**2)) / max(self.y.sum(), 1e-300))

    @property
    def sum_ratio(self) -> float:
        """The sum of the means over what was seen."""
        with np.errstate(over="ignore"):  # where nothing was seen
            return float(self.mean.sum() / max(self.y.sum(), 1e-300))


@dataclass(frozen=True)
class Comparison:
    """Of a second link with the first.

    Attributes
    ----------
    gain : of the second in mean log density, nats per row.
    gain_error : its standard error; rows of a place count as one.
    rmse, sum_ratio : of both.
    second : whether the second is the better choice.
    """

    gain: float
    gain_error: float
    rmse: tuple[float, float]
    sum_ratio: tuple[float, float]
    second: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def foretell(data: Data, left_out: LeftOut) -> Foretold:
    """What a model says of the rows that were left out."""
    some = data.take(left_out.rows)
    counted = np.arange(len(some.y)) if some.weight is None else np.flatnonzero(some.weight > 0.0)
    some = some.take(counted)
    arguments = (left_out.mean[counted], left_out.variance[counted], some.row)
    log_density = predictive_log_prob(some.likelihood, some.y, *arguments)
    mean = predictive_moments(some.likelihood, *arguments)[0]
    return Foretold(some.y, left_out.place[counted], log_density, mean)


def compare(first: Foretold, second: Foretold) -> Comparison:
    """Which of two links to take, by the same rows.

    The log density decides, unless one of them has means that can't be used beside the other's: by their squared error
    or by their sum. Then the other one is taken, if it costs no more than 0.03 nats a row. Where the log density can't
    tell, squared errors do: means that explode between the places that were visited are the larger risk.

    >>> y, place = np.array([0.0, 2.0, 4.0]), np.arange(3)
    >>> wild, calm = (Foretold(y, place, np.zeros(3), np.array(mean)) for mean in ([0.5, 2.0, 90.0], [0.5, 2.0, 3.0]))
    >>> compare(wild, calm).second, compare(calm, wild).second
    (True, False)
    """
    with np.errstate(over="ignore", invalid="ignore"):  # densities may be 0; the second is taken where it alone isn't
        difference = second.log_density - first.log_density
        gain = float(np.mean(difference))
        sums = np.bincount(first.place, difference - gain)
        error = float(np.sqrt(np.sum(sums**2)) / len(difference))
    if _usable(second, first) != _usable(first, second):
        # a single row may have a density that is next to nothing
        takes_second = gain + 2.0 * error > -_COST if _usable(second, first) else gain - 2.0 * error > _COST
    else:
        untold = abs(gain) <= 2.0 * error and error > 0.5 * _GAIN
        takes_second = second.rmse < _CLOSER * first.rmse if untold else gain > _GAIN
    ratios = (first.sum_ratio, second.sum_ratio)
    return Comparison(gain, error, (first.rmse, second.rmse), ratios, bool(takes_second))


def _usable(one: Foretold, other: Foretold) -> bool:
    """Whether the means of one are about as good as those of another."""
    with np.errstate(divide="ignore"):
        off, others = (abs(float(np.log(which.sum_ratio))) for which in (one, other))
    # that of wild means would excuse them
    chance = 2.0 * min(one.sum_error, other.sum_error)
    wrong_sum = off > max(np.log(_OFF), chance) and off > others + np.log(_WORSE)
    return one.rmse <= _WORSE * other.rmse and not wrong_sum
