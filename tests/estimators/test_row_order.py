"""The same rows in another order are the same data: fits, updates, files and predictions don't see the difference."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npvi
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.kernels import Matern32
from npvi.likelihoods import Bernoulli, Gaussian
from npvi.model.canonical import canonical_rows

NEW = 60


def random(n, rng):
    return rng.uniform(size=(n, 2))


def grid(n, rng):
    """Where nearly all distances have ties."""
    side = int(np.sqrt(n))
    return np.stack(np.meshgrid(np.arange(side), np.arange(n // side)), axis=-1).reshape(-1, 2).astype(float)


def visited_again(n, rng):
    return np.repeat(rng.uniform(size=(n // 5, 2)), 5, axis=0)


def clustered(n, rng):
    return rng.uniform(size=(10, 2))[rng.integers(10, size=n)] + 0.02 * rng.standard_normal((n, 2))


LAYOUTS = (random, grid, visited_again, clustered)
NOISES = ("gaussian", "poisson", "bernoulli", "classes")


def respond(noise, X, rng):
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    f = np.sin(2.0 * z[:, 0]) + np.cos(z[:, 1])
    if noise == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    if noise == "bernoulli":
        return (rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-2.0 * f))).astype(float)
    y = f + 0.3 * rng.standard_normal(len(f))
    return np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])] if noise == "classes" else y


def problem(layout, noise, n, seed=0):
    """Training rows, responses, and new places: some where the training rows are, some between, some beyond."""
    rng = np.random.default_rng(seed)
    X = layout(n, rng)
    new = X[rng.integers(len(X), size=NEW)]
    new[NEW // 3 :] += 0.3 * X.std(axis=0) * rng.standard_normal((len(new[NEW // 3 :]), 2))
    return X, respond(noise, X, rng), new


def model(noise, **parameters):
    if noise == "classes":
        return npvi.GPClassifier(**parameters)
    return npvi.GPRegressor(noise, **parameters)


def says(fitted, new):
    dist = fitted.predict_dist(new)
    return np.concatenate([np.ravel(dist.latent_mean), np.ravel(dist.latent_var)])


def assert_order_does_not_matter(make, X, y, new, per_row=None, n_orders=1):
    """Two fits of the same rows say the same to the last bit, and know which row is which."""
    per_row = per_row or {}
    first = make().fit(X, y, **per_row)
    for seed in range(n_orders):
        p = np.random.default_rng(seed + 100).permutation(len(X))
        second = make().fit(X[p], y[p], **{name: values[p] for name, values in per_row.items()})
        np.testing.assert_array_equal(says(second, new), says(first, new))
        assert second.elbo_ == first.elbo_
        np.testing.assert_array_equal(X[p][second.graph_.order], X[first.graph_.order])
        np.testing.assert_array_equal(second.prior_.X, X[p][second.graph_.order][:, second.linear_part_.coords])
        np.testing.assert_array_equal(second.data_.y, second._encode_new(y[p])[second.graph_.order])
    return first


# -- the order itself -------------------------------------------------------------------------------------------------


def tables():
    """Few different numbers: most rows have ties in most columns."""
    shape, values = st.tuples(st.integers(1, 12), st.integers(1, 3)), st.integers(-2, 2)
    return shape.flatmap(
        lambda s: st.tuples(
            hnp.arrays(float, s, elements=values),
            hnp.arrays(float, s[0], elements=values),
            hnp.arrays(float, s[0], elements=st.integers(0, 2)),
            st.permutations(range(s[0])),
        )
    )


def contents(X, data):
    return np.column_stack([X, data.weight, data.row["noise_variance"], data.y])


def rows_of(X, y, weight, p=None):
    p = np.arange(len(X)) if p is None else np.array(p)
    data = Data(Gaussian(), y, {"noise_variance": 1.0 + np.abs(y)}, weight).take(p)
    return canonical_rows(X[p], data), contents(X[p], data)


@given(tables())
@settings(max_examples=300, deadline=None)
def test_any_order_of_the_rows_is_brought_to_the_same(case):
    X, y, weight, p = case
    (one, before), (other, after) = rows_of(X, y, weight), rows_of(X, y, weight, p)
    assert sorted(one) == list(range(len(X)))
    np.testing.assert_array_equal(after[other], before[one])


@given(tables(), st.floats(1e-3, 1e3))
@settings(max_examples=200, deadline=None)
def test_units_do_not_matter(case, factor):
    X, y, weight, _ = case
    plain = canonical_rows(X, Data(Gaussian(), y, {}, weight))
    # exact in binary, so that nothing else than the unit changes
    scaled = Data(Gaussian(), 2.0 ** np.round(np.log2(factor)) * y, {}, weight)
    np.testing.assert_array_equal(canonical_rows(4.0 * X, scaled), plain)


def test_many_rows_are_sorted_by_all_that_they_hold_then_shuffled():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 4, size=(2000, 3)).astype(float) ** np.array([1.0, 2.0, 3.0])  # columns of different shape
    data = Data(Gaussian(), rng.exponential(size=2000).round(1), {"noise_variance": rng.integers(1, 3, 2000) * 0.5})
    shapes = [np.mean(np.sort(x / x.max()) ** 2) for x in X.T]
    keys = [*X.T[np.argsort(shapes)], data.row["noise_variance"], data.y]
    expected = sorted(range(2000), key=lambda i: tuple(key[i] for key in keys))
    assert canonical_rows(X, data).tolist() == np.random.default_rng(0).permutation(expected).tolist()


def test_neighbours_in_the_order_have_nothing_in_common():
    """Of many points at one distance, those that stand together in the order may become neighbours together."""
    y = np.sort(np.random.default_rng(0).poisson(3.0, 20_000)).astype(float)
    X = np.column_stack([np.zeros((20_000, 2)), y])  # at one place, with a covariate
    y = y[canonical_rows(X, Data(Gaussian(), y, {"noise_variance": 1.0 + y}))]
    for lag in (1, 2, 10, 100):
        assert abs(np.corrcoef(y[lag:], y[:-lag])[0, 1]) < 4.0 / np.sqrt(20_000)
    means = y.reshape(200, 100).mean(axis=1)
    assert means.std() == pytest.approx(np.sqrt(3.0 / 100), rel=0.2)


def test_columns_and_labels_may_change_places():
    rng = np.random.default_rng(4)
    X = np.repeat(rng.uniform(size=(100, 3)) ** np.array([1.0, 2.0, 3.0]), 4, axis=0)
    y = (rng.uniform(size=400) < 0.3).astype(float)
    plain = canonical_rows(X, Data(Bernoulli(), y))
    np.testing.assert_array_equal(canonical_rows(X[:, [2, 0, 1]], Data(Bernoulli(), y)), plain)
    np.testing.assert_array_equal(canonical_rows(X, Data(Bernoulli(), 1.0 - y)), plain)


# -- fits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_learned_from_few_rows(layout, noise):
    X, y, new = problem(layout, noise, 200)
    method = "npvi" if layout in (grid, clustered) else "full"
    assert_order_does_not_matter(lambda: model(noise, method=method), X, y, new)


@pytest.mark.parametrize("method", ["full", "npvi"])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_held_with_more_rows_than_are_dense(layout, noise, method):
    X, y, new = problem(layout, noise, 1500)
    settings = {"kernel": Matern32(0.7 * float(X.std()), 1.0), "nugget": 0.01, "learn": False, "method": method}
    assert_order_does_not_matter(lambda: model(noise, **settings), X, y, new)


@pytest.mark.parametrize("order", ["maximin", "grid", "nested", "random"])
@pytest.mark.parametrize("rule", ["nearest", "paper"])
def test_every_order_and_rule(order, rule):
    X, y, new = problem(grid, "poisson", 400)
    settings = {"kernel": Matern32(3.0), "nugget": 0.01, "learn": False, "order": order, "rule": rule}
    assert_order_does_not_matter(lambda: model("poisson", random_state=3, **settings), X, y, new)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [grid, visited_again])
def test_parts_that_learning_looks_at(layout):
    X, y, new = problem(layout, "poisson", 6000)  # more than are explored at once
    assert_order_does_not_matter(lambda: model("poisson"), X, y, new)


@pytest.mark.slow
def test_sums_that_learning_estimates_from_some_rows():
    X, y, new = problem(visited_again, "gaussian", 21_000)
    assert_order_does_not_matter(lambda: model("gaussian", kernel="matern32"), X, y, new)


@pytest.mark.filterwarnings("ignore:the model was fitted with exposure")
def test_weights_exposure_and_covariates():
    rng = np.random.default_rng(5)
    X, y, new = problem(visited_again, "poisson", 300)
    X, new = (np.column_stack([part, np.arange(len(part)) % 5]) for part in (X, new))
    per_row = {"sample_weight": rng.integers(0, 3, len(X)).astype(float), "exposure": rng.uniform(0.5, 2.0, len(X))}
    assert_order_does_not_matter(lambda: model("poisson", coords=[0, 1]), X, y, new, per_row)


@pytest.mark.filterwarnings("ignore:stochastic gradients ended")
@pytest.mark.parametrize(
    "settings", [{"prior": "fitc", "n_inducing": 30}, {"method": "npvi", "optimizer": npvi.SGD(epochs=50)}]
)
def test_other_priors_and_optimizers(settings):
    X, y, new = problem(random, "poisson", 200)
    settings = {"kernel": Matern32(0.3), "nugget": 0.01, "learn": False, **settings}
    assert_order_does_not_matter(lambda: model("poisson", **settings), X, y, new)


@pytest.mark.slow
def test_noise_that_varies():
    X, _, new = problem(random, "gaussian", 400)
    rng = np.random.default_rng(0)
    y = np.sin(6.0 * X[:, 0]) + np.where(X[:, 1] < 0.5, 0.05, 0.6) * rng.standard_normal(400)
    p = rng.permutation(400)
    first, second = (npvi.VaryingNoiseRegressor(max_rounds=2).fit(X[rows], y[rows]) for rows in (np.arange(400), p))
    assert first.noise_model_ is not None
    for name in ("mean", "std", "noise_std"):
        one, other = (getattr(fitted.predict_dist(new), name) for fitted in (first, second))
        np.testing.assert_allclose(other, one, rtol=1e-9)


def test_a_given_order_is_kept():
    X, y, _ = problem(random, "gaussian", 50)
    settings = {"kernel": Matern32(0.3), "learn": False, "n_neighbors": 5}
    order = np.random.default_rng(0).permutation(50)
    as_they_are = model("gaussian", order="given", **settings).fit(X, y)
    named = model("gaussian", order=order, **settings).fit(X, y)
    for fitted, rows in ((as_they_are, np.arange(50)), (named, order)):
        expected = build_graph(fitted.kernel_.coordinates(X), 5, order=rows).packed()
        np.testing.assert_array_equal(fitted.graph_.order, expected.order)
        np.testing.assert_array_equal(fitted.graph_.parents, expected.parents)


# -- after the fit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [150, 1200])
def test_updates_and_files(n, tmp_path):
    X, y, new = problem(visited_again, "poisson", n)
    rng = np.random.default_rng(1)
    settings = {"kernel": Matern32(0.3), "nugget": 0.01, "learn": False}
    last = n // 10
    found = []
    for number in range(4):
        old, late = rng.permutation(n - last), n - last + rng.permutation(last)
        fitted = model("poisson", **settings).fit(X[old], y[old])
        if number >= 2:
            fitted.save(tmp_path / "model.npvi")
            fitted = npvi.load(tmp_path / "model.npvi")
        fitted.update(X[late], y[late])
        rows = np.concatenate([old, late])
        np.testing.assert_array_equal(fitted.prior_.X, X[rows][fitted.graph_.order])
        np.testing.assert_array_equal(fitted.data_.y, y[rows][fitted.graph_.order])
        found.append(says(fitted, new))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[3], found[2])
    # an update of a file starts from less, but uses the same random numbers
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5, atol=1e-7)


def test_a_file_from_before_is_read(tmp_path, monkeypatch):
    from npvi.io import persistence

    X, y, new = problem(random, "poisson", 100)
    fitted = model("poisson", kernel=Matern32(0.3), nugget=0.01, learn=False).fit(X, y)
    pack = persistence.pack

    def older(*arguments):
        metadata, arrays = pack(*arguments)
        del arrays["canonical_order"]
        return metadata, arrays

    monkeypatch.setattr(persistence, "pack", older)
    fitted.save(tmp_path / "model.npvi")
    again = npvi.load(tmp_path / "model.npvi")
    np.testing.assert_array_equal(again.prior_.graph.order, fitted.graph_.order)
    np.testing.assert_allclose(says(again, new), says(fitted, new), rtol=1e-12)
    again.update(new, np.ones(len(new)))


@pytest.mark.parametrize("layout", [grid, visited_again])
def test_new_rows_in_any_order_and_any_company(layout):
    X, y, new = problem(layout, "poisson", 400)
    new = np.concatenate([new, X, X[:20] + 0.5])  # among the cells of a grid distances tie, too
    fitted = model("poisson", kernel=Matern32(0.7 * float(X.std())), nugget=0.01, learn=False).fit(X, y)
    mean, sd = fitted.predict(new, return_std=True)
    p = np.random.default_rng(0).permutation(len(new))
    for rows in (p, p[:7], p[:1]):
        for found, expected in zip(fitted.predict(new[rows], return_std=True), (mean, sd)):
            np.testing.assert_array_equal(found, expected[rows])


def test_errors_name_rows_as_the_caller_numbers_them():
    X = np.random.default_rng(0).uniform(size=(30, 2))
    X[17] = X[4]
    fitted = npvi.GPRegressor(kernel=Matern32(), nugget=0.0, learn=False, n_neighbors=8)
    with pytest.raises(ValueError, match=r"rows (4 and 17|17 and 4) are only 0 apart"):
        fitted.fit(X, X[:, 0])
    fitted.fit(X[5:17], X[5:17, 0])
    with pytest.raises(ValueError, match=r"rows (2 and 14|14 and 2) are only 0 apart"):
        fitted.update(X[[20, 21, 7, 22]], np.zeros(4))
