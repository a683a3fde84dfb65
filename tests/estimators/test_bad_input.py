"""What a user may get wrong, and what the message says about it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import npvi
from npvi import GPClassifier, GPRegressor
from npvi.checks import LARGEST, check_finite
from npvi.kernels import RBF, Matern32
from npvi.likelihoods import Custom, LogNormal, Ordinal, Poisson
from npvi.priors import NotPositiveDefiniteError

N = 30


@pytest.fixture
def X():
    return np.random.default_rng(0).uniform(size=(N, 2))


@pytest.fixture
def y():
    return np.random.default_rng(1).poisson(3.0, N).astype(float)


def model(**settings):
    return GPRegressor(**{"likelihood": "poisson", "nugget": 0.1, "n_neighbors": 5, **settings})


def unlearned(**settings):
    return model(learn=False, **settings)


@pytest.fixture
def fitted(X, y):
    return unlearned().fit(X, y)


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("estimator", [model(), GPClassifier(n_neighbors=5)], ids=["regressor", "classifier"])
def test_inputs_that_are_not_finite(X, y, estimator, bad):
    X[[3, 17], [0, 1]] = bad
    message = r"Input X contains NaN or infinity in 2 of 30 rows \(rows 3, 17\): drop or fill them first"
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y > 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_inputs_that_are_not_finite_at_prediction(X, fitted, bad):
    X[11, 0] = bad
    with pytest.raises(ValueError, match=r"X contains NaN or infinity in 1 of 30 rows \(rows 11\)"):
        fitted.predict(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_responses_that_are_not_finite(X, y, bad):
    y[[2, 5, 6, 7, 8, 9]] = bad
    with pytest.raises(ValueError, match=r"Input y contains NaN or infinity in 6 of 30 rows \(rows 2, 5, 6, 7, 8, …\)"):
        model().fit(X, y)


def test_missing_values_in_tables(X, y):
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    frame.loc[4, "lat"] = None
    with pytest.raises(ValueError, match=r"1 of 30 rows \(rows 4\)"):
        model().fit(frame, y)
    with pytest.raises(ValueError, match=r"1 of 30 rows \(rows 4\)"):
        model().fit(pl.DataFrame({"lon": X[:, 0], "lat": [None if i == 4 else v for i, v in enumerate(X[:, 1])]}), y)


@pytest.mark.parametrize(
    ("likelihood", "bad", "allowed"),
    [
        ("poisson", -1.0, "whole numbers 0, 1, 2, …"),
        ("poisson", 2.5, "whole numbers 0, 1, 2, …"),
        (Poisson("softplus"), -3.0, "whole numbers 0, 1, 2, …"),
        (LogNormal(0.1), 0.0, "positive numbers"),
        ("lognormal", -0.5, "positive numbers"),
        ("bernoulli", 2.0, "0 or 1"),
        ("bernoulli", 0.5, "0 or 1"),
    ],
    ids=str,
)
def test_responses_outside_the_support(X, likelihood, bad, allowed):
    y = np.ones(N)
    y[[3, 8]] = bad
    kind = likelihood if isinstance(likelihood, str) else type(likelihood).__name__
    with pytest.raises(
        ValueError, match=rf"2 of 30 rows cannot be (?i:{kind}) \(row 3: {bad}, row 8: {bad}\)"
    ) as error:
        model(likelihood=likelihood).fit(X, y)
    assert f"allowed: {allowed}" in str(error.value)


def test_responses_outside_the_support_when_scoring(X, fitted):
    with pytest.raises(ValueError, match=r"1 of 30 rows cannot be Poisson \(row 0: -1.0\)"):
        fitted.log_score(X, np.array([-1.0] + [1.0] * (N - 1)))


def test_responses_that_are_words(X):
    with pytest.raises(ValueError, match=r"y must be numbers, got .* such as .*many"):
        model().fit(X, np.array(["many"] * N))


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("column", ["word", "date"])
def test_columns_that_are_not_numbers_are_named(X, y, table, column):
    values = {"word": ["a"] * N, "date": pd.date_range("2020-01-01", periods=N).to_pydatetime().tolist()}[column]
    frame = table({"lon": X[:, 0], column: values, "lat": X[:, 1]})
    with pytest.raises(ValueError, match=rf"inputs must be numbers, but column '{column}' \(.*\) is not: convert it"):
        model().fit(frame, y)
    plain = unlearned().fit(table({"lon": X[:, 0], column: X[:, 0], "lat": X[:, 1]}), y)
    with pytest.raises(ValueError, match=rf"column '{column}'"):
        plain.predict(frame)


def test_categories_are_not_numbers_but_objects_may_be(X, y):
    frame = pd.DataFrame({"lon": X[:, 0], "site": pd.Categorical(["a", "b"] * (N // 2))})
    with pytest.raises(ValueError, match="column 'site'"):
        model().fit(frame, y)
    objects = pd.DataFrame({"lon": X[:, 0].astype(object), "lat": X[:, 1]})
    assert model().fit(objects, y).elbo_ == model().fit(X, y).elbo_


# -- shapes and names -------------------------------------------------------------------------------------------------


def test_wrong_number_of_columns(X, fitted):
    with pytest.raises(ValueError, match="X has 3 features, but GPRegressor is expecting 2 features as input"):
        fitted.predict(np.column_stack([X, X[:, 0]]))


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_other_column_names(X, y, table):
    trained = unlearned().fit(table({"lon": X[:, 0], "lat": X[:, 1]}), y)
    with pytest.raises(ValueError, match=r"feature names should match.*\n(.*\n)*- latitude\n(.*\n)*- lat\n"):
        trained.predict(table({"lon": X[:, 0], "latitude": X[:, 1]}))
    with pytest.raises(ValueError, match="must be in the same order"):
        trained.predict(table({"lat": X[:, 1], "lon": X[:, 0]}))


@pytest.mark.parametrize(
    "empty", [np.empty((0, 2)), pd.DataFrame({"a": [], "b": []}), pl.DataFrame({"a": [], "b": []})]
)
def test_empty_tables(empty, X, y):
    with pytest.raises(ValueError, match=r"0 sample\(s\)|not: convert it"):
        model().fit(empty, [])
    if isinstance(empty, np.ndarray):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) .* while a minimum of 1 is required"):
            model().fit(empty, [])
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            unlearned().fit(X, y).predict(empty)
        with pytest.raises(ValueError, match=r"0 feature\(s\)"):
            model().fit(np.empty((N, 0)), y)


def test_lengths_that_differ(X, y, fitted):
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[30, 29\]"):
        model().fit(X, y[:-1])
    with pytest.raises(ValueError, match="y must have one number per row, 30 in all; got shape"):
        fitted.log_score(X, y[:-1])


def test_one_dimensional_inputs(X, y):
    with pytest.raises(ValueError, match="Reshape your data"):
        model().fit(X[:, 0], y)


# -- neighbours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -3, 2.5, "20", True, None])
def test_numbers_of_neighbours_that_are_none(X, y, value):
    with pytest.raises(ValueError, match="n_neighbors must be a whole number of at least 1, got"):
        model(n_neighbors=value).fit(X, y)


@pytest.mark.parametrize("value", [N, N + 1, 1000])
def test_more_neighbours_than_points(X, y, value):
    with pytest.warns(UserWarning, match=rf"n_neighbors is {value} but there are only 30 points: using 29"):
        clamped = unlearned(n_neighbors=value).fit(X, y)
    assert clamped.graph_.n_neighbors == N - 1
    assert clamped.n_neighbors == value  # the parameter itself is the user's
    assert clamped.elbo_ == unlearned(n_neighbors=N - 1).fit(X, y).elbo_


@pytest.mark.parametrize("value", [0, 1.5, "many"])
def test_max_iter(X, y, value):
    with pytest.raises(ValueError, match="max_iter must be a whole number of at least 1, got"):
        model(max_iter=value).fit(X, y)


# -- inputs that are allowed but rarely meant -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, lambda X, columns: pa.Table.from_arrays(list(X.T), names=columns)])
def test_two_columns_of_one_name(X, y, fitted, make):
    table = make(X, columns=["lon", "lon"])
    for refused in (
        lambda: model().fit(table, y),
        lambda: fitted.predict(table),
        lambda: GPRegressor("poisson", formula="count ~ lon").fit(table, y),
        lambda: npvi.suggest(table),
    ):
        with pytest.raises(ValueError, match="more than one column 'lon': rename or remove all but one"):
            refused()


def test_a_constant_column(X, y):
    X[:, 1] = 4.0
    with pytest.warns(UserWarning, match="input column 1 is constant in the training data"):
        model().fit(X, y)
    with pytest.warns(UserWarning, match="input column lat is constant in the training data"):
        model().fit(pd.DataFrame(X, columns=["lon", "lat"]), y)


@pytest.mark.parametrize("kernel", [RBF(0.5), Matern32(0.5)], ids=repr)
def test_metres_with_a_length_scale_in_degrees(X, y, kernel):
    with pytest.warns(UserWarning, match=r"makes nearly all points independent.*Is the length scale in the units of"):
        unlearned(kernel=kernel).fit(1e6 * X, y)


@pytest.mark.parametrize("kernel", [RBF(1e5), Matern32(1e5)], ids=repr)
def test_degrees_with_a_length_scale_in_metres(X, y, kernel):
    with pytest.warns(UserWarning, match=r"makes all points equal.*Is the length scale in the units of the inputs\?"):
        unlearned(kernel=kernel).fit(X, y)


def test_sensible_scales_do_not_warn(X, y):
    unlearned(kernel=RBF(0.3)).fit(X, y)  # warnings are errors here
    unlearned(kernel=RBF(0.3e6)).fit(1e6 * X, y)


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "choices"),
    [
        ({"kernel": "gauss"}, ["no kernel is named 'gauss'", "'rbf'", "'matern12'", "'matern32'", "'matern52'"]),
        ({"likelihood": "normal"}, ["no likelihood is named 'normal'", "'gaussian'", "'lognormal'", "'poisson'"]),
        ({"method": "laplace"}, ["method must be one of", "'npvi'", "got 'laplace'"]),
        ({"mean": "quadratic"}, ["mean must be one of 'zero', 'constant', 'linear'", "got 'quadratic'"]),
        ({"prior": "kriging"}, ["prior must be one of 'nngp'", "got 'kriging'"]),
        ({"learn": "always"}, ["learn must be one of True, False, 'grid'", "got 'always'"]),
        ({"learn": 1}, ["learn must be one of True, False, 'grid'", "got 1"]),
        ({"coefficient_scale": 0.0}, ["coefficient_scale must be 'weak', a number from 1e-50", "got 0.0"]),
        ({"rule": "closest"}, ["rule must be one of 'paper', 'nearest'", "got 'closest'"]),
        (
            {"order": "hilbert"},
            ["order must be one of", "'maximin', 'grid', 'nested', 'random', 'given'", "or an array"],
        ),
        ({"likelihood": Poisson("square")}, ["Poisson: link must be one of 'exp', 'softplus', got 'square'"]),
        ({"nugget": -1e-3}, ["nugget must be a finite number that isn't negative, got -0.001"]),
        ({"nugget": np.nan}, ["nugget must be a finite number", "got nan"]),
        ({"nugget": np.inf}, ["nugget must be a finite number", "got inf"]),
        ({"nugget": "small"}, ["nugget must be a finite number", "got 'small'"]),
        ({"tol": 0.0}, ["tol must be a positive number, got 0.0"]),
        ({"tol": -1.0}, ["tol must be a positive number, got -1.0"]),
        ({"kernel": RBF(-1.0)}, ["RBF: length_scale must be positive and finite, got -1.0"]),
        ({"kernel": RBF(variance=0.0)}, ["RBF: variance must be positive and finite, got 0.0"]),
        ({"kernel": RBF([1.0, 2.0, 3.0])}, ["length_scale has 3 values, but the kernel sees 2 inputs"]),
        ({"order": np.zeros(N, dtype=int)}, ["order holds row 0 30 times", "permutation of 0, …, 29"]),
        ({"order": [[1.0, 2.0], [3.0]]}, ["order is no list of numbers"]),
        ({"order": np.arange(N - 1)}, ["order has shape (29,) but X has 30 rows"]),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_settings_that_do_not_exist(X, y, settings, choices):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        model(**settings).fit(X, y)
    for part in choices:
        assert part in str(error.value)


TABLE, TABLE_TO_COME = pd.DataFrame({"a": [1.0, 2.0]}), pl.LazyFrame({"a": [1.0, 2.0]})


@pytest.mark.parametrize(
    "bad", [np.ones(3), np.array([]), [1.0, 2.0], TABLE, TABLE["a"], pl.LazyFrame(TABLE)], ids=type
)
@pytest.mark.parametrize(
    "name",
    ["mean", "method", "prior", "optimizer", "learn", "hyperprior", "hyper", "rule", "verbose", "n_jobs"],
)
def test_settings_that_are_arrays_or_tables(X, y, name, bad):
    with pytest.raises(ValueError, match=f"^{name} must "):
        model(**{name: bad}).fit(X, y)


def test_a_choice_and_a_flag_of_a_network_and_a_classifier(X, y):
    with pytest.raises(ValueError, match="solve must be one of 'cg', 'local'; got"):
        model(method="npvi-nn", solve=np.ones(3)).fit(X, y)
    for settings in ({"learn": np.ones(3)}, {"n_jobs": np.nan}):
        with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
            GPClassifier(**settings).fit(X, y > 3)
    with pytest.raises(TypeError, match="likelihood"):
        GPClassifier(likelihood=np.ones(3)).fit(X, y > 3)


@pytest.mark.parametrize("bad", [np.ones(3), [True, False], TABLE, 0.5, "yes", None], ids=type)
def test_flags(X, fitted, bad):
    with pytest.raises(ValueError, match="return_std must be True or False, got"):
        fitted.predict(X, return_std=bad)
    with pytest.raises(ValueError, match="standard_errors must be True or False, got"):
        fitted.summary(standard_errors=bad)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": RBF}, r"expected a kernel, got the class RBF; write RBF\(\)"),
        ({"likelihood": Poisson}, r"expected a likelihood, got the class Poisson; write Poisson\(\)"),
        ({"kernel": 3.0}, "expected a kernel from npvi.kernels"),
        ({"likelihood": 3.0}, r"expected a likelihood from npvi.likelihoods, .* or one of .*'gaussian'"),
        ({"tol": "small"}, "tol must be"),
        ({"n_jobs": "all"}, "n_jobs must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_settings_of_the_wrong_kind(X, y, settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        model(**settings).fit(X, y)


# -- exposure and weights ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -2.0, np.nan, np.inf])
def test_exposure_must_be_positive(X, y, fitted, bad):
    exposure = np.ones(N)
    exposure[[4, 9]] = bad
    message = rf"exposure must be positive and finite, but 2 of 30 rows are not \(first: row 4, {bad}\)"
    with pytest.raises(ValueError, match=message):
        model().fit(X, y, exposure=exposure)
    for method in (fitted.predict, fitted.predict_dist):
        with pytest.raises(ValueError, match=message):
            method(X, exposure=exposure)
    with pytest.raises(ValueError, match=message):
        fitted.log_score(X, y, exposure=exposure)


def test_exposure_of_the_wrong_length(X, y, fitted):
    message = r"exposure must be one number or 30 of them, one per row; got shape \(29,\)"
    with pytest.raises(ValueError, match=message):
        model().fit(X, y, exposure=np.ones(29))
    with pytest.raises(ValueError, match=message):
        fitted.predict(X, exposure=np.ones(29))


@pytest.mark.parametrize("likelihood", ["gaussian", "lognormal", "bernoulli"])
def test_exposure_where_there_is_none(X, likelihood):
    with pytest.raises(ValueError, match="takes no exposure"):
        model(likelihood=likelihood).fit(X, np.ones(N), exposure=np.ones(N))
    with pytest.raises(ValueError, match="takes no exposure"):
        unlearned(likelihood=likelihood, mean="zero").fit(X, np.ones(N)).predict(X, exposure=np.ones(N))


def test_weights(X, y):
    weight = np.ones(N)
    weight[3] = -1.0
    with pytest.raises(ValueError, match=r"(?i)negative values.*sample_weight"):
        model().fit(X, y, sample_weight=weight)
    weight[3] = np.nan
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        model().fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match=r"(?i)sample_weight.*29"):
        model().fit(X, y, sample_weight=np.ones(29))
    with pytest.raises(ValueError, match=r"(?i)sample weights must contain at least one non-zero"):
        model().fit(X, y, sample_weight=np.zeros(N))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, r"sample_weight contains NaN or infinity in 1 of 30 rows \(rows 3\)"),
        (np.inf, "sample_weight contains NaN or infinity"),
        (1e160, r"sample_weight has values beyond ±1e\+50"),
        (1e-300, r"sample_weight is below 1e-50 in 1 of 30 rows \(rows 3\): give 0"),
        (-1.0, r"Negative values in sample_weight in 1 of 30 rows \(rows 3\)"),
    ],
)
@pytest.mark.parametrize("call", ["fit", "update", "score"])
def test_weights_that_are_none(X, y, fitted, call, bad, message):
    weight = np.ones(N)
    weight[3] = bad
    with pytest.raises(ValueError, match=message):
        getattr(fitted, call)(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match=r"sample_weight must be one number or 30 of them, .* got shape \(0,\)"):
        getattr(fitted, call)(X, y, sample_weight=[])


def test_scores_without_weight(X, y, fitted):
    labels = GPClassifier(n_neighbors=5, learn=False).fit(X, y > 3)
    for scored, responses in ((fitted, y), (labels, y > 3)):
        with pytest.raises(ValueError, match="sample_weight is 0 in all rows"):
            scored.score(X, responses, sample_weight=np.zeros(N))


def test_exposure_that_no_square_can_be_taken_of(X, y):
    with pytest.raises(ValueError, match=r"exposure has values beyond ±1e\+120 in 30 of 30 rows"):
        model().fit(X, y, exposure=1e300)


@pytest.mark.parametrize("name", ["exposure", "sample_weight"])
def test_searches_with_too_few_numbers(X, y, name):
    with pytest.raises(ValueError, match=f"{name} must be one number or 30 of them"):
        npvi.grid_search(unlearned(), X, y, {"length_scale": [0.3]}, **{name: np.ones(3)})


# -- the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (GPRegressor(), "predict"),
        (GPRegressor(), "predict_dist"),
        (GPClassifier(), "predict"),
        (GPClassifier(), "predict_dist"),
        (GPClassifier(), "predict_proba"),
    ],
    ids=str,
)
def test_not_fitted(X, estimator, method):
    with pytest.raises(NotFittedError, match=r"is not fitted yet. Call 'fit'"):
        getattr(estimator, method)(X)


def test_a_failed_fit_leaves_no_half_fitted_model(X, y):
    unfitted = model()
    with pytest.raises(ValueError, match="cannot be Poisson"):
        unfitted.fit(X, -y - 1.0)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)


def test_numbers_are_no_labels(X):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        GPClassifier().fit(X, np.linspace(0.0, 1.0, N))


def test_a_classifier_wants_a_bernoulli_likelihood(X, y):
    with pytest.raises(ValueError, match=r"needs a Bernoulli likelihood, got Poisson\(\); GPRegressor takes any other"):
        GPClassifier("poisson", n_neighbors=5).fit(X, y > 3)


def test_repeated_points_without_a_nugget(X, y):
    X[21] = X[6]
    with pytest.raises(
        NotPositiveDefiniteError, match=r"rows (6 and 21|21 and 6) are only 0 apart and the nugget is 0"
    ):
        model(nugget=0.0).fit(X, y)
    with pytest.raises(ValueError, match=r"add a nugget, for example nugget=0\.0001"):
        unlearned(nugget=0.0).fit(X, y)
    unlearned(nugget=1e-4).fit(X, y)


# -- what hides in arrays ----------------------------------------------------------------------------------------------


def masked(values):
    mask = np.zeros(np.shape(values), dtype=bool)
    mask[[2, 5]] = True
    return np.ma.array(values, mask=mask)


ONE = np.ones(N)
#: how each argument that holds a number per row comes in
ENTRIES = {
    "fit: X": ("X", lambda bad, X, y, m: model().fit(bad(X), y)),
    "fit: y": ("y", lambda bad, X, y, m: model().fit(X, bad(y))),
    "fit: exposure": ("exposure", lambda bad, X, y, m: model().fit(X, y, exposure=bad(ONE))),
    "fit: sample_weight": ("sample_weight", lambda bad, X, y, m: model().fit(X, y, sample_weight=bad(ONE))),
    "update: X": ("X", lambda bad, X, y, m: m.update(bad(X), y)),
    "update: y": ("y", lambda bad, X, y, m: m.update(X, bad(y))),
    "update: exposure": ("exposure", lambda bad, X, y, m: m.update(X, y, exposure=bad(ONE))),
    "partial_fit: y": ("y", lambda bad, X, y, m: m.partial_fit(X, bad(y))),
    "predict: X": ("X", lambda bad, X, y, m: m.predict(bad(X))),
    "predict: exposure": ("exposure", lambda bad, X, y, m: m.predict(X, exposure=bad(ONE))),
    "score: y": ("y", lambda bad, X, y, m: m.score(X, bad(y))),
    "score: sample_weight": ("sample_weight", lambda bad, X, y, m: m.score(X, y, sample_weight=bad(ONE))),
    "log_score: y": ("y", lambda bad, X, y, m: m.log_score(X, bad(y))),
    "log_prob: y": ("y", lambda bad, X, y, m: m.predict_dist(X).log_prob(bad(y))),
    "cdf: y": ("y", lambda bad, X, y, m: m.predict_dist(X).cdf(bad(y))),
    "total: weights": ("weights", lambda bad, X, y, m: m.predict_dist(X).total(weights=bad(ONE))),
    "diagnose: X": ("X", lambda bad, X, y, m: npvi.diagnose(m, bad(X), y)),
    "diagnose: y": ("y", lambda bad, X, y, m: npvi.diagnose(m, X, bad(y))),
    "grid_search: X": ("X", lambda bad, X, y, m: npvi.grid_search(m, bad(X), y)),
    "grid_search: y": ("y", lambda bad, X, y, m: npvi.grid_search(m, X, bad(y))),
    "build_graph: X": ("X", lambda bad, X, y, m: npvi.graph.build_graph(bad(X), 3)),
    "NeighborIndex: X": ("X", lambda bad, X, y, m: npvi.graph.NeighborIndex(bad(X))),
}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (masked, r"is masked in 2 of 30 rows \(rows 2, 5\): drop or fill them first"),
        (lambda values: np.asarray(values).astype("datetime64[D]"), "holds dates or durations, not numbers"),
        (lambda values: np.asarray(values).astype("timedelta64[s]"), "holds dates or durations, not numbers"),
        (lambda values: np.asarray(values) + 1j, "has an imaginary part"),
        (lambda values: np.asarray(values).astype(str), "must be numbers, got text such as"),
        (lambda values: np.full(np.shape(values), object()), "must be numbers"),
    ],
    ids=["masked", "dates", "durations", "complex", "text", "objects"],
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_no_number_is_refused_wherever_it_enters(X, y, fitted, entry, bad, message):
    name, call = ENTRIES[entry]
    with pytest.raises((ValueError, TypeError), match=rf"\b{name} {message}|{message}: {name} |: {name} {message}"):
        call(bad, X, y, fitted)


@pytest.mark.parametrize("far", [1e154, 1e200, 1e300])
def test_inputs_too_large_for_distances(X, y, fitted, far):
    new = np.array([[far, far]])
    message = r"X has values beyond ±1e\+150 in 1 of 1 rows \(rows 0\): rescale X"
    for call in (fitted.update, fitted.partial_fit, fitted.log_score):
        with pytest.raises(ValueError, match=message):
            call(new, [1.0])
    with pytest.raises(ValueError, match=message):
        fitted.predict(new)
    X[3] = far
    with pytest.raises(ValueError, match=r"X has values beyond .* \(rows 3\)"):
        model().fit(X, y)


def test_inputs_too_large_for_the_kernels_distances(X, y):
    small = unlearned(kernel=Matern32([1e-30, 1.0])).fit(X * [1e-30, 1.0], y)
    with pytest.raises(ValueError, match=r"values beyond ±1e\+150"):
        small.update([[1e140, 1e140]], [1.0])


def test_tables_whose_rows_are_not_there_yet(X, y, fitted):
    lazy = pl.DataFrame({"lon": X[:, 0], "lat": X[:, 1]}).lazy()
    with pytest.raises(TypeError, match=r"X is a LazyFrame, whose rows aren't there yet: call its collect\(\) first"):
        model().fit(lazy, y)
    with pytest.raises(TypeError, match="X is a LazyFrame"):
        fitted.predict(lazy)


@pytest.mark.parametrize("labels", [[1, "a"] * (N // 2), np.array([1, "a"] * (N // 2), dtype=object)])
def test_labels_of_several_kinds(X, labels):
    with pytest.raises(ValueError, match="y has labels of several kinds, text and numbers"):
        GPClassifier(n_neighbors=5).fit(X, labels)


# -- responses, wherever they enter ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros(N, dtype=[("a", float)]), "holds .*'a'.*, not labels"),
        (np.full(N, np.datetime64("2020-01-01")), "holds datetime64.*, not labels"),
        (np.full(N, 1j), "imaginary|complex128, not labels"),
        (scipy.sparse.csr_array(np.ones((1, N))), "is a sparse matrix"),
        ([[1.0, 2.0], [3.0]], "rows differ in length"),
        (np.ma.masked_array(np.ones(N), np.arange(N) == 0), "is masked in 1 of 30"),
    ],
    ids=["records", "dates", "complex", "sparse", "ragged", "masked"],
)
def test_what_is_no_label(X, bad, message):
    few, many = np.arange(N) % 2, np.arange(N) % 3
    two, three = (GPClassifier(n_neighbors=5, learn=False).fit(X, labels) for labels in (few, many))
    calls = [lambda: clone(two).fit(X, bad)]
    for one in (two, three):
        calls += [lambda one=one: one.update(X, bad), lambda one=one: one.score(X, bad)]
    for call in calls:
        with pytest.raises((ValueError, TypeError), match=rf"y.*({message})"):
            call()
    with pytest.raises((ValueError, TypeError), match=rf"labels.*({message})"):
        three.predict_dist(X).log_prob(bad)


def test_responses_that_are_no_numbers_of_varying_noise(X):
    with pytest.raises(ValueError, match="y must be numbers, got text"):
        npvi.VaryingNoiseRegressor().fit(X, np.array([1.0, "x"] * (N // 2), dtype=object))


def test_generators_of_rows_in_a_pipeline(X, y):
    pipeline = npvi.Pipeline([("gp", unlearned())]).fit(X, y)
    with pytest.raises(TypeError, match="X must be an array or a table, got <generator"):
        pipeline.predict_dist(row for row in X)


def test_more_successes_than_trials_when_scoring(X, y):
    seeds = unlearned(likelihood="binomial").fit(X, np.minimum(y, 4.0), trials=5)
    with pytest.raises(ValueError, match=r"y: 30 of 30 rows have more successes than trials \(row 0: 5 of 2"):
        seeds.log_score(X, 5, trials=2)
    with pytest.raises(ValueError, match=r"more successes than trials .* trials is 1 where it is not given"):
        npvi.diagnose(seeds, X, np.minimum(y, 4.0))


def test_diagnosis_of_one_row(X, y, fitted):
    for one in (fitted, unlearned(likelihood="gaussian").fit(X, y)):
        assert npvi.diagnose(one, X[:1], y[:1]).rows == 1


def test_categories_are_counted(X, y):
    ranks = np.arange(N) % 5
    assert len(unlearned(likelihood="ordinal").fit(X, ranks).likelihood_.cuts) == 4
    with pytest.raises(ValueError, match="whole numbers from 0 to 2, one category more than there are cuts"):
        unlearned(likelihood=Ordinal([0.0, 1.0])).fit(X, ranks)


# -- single numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coords", [[True, False], True, 1.5, np.nan, [None], pl.LazyFrame({"a": [1]})])
def test_coords_that_name_no_column(X, y, coords):
    with pytest.raises(ValueError, match="coords must be names or numbers of columns, from 0 to 1"):
        unlearned(coords=coords).fit(X, y)


@pytest.mark.parametrize("prior", [(0, -1), (1, 2, 3), (0, 0), (np.nan, 1), 3, "ab", ("a", "b"), (0.0, np.inf)])
def test_priors_that_are_none(prior):
    message = "prior must be None, or two numbers: a mean and a positive standard deviation; got"
    for make in (lambda: npvi.positive(1.0, prior=prior), lambda: npvi.bounded(1.0, 0.0, 2.0, prior=prior)):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: npvi.bounded(1.0, "a", 2.0), "lower must be a number"),
        (lambda: npvi.bounded(1.0, 0.0, np.nan), "upper must be a number"),
        (lambda: npvi.pc(below="a"), "below must be a positive number from 1e-50 to 1e50, got 'a'"),
        (lambda: npvi.pc(above=1.0, probability="a"), "probability must be between 0 and 1, got 'a'"),
        (lambda: npvi.pc(-1.0, above=1.0), "value must be a positive number, got -1.0"),
    ],
)
def test_numbers_of_parameters(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_nugget_is_brought_inside_its_bounds(X, y):
    assert unlearned(likelihood="gaussian", nugget=npvi.bounded(5.0, 0.1, 1.0)).fit(X, y).nugget_ == 1.0
    kernel = Matern32(npvi.bounded([5.0, 0.5], 0.1, 1.0))
    assert unlearned(kernel=kernel).fit(X, y).kernel_.length_scale == [1.0, 0.5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda dist: dist.interval("0.9"), "level must be between 0 and 1, got '0.9'"),
        (lambda dist: dist.interval(None), "level must be between 0 and 1, got None"),
        (lambda dist: dist.latent_interval([0.5]), "level must be between 0 and 1"),
        (lambda dist: dist.total(level="a"), "level must be between 0 and 1"),
        (lambda dist: dist.quantile("a"), "q must be numbers, got text such as 'a'"),
        (lambda dist: dist.quantile(None), "q must be a number from 0 to 1"),
        (lambda dist: dist.sample(2.5), "n must be a whole number of at least 1, got 2.5"),
        (lambda dist: dist.sample(-1), "n must be a whole number of at least 1, got -1"),
        (lambda dist: dist.sample(True), "n must be a whole number of at least 1, got True"),
        (lambda dist: dist.sample(2, seed="a"), "seed must be None, a whole number of at least 0, or"),
        (lambda dist: dist.joint_sample(2, seed=2.5), "seed must be None, a whole number of at least 0, or"),
        (lambda dist: dist.joint_latent_sample("2"), "n must be a whole number"),
        (lambda dist: dist.cdf(np.nan), "y contains NaN"),
        (lambda dist: dist.joint_covariance("a"), "weights must be numbers"),
        (lambda dist: dist.sample(10**400), "n must be at most .* got one of more than 30 digits"),
        (lambda dist: dist.joint_sample(10**20), "n must be at most"),
        (lambda dist: dist.joint_latent_sample(10**20), "n must be at most"),
        (lambda dist: dist.total(n=10**20), "n must be at most"),
        (lambda dist: dist.total(of=pl.LazyFrame({"a": [1]})), "of must be one of 'response', 'mean'; got"),
        (lambda dist: dist.total([1e160, 1.0, 1.0]), r"weights has values beyond ±1e\+100 in 1 of 3 rows"),
        (lambda dist: dist.latent_total([1e160, 1.0, 1.0]), "weights has values beyond"),
        (lambda dist: dist.joint_covariance([[1e160], [1.0], [1.0]]), "weights has values beyond"),
        (lambda dist: dist.reach.mask([1.0, 2.0]), r"values must have one number per row, 3; got shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("likelihood", ["poisson", "gaussian"])
def test_what_predictions_are_asked_for(X, y, likelihood, call, message):
    dist = unlearned(likelihood=likelihood).fit(X, y).predict_dist(X[:3])
    with pytest.raises(ValueError, match=message):
        call(dist)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"length_scale": []}, "grid: there are no values of 'length_scale'"),
        ({"length_scale": 0.5}, r"grid: give the values of 'length_scale' as a list, such as \[0.5\], got 0.5"),
        ({"length_scale": "ab"}, "grid: give the values of 'length_scale' as a list"),
        (["length_scale"], "grid must map names to lists of values"),
    ],
)
def test_grids_that_are_none(X, y, grid, message):
    with pytest.raises(ValueError, match=message):
        npvi.grid_search(unlearned(), X, y, grid)


@pytest.mark.parametrize("share", ["a", np.nan, 0.999, 0, True])
def test_shares_for_validation(X, y, share):
    with pytest.raises(ValueError, match="validation"):
        npvi.grid_search(unlearned(), X, y, {"length_scale": [0.3]}, validation=share)


def test_parameters_of_a_kernel_that_is_only_named():
    named = GPRegressor().set_params(kernel__length_scale=2.0, likelihood__variance=0.5)
    assert (named.kernel.length_scale, named.likelihood.variance) == (2.0, 0.5)
    assert repr(GPClassifier().set_params(kernel="rbf", kernel__variance=3.0).kernel) == "RBF(variance=3.0)"
    noisy = npvi.VaryingNoiseRegressor().set_params(model__kernel__length_scale=2.0, kernel__length_scale=1.5)
    assert (noisy.model.kernel.length_scale, noisy.kernel.length_scale) == (2.0, 1.5)
    with pytest.raises(ValueError, match="Invalid parameter 'foo' for estimator Matern"):
        GPRegressor().set_params(kernel__foo=2.0)


@pytest.mark.parametrize(("nugget", "variance"), [(0.1, 1e18), (1e-17, 1.0)])
def test_the_nugget_that_is_advised_is_larger_than_the_one_there_is(X, y, nugget, variance):
    X[21] = X[6]
    with pytest.raises(NotPositiveDefiniteError, match="take a larger nugget, for example nugget=") as error:
        unlearned(kernel=Matern32(0.3, variance), nugget=nugget).fit(X, y)
    advised = float(str(error.value).split("for example nugget=")[1].split(",")[0])
    assert nugget < advised < np.inf
    unlearned(likelihood="gaussian", kernel=Matern32(0.3, variance), nugget=advised).fit(X, y)


@pytest.mark.parametrize("log_prob", [lambda y, f: 1, lambda y, f: (y - f) * 1j], ids=["whole", "complex"])
def test_densities_that_are_no_real_numbers(X, y, log_prob):
    message = r"log_prob must return a real number with decimals, but returned (int|complex)"
    with pytest.raises(ValueError, match=message):
        unlearned(likelihood=Custom(log_prob)).fit(X, y)


@pytest.mark.parametrize("path", [None, True, 1, 2.5])
def test_paths_that_are_none(fitted, path):
    for call in (fitted.save, npvi.load):
        with pytest.raises(TypeError, match="path must be text or a path, got"):
            call(path)


@pytest.mark.parametrize("seed", ["a", -1, 2.5, np.nan])
def test_seeds_of_a_diagnosis(X, y, fitted, seed):
    with pytest.raises(ValueError, match="seed must be None or a whole number from 0"):
        npvi.diagnose(fitted, X, y, seed=seed)


@pytest.mark.parametrize("seed", ["a", -1, np.nan, 2.5])
def test_random_states_that_are_none(X, y, seed):
    with pytest.raises(ValueError, match="random_state must be None, a whole number from 0"):
        unlearned(random_state=seed).fit(X, y)


def test_parameters_with_hundreds_of_digits(X, y):
    with pytest.raises(ValueError, match="length_scale must be a number, or a sequence of numbers"):
        unlearned(kernel=Matern32(10**400)).fit(X, y)


def test_counts_that_are_not_told_apart(X, y, fitted):
    with pytest.raises(ValueError, match=r"y: 30 of 30 rows are beyond ±1e\+16 .*whole numbers aren't told apart"):
        fitted.predict_dist(X).log_prob(np.full(N, 1e30))
    assert np.isfinite(fitted.predict_dist(X).log_prob(np.full(N, 1e16))).all()


def test_responses_without_a_square_have_no_score(X, y, fitted):
    responses = np.where(np.arange(N) == 3, 1e160, y)
    varying = npvi.VaryingNoiseRegressor(model(likelihood="gaussian", max_iter=5), max_rounds=1)
    with pytest.warns(UserWarning, match="predicts no better"):
        varying.fit(X, y)
    for estimator in (fitted, varying):
        with pytest.raises(ValueError, match=r"y has values beyond ±1e\+140 in 1 of 30 rows"):
            estimator.score(X, responses)


def test_only_numbers_are_masked(X, fitted):
    for values in (np.nan, None, np.full(N, np.inf)):
        with pytest.raises(ValueError, match="values contains NaN or infinity"):
            fitted.predict_dist(X).reach.mask(values)


def test_half_precision(X, y):
    half = X.astype(np.float16)  # in which the largest number allowed is infinite
    np.testing.assert_array_equal(
        unlearned().fit(half, y).predict(half), unlearned().fit(half.astype(float), y).predict(half.astype(float))
    )
    check_finite(half, "X", LARGEST)


def test_weights_that_leave_no_posterior_are_named(X, y):
    with pytest.raises(
        NotPositiveDefiniteError, match=r"larger weights \(sample_weight\) or other parameters of the lik"
    ):
        unlearned().fit(X, y, sample_weight=1e-30)


def test_a_nugget_with_which_all_labels_are_certain(X):
    with pytest.raises(ValueError, match="nugget must be at most 1000 with three or more labels"):
        GPClassifier(nugget=10**9, learn=False).fit(X, np.arange(N) % 3)


def test_no_quantile_of_a_total(X, fitted):
    dist = fitted.predict_dist(X)
    for total in (dist.total(n=4, seed=0), dist.latent_total()):
        assert total.quantile([]).shape == (0,)
        assert total.quantile(np.empty((0, 2))).shape == (0, 2)


@pytest.mark.filterwarnings("ignore:the fit did not converge")
def test_a_variance_whose_rounding_is_more_than_all_counts(X):
    """Predictions at the rows themselves would be infinite, though the posterior there isn't."""
    with pytest.raises(ValueError, match="Nugget and variance of the kernel may be too large for the likelihood"):
        unlearned(likelihood="poisson", kernel=Matern32(1.0, 1e30)).fit(X, np.arange(N) % 3)


