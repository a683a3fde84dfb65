"""The three methods as estimators: what they refuse, where they stop, what they tell."""

from __future__ import annotations

import pickle
import re

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from npvi.kernels import RBF
from npvi.likelihoods import Poisson
from npvi.paper.rivals import DGP, SAVIGP, SVGP
from npvi.paper.rivals.stochastic import Schedule, train_within
from npvi.paper.rivals.task import Clock, choose_points
from npvi.priors import NotPositiveDefiniteError
from npvi.runtime import progress
from npvi.runtime.training import TrainingStopped

METHODS = [SVGP, SAVIGP, DGP]
RNG = np.random.default_rng(6)
X = RNG.uniform(0.0, 6.0, (24, 2))
Y = RNG.poisson(np.exp(1.0 + np.sin(X[:, 0]))).astype(float)
TRAINED, HELD_OUT = slice(0, 16), slice(16, 24)


def small(**settings):
    """A model that fits in no time, once its functions are compiled."""
    return SAVIGP(**{"likelihood": "poisson", "n_inducing": 5, "samples": 8, "epochs": 20, **settings})


@pytest.fixture(scope="module")
def fitted():
    return small().fit(X, Y)


def test_stops_when_the_budget_is_spent():
    model = SAVIGP("poisson", n_inducing=100, epochs=10**6, budget=1e-3)
    with pytest.warns(UserWarning, match="n_inducing is 100 but there are only 24 rows: using all of them"):
        model.fit(X, Y)
    info = model.fit_info_
    assert info["outcome"] == "out of time"
    assert info["epochs"] < 10**3
    assert info["total_seconds"] > 1e-3
    assert info["trace"] == []
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(("budget", "outcome", "rounds"), [(1e-9, "out of time", 1), (None, "finished", 3)])
def test_training_stops_when_the_budget_is_spent(budget, outcome, rounds, capsys):
    schedule, told = Schedule(n=30, batch_size=10, epochs=100), {"optimizer": "sgd", "learning_rate": 1e-3}
    with progress.reporting(progress.print_progress):
        trained, info = train_within(
            Clock(budget),
            schedule,
            lambda mean, rows, key, data: jnp.sum((data[rows] - mean) ** 2),
            np.float32(0.0),
            schedule.rows(),
            np.ones(30, dtype=np.float32),
            seed=0,
            evaluate=None,
            patience=None,
            **told,
        )
    assert info["outcome"] == outcome
    assert info["epochs"] == pytest.approx(100 * rounds / 3, abs=1)
    assert len(info["elbo"]) == len(info["seconds"]) == rounds
    assert 0.0 < float(trained.parameters) < 1.0
    assert re.search(r"npvi: train .*elbo -\d", capsys.readouterr().err)


@pytest.mark.parametrize("method", [SVGP, SAVIGP])
def test_rows_held_out_choose_the_parameters(method):
    model = method("poisson", n_inducing=5, epochs=10**5, patience=2)
    model.fit(X[TRAINED], Y[TRAINED], X_val=X[HELD_OUT], y_val=Y[HELD_OUT])
    seconds, losses = np.array(model.fit_info_["trace"]).T
    assert model.fit_info_["outcome"] == "stopped early"
    assert len(losses) == np.argmin(losses) + 3  # two more after the best
    assert np.all(np.diff(seconds) > 0.0)
    assert -model.log_score(X[HELD_OUT], Y[HELD_OUT]) == pytest.approx(losses.min())
    assert losses.min() < losses[-1]


