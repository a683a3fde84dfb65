"""The comparison with other software: its forecasts, its bookkeeping, and each program on a few rows."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.beside import gpboost as beside_gpboost
from benchmarks.beside.peers.cases import CASES, Case
from benchmarks.beside.peers.child import measure
from benchmarks.beside.peers.forecasts import Mixture, RoundedLogNormal, latent_normal
from benchmarks.beside.peers.running import Store, run
from benchmarks.beside.peers.scoring import scores
from benchmarks.beside.peers.sides import SOFTWARE, make
from benchmarks.beside.peers.table import BEGIN, END, as_csv, as_markdown, between_markers, paired
from scipy import integrate, stats

#: what a program needs besides this package's own dependencies
EXTRA = {"gpboost": ("gpboost",), "svgp": ("torch", "gpytorch"), "vnngp": ("torch", "gpytorch", "faiss")}


# -- forecasts --------------------------------------------------------------------------------------------------------


def test_mixture_of_counts_is_what_scipy_says():
    centre, y = np.array([[0.5, 4.0], [2.0, 2.0]]), np.array([3.0, 0.0])
    parts = [stats.nbinom(2.0, 2.0 / (2.0 + column)) for column in centre.T]
    forecast = Mixture(True, centre, 2.0)
    np.testing.assert_allclose(forecast.log_prob(y), np.log(np.mean([part.pmf(y) for part in parts], axis=0)))
    np.testing.assert_allclose(forecast.cdf(y), np.mean([part.cdf(y) for part in parts], axis=0))
    draws = forecast.sample(4000, seed=0)
    np.testing.assert_allclose(draws.mean(axis=0), centre.mean(axis=1), rtol=0.1)
    assert draws.shape == (4000, 2)


def test_mixture_of_log_normals_is_what_scipy_says():
    centre, spread, y = np.array([[-1.0, 0.5, 0.7]]), np.array([[0.3], [0.3]])[:1], np.array([1.3])
    parts = [stats.lognorm(np.sqrt(0.3), scale=np.exp(c)) for c in centre[0]]
    forecast = Mixture(False, centre, spread)
    np.testing.assert_allclose(forecast.log_prob(y), np.log(np.mean([part.pdf(1.3) for part in parts])))
    np.testing.assert_allclose(forecast.cdf(y), np.mean([part.cdf(1.3) for part in parts]))
    np.testing.assert_allclose((forecast.sample(4000, seed=0) < 1.3).mean(), forecast.cdf(y), atol=0.03)


def test_rounded_log_normal_is_a_distribution_of_counts():
    mean, sd = 1.2, 0.6
    counts = np.arange(200.0)
    forecast = RoundedLogNormal(np.full(200, mean), np.full(200, sd))
    probability = np.exp(forecast.log_prob(counts))
    assert probability.sum() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(np.cumsum(probability), forecast.cdf(counts), rtol=1e-12)
    # as a density of log(1 + y), over what rounds to 3
    density = integrate.quad(lambda y: stats.norm(mean, sd).pdf(np.log1p(y)) / (1.0 + y), 2.5, 3.5)[0]
    assert probability[3] == pytest.approx(density, rel=1e-8)
    assert np.mean(forecast.sample(2000, seed=0) == 3.0) == pytest.approx(probability[3], abs=0.005)
    assert forecast.cdf(np.full(200, -1.0)).max() == 0.0


def test_far_tail_of_rounded_log_normal_is_finite():
    forecast = RoundedLogNormal(np.array([0.0, 9.0]), np.array([0.1, 0.1]))
    assert np.all(np.isfinite(forecast.log_prob(np.array([40.0, 0.0]))))


def test_latent_normal_with_log_normal_noise():
    mean, var, y = np.array([0.1, -0.4]), np.array([0.2, -1e-9]), np.array([0.7, 2.0])
    spread = np.sqrt(np.maximum(var, 0.0) + 0.05)
    expected = stats.lognorm(spread, scale=np.exp(mean)).logpdf(y)
    np.testing.assert_allclose(latent_normal("lognormal", mean, var, 0.05).log_prob(y), expected)


# -- programs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def positive():
    """A smooth surface under log-normal noise with a standard deviation of 0.3, and the NLPD of the truth."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(260, 2))
    f = np.sin(5.0 * X[:, 0]) + X[:, 1]
    y = np.exp(f + 0.3 * rng.standard_normal(260))
    truth = -stats.lognorm(0.3, scale=np.exp(f[200:])).logpdf(y[200:]).mean()
    blind = -stats.lognorm(np.log(y[:200]).std(), scale=np.exp(np.log(y[:200]).mean())).logpdf(y[200:]).mean()
    return {"X_train": X[:200], "y_train": y[:200], "X_test": X[200:], "y_test": y[200:]}, truth, blind