def test_a_grid_is_no_table_of_rows():
    """Its cells are predicted by `predict_grid`, which the error says."""
    xarray = pytest.importorskip("xarray")
    table = pd.DataFrame({"lon": [0.0, 1.0, 2.0], "lat": [0.0, 2.0, 1.0], "y": [1.0, 2.0, 4.0]})
    grid = xarray.Dataset({"wet": (("lat", "lon"), np.zeros((2, 2)))}, {"lon": [0.0, 1.0], "lat": [0.0, 1.0]})
    plain = npvi.GPRegressor(learn=False).fit(table[["lon", "lat"]], table["y"])
    for model in (plain, npvi.GPRegressor(formula="y ~ lon", learn=False).fit(table)):
        for ask in (model.predict, model.predict_dist, lambda X, model=model: model.update(X, table["y"])):
            with pytest.raises(TypeError, match=r"X is an xarray.Dataset.*model\.predict_grid\(grid\)"):
                ask(grid)


# -- sizes of which arithmetic knows nothing --------------------------------------------------------------------------


def test_inputs_whose_distances_have_no_squares(X, y):
    with pytest.raises(ValueError, match=r"column 0 of X has values at most .*e-161 apart.*rescale X"):
        model().fit(1e-160 * X, y)


@pytest.mark.parametrize(("size", "words"), [(1e90, "as large as"), (1e-60, "at most")])
def test_responses_that_can_not_be_learned_from_by_their_size(X, y, size, words):
    with pytest.raises(ValueError, match=f"y has values {words} .*Divide y by its typical size"):
        GPRegressor().fit(X, size * y)
    assert np.isfinite(GPRegressor("lognormal", learn=False).fit(X, size * (1.0 + y)).predict(X)).all()


@pytest.mark.parametrize("size", [1e70, 1e-40])
def test_sizes_up_to_there_are_units(X, y, size):
    one, other = (GPRegressor(n_jobs=1).fit(X, c * y).predict(X) / c for c in (1.0, size))
    np.testing.assert_allclose(one, other, rtol=1e-6)