BAD = {
    "mean": ("linear", "mean must be one of 'zero', 'constant'; got 'linear'"),
    "inducing": ("grid", "inducing must be one of 'random', 'kmeans'; got 'grid'"),
    "n_inducing": (0, "n_inducing must be a whole number of at least 1, got 0"),
    "batch_size": (1.5, "batch_size must be a whole number of at least 1, got 1.5"),
    "epochs": (True, "epochs must be a whole number of at least 1, got True"),
    "nugget": (-1.0, "nugget must be a finite number that isn't negative, got -1.0"),
    "budget": (0, "budget must be a positive number of seconds, or None, got 0"),
    "patience": (0, "patience must be a whole number of at least 1, got 0"),
    "kernel": ("rbff", "no kernel is named 'rbff'"),
    "likelihood": ("normal", "no likelihood is named 'normal'"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BAD)
def test_settings_that_are_not_allowed(method, name):
    value, message = BAD[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        method(**{name: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SVGP(optimizer="newton"), "optimizer must be one of 'adagrad', 'adam'"),
        (DGP(learning_rate="fast"), "learning_rate must be a positive number of at most 1e6, got 'fast'"),
        (DGP(learning_rate=-1.0), "learning_rate must be a positive number of at most 1e6, got -1.0"),
        (SVGP(learning_rate=10**400), "learning_rate must be a positive number of at most 1e6"),
        (SVGP(optimizer=np.ones(2)), "optimizer must be one of 'adagrad'"),
        (SVGP(random_state=1j), "random_state must be None, a whole number"),
        (SVGP(verbose="yes"), "verbose must be True or False, got 'yes'"),
        (SVGP(mean=np.ones(2)), "mean must be one of 'zero', 'constant'"),
        (DGP(n_covariance=0), "n_covariance must be a whole number of at least 1, got 0"),
        (SAVIGP(components=0), "components must be a whole number of at least 1, got 0"),
        (SAVIGP(samples=9), "samples must be an even number, got 9"),
        (SAVIGP(samples=4), "samples must be a whole number of at least 8, got 4"),
        (SVGP(learn="grid"), "learn must be True or False, got 'grid'"),
        (SVGP(learn_inducing=1.0), "learn_inducing must be True or False, got 1.0"),
        (SVGP(patience=3), "patience is about rows held out: give X_val and y_val as well"),
        (SVGP(kernel=RBF([1.0, 1.0, 1.0])), "length_scale has 3 values, but the kernel sees 2 inputs"),
    ],
)
def test_more_settings_that_are_not_allowed(model, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(X, Y)


@pytest.mark.parametrize("method", METHODS)
def test_whole_numbers_of_eight_bits(method):
    """Products of them would go round at 128: batches of the rows, and weights of the points."""
    eight = np.int8(8)
    sizes = {"n_inducing": eight, "epochs": eight, "batch_size": eight, "patience": None}
    sizes |= {"n_covariance": eight} if method is DGP else {}
    sizes |= {"samples": np.int8(96), "components": np.int8(2)} if method is SAVIGP else {}
    plain = {name: None if size is None else int(size) for name, size in sizes.items()}
    found, known = (method("poisson", **settings).fit(X, Y).predict(X) for settings in (sizes, plain))
    np.testing.assert_array_equal(found, known)


@pytest.mark.parametrize("method", METHODS)
def test_data_that_is_not_allowed(method):
    holes, gaps = X.copy(), Y.copy()
    holes[3, 1], gaps[5] = np.nan, np.nan
    with pytest.raises(ValueError, match="Input X contains NaN or infinity in 1 of 24 rows"):
        method("poisson").fit(holes, Y)
    with pytest.raises(ValueError, match="Input y contains NaN or infinity in 1 of 24 rows"):
        method("poisson").fit(X, gaps)
    with pytest.raises(ValueError, match="rows cannot be Poisson"):
        method("poisson").fit(X, -1.0 - Y)
    with pytest.raises(ValueError, match="Gaussian takes no exposure"):
        method().fit(X, Y, exposure=np.ones(24))
    with pytest.raises(NotFittedError):
        method().predict(X)


def test_rows_held_out_that_are_not_allowed():
    with pytest.raises(ValueError, match="X_val and y_val go together"):
        small().fit(X, Y, X_val=X)
    with pytest.raises(ValueError, match="y_val must have one number per row of X_val, 24 in all"):
        small().fit(X, Y, X_val=X, y_val=Y[:3])
    with pytest.raises(ValueError, match="y_val: 1 of 24 rows cannot be Poisson"):
        small().fit(X, Y, X_val=X, y_val=np.where(np.arange(24) == 2, -1.0, Y))
    with pytest.raises(ValueError, match="extras_val must have what there is per row of X"):
        small().fit(X, Y, exposure=np.ones(24), X_val=X, y_val=Y)
    with pytest.raises(ValueError, match="extras_val is about rows held out"):
        small().fit(X, Y, extras_val={"exposure": np.ones(24)})


def test_kernel_that_is_not_positive_definite():
    with pytest.raises(NotPositiveDefiniteError, match="give a larger nugget, or fewer inducing points"):
        small(kernel=lambda x, z: -((x[0] - z[0]) ** 2) - 1.0).fit(X, Y)


def test_a_bound_that_is_not_finite(fitted):
    with pytest.warns(TrainingStopped, match="not finite where the fit starts"):
        model = small(kernel=RBF(1.0, variance=1e6)).fit(X, Y)
    assert model.fit_info_["outcome"] == "not finite"


def test_same_seed_same_answer(fitted):
    again, other = small().fit(X, Y), small(random_state=1).fit(X, Y)
    assert np.array_equal(again.predict(X), fitted.predict(X))
    assert not np.array_equal(other.posterior_.inducing.points.rows, fitted.posterior_.inducing.points.rows)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))


