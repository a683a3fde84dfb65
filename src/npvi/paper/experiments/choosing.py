"""The kernel's numbers chosen on validation rows, within a budget of time."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from npvi.kernels import RBF
from npvi.paper.experiments.methods import LIKELIHOODS, Fitted, fit_within, nlpd
from npvi.paper.experiments.plan import Plan
from npvi.paper.experiments.store import Cell

__all__ = ["Candidate", "Search", "choose_all", "choose_length_scale"]

Notice = Callable[[str], None]

#: the prior of the first table
_VARIANCE, _NUGGET = 1.0, 0.01


#: seconds of a budget that compiling would be much of: it is done before the clock starts
_SHORT = 60.0
#: what was compiled in this process
_compiled: set[tuple[str, str, int, int]] = set()


class Candidate(NamedTuple):
    """Numbers of the prior.

    >>> str(Candidate(0.5, 1.0, 0.01))
    'ℓ 0.5, variance 1, nugget 0.01'
    """

    length_scale: float
    variance: float
    nugget: float

    def __str__(self) -> str:
        return f"ℓ {self.length_scale:g}, variance {self.variance:g}, nugget {self.nugget:g}"


@dataclass(frozen=True)
class _Best:
    """The candidate that predicts validation rows best, and its model; one of an earlier cell has its score instead."""

    candidate: Candidate
    validation: float
    model: Any = None
    test: float | None = None


class Search:
    """Fits of one candidate after the other until the budget is spent.

    What is left of the budget is shared by the candidates that are left, so that one slow fit doesn't starve the rest.

    Parameters
    ----------
    fit : fits a candidate within some seconds.
    budget : seconds for all of them. The first candidate is fitted in any case.
    notice : told what is being done.
    clock : tells the seconds.

    Attributes
    ----------
    out_of_time : whether the budget ended the search, or a fit.

    Examples
    --------
    >>> def fit(candidate, seconds):
    ...     return Fitted(None, 1.0, "finished", [(1.0, abs(candidate.length_scale - 0.4))])
    >>> search = Search(fit, budget=60.0)
    >>> search.try_all([Candidate(length_scale, 1.0, 0.01) for length_scale in (0.1, 0.5, 1.0)])
    >>> search.best.candidate.length_scale
    0.5
    """

    def __init__(
        self,
        fit: Callable[[Candidate, float], Fitted],
        budget: float,
        notice: Notice | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._fit, self.budget, self._notice, self._clock = fit, budget, notice, clock
        self._started = clock()
        self._tried: dict[Candidate, dict[str, Any]] = {}
        self._fits = 0
        self._found: _Best | None = None
        self.out_of_time = False

    @property
    def best(self) -> _Best:
        """The best one so far.

        Raises
        ------
        RuntimeError
            Where every fit failed.
        """
        if self._found is None:
            reasons = [told["outcome"] for told in self._tried.values()]
            raise RuntimeError(f"no fit of {len(reasons)} had a score; the first one: {reasons[0]}")
        return self._found

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self._clock() - self._started

    def reuse(self, result: dict[str, Any]) -> None:
        """Take over candidates, and the best of them, from an earlier cell."""
        for told in result["candidates"]:
            self._tried[_candidate_of(told)] = told
        chosen = result["candidates"][result["chosen"]]
        self._found = _Best(_candidate_of(chosen), chosen["validation"], test=result["test"])
        self.out_of_time |= result["out_of_time"]

    def try_all(self, candidates: Sequence[Candidate], later: int = 0) -> None:
        """Fit those that weren't yet; `later` more will be asked for after them."""
        missing = [candidate for candidate in candidates if candidate not in self._tried]
        for number, candidate in enumerate(missing):
            left = self.budget - self.seconds
            if left <= 0.0 and self._fits:
                self.out_of_time = True
                return
            if self._notice is not None:
                self._notice(str(candidate))
            # a budget that is spent already is not to be exceeded by much: the first look at the clock ends the fit
            self._try(candidate, max(left, 1e-3) / (len(missing) - number + later))

    def _try(self, candidate: Candidate, seconds: float) -> None:
        self._fits += 1
        told: dict[str, Any] = {**candidate._asdict(), "validation": None, "seconds": None}
        self._tried[candidate] = told
        try:
            fitted = self._fit(candidate, seconds)
        except Exception as error:  # the other candidates may do
            told["outcome"] = f"failed: {type(error).__name__}: {error}"
            return
        told |= {"seconds": fitted.seconds, "outcome": fitted.outcome}
        self.out_of_time |= fitted.outcome == "out of time"
        if math.isfinite(fitted.validation):
            told["validation"] = fitted.validation
            if self._found is None or fitted.validation < self._found.validation:
                self._found = _Best(candidate, fitted.validation, fitted.model)

    def result(self, score: Callable[[Any], float]) -> dict[str, Any]:
        """What is stored of the search; `score` is that of a model on test rows."""
        best = self.best
        test = score(best.model) if best.test is None else best.test
        if not math.isfinite(test):
            raise RuntimeError(f"the score of the test rows is {test} at {best.candidate}")
        chosen = sorted(self._tried).index(best.candidate)
        candidates = [self._tried[candidate] for candidate in sorted(self._tried)]
        return {
            "candidates": candidates,
            "chosen": chosen,
            "test": test,
            "seconds": candidates[chosen]["seconds"],
            "total_seconds": self.seconds,
            "out_of_time": self.out_of_time,
            "budget": self.budget,
        }


