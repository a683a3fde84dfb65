"""What isn't known about hyper-parameters, against quadrature over a grid of dense Gaussian processes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import ndtr

import npvi
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.learning import Learner
from npvi.learning.integration import Chart, Evaluation, Surface, integrate
from npvi.learning.objective import Model
from npvi.learning.space import SearchSpace, learnable
from npvi.learning.table import Table
from npvi.model import predict_alone
from npvi.parameters import POSITIVE_NUMBER, REAL_NUMBER, PenalisedComplexity, bounded, fixed
from npvi.predictive.base import Predictive
from npvi.predictive.mixture import MixturePredictive
from tests.support import oracle

NOISE = 0.3**2

pytestmark = pytest.mark.usefixtures("integrating")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 10.0, size=(20, 1))
    return X, np.sin(X[:, 0]) + np.sqrt(NOISE) * rng.standard_normal(20), np.linspace(0.3, 11.0, 15)[:, None]


@pytest.fixture(scope="module")
def fitted(data):
    X, y, _ = data
    model = npvi.GPRegressor(
        npvi.likelihoods.Gaussian(npvi.fixed(NOISE)), npvi.kernels.Matern32(1.0, 1.0), mean="zero", n_neighbors=19
    )
    return model.fit(X, y)


@pytest.fixture(scope="module")
def exact(data):
    """Posterior of (log ℓ, log σ²) on a grid, and moments of f at new places: dense algebra alone."""
    X, y, new = data
    # the weak priors: highest at half the spread of the places for ℓ^−½, at the spread of y for σ, both exponential
    length_mode, variance_mode = 0.5 * X.std(), np.var(y)
    grid = [np.linspace(-1.5, 4.5, 61) + np.log(length_mode), np.linspace(-4.0, 5.0, 61) + np.log(variance_mode)]
    places = np.vstack([X, new])
    apart = np.abs(places - places.T)
    heights, means, variances, z = [], [], [], []
    for log_length in grid[0]:
        r = np.sqrt(3.0) * apart / np.exp(log_length)
        shape = (1.0 + r) * np.exp(-r)
        for log_variance in grid[1]:
            K = np.exp(log_variance) * shape
            C = np.linalg.cholesky(K[:20, :20] + NOISE * np.eye(20))
            white, across = np.linalg.solve(C, y), np.linalg.solve(C, K[:20, 20:])
            t = -0.5 * (log_length - np.log(length_mode)), 0.5 * (log_variance - np.log(variance_mode))
            prior = sum(a - np.exp(a) for a in t)
            heights.append(-0.5 * white @ white - np.log(np.diag(C)).sum() + prior)
            means.append(across.T @ white)
            variances.append(np.exp(log_variance) - np.sum(across**2, axis=0))
            z.append((log_length, log_variance))
    weights = np.exp(np.array(heights) - np.max(heights))
    return np.array(z), weights / weights.sum(), np.array(means), np.array(variances)


def _distribution(values, weights):
    """Shares below numbers of a grid, and these."""
    numbers, at = np.unique(values, return_inverse=True)
    each = np.bincount(at, weights)
    return np.cumsum(each) - 0.5 * each, numbers


def test_what_is_not_known_is_that_of_quadrature(fitted, exact):
    z, weights, _, _ = exact
    mean = weights @ z
    sd = np.sqrt(weights @ (z - mean) ** 2)
    table = fitted.summary().loc[["kernel__length_scale", "kernel__variance"]]
    for end, level in (("lower", 0.025), ("upper", 0.975)):
        expected = [np.interp(level, *_distribution(column, weights)) for column in z.T]
        assert (np.abs(np.log(table[end].to_numpy()) - expected) / sd).max() < 0.45, end
    value = table["value"].to_numpy()
    around = np.sqrt(weights @ (z - np.log(value)) ** 2)
    np.testing.assert_allclose(table["standard_error"].to_numpy() / value, around, rtol=0.2)


def test_predictions_are_mixed_as_quadrature_mixes_them(fitted, exact, data):
    _, weights, means, variances = exact
    mean = weights @ means
    sd = np.sqrt(weights @ (variances + (means - mean) ** 2))
    dist = fitted.predict_dist(data[2])
    alone = predict_alone(fitted.fitted_, data[2], {})
    off = np.abs(dist.latent_mean - mean) / sd
    ratio, plugged_in = np.sqrt(dist.latent_var) / sd, np.sqrt(alone.latent_var) / sd
    assert off.max() < 0.15
    assert np.abs(ratio - 1.0).max() < 0.12
    assert np.abs(ratio - 1.0).mean() < 0.75 * np.abs(plugged_in - 1.0).mean()


@pytest.mark.parametrize("place", [(0.2, 1.0), (3.0, 0.5), (30.0, 2.0)])
def test_the_likelihood_of_few_rows_is_the_dense_one(place):
    """On y itself, a row given 20 noisy neighbours, it would be off by 17 and 43 nats at the longer two."""
    length, variance = place
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    y = 0.5 + np.sin(3.0 * X[:, 0]) + 0.5 * rng.standard_normal(400)
    graph = build_graph(X, 20)
    table = Table(X, Data(npvi.likelihoods.Gaussian(0.25), y), np.ones((400, 1)))
    objective = Learner({}, lambda X: graph).objective(table, graph, None, careful=True)

    def dense(log_length, log_variance, log_noise):
        r = np.sqrt(3.0) * cdist(X, X) / np.exp(log_length)
        K = np.exp(log_variance) * (1.0 + r) * np.exp(-r) + 1e-6 * np.eye(400)
        return oracle.DenseGP(K, y, np.exp(log_noise)).with_best_constant().log_evidence_of_any_constant()

    here = np.log([length, variance, 0.25])
    value, slopes = objective(Model(npvi.kernels.Matern32(length, variance), 1e-6, npvi.likelihoods.Gaussian(0.25)))
    assert value == pytest.approx(dense(*here), abs=0.4)
    names = ("kernel__length_scale", "kernel__variance", "likelihood__variance")
    found = [float(slopes[name]) * number for name, number in zip(names, np.exp(here))]
    expected = [(dense(*(here + step)) - dense(*(here - step))) / 2e-3 for step in 1e-3 * np.eye(3)]
    np.testing.assert_allclose(found, expected, atol=0.4)


class _Flat:
    """A bound that says nothing."""

    def __call__(self, model):
        return 0.0, {name: np.zeros_like(np.asarray(value, dtype=float)) for name, value in model.named().items()}


@pytest.mark.parametrize("end", [np.inf, 30.0])
def test_where_data_say_nothing_the_posterior_is_the_prior(end):
    """Beyond what learning searches too, where nothing changes any more; not beyond what the user allows."""
    model = Model(npvi.kernels.Matern32(1.0, 1.0), 0.1, npvi.likelihoods.Gaussian(0.1))
    domains = learnable(model.kernel, "kernel") | learnable(model.likelihood, "likelihood")
    domains |= {"nugget": POSITIVE_NUMBER}
    said = {name: fixed(value) for name, value in model.named().items() if name != "kernel__length_scale"}
    if np.isfinite(end):
        said["kernel__length_scale"] = bounded(1.0, 1e-3, end)
    priors = {"kernel__length_scale": [PenalisedComplexity(-0.5, 1.0)]}
    space = SearchSpace(model.named(), domains, said, {"kernel__length_scale": (1e-2, 10.0)}, priors)
    cloud = integrate(_Flat(), model, space, [], 20, np.array([np.inf])).cloud
    # ℓ^−½ is exponential: P(ℓ < x) = exp(−x^−½)
    for x in (0.2, 1.0, 5.0, 10.0, 25.0, 100.0):
        expected = min(np.exp(-(x**-0.5)) / np.exp(-(end**-0.5)), 1.0)
        assert float(cloud.weights @ (cloud.z[:, 0] < np.log(x))) == pytest.approx(expected, abs=0.01), x


class _Skewed:
    """A bound of two numbers that is no parabola, known up to a little."""

    def __init__(self, error):
        self._error = error

    def __call__(self, model):
        x, y = np.log(model.kernel.length_scale), np.log(model.nugget)
        value = -40.0 * (y - 0.5 * x**2 + 2.0) ** 2 - np.cosh(2.0 * x) + self._error * np.sin(1e3 * x)
        slope = 80.0 * (y - 0.5 * x**2 + 2.0)
        along = slope * x - 2.0 * np.sinh(2.0 * x) + self._error * np.cos(1e3 * x)
        return value, {"kernel__length_scale": along, "nugget": -slope}


def test_rounding_chooses_no_other_nodes():
    """Nodes of a few digits are the same to the last one where the bound is another in its last digits."""
    model = Model(npvi.kernels.Matern32(1.02, 1.0), 0.14, npvi.likelihoods.Gaussian(0.1))
    domains = learnable(model.kernel, "kernel") | learnable(model.likelihood, "likelihood")
    domains |= {"nugget": POSITIVE_NUMBER}
    some = ("kernel__length_scale", "nugget")
    said = {name: fixed(value) for name, value in model.named().items() if name not in some}
    space = SearchSpace(model.named(), domains, said, {})
    one, other = (
        integrate(_Skewed(error), model, space, [], 100, np.full(2, np.inf), 2.0**-10) for error in (0.0, 1e-9)
    )
    assert len(one.models) > 5
    assert [node.named() for node in one.models] == [node.named() for node in other.models]
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-4)


def test_more_rows_leave_less_unknown():
    rng = np.random.default_rng(0)
    widths = []
    for n in (60, 600):
        X = rng.uniform(size=(n, 2))
        y = np.sin(6.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)
        table = npvi.GPRegressor(kernel="matern32").fit(X, y).summary().loc["likelihood__variance"]
        assert table["lower"] < 0.09 < table["upper"]
        widths.append(np.log(table["upper"] / table["lower"]))
    assert widths[1] < 0.5 * widths[0]


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(120, 2))
    y = rng.poisson(np.exp(0.5 + np.sin(5.0 * X[:, 0]))).astype(float)
    return X, y, npvi.GPRegressor("poisson").fit(X, y)


def test_plug_in_is_one_model(counts):
    X, y, _ = counts
    model = npvi.GPRegressor(npvi.likelihoods.Poisson(), hyper="plug-in").fit(X, y)
    assert model.hyper_ is None
    assert type(model.predict_dist(X)) is Predictive
    assert model.fit_info_["hyper"] == {"done": "plug-in", "why": "asked for"}


def test_auto_says_what_it_did(counts):
    model = counts[2]
    done = model.fit_info_["hyper"]
    assert done["done"] == "integrate"
    assert done["models"] == len(model.fitted_.shares()) > 5
    assert np.isclose(sum(share for _, share in model.fitted_.shares()), 1.0)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2600, 2))
    larger = npvi.GPRegressor(npvi.likelihoods.Poisson(), "matern32").fit(X, rng.poisson(2.0, 2600))
    assert larger.fit_info_["hyper"]["done"] == "plug-in"
    assert "rows" in larger.fit_info_["hyper"]["why"]


def test_rows_in_another_order_give_the_same(counts):
    X, y, model = counts
    order = np.random.default_rng(0).permutation(len(y))
    other = npvi.GPRegressor("poisson").fit(X[order], y[order])
    np.testing.assert_array_equal(other.predict(X[:9]), model.predict(X[:9]))
    assert other.summary().equals(model.summary())


def test_files_keep_every_model(counts, tmp_path):
    X, _, model = counts
    model.save(tmp_path / "model.npvi")
    again = npvi.load(tmp_path / "model.npvi")
    one, other = model.predict_dist(X[:9]), again.predict_dist(X[:9])
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.std, other.std)
    assert again.summary().equals(model.summary())
    assert (tmp_path / "model.npvi").stat().st_size < 1_000_000


def test_weights_in_a_file_are_checked(counts, tmp_path):
    from npvi.io.packing import pack
    from npvi.io.unpacking import unpack

    metadata, arrays = pack(counts[2], {})
    metadata["hyper"]["weights"][0] = 7.0
    with pytest.raises(ValueError, match="hyper-parameters don't sum to 1"):
        unpack(metadata, arrays, {})


def test_updates_reach_every_model(counts):
    X, y, _ = counts
    model = npvi.GPRegressor(npvi.likelihoods.Poisson(), "matern32").fit(X, y)
    here = np.array([[0.5, 0.5]])
    before = [predict_alone(one, here, {}).mean[0] for one, _ in model.fitted_.shares()]
    model.update(np.repeat(here, 3, axis=0), [40.0, 41.0, 39.0])
    for (one, _), mean in zip(model.fitted_.shares(), before):
        assert one.graph.n_points == 123
        assert predict_alone(one, here, {}).mean[0] > 1.3 * mean


@pytest.mark.parametrize(
    ("settings", "words"), [({"hyper": "all"}, "hyper must be one of"), ({"method": "npvi-nn"}, "npvi-nn")]
)
def test_what_does_not_go_is_said(counts, settings, words):
    X, y, _ = counts
    model = npvi.GPRegressor("poisson", **{"hyper": "integrate", **settings})
    with pytest.raises(ValueError, match=words):
        model.fit(X, y)


def test_three_labels_are_plugged_in():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 1))
    labels = np.array(["a", "b", "c"])[np.minimum((3.0 * X[:, 0]).astype(int), 2)]
    assert npvi.GPClassifier().fit(X, labels).fit_info_["hyper"]["done"] == "plug-in"
    with pytest.raises(ValueError, match="three or more labels"):
        npvi.GPClassifier(hyper="integrate").fit(X, labels)


def test_what_is_known_with_other_neighbours_does_not_mislead():
    """Length scales that differ move the neighbours on the way; the bound before and after are two functions."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    r = np.sqrt(5.0) * np.linalg.norm((X[:, None] - X[None]) / [1.5, 0.05], axis=-1)
    K = (1.0 + r + r**2 / 3.0) * np.exp(-r)
    y = np.linalg.cholesky(K + 1e-9 * np.eye(300)) @ rng.standard_normal(300) + 0.5 * rng.standard_normal(300)
    model = npvi.GPRegressor().fit(X, y)
    assert model.fit_info_["hyper"]["done"] == "integrate"
    table = model.summary()
    assert np.all(table["lower"].dropna() < table.loc[table["lower"].notna(), "value"])
    assert table.loc["kernel__length_scale[1]", "lower"] < 0.05 < table.loc["kernel__length_scale[1]", "upper"] < 0.1