@pytest.mark.parametrize("method", METHODS)
def test_is_an_estimator_of_scikit_learn(method):
    model = method(Poisson("softplus"), kernel=RBF(0.7), epochs=7)
    copied = clone(model)
    assert copied.get_params()["kernel__length_scale"] == 0.7
    assert copied.set_params(kernel__length_scale=0.9, epochs=8).epochs == 8
    assert model.kernel.length_scale == 0.7


def test_what_predictions_take(fitted):
    frame = pd.DataFrame(X, columns=["east", "north"])
    with pytest.raises(ValueError, match="2 features"):
        fitted.predict(X[:, :1])
    twice = fitted.predict(X, exposure=np.full(24, 2.0))
    np.testing.assert_allclose(twice, 2.0 * fitted.predict(X))
    mean, std = fitted.predict(X, return_std=True)
    assert np.all(std > np.sqrt(mean))  # f isn't known
    with pytest.raises(ValueError, match="SAVIGP has no joint draws: use `sample`"):
        fitted.predict_dist(X).joint_sample(2)
    np.testing.assert_allclose(small().fit(frame, Y).predict(frame), fitted.predict(X))


def test_rows_in_one_place():
    places = np.repeat(X[:6], 4, axis=0)
    centres = choose_points("kmeans", places, 10, np.random.RandomState(0))
    assert np.array_equal(np.unique(centres.X, axis=0), np.unique(X[:6], axis=0))
    assert np.all(centres.rows == -1)
    model = small(nugget=0.0, n_inducing=5, kernel=RBF(0.5)).fit(places, Y)
    assert np.isfinite(model.elbo_)


def test_fewer_points_are_the_first_of_more():
    few, more = (choose_points("random", X, count, np.random.RandomState(3)) for count in (4, 9))
    assert np.array_equal(few.rows, more.rows[:4])
    assert np.array_equal(X[more.rows], more.X)
    assert len(set(more.rows)) == 9


@pytest.mark.parametrize(("n", "batch_size", "epochs"), [(1000, 10, 1), (95, 10, 3), (7, 7, 250), (10**6, 10**6, 9)])
def test_schedule(n, batch_size, epochs):
    schedule = Schedule(n, batch_size, epochs)
    steps = -(-n // batch_size) * epochs
    assert schedule.steps <= 100
    assert schedule.steps * batch_size <= max(batch_size, 2**22)
    assert steps <= schedule.rounds * schedule.steps < steps + schedule.rounds
    assert schedule.passed(schedule.rounds) >= epochs
