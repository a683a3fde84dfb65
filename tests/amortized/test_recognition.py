"""Networks against the optimum that they should recognise, and what happens when they can't."""

from __future__ import annotations

import base64
import io
import json
import warnings
from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import npvi
from npvi.amortized.api import FAMILIES, simulate
from npvi.amortized.dense import pieces_by_dense_solves
from npvi.amortized.fitting import examples, train_recognizer
from npvi.amortized.guess import FEATURES, guess
from npvi.amortized.local import pieces_by_sparse_solves, recognise_locally
from npvi.amortized.patches import make_patches
from npvi.amortized.recognition import Whole, recognise
from npvi.amortized.recognizer import RECOGNIZER, Recognizer, RecognizerError, pretrained
from npvi.components import Coefficients, Process, Stack
from npvi.graph import build_graph
from npvi.inference import Data, SparseFactors, fit_posterior
from npvi.kernels import RBF, Matern32
from npvi.likelihoods import Bernoulli, Gamma, Gaussian, Laplace, LogNormal, NegativeBinomial, Poisson, StudentT
from npvi.priors import NNGP
from npvi.runtime.archive import read_archive
from tests.support import oracle


def problem(n=800, likelihood=None, seed=0, scale=1.0, constant=False):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2)) * scale
    kernel = Matern32(0.3 * scale, 2.0)
    graph = build_graph(X, 8, order="random", seed=seed)
    prior = NNGP(kernel, 0.2, X[graph.order], graph)
    f = prior.root.solve(rng.standard_normal(n)) + (1.0 if constant else 0.0)
    likelihood = likelihood or Poisson()
    basis = np.ones((n, 1)) if constant else np.zeros((n, 0))
    return Data(likelihood, likelihood.sample(rng, f)), Stack(Process(prior), Coefficients(basis))


def optimum(data, stack):
    return fit_posterior(SparseFactors(stack.prior), data, stack)


@pytest.fixture(scope="module")
def trained():
    """A recognizer for Poisson counts, trained on one data set."""
    return train_recognizer(Poisson(), [examples(*problem(seed=5), 2)], n_inputs=2, rounds=2, epochs=60)


def gap(best, fit, n):
    return (best.elbo - fit.elbo) / n


@pytest.mark.parametrize("constant", [False, True])
def test_recognises_data_it_never_saw(trained, constant):
    data, stack = problem(seed=1, constant=constant)
    best = optimum(data, stack)
    fit = recognise(trained, data, stack)
    assert -1e-9 < gap(best, fit, 800) < 5e-3
    refined = recognise(trained, data, stack, refine=1)
    assert gap(best, refined, 800) < min(1e-4, gap(best, fit, 800))
    assert fit.info["applicability"]["verdict"] == "trust"
    # the exact ELBO of (μ, L), by dense matrices
    prior, posterior = stack.prior, fit.posterior
    L, P = posterior.factor.to_scipy().toarray(), prior.block(np.arange(800))
    H = stack.linear.basis
    residual = posterior.mean - H @ fit.trend.coefficients
    value = data.expectations(posterior.mean, fit.variance).value.sum() + np.log(np.diag(L)).sum() + 400.0
    value -= 0.5 * (np.trace(P @ L @ L.T) + residual @ P @ residual + prior.logdet)
    value += oracle.what_coefficients_add(P, H, stack.linear.precision, fit.trend)
    assert_allclose(fit.elbo, value, rtol=1e-8)


def test_the_network_matters(trained):
    """Without corrections the guess is several times further from the optimum."""
    data, stack = problem(seed=2)
    best = optimum(data, stack)
    layers = [*trained.layers[:-1], (0 * trained.layers[-1][0], 0 * trained.layers[-1][1])]
    silent = Recognizer(**{**vars(trained), "layers": layers})
    assert gap(best, recognise(silent, data, stack), 800) > 3 * gap(best, recognise(trained, data, stack), 800)


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), LogNormal(0.05)], ids=["gaussian", "lognormal"])
@pytest.mark.parametrize("solve", ["cg", "local"])
def test_exact_sites_need_no_network(likelihood, solve):
    data, stack = problem(likelihood=likelihood)
    best = optimum(data, stack)
    fit = recognise(None, data, stack) if solve == "cg" else recognise_locally(None, data, stack)
    assert_allclose(fit.elbo, best.elbo, rtol=1e-6)
    assert_allclose(fit.posterior.mean, best.posterior.mean, atol=1e-3)


