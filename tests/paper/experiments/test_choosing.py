"""Numbers of the prior chosen on validation rows, with fits and a clock that only pretend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npvi.datasets import Dataset
from npvi.paper.experiments import choosing
from npvi.paper.experiments.choosing import Candidate, Search, choose_all, choose_length_scale
from npvi.paper.experiments.methods import Fitted
from npvi.paper.experiments.plan import TINY
from npvi.paper.experiments.store import Cell


class Fits:
    """Each takes as long as `takes` says, or all it is given, and scores as `scores` says."""

    def __init__(self, scores, takes=lambda candidate: 1.0):
        self.scores, self.takes = scores, takes
        self.now, self.given = 100.0, {}

    def __call__(self, candidate, seconds):
        self.given[candidate] = seconds
        needed = self.takes(candidate)
        self.now += min(needed, seconds)
        score = self.scores(candidate)
        if isinstance(score, BaseException):
            raise score
        outcome = "finished" if needed <= seconds else "out of time"
        return Fitted(candidate, min(needed, seconds), outcome, [(min(needed, seconds), score)])

    def search(self, budget):
        return Search(self, budget, clock=lambda: self.now)


def scales(*values):
    return [Candidate(value, 1.0, 0.01) for value in values]


def test_the_best_candidate_is_chosen_and_only_it_is_tested():
    fits, tested = Fits(lambda candidate: abs(candidate.length_scale - 0.6)), []
    search = fits.search(budget=60.0)
    search.try_all(scales(1.0, 0.5, 0.1))
    result = search.result(lambda model: tested.append(model) or 3.0)
    assert [told["length_scale"] for told in result["candidates"]] == [0.1, 0.5, 1.0]
    assert result["chosen"] == 1
    assert tested == scales(0.5)
    assert (result["test"], result["seconds"], result["total_seconds"]) == (3.0, 1.0, 3.0)
    assert not result["out_of_time"]


def test_what_is_left_is_shared_by_those_that_are_left():
    fits = Fits(lambda candidate: 1.0, takes=lambda candidate: {0.1: 2.0, 0.5: 50.0, 1.0: 50.0}[candidate.length_scale])
    search = fits.search(budget=32.0)
    search.try_all(scales(0.1, 0.5, 1.0), later=1)
    # a quarter of 32; a third of the 30 that are left; half of the 20 that are left then
    assert list(fits.given.values()) == pytest.approx([8.0, 10.0, 10.0])
    assert search.out_of_time
    search.try_all(scales(2.0))
    assert fits.given[scales(2.0)[0]] == pytest.approx(10.0)


def test_no_fit_starts_after_the_budget_but_the_first():
    class Slow(Fits):
        def __call__(self, candidate, seconds):  # a closed form takes what it takes
            self.given[candidate] = seconds
            self.now += 40.0
            return Fitted(candidate, 40.0, "finished", [(40.0, self.scores(candidate))])

    fits = Slow(lambda candidate: candidate.length_scale)
    search = fits.search(budget=60.0)
    search.try_all(scales(0.5, 0.1, 1.0, 2.0))
    assert list(fits.given) == scales(0.5, 0.1)
    assert search.out_of_time
    assert search.best.candidate == scales(0.1)[0]
    fits.now += 1000.0
    late = Slow(lambda candidate: 1.0)
    search = late.search(budget=60.0)
    late.now += 61.0
    search.try_all(scales(0.5, 0.1))
    assert list(late.given) == scales(0.5)


def test_a_candidate_that_fails_doesnt_spoil_the_others():
    def score(candidate):
        bad = {0.1: np.linalg.LinAlgError("not positive definite"), 1.0: float("nan")}
        return bad.get(candidate.length_scale, 5.0)

    search = Fits(score).search(budget=60.0)
    search.try_all(scales(0.1, 0.5, 1.0))
    result = search.result(lambda model: 4.0)
    assert [told["validation"] for told in result["candidates"]] == [None, 5.0, None]
    assert result["candidates"][0]["outcome"] == "failed: LinAlgError: not positive definite"
    assert result["chosen"] == 1
    search = Fits(score).search(budget=60.0)
    search.try_all(scales(0.1))
    with pytest.raises(RuntimeError, match="no fit of 1 had a score; the first one: failed: LinAlgError"):
        search.result(lambda model: 4.0)


def test_an_interrupt_is_no_failure():
    search = Fits(lambda candidate: KeyboardInterrupt()).search(budget=60.0)
    with pytest.raises(KeyboardInterrupt):
        search.try_all(scales(0.1))


# -- cells ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cells(monkeypatch):
    """Both cells of a number, the plan, and what was fitted: scores are best at ℓ = 1, variance 5, nugget 0.5."""
    tried = []

    def fit_within(method, split, likelihood, kernel, nugget, size, seed, seconds):
        tried.append(Candidate(kernel.length_scale, kernel.variance, nugget))
        score = (np.log(kernel.length_scale) ** 2) + np.log(kernel.variance / 5.0) ** 2 + np.log(nugget / 0.5) ** 2
        return Fitted((method, size, seed), 0.25, "finished", [(0.25, float(score))])

    monkeypatch.setattr(choosing, "fit_within", fit_within)
    monkeypatch.setattr(choosing, "nlpd", lambda model, X, y: 7.0)
    X = np.random.default_rng(0).uniform(size=(150, 2))
    dataset = Dataset("rain", X, np.ones(150), ("a", "b"), "y", "lognormal", "")
    plan = replace(TINY, load=lambda name: dataset, length_scales=(0.5, 1.0), nugget_shares=(0.01, 0.1), budget=3600.0)
    paper = Cell("paper", "precipitation", "npvi", 5, 0, plan.table_settings)
    return paper, Cell("tuned", *list(vars(paper).values())[1:5], plan.tuned_settings), plan, tried


def test_the_first_table_varies_the_length_scale_alone(cells):
    paper, _, plan, tried = cells
    result = choose_length_scale(paper, plan)
    assert sorted(tried) == [(0.5, 1.0, 0.01), (1.0, 1.0, 0.01)]
    assert result["candidates"][result["chosen"]]["length_scale"] == 1.0
    assert (result["test"], result["n_train"], result["budget"]) == (7.0, 105, 3600.0)


def test_the_second_table_goes_on_from_the_first(cells):
    paper, tuned, plan, tried = cells
    first = choose_length_scale(paper, plan)
    tried.clear()
    result = choose_all(tuned, plan, first)
    # variances and nuggets at the best length scale, then the other length scale; nothing twice
    assert sorted(tried[:3]) == [(1.0, 1.0, 0.1), (1.0, 5.0, 0.05), (1.0, 5.0, 0.5)]
    assert tried[3:] == [(0.5, 5.0, 0.5)]
    assert len(result["candidates"]) == 6
    chosen = result["candidates"][result["chosen"]]
    assert (chosen["length_scale"], chosen["variance"], chosen["nugget"]) == (1.0, 5.0, 0.5)


def test_where_nothing_is_better_the_first_tables_number_stays(cells, monkeypatch):
    paper, tuned, plan, _ = cells
    first = {**choose_length_scale(paper, plan), "test": 1.5, "out_of_time": True}
    first["candidates"] = [{**told, "validation": -100.0 + told["length_scale"]} for told in first["candidates"]]
    first["chosen"] = 0
    result = choose_all(tuned, plan, first)
    assert result["test"] == 1.5  # not 7, which a new fit would have
    assert result["out_of_time"]  # the time of what it starts from was not enough
