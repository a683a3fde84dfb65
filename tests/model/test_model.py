"""The core by itself: records and pure functions, without an estimator around them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import npvi
from npvi.graph import build_graph
from npvi.kernels import RBF, Matern32
from npvi.likelihoods import Gaussian, Poisson
from npvi.model import Interrupted, Spec, fit, inferring, latent_at, predict, predict_alone, spec_of, update
from npvi.model.inferring import ScaleWarning, _warn_about_scale
from npvi.priors import NNGP
from npvi.runtime import progress

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 10.0, size=(150, 2))
Y = RNG.poisson(np.exp(1.0 + np.sin(X[:, 0]))).astype(float)
NEW = RNG.uniform(0.0, 10.0, size=(20, 2))


def counts(**settings):
    return Spec(
        Matern32(2.0), Poisson(), np.arange(2), **{"nugget": 0.1, "learn": False, "n_neighbors": 10, **settings}
    )


def interrupted_at(stage, times):
    """Ctrl-C when a stage is reported for the so many-th time."""
    seen = []

    def report(name, numbers):
        seen.append(name)
        if name == stage and seen.count(stage) == times:
            raise KeyboardInterrupt

    return progress.reporting(report)


@pytest.mark.parametrize("method", ["full", "npvi"])
def test_a_row_alone_is_what_it_is_among_others(method):
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 10.0, size=(900, 2))  # more than are done densely
    y = rng.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
    spec = counts(method=method)
    fitted = fit(spec, X, spec.data(y, {}))
    together = predict(fitted, NEW)
    for i in range(len(NEW)):
        alone = predict(fitted, NEW[i : i + 1])
        assert alone.latent_mean[0] == pytest.approx(together.latent_mean[i], rel=1e-12)
        assert alone.latent_var[0] == pytest.approx(together.latent_var[i], rel=1e-12)


def test_fit_update_and_predict_are_what_the_estimator_does():
    spec = counts()
    fitted = fit(spec, X[:120], spec.data(Y[:120], {}))
    model = npvi.GPRegressor("poisson", Matern32(2.0), nugget=0.1, learn=False, n_neighbors=10)
    model.set_params(likelihood=Poisson()).fit(X[:120], Y[:120])
    assert fitted.elbo == pytest.approx(model.elbo_, rel=1e-12)
    np.testing.assert_allclose(predict(fitted, NEW).mean, model.predict(NEW), rtol=1e-12)
    before = predict(fitted, NEW).mean
    more = update(fitted, X[120:], spec.data(Y[120:], {}))
    model.update(X[120:], Y[120:])
    assert more.elbo == pytest.approx(model.elbo_, rel=1e-12)
    np.testing.assert_allclose(predict(more, NEW).mean, model.predict(NEW), rtol=1e-12)  # by other threads
    np.testing.assert_array_equal(predict(fitted, NEW).mean, before)  # what was updated is as it was
    assert update(fitted, X[:0], spec.data(Y[:0], {})) is fitted


def test_numbers_that_were_only_named_are_learned_from_the_data():
    spec = spec_of(npvi.GPRegressor("gaussian", "rbf").get_params(deep=False), Gaussian(), 2)
    assert spec.named == {"kernel", "likelihood"}
    fitted = fit(spec, X, spec.data(np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(150), {}))
    assert fitted.info["learning"]["evaluations"] > 5
    assert fitted.model.kernel.length_scale[1] > 2.0 * fitted.model.kernel.length_scale[0]
    assert sum(share for _, share in fitted.shares()) == pytest.approx(1.0)


def test_a_fit_that_is_interrupted_has_the_last_good_state():
    spec = counts()
    with pytest.raises(Interrupted, match="interrupted after 2 iterations") as stop, interrupted_at("iteration", 3):
        fit(spec, X, spec.data(Y, {}))
    left = stop.value.fitted
    assert left.info["interrupted"]
    assert np.isfinite(predict(left, NEW).mean).all()


def test_a_fit_that_is_interrupted_where_nothing_is_of_use_yet_leaves_nothing(monkeypatch):
    monkeypatch.setattr(inferring, "_wrong", lambda *_: "nothing to look at")
    spec = counts()
    with pytest.raises(KeyboardInterrupt, match="before it had a usable") as stop, interrupted_at("iteration", 2):
        fit(spec, X, spec.data(Y, {}))
    assert not isinstance(stop.value, Interrupted)


def test_an_update_that_is_interrupted_leaves_the_model_as_it_was():
    model = npvi.GPRegressor("poisson", learn=False, n_neighbors=10).fit(X, Y)
    before = model.fitted_
    with pytest.raises(KeyboardInterrupt, match="the model is as it was"), interrupted_at("iteration", 2):
        model.update(NEW, np.ones(20))
    assert model.fitted_ is before


def test_an_interrupt_beside_the_best_model_leaves_that():
    model = npvi.GPRegressor("poisson", hyper="integrate")
    with pytest.raises(KeyboardInterrupt), interrupted_at("hyper", 2):
        model.fit(X, Y)
    assert model.hyper_ is None
    assert model.fit_info_["converged"]
    assert model.fit_info_["learning"]["evaluations"] > 5
    assert np.isfinite(model.predict(NEW)).all()


def test_an_update_is_of_all_models_or_of_none(monkeypatch):
    model = npvi.GPRegressor("poisson", hyper="integrate").fit(X, Y)
    nodes = len(model.hyper_.models)
    assert nodes > 3
    before = model.predict(NEW)
    import npvi.model.updating as updating

    real, calls = updating.infer, []

    def failing(*given, **more):
        calls.append(1)
        if len(calls) == 3:
            raise MemoryError
        return real(*given, **more)

    with monkeypatch.context() as here:
        here.setattr(updating, "infer", failing)
        with pytest.raises(MemoryError):
            model.update(NEW, np.full(20, 3.0))
    assert model.graph_.n_points == 150
    np.testing.assert_array_equal(model.predict(NEW), before)
    model.update(NEW, np.full(20, 3.0))
    assert {node.graph_.n_points for node in (model, *model.hyper_.models)} == {170}


def test_models_beside_are_estimators_with_what_they_were_fitted_with():
    model = npvi.GPRegressor("poisson", hyper="integrate").fit(X, Y)
    for node, part in zip(model.hyper_.models, model.fitted_.hyper.models):
        assert node.kernel_ is part.model.kernel
        mean = predict_alone(part, NEW).mean
        np.testing.assert_array_equal(node.predict(NEW), mean)
        np.testing.assert_array_equal(latent_at(part, NEW).mean, node.predict_dist(NEW).latent_mean)
    assert model.companion_ is None or model.companion_.kernel_ is model.fitted_.companion.model.kernel


def test_a_companion_that_was_learned_is_an_estimator_at_its_own_numbers():
    model = npvi.GPRegressor("poisson", hyper="plug-in").fit(X, Y)
    spec = counts()
    model.fitted_ = replace(model.fitted_, companion=fit(spec, X, spec.data(Y, {})), companion_weight=0.25)
    companion = model.companion_
    assert (companion.learn, companion.nugget, companion.kernel) == (False, 0.1, spec.kernel)
    mixed = 0.75 * predict_alone(model.fitted_, NEW).mean + 0.25 * companion.predict(NEW)
    np.testing.assert_allclose(model.predict(NEW), mixed, rtol=1e-12)


def test_the_second_prediction_needs_not_look_at_all_rows():
    spec = counts()
    fitted = fit(spec, X, spec.data(Y, {}))
    first = latent_at(fitted, NEW[:1])
    fitted.basis[:], fitted.posterior.mean[:] = np.nan, np.nan  # what the residual was made from
    np.testing.assert_array_equal(latent_at(fitted, NEW[:1]).mean, first.mean)
    assert "residual" not in vars(pickle.loads(pickle.dumps(fitted)))


class Labelled(npvi.GPRegressor):
    """An estimator of a user's own, with a parameter more and most of them set."""

    def __init__(self, kernel="matern", label=""):
        super().__init__("poisson", kernel=kernel, learn=False, n_neighbors=7)
        self.label = label