def test_features_have_no_units():
    """Other units of the inputs and of f change nothing that a network sees."""
    one, other = (
        guess(Whole(*problem(300, StudentT(df=4.0, scale=0.5), scale=scale)), 2).features for scale in (1.0, 1000.0)
    )
    assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    data, stack = problem(300, StudentT(df=4.0, scale=0.5))
    prior = stack.prior
    wide = NNGP(prior.kernel.replace(variance=2.0 * 49.0), 0.2 * 49.0, prior.X, prior.graph)
    scaled = Data(StudentT(df=4.0, scale=3.5), 7.0 * data.y)
    features = guess(Whole(scaled, Stack(Process(wide), Coefficients(stack.linear.basis))), 2).features
    assert_allclose(features[:, 1:], guess(Whole(data, stack), 2).features[:, 1:], rtol=1e-4, atol=1e-4)
    assert features.shape == (300, len(FEATURES))


@pytest.mark.parametrize("rounds", [0, 3])
def test_any_number_of_rounds(rounds):
    data, stack = problem(400, Bernoulli())
    recognizer = train_recognizer(Bernoulli(), [examples(data, stack, rounds)], n_inputs=2, rounds=rounds)
    fit = recognise(recognizer, data, stack)
    assert gap(optimum(data, stack), fit, 400) < 5e-3
    assert fit.info["solves"] == rounds + 1


def test_pieces_cover_all_points_once():
    _, stack = problem(500)
    graph = stack.prior.graph
    patches = make_patches(stack.prior.X, graph, core=40, halo=80)
    own = patches.members[patches.core]
    assert sorted(own) == list(range(500))
    for members, parents in zip(patches.members, patches.parents):
        members = members[members >= 0]
        assert (np.diff(members) > 0).all()
        for q, i in enumerate(members):
            for slot, j in enumerate(graph.parents[i]):
                local = parents[q, slot]
                assert (local >= 0) == (j in members and j >= 0)
                if local >= 0:
                    assert members[local] == j


def test_pieces_agree_with_all_points_together(trained):
    data, stack = problem(seed=3, constant=False)
    best, together = optimum(data, stack), recognise(trained, data, stack)
    whole = recognise_locally(trained, data, stack, core=800, halo=0)
    assert_allclose(whole.posterior.mean, together.posterior.mean, atol=1e-6)
    assert_allclose(whole.posterior.factor.edges, together.posterior.factor.edges, atol=1e-8)
    assert_allclose(whole.elbo, together.elbo, rtol=1e-9)
    small = recognise_locally(trained, data, stack, core=100, halo=200)
    assert gap(best, small, 800) < 0.02
    assert gap(best, recognise_locally(trained, data, stack, refine=1, core=100, halo=200), 800) < 1e-3


def test_dense_patches_agree_with_sparse_ones(trained, monkeypatch):
    """The route for GPUs, op by op: on a CPU its compiled program may not end."""
    monkeypatch.setattr("npvi.amortized.recognition._TOLERANCE", 1e-12)
    monkeypatch.setattr("npvi.amortized.dense._SLICE", 2)  # the second is the same patch again
    data, stack = problem(12, seed=4)
    layout = make_patches(stack.prior.X, stack.prior.graph, core=12, halo=0)
    sparse = pieces_by_sparse_solves(trained, data, stack, layout)
    with jax.disable_jit():
        dense = pieces_by_dense_solves(trained, data, stack, layout)
    assert_allclose(dense.mean, sparse.mean, atol=1e-5)
    assert_allclose(dense.diagonal, sparse.diagonal, rtol=1e-5)
    assert_allclose(dense.edges, sparse.edges, atol=1e-5)


# -- estimators --------------------------------------------------------------------------------------------------------


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, rng.poisson(np.exp(np.sin(6 * X[:, 0]) + X[:, 1])).astype(float)


def model(**settings):
    return npvi.GPRegressor(
        "poisson", kernel=Matern32(0.3, 1.0), nugget=0.4, learn=False, n_neighbors=8, method="npvi-nn", **settings
    )


