"""Random small problems: fits and predictions of any likelihood, kernel, size, method, prior and mean.

Predictions must be finite, bounds must not fall, and all that a predictive distribution says of a response must agree.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from campaign.cases import Case, Surprise, check
from campaign.judging import watched

__all__ = ["SECONDS", "SHARES", "case", "count"]

SECONDS = 60.0
SHARES = {
    "did not converge": 0.01,
    "refused: network": 0.02,
    "refused: few rows": 0.005,
    "refused: few inducing points": 0.01,
    "refused: nugget": 0.01,
}

#: few sizes, so that most problems find their programs compiled
_SIZES = (1, 2, 3, 7, 30, 60, 80)
_SIZE_SHARES = (0.03, 0.03, 0.04, 0.1, 0.35, 0.35, 0.1)
_KERNELS = (
    "matern",
    "matern12",
    "matern32",
    "matern52",
    "rbf",
    "rational_quadratic",
    "periodic",
    "linear",
    "sum",
    "product",
)
#: draws of responses, and standard errors that their share below a number, or their mean, may be off
_DRAWS, _ERRORS = 400, 6.0
#: nugget from which on no matrix of a kernel whose variance is 1 may be called singular
_ENOUGH = 1e-2
#: a coordinate, its inverse and dy/dx: for all numbers, positive ones and shares
_SCALES: tuple[tuple[Callable[[Any], Any], ...], ...] = (
    (np.asarray, np.asarray, np.ones_like),
    (np.log, np.exp, lambda y: y),
    (special.logit, special.expit, lambda y: y * (1.0 - y)),
)
#: likelihoods that have y's own units, and the scale of their noise unless it is learned
_IN_UNITS = ("gaussian", "censored_gaussian", "laplace", "student_t")
_SMALLEST = float(np.finfo(np.float64).tiny)


def count() -> int:
    return 1000


def case(seed: int, number: int) -> Case:
    rng = np.random.default_rng([seed, number])
    settings, data = _problem(rng, number)
    said = {name: value for name, value in settings.items() if name != "random_state"}
    n, d = data["X"].shape
    with_ = ", ".join(name for name in data if name not in ("X", "y", "f"))
    what = f"{n} rows of {d} columns{', with ' + with_ if with_ else ''}; {said}"
    return Case(what, lambda: _run(settings, data))


def _problem(rng: np.random.Generator, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of a model, and data that could have come from one like it."""
    from npvi.likelihoods.registry import LIKELIHOODS

    families = [*LIKELIHOODS, "classes"]
    family = families[number % len(families)]  # each as often as the others
    n, d = int(rng.choice(_SIZES, p=_SIZE_SHARES)), int(rng.choice([1, 2, 2, 3]))
    X = rng.uniform(size=(n, d)) * 10.0 ** rng.uniform(-2.0, 3.0)
    if n > 3 and rng.uniform() < 0.2:  # some rows at one place
        X[rng.integers(n, size=n // 4)] = X[0]
    waves = rng.normal(size=(d, 3)) * rng.uniform(0.5, 4.0) / max(np.ptp(X), 1e-9)
    f = rng.uniform(0.2, 1.5) * np.sin(X @ waves).sum(axis=1) + rng.uniform(-1.0, 2.0)
    data: dict[str, Any] = {"X": X, "f": f}
    data |= _responses(rng, family, f)
    if rng.uniform() < 0.2:
        data["sample_weight"] = rng.choice([0.0, 0.5, 1.0, 3.0], n, p=[0.1, 0.2, 0.5, 0.2])
        data["sample_weight"][0] = 1.0
    method = str(rng.choice(["full", "full", "full", "npvi", "npvi-nn"]))
    settings: dict[str, Any] = {
        "likelihood": family,
        "kernel": str(rng.choice(_KERNELS)),
        "method": method,
        "prior": str(rng.choice(["nngp", "nngp", "nngp", "fitc", "nystrom"])) if method == "full" else "nngp",
        "mean": str(rng.choice(["constant", "constant", "zero", "linear"])),
        "n_neighbors": "auto" if rng.uniform() < 0.5 else int(rng.choice([1, 5, 20])),
        "learn": bool(rng.uniform() < 0.3),
        "nugget": None if rng.uniform() < 0.5 else float(10.0 ** rng.uniform(-4.0, 0.0)),
        "order": str(rng.choice(["maximin", "maximin", "grid", "random"])),
        "rule": str(rng.choice(["nearest", "nearest", "paper"])),
        "random_state": int(rng.integers(100)),
    }
    if settings["prior"] != "nngp":
        settings["n_inducing"] = int(rng.choice([1, 7, 30]))
    if settings["prior"] == "nystrom" and settings["nugget"] is None:
        settings["nugget"] = 0.1
    if settings["prior"] != "nngp" and family == "classes" and len(np.unique(data["y"])) > 2:
        settings["learn"] = False  # nothing can be learned there, as the error says
    if method == "npvi-nn" and not settings["learn"] and family in _IN_UNITS:
        # a network learns from where the iteration leads, which is nowhere for y thousands of the noise's scale apart
        data["y"] = data["y"] / max(float(np.abs(data["y"]).max()), _SMALLEST)
    if not settings["learn"]:
        settings["length_scale"] = float(np.ptp(X) * 10.0 ** rng.uniform(-1.5, 0.5)) or 1.0
    return settings, data


def _responses(rng: np.random.Generator, family: str, f: np.ndarray) -> dict[str, Any]:
    """y of a family given f, and what it takes per row."""
    n, mean, share = len(f), np.exp(f), special.expit(f)
    row: dict[str, np.ndarray] = {}
    if rng.uniform() < 0.5:
        if family in ("poisson", "negative_binomial", "zero_inflated_poisson", "hurdle_poisson", "tweedie"):
            row["exposure"] = rng.uniform(0.2, 5.0, n)
        if family in ("gaussian", "lognormal"):
            row["noise_variance"] = rng.uniform(0.01, 0.5, n)
    mean = mean * row.get("exposure", 1.0)
    if family in ("binomial", "beta_binomial"):
        row["trials"] = rng.integers(1, 13, n).astype(float)
        return {"y": rng.binomial(row["trials"].astype(int), share).astype(float), **row}
    if family in ("censored_gaussian", "censored_lognormal"):
        row["censored"] = rng.choice([-1.0, 0.0, 1.0], n, p=[0.1, 0.8, 0.1])
        row["censored"][0] = 0.0  # limits alone don't say how far beyond them the values are, and are refused
    noisy = f + 0.3 * rng.standard_normal(n)
    if family == "classes":
        labels = np.array(["a", "b", "c", "d"][: 2 if rng.uniform() < 0.5 else 4])
        return {"y": labels[np.digitize(noisy, np.linspace(-1.0, 2.0, len(labels) - 1))]}
    if family in ("gaussian", "laplace", "student_t", "censored_gaussian"):
        y = noisy * 10.0 ** rng.uniform(-3.0, 4.0)
    elif family in ("lognormal", "censored_lognormal"):
        y = np.exp(noisy)
    elif family in ("gamma", "exponential", "weibull"):
        y = rng.gamma(2.0, mean / 2.0) + 1e-9
    elif family == "beta":
        y = np.clip(rng.beta(5.0 * share, 5.0 * (1.0 - share)), 1e-6, 1.0 - 1e-6)
    elif family == "bernoulli":
        y = (rng.uniform(size=n) < share).astype(float)
    elif family == "ordinal":
        y = np.digitize(noisy, [0.0, 1.0]).astype(float)
    elif family == "tweedie":
        y = np.where(rng.uniform(size=n) < 0.3, 0.0, rng.gamma(2.0, mean / 2.0))
    else:  # counts
        y = rng.poisson(mean * (rng.uniform(size=n) < 0.8)).astype(float)
    return {"y": y, **row}


def _model(settings: dict[str, Any]) -> Any:
    """The estimator that settings stand for."""
    import npvi
    from npvi import kernels
    from npvi.kernels.registry import KERNELS

    rest = {name: value for name, value in settings.items() if name not in ("likelihood", "length_scale")}
    if "length_scale" in settings or rest["kernel"] in ("sum", "product"):  # one with numbers of its own
        scale = settings.get("length_scale", 1.0)
        objects: dict[str, Callable[[], Any]] = {
            "sum": lambda: kernels.RBF(scale) + kernels.Matern12(scale, 0.3),
            "product": lambda: kernels.Matern32(scale) * kernels.RationalQuadratic(3.0 * scale),
            "periodic": lambda: kernels.Periodic(scale, 2.0 * scale),
            "linear": lambda: kernels.Linear(0.5 / scale**2) + kernels.Constant(0.5),
        }
        rest["kernel"] = objects.get(rest["kernel"], lambda: KERNELS[rest["kernel"]](scale))()
    if settings["likelihood"] == "classes":
        return npvi.GPClassifier(**rest)
    return npvi.GPRegressor(settings["likelihood"], **rest)


def _run(settings: dict[str, Any], data: dict[str, Any]) -> str:
    X, y = data["X"], data["y"]
    row = {name: values for name, values in data.items() if name not in ("X", "y", "f", "sample_weight")}
    few = _few(settings, data)
    Z = far = np.vstack([X[:5], X.mean(axis=0), X[0] + 0.7 * np.ptp(X, axis=0)])
    if few:  # of no more rows than coefficients, exp f elsewhere may have any variance: `_check_far`
        telling = _telling(settings, data)
        Z = X[telling if telling.any() else slice(None)][:5]
    new = {name: np.resize(values, len(Z)) for name, values in row.items() if name != "censored"}
    if settings["likelihood"] == "classes" and len(np.unique(y)) < 2:
        return "left out"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = _model(settings).fit(X, y, data.get("sample_weight"), **row)
            dist = model.predict_dist(Z, **new)
        except (ValueError, TypeError) as error:
            return _refusal(error, settings, data, few)
    messages = [str(warning.message) for warning in said]
    with watched():
        for warning in said:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    check(not _several(settings, data), "a network recognised several functions")
    _check_bound(model)
    if few and settings["likelihood"] != "classes":
        _check_far(model, far, {name: np.resize(values, len(far)) for name, values in new.items()})
    if settings["likelihood"] == "classes" and not hasattr(dist, "quantile"):
        _check_probabilities(dist)
    else:
        _check_distribution(dist, row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = _model(settings).fit(X, y, data.get("sample_weight"), **row).predict_dist(Z, **new)
    for name in ("latent_mean", "latent_var"):
        if hasattr(dist, name):
            check(np.array_equal(getattr(dist, name), getattr(again, name)), f"{name} of a second fit is another")
    if any("converge" in message for message in messages):
        return "did not converge"
    return "worked"


def _few(settings: dict[str, Any], data: dict[str, Any]) -> bool:
    """Whether the rows that say anything of f are no more than a linear mean's coefficients."""
    return settings["mean"] == "linear" and np.count_nonzero(_telling(settings, data)) <= data["X"].shape[1] + 1


def _telling(settings: dict[str, Any], data: dict[str, Any]) -> np.ndarray:
    """Which rows say anything of f."""
    telling = data.get("sample_weight", np.ones(len(data["y"]))) > 0.0
    return telling & (data["y"] > 0.0) if settings["likelihood"] == "hurdle_poisson" else telling


def _several(settings: dict[str, Any], data: dict[str, Any]) -> bool:
    """Whether a network is asked for that would have to know several functions."""
    return settings["method"] == "npvi-nn" and settings["likelihood"] == "classes" and len(np.unique(data["y"])) > 2


def _check_far(model: Any, far: np.ndarray, row: dict[str, np.ndarray]) -> None:
    """Where next to nothing is known: f is finite, and so is a median; a mean is, or a warning says that it isn't."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dist = model.predict_dist(far, **row)
        mean = dist.mean
    for name, values in {"latent_mean": dist.latent_mean, "latent_var": dist.latent_var}.items():
        check(bool(np.isfinite(values).all()), f"{name} far from all data is not finite: {values}")
    check(not np.isnan(dist.quantile([0.05, 0.5, 0.95])).any(), "a quantile far from all data is nan")
    told = any("beyond all numbers" in str(warning.message) for warning in said)
    check(bool(np.isfinite(mean).all()) or told, f"a mean far from all data is {mean}, without a word")


def _refusal(error: Exception, settings: dict[str, Any], data: dict[str, Any], few: bool) -> str:
    """Data that were drawn from the model may be refused for few reasons, and few times (`SHARES`)."""
    text = str(error)
    unusable = type(error).__name__ == "UnusablePosteriorError"
    if _several(settings, data) and "method='npvi-nn' recognises the posterior of one function" in text:
        return "refused: several functions"
    if few and unusable:
        return "refused: few rows"
    # one of them says little of a function of three inputs
    if unusable and "n_inducing" in text and settings.get("n_inducing", np.inf) < len(data["X"]):
        return "refused: few inducing points"
    if unusable and "the network led to" in text:  # few rows teach little
        return "refused: network"
    no_factor = "positive definite" in text or type(error).__name__ == "NotPositiveDefiniteError"
    if no_factor and "nugget" in text and (settings["nugget"] or 0.0) < _ENOUGH:
        return "refused: nugget"
    if type(error).__name__ == "RecognizerError" and "method='full'" in text:
        return "refused: network"
    raise Surprise(f"a problem that is fine was refused: {type(error).__name__}: {text}") from error


def _check_bound(model: Any) -> None:
    trace = np.asarray(model.fit_info_.get("elbo", [model.elbo_]), dtype=float)
    check(bool(np.isfinite(trace).all()) and math.isfinite(model.elbo_), f"a bound is not finite: {trace}")
    falls = (trace[:-1] - trace[1:]) / np.maximum(1.0, np.abs(trace[:-1]))
    check(len(falls) == 0 or falls.max() < 1e-6, f"the bound falls by {max(falls, default=0):.2g} of itself: {trace}")


def _check_probabilities(dist: Any) -> None:
    shares = np.asarray(dist.probabilities if hasattr(dist, "probabilities") else dist.mean)
    check(bool(np.isfinite(shares).all()), f"probabilities are not finite: {shares}")
    check(bool(((shares >= 0.0) & (shares <= 1.0)).all()), f"probabilities beyond 0 and 1: {shares}")
    check(np.allclose(shares.sum(axis=-1), 1.0, atol=1e-6), f"probabilities that don't sum to 1: {shares}")


def _check_distribution(dist: Any, row: dict[str, np.ndarray]) -> None:
    """Moments, quantiles, distribution function, density and draws tell of one distribution."""
    with watched():
        mean, var = dist.mean, dist.var
        for name, values in {"latent_mean": dist.latent_mean, "latent_var": dist.latent_var, "mean": mean}.items():
            check(bool(np.isfinite(values).all()), f"{name} is not finite: {values}")
        # a Student t whose degrees of freedom are 2 or fewer has no variance
        heavy = type(dist.likelihood).__name__ == "StudentT" and float(np.asarray(dist.likelihood.df)) <= 2.0
        check(heavy or bool((np.isfinite(var) & (var >= 0.0)).all()), f"a variance is negative or not finite: {var}")
        levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
        quantiles = dist.quantile(levels)
        check(bool(np.isfinite(quantiles).all()), f"a quantile is not finite: {quantiles}")
        check(bool((np.diff(quantiles, axis=0) >= 0.0).all()), f"quantiles cross: {quantiles}")
        discrete = dist.likelihood.support.discrete
        for level, quantile in zip(levels, quantiles):
            # the number before: a share may be nearer to 1, or to 0, than numbers are
            before = quantile - 1.0 if discrete else np.minimum(np.nextafter(quantile, -np.inf), quantile - _SMALLEST)
            at, below = dist.cdf(quantile), dist.cdf(before)
            check(bool((at >= level - 1e-4).all()), f"cdf(quantile({level})) = {at}")
            check(bool((below <= level + 1e-4).all()), f"cdf is {below} at the number before quantile({level})")
        _check_density(dist, quantiles, discrete)
        _check_draws(dist, mean, var, quantiles[2], heavy)


def _check_density(dist: Any, quantiles: np.ndarray, discrete: bool) -> None:
    """The density is the derivative of the distribution function, and a probability its step."""
    if hasattr(dist.likelihood, "censored") or type(dist.likelihood).__name__.startswith("Censored"):
        return  # log_prob is that of what was seen
    if discrete:
        middle = quantiles[2]
        expected, got = dist.cdf(middle) - dist.cdf(middle - 1.0), np.exp(dist.log_prob(middle))
        what = f"P(Y = {middle}) is {got}, by steps of the cdf {expected}"
        check(np.allclose(expected, got, rtol=1e-3, atol=1e-5), what)
        return
    low, high = dist.quantile([0.45, 0.55])  # near enough for few nodes, whatever the shape
    if dist.likelihood.support.atom is not None or not (high > low).all():
        return
    nodes, weights = np.polynomial.legendre.leggauss(16)
    # in the logarithm, or log-odds, in which responses next to an end are no steeper than others
    to, back, slope = _SCALES[(dist.likelihood.support.lower == 0.0) + (dist.likelihood.support.upper == 1.0)]
    first, last = to(low), to(high)
    places = [back(first + 0.5 * (last - first) * (z + 1.0)) for z in nodes]
    density = [np.exp(dist.log_prob(y)) * slope(y) for y in places]
    got = 0.5 * (last - first) * np.einsum("k,kn->n", weights, np.array(density))
    expected = dist.cdf(high) - dist.cdf(low)
    what = f"the density integrates to {got} from {low} to {high}, where the cdf rises by {expected}"
    check(np.allclose(got, expected, rtol=5e-3), what)


def _check_draws(dist: Any, mean: np.ndarray, var: np.ndarray, median: np.ndarray, heavy: bool) -> None:
    draws = dist.sample(_DRAWS, seed=0)
    check(bool(np.isfinite(draws).all()), "a draw is not finite")
    check(np.array_equal(draws, dist.sample(_DRAWS, seed=0)), "the same seed draws something else")
    share, expected = (draws <= median).mean(axis=0), dist.cdf(median)
    error = np.sqrt(np.maximum(expected * (1.0 - expected), 1e-3) / _DRAWS)
    off = np.abs(share - expected) / error
    check(bool((off < _ERRORS).all()), f"{share} of draws are below the median, where the cdf is {expected}")
    usual = draws.std(axis=0) > 0.2 * np.sqrt(var)  # tails that 400 draws don't see have most of the variance
    # of events that one draw in thousands is, chance brings one or two: a step each
    step = 1.0 / _DRAWS if dist.likelihood.support.discrete else 0.0
    off = np.abs(draws.mean(axis=0) - mean) / (np.sqrt(np.maximum(var, 1e-300) / _DRAWS) + step)
    if heavy or bool((off < _ERRORS)[usual].all()):
        return
    # one draw in a hundred thousand may be as large as all others together; it isn't there twice
    more = dist.sample(10 * _DRAWS, seed=1).mean(axis=0)
    off = np.minimum(off, np.abs(more - mean) / (np.sqrt(np.maximum(var, 1e-300) / (10 * _DRAWS)) + step))
    check(bool((off < _ERRORS)[usual].all()), f"draws have the mean {draws.mean(axis=0)} and {more}, not {mean}")