def test_intervals_of_a_mixture_of_f():
    parts = [Predictive(npvi.likelihoods.Poisson(), [m, 0.0], [v, 1.0]) for m, v in ((0.0, 1.0), (3.0, 0.01))]
    mixed = MixturePredictive(parts, [0.7, 0.3])
    for end, q in zip(mixed.latent_interval(0.8), (0.1, 0.9)):
        below = 0.7 * ndtr(end[0]) + 0.3 * ndtr((end[0] - 3.0) / 0.1)
        np.testing.assert_allclose([below, ndtr(end[1])], q, atol=1e-9)


def test_the_surface_has_the_values_and_slopes_that_it_was_given():
    chart = Chart(SearchSpace({"x": 0.0, "y": 0.0}, {"x": REAL_NUMBER, "y": REAL_NUMBER}, {}, {}))

    def bound(z):
        bend = np.sin(z @ [1.0, 2.0])
        return -0.5 * (z[0] ** 2 + 0.5 * z[1] ** 2) + 0.2 * bend

    def slopes(of, z):
        return np.array([(of(z + step) - of(z - step)) / 2e-4 for step in 1e-4 * np.eye(2)])

    places = np.random.default_rng(0).uniform(-1.5, 1.5, size=(8, 2))
    known = [Evaluation(z, bound(z), slopes(bound, z), 1e-8) for z in places]
    surface = Surface(known, chart, np.zeros(2), np.eye(2), np.diag([1.0, 0.5]))
    for one in known:
        found = slopes(lambda z: float(surface(z[None])[0]), one.z)
        np.testing.assert_allclose(surface(one.z[None]), one.value, atol=1e-3)
        np.testing.assert_allclose(found, one.gradient, atol=1e-2)