@pytest.mark.parametrize("solve", ["cg", "local"])
def test_default_network_through_the_estimator(solve):
    X, y = table()
    fitted = model(solve=solve).fit(X, y)
    best = clone(fitted).set_params(method="npvi").fit(X, y)
    assert (best.elbo_ - fitted.elbo_) / len(y) < 0.01
    assert_allclose(fitted.predict(X[:20]), best.predict(X[:20]), rtol=0.03)
    assert fitted.recognizer_.likelihood == "Poisson"
    assert {"points_per_second", "applicability", "seconds_of_training"} <= set(fitted.fit_info_)
    again = model(solve=solve).fit(X, y)
    assert_allclose(again.predict(X[:5]), fitted.predict(X[:5]), rtol=1e-12)


def test_a_recognizer_is_reused_saved_and_loaded(tmp_path):
    X, y = table()
    recognizer = npvi.fit_network(model(), X, y, steps=100)
    recognizer.save(tmp_path / "network.npvi")
    loaded = Recognizer.load(tmp_path / "network.npvi")
    assert (tmp_path / "network.npvi").stat().st_size < 100_000
    other = table(seed=1)
    first, second = (model(network=one).fit(*other) for one in (recognizer, loaded))
    assert_allclose(first.predict(X[:9]), second.predict(X[:9]), rtol=1e-6)
    best = model().set_params(method="npvi").fit(*other)
    assert (best.elbo_ - first.elbo_) / len(y) < 0.01
    first.update(X[:10], y[:10])
    assert len(first.posterior_.mean) == 610
    first.save(tmp_path / "model.npvi")
    assert_allclose(npvi.load(tmp_path / "model.npvi").predict(X[:3]), first.predict(X[:3]))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_pretrained_networks_on_data_they_never_saw(family):
    """Simulations with other seeds than those of training."""
    recognizer = pretrained(FAMILIES[family](np.random.default_rng(0)))
    gaps, refined = [], []
    for seed in range(10_000_019, 10_000_023):
        one = simulate(family, seed, 300)
        best = optimum(one.data, one.stack)
        gaps.append(gap(best, recognise(recognizer, one.data, one.stack), 300))
        refined.append(gap(best, recognise(recognizer, one.data, one.stack, refine=1), 300))
    assert np.median(gaps) < 0.01
    assert np.median(refined) < 1e-3


def test_applicability_tells_bad_from_good(trained):
    data, stack = problem(seed=6)
    good = recognise(trained, data, stack)
    wrong = [(30.0 * weights, biases + 1.0) for weights, biases in trained.layers]
    bad = recognise(Recognizer(**{**vars(trained), "layers": wrong}), data, stack)
    assert good.info["applicability"]["verdict"] == "trust"
    assert bad.info["applicability"]["verdict"] in ("refine", "retrain")
    X, y = table()
    with pytest.warns(UserWarning, match=r"means up to .* standard deviations off.*: (finish it with|train a network)"):
        model(network=Recognizer(**{**vars(trained), "layers": wrong})).fit(X, y)
    far = Stack(Process(NNGP(RBF(3.0, 1e4), 1e3, stack.prior.X, stack.prior.graph)), Coefficients(stack.linear.basis))
    assert recognise(trained, data, far).info["applicability"]["outside"] > 0.5


def test_compared_with_the_optimum(tmp_path):
    X, y = table(300)
    fitted = model(network="pretrained").fit(X, y)
    found = npvi.networks.compare_with_optimum(fitted)
    best = clone(fitted).set_params(method="npvi").fit(X, y)
    assert_allclose(found["elbo"], best.elbo_, rtol=1e-9)
    assert_allclose(found["gap"], (best.elbo_ - fitted.elbo_) / 300, atol=1e-9)
    assert 0 <= found["gap_of_mean"] < 0.01
    assert 0 <= found["gap_of_factor"] < 0.01
    assert 0.9 < found["variance_ratio"] < 1.1
    assert fitted.fit_info_["optimum"] == found
    curve = npvi.networks.training_curve(model(), X, y, steps=(2, 40), path=tmp_path / "curve.png")
    assert curve["gap"].iloc[-1] < 0.01
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="needs no network"):
        npvi.networks.training_curve(model().set_params(likelihood="gaussian"), X, y)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"network": "big"}, "network must be one of"),
        ({"network": 3}, "network must be one of"),
        ({"solve": "direct"}, "solve must be"),
        ({"refine": 4}, "refine must be"),
        ({"network": npvi.networks.SiteNetwork(rounds=-1)}, "rounds must be"),
        ({"network": npvi.networks.SiteNetwork(points=1)}, "points must be"),
        ({"network": npvi.networks.SiteNetwork(learning_rate=0.0)}, "learning_rate must be"),
        ({"prior": "fitc"}, "nngp"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ValueError, match=words):
        model(**settings).fit(*table(50))