@pytest.mark.filterwarnings("ignore")  # of other people's programs
@pytest.mark.parametrize("software", [name for name in SOFTWARE if name != "npvi"])
def test_every_program_learns_something(software, positive):
    for package in EXTRA.get(software, ()):
        pytest.importorskip(package, reason=f"{software} needs {package}, of the bench extra")
    data, truth, blind = positive
    side = make(software, "lognormal", 1)
    side.points, side.batch, side.step = 25, 60, 0.1  # of the variational ones: enough for a surface this smooth
    model = side.fit(data["X_train"], data["y_train"], seconds=1000.0)
    found = scores(side.forecast(side.predict(model, data["X_test"])), data["y_test"])
    assert not side.stopped
    assert truth - 0.05 < found["nlpd"] < 0.5 * (truth + blind)
    assert 0.7 < found["coverage"] <= 1.0


def test_measuring(positive):
    data, truth, blind = positive
    found = measure(make("trees", "lognormal", 1), data, limit=1000.0, repeats=2)
    assert truth - 0.05 < found["nlpd"] < blind
    assert min(found["fit"], found["predict"], found["cpu"]) > 0.0
    assert found["peak_mb"] > 50.0
    assert not found["stopped"]


def test_gpboost_works_once_at_held_parameters(monkeypatch):
    asked = []

    class GPModel:
        def __init__(self, **settings):
            pass

        def __getattr__(self, name):
            return lambda **given: asked.append((name, given)) or {"mu": np.zeros(2), "var": np.ones(2)}

    module = "benchmarks.beside.peers.sides.vecchia"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "gpboost", SimpleNamespace(GPModel=GPModel))
    side, y = make("gpboost", "poisson", 1, exponential=(0.1, 2.0)), np.ones(5)
    found = side.predict(side.fit(np.zeros((5, 2)), y, 1.0), np.zeros((2, 2)))
    del sys.modules[module]  # which holds what isn't GPBoost
    ((name, given),) = asked
    assert name == "predict"
    np.testing.assert_array_equal(given["cov_pars"], [2.0, 0.1])
    assert given["y"] is y
    assert found["mean"].shape == (2,)


def test_ratios_to_gpboost_are_by_the_wall_and_by_cpu(monkeypatch, capsys):
    ours = {"outcome": "finished", "first": 1.0, "fit": 0.3, "predict": 0.2, "cpu": 0.5, "nlpd": 1.0}
    theirs = {**ours, "fit": 0.1, "predict": 4.9, "cpu": 10.0}
    kinds = {"npvi": ours, "cholesky": theirs, "iterative": {"outcome": "out of time"}}
    monkeypatch.setattr(beside_gpboost, "run", lambda case, *rest: kinds[case.options.get("route", "npvi")])
    beside_gpboost._fixed()
    _, header, _, *rows = capsys.readouterr().out.strip().splitlines()
    assert header.split()[-6:] == ["slower", "by", "by", "CPU", "compile", "s"]
    assert rows[0].split()[-3:] == ["1", "1", "0.5"]
    assert rows[1].split()[-2:] == ["10", "20"]
    assert rows[2].split()[-3:] == [">", "900", "1.8e+03"]


@pytest.mark.parametrize("software", ["knn", "trees", "subset"])
def test_counts(software):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    y = rng.poisson(np.exp(3.0 * X[:, 0])).astype(float)
    side = make(software, "negative_binomial", 1)
    forecast = side.forecast(side.predict(side.fit(X[:200], y[:200], 10.0), X[200:]))
    blind = RoundedLogNormal(np.full(100, np.log1p(y).mean()), np.full(100, np.log1p(y).std()))
    assert forecast.log_prob(y[200:]).mean() > blind.log_prob(y[200:]).mean() + 0.1


# -- bookkeeping ------------------------------------------------------------------------------------------------------


def figures(outcome="finished", limit=60.0, **numbers):
    """Results as a store returns them."""
    made = {"options": {}, "threads": 2, "code": "", "versions": {"peer": "1.0"}}
    return {"outcome": outcome, "limit": limit, "date": "2026-01-01", "made_with": made, **numbers}


OURS = {"fit": 2.0, "predict": 0.5, "peak_mb": 400.0, "nlpd": 1.0, "crps": 0.5, "coverage": 0.91}


