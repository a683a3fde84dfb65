"""One call that judges a fitted model."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from npvi.checks import check_count, check_path, check_seed
from npvi.diagnostics import advice
from npvi.diagnostics.kernel_range import KernelRange, range_of
from npvi.diagnostics.means import NEIGHBORS, Means
from npvi.diagnostics.refit import Refit, refit_with_more_neighbors
from npvi.diagnostics.residuals import Correlogram, correlogram, normal_scores
from npvi.diagnostics.scores import score
from npvi.diagnostics.skewness import Skewness, skewness_of
from npvi.diagnostics.summed import judge_terms, places_of_terms
from npvi.estimators import BaseGP, VaryingNoiseRegressor, check_column, check_inputs, left_out, training_responses
from npvi.kernels import EARTH_RADIUS
from npvi.likelihoods import Gaussian, LogNormal, Softmax
from npvi.maps import inputs_of, training_inputs
from npvi.model import FittedTerms
from npvi.runtime.files import replacing
from npvi.runtime.parallel import threads

__all__ = ["Diagnosis", "diagnose", "distance_unit", "report"]


#: most rows that are left out, one at a time
_ROWS = 20_000


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What `diagnose` found; ``print`` it, or ``plot`` it.

    Attributes
    ----------
    model : the kind of model, its likelihood and kernel, as text.
    rows : number of rows judged.
    log_density : mean log density (log probability, for whole numbers) of the responses; higher is better.
    crps : mean continuous ranked probability score, in the units of the response; lower is better.
    interval_score : mean score of the 90 % intervals; lower is better.
    coverage : share of the responses inside central intervals, by their probability,
        ``{0.5: …, 0.8: …, 0.9: …, 0.95: …}``; randomised at the ends for responses that are whole numbers.
    mean : (rows,) predicted means.
    pit : (rows,) randomised probability integral transform, uniform if the predictions are right.
    pit_distance : largest distance between the distribution function of `pit` and that of uniform numbers.
    pit_pvalue : p-value of the Kolmogorov-Smirnov test that `pit` is uniform.
    means : sum and error of the predicted means, beside what was seen and simpler means.
    correlogram : correlation of the normal scores of `pit` against distance.
    range : the distance at which the kernel's correlation falls to 0.05, against the spacing of the training points.
    skewness : how skewed the marginals of f at the training rows are, where the model says that they are Gaussian.
    refit : what twice the neighbours change; None unless asked for.
    warnings : list of sentences; empty where nothing is wrong.
    X, y : inputs and responses of the rows, labels as their numbers.
    numbers : of the rows, in the table that they are from.
    tested : whether the model hasn't seen them; else each was left out.
    unit : of distances.
    places, axes : (rows, 2) where the rows are on a map and what its axes are called; None where inputs are no places.
    """

    model: str
    rows: int
    log_density: float
    crps: float
    interval_score: float
    coverage: dict[float, float]
    mean: NDArray[np.float64]
    pit: NDArray[np.float64]
    pit_distance: float
    pit_pvalue: float
    means: Means
    correlogram: Correlogram
    range: KernelRange
    skewness: Skewness
    refit: Refit | None = None
    warnings: list[str] = field(default_factory=list)
    X: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    y: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    tested: bool = True
    unit: str = "units of the inputs"
    places: NDArray[np.float64] | None = None
    axes: tuple[str, str] | None = None

    @property
    def residuals(self) -> NDArray[np.float64]:
        """Normal scores of `pit`: by how many standard deviations a response is above or below what was predicted."""
        return normal_scores(self.pit)

    def __str__(self) -> str:
        return report(self)

    def __repr__(self) -> str:
        return f"Diagnosis({self.model} on {self.rows:,} rows, {len(self.warnings)} warnings)"

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw coverage, PIT and the correlogram; write the figure to `path` where one is given.

        Returns
        -------
        matplotlib.figure.Figure
        """
        check_path(path, optional=True)
        from npvi.diagnostics.picture import draw, format_of

        kind = None if path is None else format_of(path)
        figure = draw(self)
        if path is not None:
            with replacing(path) as file:
                figure.savefig(file, format=kind)
        return figure


def diagnose(
    model: BaseGP,
    X: Any = None,
    y: Any = None,
    *,
    refit: bool | tuple[Any, ...] = False,
    draws: int = 200,
    n_bins: int = 8,
    seed: int = 0,
    **extras: Any,
) -> Diagnosis:
    """Judge a fitted model by rows that it hasn't seen; without any by its own, each predicted from all others.

    Leaving out takes no other fit (`npvi.estimators.leaving_out`), but hyper-parameters are those learned from all
    rows; of more than 20,000 rows a random part is judged.

    Distances are as the kernel measures them: in the units of the inputs (kilometres for `Sphere`) where one length
    scale is all there is, else in length scales.

    Rows held out at random are best. Rows held out in blocks share the error of the surface around them: their
    residuals correlate under the right model too.

    Parameters
    ----------
    model : fitted GPRegressor, VaryingNoiseRegressor or GPClassifier.
    X, y : rows that the model hasn't seen, and their responses; None to leave out rows of the fit.
    refit : whether to fit again with twice the neighbours, at the same hyper-parameters, on at most 5,000 rows. True
        splits the rows of X; training rows say more, as a tuple (X_train, y_train) or (X_train, y_train, extras) with
        a dictionary such as ``{"exposure": …}``.
    draws : draws per row for the CRPS, where it has no closed form.
    n_bins : most distances at which residual correlation is measured.
    seed : of everything random.
    **extras : as in ``predict_dist``, such as ``exposure``.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import npvi
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 10.0, size=(400, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(400)
    >>> model = npvi.GPRegressor(npvi.likelihoods.Gaussian(0.01), npvi.kernels.RBF(), learn=False)
    >>> model = model.fit(X[:300], y[:300])
    >>> diagnosis = npvi.diagnose(model, X[300:], y[300:])
    >>> diagnosis.warnings  # the noise has variance 0.09, not 0.01
    ['90 % intervals contain only 40 % of the responses']
    >>> print(diagnosis)  # doctest: +ELLIPSIS
    GPRegressor(Gaussian(), RBF()) on 100 rows
    ...
    """
    judged = model
    if isinstance(model, VaryingNoiseRegressor):
        check_is_fitted(model, "model_")
        if refit is not False:
            raise ValueError("refit is for models of one function: refit the `model_` of a VaryingNoiseRegressor")
        model = model.model_
    if not isinstance(model, BaseGP):
        raise TypeError(
            f"model must be a GPRegressor or a GPClassifier, got {type(model).__name__}; of a pipeline or a search "
            "take the fitted model inside it, and inputs as that model sees them"
        )
    check_is_fitted(model, "posterior_")
    if isinstance(model.likelihood_, Softmax):
        raise ValueError(
            f"diagnose takes models of numbers and of two labels, this one has {model.likelihood_.n_classes} labels: "
            "score it with log_score and score"
        )
    check_count(draws, "draws", 2)
    check_count(n_bins, "n_bins", 2)
    seed = check_seed(seed)
    if (X is None) != (y is None):
        raise ValueError("X and y go together: rows that the model hasn't seen, and what was observed there")
    if isinstance(model.fitted_, FittedTerms):
        if refit is not False:
            raise ValueError("refit is for models of one surface: compare fits of other terms with npvi.compare")
        return _of_terms(model, X, y, extras, draws, n_bins, seed)
    given, numbers = None, None
    if X is None:
        if extras or refit is not False:
            others = ", ".join([*extras, *(["refit"] if refit is not False else [])])
            raise ValueError(f"without X, rows of the fit are left out, which have all they need: leave out {others}")
        numbers = _some_rows(len(model.data_.y), seed)
        every = training_inputs(judged)
        X, given = _as_table(judged, every[numbers]), partial(_left_out, judged, numbers)
        labels = training_responses(judged)[numbers]
    else:
        labels = check_column(y, "y")
    inputs = check_inputs(model, X, reset=False)
    points = model.linear_part_.places(inputs)
    check_consistent_length(points, labels)
    again = _rows_to_refit(refit, X, labels, extras)
    response = labels if given is not None else model.likelihood_.check_response(model._encode_new(labels))
    model.likelihood_.check_row(extras, len(response), response)
    with threads(model.n_jobs):
        scores = score(judged, X, response, extras, draws, seed, given)
        kernel, training = model.kernel_, model.prior_.X
        places, residuals = kernel.coordinates(points), normal_scores(scores.pit)
        found = correlogram(places, residuals, n_bins=n_bins, seed=seed)
        sizes = correlogram(places, np.abs(residuals), n_bins=n_bins, seed=seed)
        far = range_of(kernel, training, seed)
        skewed = skewness_of(model.fitted_)
    more = None if again is None else refit_with_more_neighbors(model, *again, seed=seed)
    sentences = [
        advice.about_convergence(model.fit_info_),
        advice.about_bounds(model.fit_info_),
        None if given is not None else advice.about_seen_rows(training, points),
        advice.about_shared_places(training, points, model.prior_.nugget),
        advice.about_range(far),
        advice.about_neighbors(more),
        advice.about_skewness(skewed),
        advice.about_coverage(scores.coverage, len(response)),
        advice.about_bias(scores.pit),
        advice.about_means(scores.means, model.likelihood_, getattr(model, "hyperprior", None) is not None),
        advice.about_residuals(found),
        advice.about_spread(sizes, found, judged is model and _could_vary(model)),
    ]
    return Diagnosis(
        model=f"{type(judged).__name__}({model.likelihood_!r}, {kernel!r})",
        rows=len(response),
        **vars(scores),
        correlogram=found,
        range=far,
        skewness=skewed,
        refit=more,
        warnings=[sentence for sentence in sentences if sentence],
        X=inputs,
        y=np.asarray(response, dtype=np.float64),
        numbers=np.arange(len(response)) if numbers is None else numbers,
        tested=given is None,
        unit=distance_unit(model),
        **_on_map(judged, inputs),
    )


def _of_terms(model: Any, X: Any, y: Any, extras: dict[str, Any], draws: int, n_bins: int, seed: int) -> Diagnosis:
    if X is None and extras:
        raise ValueError("without X, rows of the fit are left out, which have all they need: leave out other settings")
    numbers = _some_rows(len(model.data_.y), seed) if X is None else None
    found = judge_terms(model, X, y, numbers, extras, draws, n_bins, seed)
    names = ", ".join(model.fitted_.design.names)
    where = places_of_terms(model)
    return Diagnosis(
        model=f"{type(model).__name__}({model.likelihood_!r}, {names})",
        rows=len(found.y),
        **vars(found.scores),
        correlogram=found.correlogram,
        range=KernelRange(np.nan, np.nan, np.nan),
        skewness=Skewness(np.zeros(0), False),
        warnings=found.warnings,
        y=found.y,
        numbers=np.arange(len(found.y)) if numbers is None else numbers,
        tested=X is not None,
        unit="units of the inputs" if where is None else f"units of {', '.join(where)}",
        places=found.places,
        axes=found.axes,
    )


def _some_rows(n: int, seed: int) -> NDArray[np.int64]:
    """All rows of the fit, or of many a random part."""
    if n <= _ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, _ROWS, replace=False))


def _left_out(model: Any, numbers: NDArray[np.int64], rows: NDArray[np.int64]) -> Any:
    return left_out(model, numbers[rows])


def _as_table(model: Any, X: NDArray[np.float64]) -> Any:
    """With names, where the model knows such."""
    if not hasattr(model, "feature_names_in_"):
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=model.feature_names_in_)


def _on_map(model: Any, X: NDArray[np.float64]) -> dict[str, Any]:
    """Where rows are on a map, as far as inputs are places."""
    try:
        found = inputs_of(model)
    except ValueError:
        return {}
    return {"places": X[:, list(found.places)], "axes": found.axes}


def _could_vary(model: BaseGP) -> bool:
    """Whether a `VaryingNoiseRegressor` would take its place."""
    return type(model.likelihood_) in (Gaussian, LogNormal) and not model.data_.row


def _rows_to_refit(
    refit: bool | tuple[Any, ...], X: Any, y: Any, extras: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any]] | None:
    if isinstance(refit, bool):
        return (X, y, extras) if refit else None
    if not isinstance(refit, tuple) or len(refit) not in (2, 3):
        raise ValueError("refit must be True, False, (X_train, y_train) or (X_train, y_train, {'exposure': …})")
    X_train, y_train, given = (*refit, {})[:3]
    return X_train, check_column(y_train, "y_train"), dict(given)


# -- what distances between rows are measured in ----------------------------------------------------------------------


#: names of longitudes and of latitudes, in lower case
_DEGREES = ({"lon", "lng", "long", "longitude"}, {"lat", "latitude"})


def distance_unit(model: Any) -> str:
    """In words: kilometres, the units of the inputs, or length scales, as the kernel of a fitted model measures.

    >>> import npvi
    >>> X = np.random.default_rng(0).uniform(0.0, 9.0, (40, 2))
    >>> [distance_unit(npvi.GPRegressor(kernel=k, learn=False).fit(X, X[:, 0])) for k in (
    ...     npvi.kernels.RBF(1.0), npvi.kernels.RBF([1.0, 2.0]), npvi.kernels.Sphere(npvi.kernels.RBF(100.0)))]
    ['units of the inputs', 'length scales', 'km']
    """
    X = model.prior_.X[:8]
    seen = model.kernel_.coordinates(X)
    if seen.shape[1] == 3 and np.allclose(np.linalg.norm(seen, axis=1), EARTH_RADIUS):
        return "km"
    if seen.shape != X.shape or not np.allclose(seen, X):
        return "length scales"
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        return "units of the inputs"
    named = [names[column] for column in model.linear_part_.coords]
    if len(named) == 2 and all(name.lower() in known for name, known in zip(named, _DEGREES)):
        return "degrees"
    return f"units of {', '.join(named)}"


# -- the report of a diagnosis, in plain text -------------------------------------------------------------------------


_WIDTH = 100


def report(found: Diagnosis) -> str:
    """All numbers of a diagnosis and its warnings, as lines of text."""
    parts = [_scores(found), _means(found), _intervals(found), _residuals(found), _range(found), _warnings(found)]
    how = "" if found.tested else " of the fit, each predicted from all others"
    words = f"{' '.join(found.model.split())} on {found.rows:,} rows{how}"
    title = textwrap.fill(words, _WIDTH, subsequent_indent="  ")
    return "\n\n".join([title, *("\n".join(lines) for lines in parts if lines)])


def _scores(found: Diagnosis) -> list[str]:
    return [
        "Scores",
        f"  mean log density     {found.log_density:>10.4g}   higher is better",
        f"  CRPS                 {found.crps:>10.4g}   lower is better, in the units of the response",
        f"  90 % interval score  {found.interval_score:>10.4g}   lower is better, in the units of the response",
    ]


def _means(found: Diagnosis) -> list[str]:
    means = found.means
    if not means.rows:
        return []
    lower, upper = (_number(end) for end in means.sum_interval)
    how = "" if means.together else ", rows taken as independent"
    known = np.isfinite(means.rmse_neighbors)
    nearest = f", the mean of the {NEIGHBORS} nearest rows {means.rmse_neighbors:.4g}" if known else ""
    return [
        "Means",
        f"  their sum            {_number(means.sum_predicted):>10}   seen {_number(means.sum_seen)}, expected between "
        f"{lower} and {upper} (90 %{how})",
        f"  RMSE                 {means.rmse:>10.4g}   a constant {means.rmse_constant:.4g}" + nearest,
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def _intervals(found: Diagnosis) -> list[str]:
    levels = "".join(f"{100 * level:>6.0f} %" for level in found.coverage)
    shares = "".join(f"{100 * share:>6.1f} %" for share in found.coverage.values())
    p = f"{found.pit_pvalue:.2g}" if found.pit_pvalue >= 1e-4 else "below 0.0001"
    return [
        "Intervals",
        f"  promise  {levels}",
        f"  contain  {shares}   of the responses",
        f"  the PIT is off uniform by at most {found.pit_distance:.2g} (Kolmogorov-Smirnov p-value {p})",
    ]


def _residuals(found: Diagnosis) -> list[str]:
    lines = [f"Correlation of residuals, by distance in {found.unit}", "  distance    correlation        pairs"]
    table = found.correlogram
    for distance, correlation, error, pairs in zip(table.distance, table.correlation, table.error, table.pairs):
        rounded = round(correlation, 3) + 0.0  # no −0
        lines.append(f"  {distance:<10.3g}{rounded:>7.3f} ± {error:.3f}  {pairs:>9,}")
    return lines if len(table) else []


def _range(found: Diagnosis) -> list[str]:
    far = found.range
    if np.isnan(far.ratio):
        return []
    if np.isinf(far.distance):
        return ["Range of the kernel", "  its correlation never falls to 0.05"]
    return [
        "Range of the kernel",
        f"  its correlation falls to 0.05 at distance {far.distance:.3g} ({found.unit}), {far.ratio:.3g} times the "
        f"spacing of the training points ({far.spacing:.3g})",
    ]


def _warnings(found: Diagnosis) -> list[str]:
    more = found.refit
    lines = []
    if more is not None and np.isfinite(more.change):
        lines = [
            "Neighbours",
            f"  K={more.n_neighbors} changes the log density by {more.change:.3f} ± {more.error:.3f} ({more.rows:,} "
            "rows fitted again)",
            "",
        ]
    if not found.warnings:
        return [*lines, "No warnings"]
    wrapped = [
        textwrap.fill(sentence, _WIDTH, initial_indent="  * ", subsequent_indent="    ") for sentence in found.warnings
    ]
    return [*lines, "Warnings", *wrapped]