@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_the_evidence_of_a_surface_is_that_of_a_gaussian_process(scale):
    """Of the values and slopes themselves, in whatever coordinates the surface has them."""
    chart = Chart(SearchSpace({"x": 0.0}, {"x": REAL_NUMBER}, {}, {}))
    x, error = np.linspace(-2.0, 2.0, 5), 0.05
    known = [Evaluation(np.array([at]), -np.cosh(at), np.array([-np.sinh(at)]), error) for at in x]
    surface = Surface(known, chart, np.zeros(1), scale * np.eye(1), np.zeros((1, 1)))
    length, height = scale * surface.length, surface.height
    depth = np.sqrt(2.0 * (surface.peak + np.cosh(x)))
    apart = x[:, None] - x
    own = height**2 * np.exp(-0.5 * (apart / length) ** 2)
    slope = own * apart / length**2
    noise = (error / depth) ** 2 + 1e-8 * height**2
    covariance = np.block(
        [
            [own + np.diag(noise), slope],
            [slope.T, own * (1.0 - (apart / length) ** 2) / length**2 + np.diag(noise) / scale**2],
        ]
    )
    seen = np.concatenate([depth - np.sqrt(2.0), np.sinh(x) / depth])
    expected = -0.5 * seen @ np.linalg.solve(covariance, seen) - 0.5 * np.linalg.slogdet(covariance)[1]
    assert surface.evidence == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("rows", [300, 600])
def test_the_bound_says_how_well_its_determinant_is_known(rows):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, 2))
    data = Data(npvi.likelihoods.Poisson(), rng.poisson(2.0, rows).astype(float))
    graph = build_graph(X, 20)
    objective = Learner({}, lambda X: graph).objective(Table(X, data, np.ones((rows, 1))), graph, None, careful=True)
    objective(Model(npvi.kernels.Matern52(0.3, 1.0), 1e-3, npvi.likelihoods.Poisson()))
    assert (objective.error > 0.0) == (rows > 400)