def test_a_recognizer_of_something_else(trained):
    X, y = table(60)
    for likelihood, words in ((NegativeBinomial(), "trained for Poisson"), (Poisson(link="softplus"), "link='exp'")):
        with pytest.raises(RecognizerError, match=words):
            model(network=trained).set_params(likelihood=likelihood).fit(X, y)
    with pytest.raises(RecognizerError, match="2 inputs, the model has 1"):
        model(network=trained).fit(X[:, :1], y)
    with pytest.raises(RecognizerError, match="none for the likelihood Laplace"):
        model(network="pretrained").set_params(likelihood="laplace").fit(X, y)
    with pytest.raises(ValueError, match="needs no network"):
        npvi.fit_network(model().set_params(likelihood="gaussian"), X, y)
    with pytest.raises(ValueError, match="three labels or more"):
        npvi.GPClassifier(method="npvi-nn", learn=False).fit(X, np.arange(60) % 3)


def test_a_folder_is_no_recognizer(tmp_path):
    with pytest.raises(RecognizerError, match="is a folder, and a recognizer is a file"):
        Recognizer.load(tmp_path)


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_noise_with_a_kink(scale):
    """Where f is next to y, a kink says all there is to say of f: examples begin as far from it as the noise is."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(60, 2))
    y = np.sin(6.0 * X).sum(axis=1) + rng.laplace(0.0, scale, 60)
    settings = {"likelihood": Laplace(scale), "kernel": Matern32(0.3), "nugget": 0.05, "learn": False}
    found = npvi.GPRegressor(method="npvi-nn", **settings).fit(X, y).fit_info_["applicability"]
    assert found["verdict"] == "trust"


def test_files_from_before_there_were_archives(trained, tmp_path):
    trained.save(tmp_path / "network.npvi")
    with open(tmp_path / "network.npvi", "rb") as file:
        about, arrays = read_archive(file, RECOGNIZER)
    old = io.BytesIO()
    np.savez(old, about=np.array(json.dumps({"format": "npvi recognizer 1", **about})), **arrays)
    (tmp_path / "network.npz").write_bytes(old.getvalue())
    in_a_model = Recognizer.from_text(base64.b64encode(old.getvalue()).decode())
    for found in (Recognizer.load(tmp_path / "network.npz"), in_a_model):
        assert found.to_text() == trained.to_text()


def test_broken_files(trained, tmp_path, monkeypatch):
    path = tmp_path / "network.npvi"
    with pytest.raises(RecognizerError, match="no such file"):
        Recognizer.load(path)
    trained.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecognizerError, match=r"is cut off: .*Copy or save it again"):
        Recognizer.load(path)
    with monkeypatch.context() as later:
        later.setattr("npvi.amortized.recognizer.RECOGNIZER", replace(RECOGNIZER, version=9))
        trained.save(path)
    with pytest.raises(RecognizerError, match=r"newer npvi \(format 9\); this version reads format 2"):
        Recognizer.load(path)
    Recognizer(**{**vars(trained), "layers": [(np.full((12, 2), np.nan), np.zeros(2))]}).save(path)
    with pytest.raises(RecognizerError, match="aren't finite"):
        Recognizer.load(path)
    Recognizer(**{**vars(trained), "layers": [(np.zeros((3, 2)), np.zeros(2))]}).save(path)
    with pytest.raises(RecognizerError, match="don't fit together"):
        Recognizer.load(path)
    Recognizer(**{**vars(trained), "low": trained.high + 1.0}).save(path)
    with pytest.raises(RecognizerError, match=r"network\.npvi: .* low is higher"):
        Recognizer.load(path)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_points(n):
    X, y = table(n)
    y = y + 1.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_neighbors is|the recognised posterior")
        for settings in ({"solve": "local", "network": "pretrained"}, {"network": "sites" if n == 5 else "pretrained"}):
            assert np.isfinite(model(**settings).fit(X, y).predict(X)).all()


# -- streaming ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def counts():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 2))
    exposure = rng.uniform(0.5, 2.0, 4000)
    y = rng.poisson(exposure * np.exp(np.sin(6 * X[:, 0])))
    return pd.DataFrame({"lon": X[:, 0], "lat": X[:, 1], "count": y.astype(float), "hours": exposure})


def test_streaming_agrees_with_all_in_memory(counts, tmp_path, trained):
    path = tmp_path / "counts.parquet"
    counts.to_parquet(path)
    settings = {
        "kernel": Matern32(0.2, 1.0),
        "nugget": 0.05,
        "likelihood": "poisson",
        "network": trained,
        "exposure": "hours",
        "tile": 1000,
    }
    parts = list(npvi.stream_posterior(path, "count", ["lon", "lat"], **settings))
    assert max(map(len, parts)) < 1500
    found = pd.concat(parts).sort_values("row")
    assert found["row"].tolist() == list(range(4000))
    keys = np.random.default_rng(0)
    keys.random(4000)  # those that choose the sample
    order = np.argsort(keys.random(4000))
    whole = npvi.GPRegressor(
        "poisson",
        kernel=settings["kernel"],
        nugget=0.05,
        learn=False,
        mean="zero",
        method="npvi",
        n_neighbors=10,
        order=order,
    ).fit(counts[["lon", "lat"]].to_numpy(), counts["count"], exposure=counts["hours"])
    mean, variance = np.empty(4000), np.empty(4000)
    mean[whole.graph_.order], variance[whole.graph_.order] = whole.posterior_.mean, whole.posterior_.variance
    off = np.abs(found["mean"].to_numpy() - mean) / np.sqrt(variance)
    assert np.quantile(off, 0.99) < 0.2
    assert_allclose(np.log(found["variance"].to_numpy() / variance), 0.0, atol=0.3)
    # from a generator, the same
    pieces = (counts.iloc[k : k + 500] for k in range(0, 4000, 500))
    again = pd.concat(npvi.stream_posterior(pieces, "count", ["lon", "lat"], **settings)).sort_values("row")
    assert np.quantile(np.abs(again["mean"].to_numpy() - mean) / np.sqrt(variance), 0.99) < 0.2


def test_streaming_bad_input(counts, tmp_path):
    settings = {"kernel": Matern32(0.2), "nugget": 0.05, "likelihood": "poisson", "tile": 1000}

    def run(source, target="count", inputs=("lon", "lat"), **more):
        return list(npvi.stream_posterior(source, target, list(inputs), **{**settings, **more}))

    with pytest.raises(ValueError, match="no column birds"):
        run([counts], target="birds")
    (tmp_path / "no.parquet").write_text("lon,lat")
    with pytest.raises(ValueError, match="can't be read as a Parquet file"):
        run(tmp_path / "no.parquet")
    with pytest.raises(ValueError, match="tile must have"):
        run([counts], tile=50)
    with pytest.raises(ValueError, match="row 7"):
        run([counts.assign(lon=counts["lon"].where(counts.index != 7))])
    with pytest.raises(ValueError, match="count"):
        run([counts.assign(count=-1.0)])
    with pytest.raises(ValueError, match="no tables"):
        run([])
    with pytest.raises(ValueError, match="network must be"):
        run([counts], network="gcn")
    with pytest.raises(RecognizerError, match="trained for"):
        run([counts], network=pretrained(Gamma()))


def test_what_a_recognizer_is_not_kept_in(trained):
    for path in (3, np.nan, np.array(1.0)):
        with pytest.raises(TypeError, match="path must be text or a path"):
            trained.save(path)
    for text in ("", np.empty((0, 2)), "nonsense"):
        with pytest.raises(RecognizerError, match="text"):
            Recognizer.from_text(text)


def test_pretrained_networks_by_name():
    assert repr(npvi.amortized.pretrained("poisson")) == repr(npvi.amortized.pretrained(Poisson()))
    with pytest.raises(TypeError, match="expected a likelihood"):
        npvi.amortized.pretrained(0)