def choose_length_scale(cell: Cell, plan: Plan, notice: Notice | None = None) -> dict[str, Any]:
    """A cell of the first table: the length scale that predicts validation rows best, with variance 1, nugget 0.01.

    Returns
    -------
    dict
        ``candidates`` (``length_scale``, ``variance``, ``nugget``, ``validation``, ``seconds`` and ``outcome`` of each;
        ``validation`` is None where the fit failed), ``chosen`` (which of them), ``test``, ``seconds`` (training of the
        chosen one), ``total_seconds``, ``out_of_time``, ``budget``, ``n_train``.
    """
    candidates = [Candidate(value, _VARIANCE, _NUGGET) for value in _middle_first(plan.length_scales)]
    search = _search(cell, plan, candidates[0], notice)
    search.try_all(candidates)
    return _told(search, cell, plan)


def choose_all(cell: Cell, plan: Plan, first: dict[str, Any], notice: Notice | None = None) -> dict[str, Any]:
    """A cell of the second table: variance and nugget too, one after the other, from where the first table ended.

    Parameters
    ----------
    first : the result of the same cell in the first table.
    """
    start = _candidate_of(first["candidates"][first["chosen"]])
    search = _search(cell, plan, start, notice)
    search.reuse(first)
    more = [
        Candidate(start.length_scale, variance, share * variance)
        for variance, share in itertools.product(plan.variances, plan.nugget_shares)
    ]
    search.try_all(more, later=len(plan.length_scales) - 1)
    found = search.best.candidate
    search.try_all([found._replace(length_scale=value) for value in _middle_first(plan.length_scales)])
    return _told(search, cell, plan)


def _search(cell: Cell, plan: Plan, first: Candidate, notice: Notice | None) -> Search:
    split, likelihood = plan.split(cell.data, cell.seed), LIKELIHOODS[cell.data]

    def fit(candidate: Candidate, seconds: float) -> Fitted:
        kernel = RBF(candidate.length_scale, variance=candidate.variance)
        return fit_within(cell.method, split, likelihood, kernel, candidate.nugget, cell.size, cell.seed, seconds)

    program = (cell.data, cell.method, cell.size, len(split.y_train))
    if plan.budget < _SHORT and program not in _compiled:
        if notice is not None:
            notice("compiling")
        with suppress(Exception):  # what is wrong with it will be seen again
            fit(first, 1e-3)
        _compiled.add(program)
    return Search(fit, plan.budget, notice)


def _told(search: Search, cell: Cell, plan: Plan) -> dict[str, Any]:
    split = plan.split(cell.data, cell.seed)
    result = search.result(lambda model: nlpd(model, split.X_test, split.y_test))
    return {**result, "n_train": len(split.y_train)}


def _middle_first(values: Sequence[float]) -> list[float]:
    """From the geometric middle outwards: who runs out of time has not only seen one end.

    >>> _middle_first((0.05, 0.1, 0.5, 1.0, 2.5))
    [0.5, 1.0, 0.1, 0.05, 2.5]
    """
    middle = 0.5 * (math.log(min(values)) + math.log(max(values)))
    return sorted(values, key=lambda value: (round(abs(math.log(value) - middle), 9), value))  # the ends tie


def _candidate_of(told: dict[str, Any]) -> Candidate:
    return Candidate(told["length_scale"], told["variance"], told["nugget"])