def test_a_peer_that_wins_is_bold():
    found = [
        (Case("bird_counts", "npvi", "poisson"), figures(**OURS)),
        (Case("bird_counts", "npvi", "negative_binomial"), figures(**{**OURS, "nlpd": 0.9, "fit": 9.5})),
        (Case("bird_counts", "gpboost", "poisson"), figures(**{**OURS, "fit": 4.5, "nlpd": 0.95, "coverage": 0.88})),
        (
            Case("bird_counts", "knn", "lognormal"),
            figures(**{**OURS, "crps": 0.50001, "coverage": 0.893}),
        ),
    ]
    lines = as_markdown(paired(found), "heading", ["a note"]).splitlines()
    assert lines[4].startswith("| bird_counts | npvi | Poisson | 2 | 0.5 | 1 |")
    # beside ours with the same noise: slower by two, better by 0.05, further from 0.9
    assert lines[6] == "|  | GPBoost, Vecchia | Poisson | 4.5 | 0.5 | 2 | 400 | **0.9500** | 0.5 | 0.880 |"
    # no such noise: beside our best NLPD, a tenth slower than which it is not; a CRPS that reads the same is no win
    assert lines[7].endswith("| **2** | 0.5 | **0.25** | 400 | 1.0000 | 0.5 | **0.893** |")
    assert lines[-1] == "* a note"


def test_unfinished_runs_say_so():
    found = [
        (Case("nightlight", "npvi", "lognormal"), figures(**OURS)),
        (Case("nightlight", "gpboost", "lognormal"), figures("out of time")),
        (Case("nightlight", "svgp", "lognormal"), figures("stopped", **{**OURS, "fit": 54.0, "nlpd": 0.5})),
        (Case("nightlight", "vnngp", "lognormal"), figures("failed", reason="No module named 'faiss'")),
    ]
    rows = paired(found)
    text = as_markdown(rows, "heading", [])
    assert "| GPBoost, Vecchia | log-normal | > 60 |  | > 24 |  |  |  |  |" in text
    assert "| > 54 | 0.5 | > 22 | 400 | **0.5000** |" in text
    assert "| GPyTorch, VNNGP | log-normal | failed |" in text
    assert "VNNGP, nightlight, log-normal: failed, No module named 'faiss'" in text
    table = as_csv(rows).splitlines()
    assert table[0].startswith("data,software,noise,outcome,fit,predict,ratio,")
    assert len(table) == 5


def test_only_the_part_between_the_markers_changes():
    once = between_markers("# Results\n\nNotes\n", "first\n")
    assert once == f"# Results\n\nNotes\n\n{BEGIN}\nfirst\n{END}\n"
    again = between_markers(once + "after\n", "second\n")
    assert again == f"# Results\n\nNotes\n\n{BEGIN}\nsecond\n{END}\nafter\n"
    with pytest.raises(ValueError, match="put them right"):
        between_markers(f"{END} {BEGIN}", "x")


def test_store_keeps_what_need_not_run_again(tmp_path):
    store, case = Store(tmp_path / "peers"), Case("bird_counts", "knn", "negative_binomial")
    assert store.get(case) is None
    assert not store.holds(case, 10.0)
    store.put(case, {"outcome": "finished", "nlpd": 1.0}, 10.0)
    assert store.holds(case, 1000.0)
    assert not store.holds(Case(case.data, case.software, case.noise, {"smoothness": 0.5}), 10.0)
    for outcome, limit, holds in [("out of time", 10.0, True), ("stopped", 20.0, False), ("failed", 5.0, False)]:
        store.put(case, {"outcome": outcome}, 10.0)
        assert store.holds(case, limit) == holds
    (tmp_path / "peers" / f"{case.name}.json").write_text("{")
    with pytest.raises(ValueError, match="is not a result of this benchmark"):
        store.get(case)


def test_runs_end_in_time_or_say_why_not(tmp_path, monkeypatch, positive):
    (tmp_path / "benchmarks").mkdir()
    np.savez(tmp_path / "benchmarks" / "tiny.npz", **positive[0])
    monkeypatch.setenv("NPVI_DATA", str(tmp_path))
    assert run(Case("tiny", "knn", "lognormal"), limit=1e-4) == {"outcome": "out of time"}
    found = run(Case("absent", "knn", "lognormal"), limit=1.0)
    assert found["outcome"] == "failed"
    assert found["reason"] == "no data set 'absent' under the folder that NPVI_DATA names"


def test_each_case_is_stored_under_its_own_name():
    assert len({case.name for case in CASES}) == len(CASES)