def test_an_estimator_of_ones_own_has_the_settings_that_it_sets():
    model = Labelled(RBF(2.0), label="mine").fit(X, Y)
    assert (model.fitted_.spec.n_neighbors, model.fitted_.spec.learn) == (7, False)
    assert npvi.GPRegressor("poisson", RBF(2.0), learn=False, n_neighbors=7).fit(X, Y).elbo_ == model.elbo_


def test_a_constant_input_is_called_by_its_own_name():
    table = pd.DataFrame({"height": X[:, 0], "east": X[:, 1], "north": np.ones(150)})
    model = npvi.GPRegressor("poisson", RBF(2.0), learn=False, coords=["east", "north"])
    with pytest.warns(UserWarning, match="input column north is constant"):
        model.fit(table, Y)


def test_warnings_name_the_line_that_called():
    with pytest.warns(UserWarning, match="only 150 points") as told:
        npvi.GPRegressor("poisson", RBF(2.0), learn=False, n_neighbors=200).fit(X, Y)
    assert {one.filename for one in told} == {__file__}


@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
def test_kernels_whose_variances_have_no_product_may_be_flat(size):
    """Variances of 10⁻²⁰⁰ or 10²⁰⁰, of which a correlation is made."""
    kernel = RBF(1e5, size) * RBF(1e5, size)
    prior = NNGP(kernel, 1e-3 * size**2, X, build_graph(X, 5))
    with pytest.warns(ScaleWarning, match="makes all points equal"):
        _warn_about_scale(prior, np.random.default_rng(0))
