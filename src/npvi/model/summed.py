"""A model whose predictor is a sum of terms: fitted, extended, asked."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.checks import among, rows_text
from npvi.components import Parts, PartsPrediction, Seen
from npvi.inference import AllOfParts, Data, PartsPosterior, without_own
from npvi.learning import (
    LearnedParts,
    PartsObjective,
    SearchSpace,
    integrate,
    learn_parts,
    telling_rows,
    unwrapped,
    with_values,
)
from npvi.likelihoods import Likelihood, Rates, conditional_moments
from npvi.model.fitted import Hyper, sums_of, warn_about_presences
from npvi.model.hyper import learned_table
from npvi.model.linear_part import constant_precision
from npvi.predictive import MixturePredictive, Predictive, Reach, reach_of
from npvi.priors import NotPositiveDefiniteError
from npvi.runtime import progress
from npvi.runtime.parallel import threads
from npvi.runtime.warn import warn
from npvi.terms import (
    Design,
    FieldPart,
    Linear,
    LinearPart,
    Offset,
    Setting,
    Term,
    TermPart,
    names_in,
    total_offset,
)

__all__ = [
    "FittedTerms",
    "TermsSpec",
    "columns_of",
    "fit_terms",
    "predict_terms",
    "restored",
    "standard_errors",
    "update_terms",
]

Vector = NDArray[np.float64]

#: rows up to which hyper-parameters are integrated over, where all is dense besides, and most of these
_ROWS, _MOST_NUMBERS = 2500, 12
#: the last digit of nodes, on the scale of learning
_DIGIT = 2.0**-10
#: steps with which second derivatives are found, on the scale of learning
_STEP = 0.05
#: variance of a predictor from which on means of exp η say little; and growth of the logarithm of a mean from η = 10 to
#: 20 that counts as exponential
_UNSURE, _STEEP = 9.0, 8.0
#: rows that choose a link, half of those from which on not all are asked, and nats that it must be better by
_TELLING, _CLEARLY = 4096, 3.0
#: rows of a prediction that are handled at a time
_TOGETHER = 2**16


@dataclass(frozen=True)
class TermsSpec:
    """Everything that defines a model made of terms.

    Attributes
    ----------
    terms : what the predictor is a sum of.
    likelihood : of the responses, where learning starts; with `npvi.fixed` and the like inside.
    learn : whether numbers are learned.
    coefficient_scale, hyperprior, hyper : as in `npvi.GPRegressor`.
    """

    terms: tuple[Term, ...]
    likelihood: Likelihood
    learn: bool = True
    coefficient_scale: Any = "weak"
    hyperprior: str | None = "weak"
    hyper: str = "auto"

    #: as of a `Spec`
    method: ClassVar[str] = "full"

    @property
    def summed(self) -> tuple[Term, ...]:
        """The terms that the predictor is the sum of: without offsets, where these multiply rates instead."""
        return tuple(one for one in self.terms if not (self._multiplies and isinstance(one, Offset)))

    @property
    def _multiplies(self) -> bool:
        """Whether an offset is a logarithm of exposure: under exp that is the same as adding it, and where the link
        bends away from exp, it is not to move the bend."""
        likelihood = unwrapped(self.likelihood, "likelihood")[0]
        return isinstance(likelihood, Rates) and likelihood.link != "exp"

    def multiplier(self, table: pd.DataFrame) -> Vector | None:
        """What the exposure of each row is multiplied with; None for 1."""
        offset = total_offset([one for one in self.terms if isinstance(one, Offset)], table)
        return None if offset is None or not self._multiplies else np.exp(offset)

    def exposed(self, row: Mapping[str, NDArray], table: pd.DataFrame) -> dict[str, NDArray]:
        """What there is per row, with an offset in the exposure where that is its place."""
        multiplier = self.multiplier(table)
        return dict(row) if multiplier is None else {**row, "exposure": row.get("exposure", 1.0) * multiplier}


class _Numbers:
    """What a sum of terms has of a model of one surface: a likelihood. Of the rest each part has its own."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a model with terms has no {name} of its own: see summary() and parts_")


@dataclass(frozen=True, eq=False)
class FittedTerms:
    """A fitted sum of terms. Nothing in it changes.

    Attributes
    ----------
    spec : what was said.
    table : the columns that terms use, a row for each observation.
    design : the terms, made for this table.
    values : of all parameters by full name, ``part__parameter`` and ``likelihood__parameter``.
    names : of the parts that are left; others were found to say nothing.
    posterior : of the numbers of these parts.
    data : the observations, with the likelihood that was learned.
    elbo, n_iter, info : the bound, and how it went; iterations on the way to hyper-parameters count.
    space : of what was learned, and where it ended.
    z : where that is.
    hyper : models at other hyper-parameters, which predict in its place.
    """

    spec: TermsSpec
    table: pd.DataFrame
    design: Design
    values: dict[str, Any]
    names: tuple[str, ...]
    posterior: PartsPosterior
    data: Data
    elbo: float
    n_iter: int
    info: dict[str, Any]
    space: SearchSpace | None = None
    hyper: Hyper | None = None
    errors: dict[str, Any] = field(default_factory=dict)

    #: not of several labels, and no model of another smoothness beside it
    several = False
    companion = None

    @property
    def likelihood(self) -> Likelihood:
        """With its numbers."""
        return self.data.likelihood

    @property
    def model(self) -> Any:
        """What estimators ask for: the likelihood."""
        return _Numbers(self.likelihood)

    @property
    def parts(self) -> list[TermPart]:
        """Those that are left."""
        return [part for part in self.design.parts if part.name in self.names]

    def at(self, values: dict[str, Any], mean: Vector, site_precision: Vector, elbo: float) -> FittedTerms:
        """The same model at other hyper-parameters, of which the posterior is known."""
        likelihood = with_values(self.likelihood, _of_likelihood(values))
        data = replace(self.data, likelihood=likelihood)
        posterior = _posterior(self.design, values, self.names, mean, site_precision)
        return replace(self, values=values, data=data, posterior=posterior, elbo=elbo, info={}, hyper=None)

    @cached_property
    def prediction(self) -> PartsPrediction:
        """What all predictions have in common."""
        return PartsPrediction(self.posterior.precision, self.posterior.mean)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "prediction"}

    @property
    def predictor(self) -> Vector:
        """The mean of η at the rows of the data."""
        return self.posterior.precision.parts.seen(self.posterior.mean)

    def shares(self) -> list[tuple[FittedTerms, float]]:
        """The models that have a say in predictions, and the share of each."""
        if self.hyper is None:
            return [(self, 1.0)]
        return list(zip(self.hyper.models, self.hyper.weights.tolist()))

    def cavities(self) -> tuple[Vector, Vector]:
        """Mean and variance of η at each row of the data given all observations but its own."""
        parts, posterior = self.posterior.precision.parts, self.posterior
        given = (self.predictor, posterior.variance, posterior.site_precision, parts.marginal_precision)
        return without_own(self.data, *given)


def fit_terms(
    spec: TermsSpec, table: pd.DataFrame, data: Data, rows: int | None = None, rival: Likelihood | None = None
) -> FittedTerms:
    """The model with its numbers, learned or given, and its posterior.

    Parameters
    ----------
    spec : what is fitted.
    table : columns that the terms use.
    data : the responses, with the likelihood that learning starts from.
    rows : how many rows say what knots and units are, if others came later.
    rival : the likelihood with another link, which is taken where the bound says clearly that it is better.

    Examples
    --------
    >>> from npvi.likelihoods import Gaussian
    >>> from npvi.terms import Group
    >>> table = pd.DataFrame({"site": list("aaabbbcccddd")})
    >>> y = np.array([1.0, 2.0, 3.0, 6.0, 7.0, 8.0, 3.0, 4.0, 5.0, 8.0, 9.0, 10.0])
    >>> spec = TermsSpec((Group("site"),), Gaussian(3.0), hyperprior=None, coefficient_scale=None, hyper="plug-in")
    >>> fitted = fit_terms(spec, table, Data(Gaussian(3.0), y))
    >>> round(fitted.values["1|site__sd"] ** 2, 1), round(fitted.values["likelihood__variance"], 2)
    (9.3, 1.0)
    """
    warn_about_presences(data)
    chosen: dict[str, Any] = {}
    if rival is not None and spec.learn:
        spec, chosen = _linked(spec, rival, table, data)
        data = replace(data, likelihood=spec.likelihood)
    data = replace(data, row=spec.exposed(data.row, table))
    design = _designed(spec, table, data, rows)
    if spec.learn:
        learned = _learned(design, data)
        objective, values, names = learned.objective, learned.values, learned.names
        space: SearchSpace | None = _at(objective, values)
        info = _learning_info(learned) | chosen
        fit, data = learned.fit, learned.data
    else:
        objective = PartsObjective(design.parts, data, design.offset, same=design.same, weak=design.setting.weak)
        values, names, space, info = objective.space.named(objective.space.vector()), design.names, None, {}
        fit, data = objective.fit(values)
    volume = sum(part.log_volume for part in design.parts if isinstance(part, LinearPart))
    posterior: Any = fit.posterior
    # the last fit begins where learning has ended, and may have nothing left to do
    about = {**fit.info, **info, **sums_of(data, fit.stack.seen(posterior.mean), posterior.variance)}
    about["n_iter"] = iterations = max(1, objective.iterations)
    fitted = FittedTerms(
        spec, table, design, values, names, posterior, data, fit.elbo - volume, iterations, about, space
    )
    if not fit.info["converged"]:
        warn(
            f"fit did not converge in {iterations} iterations: look at fit_info_, and try a likelihood with "
            "heavier tails, or fewer terms"
        )
    return _settled(fitted, objective) if spec.learn else fitted


def _learned(design: Design, data: Data, some: NDArray[np.int64] | None = None) -> LearnedParts:
    """What all rows say, or some of them."""
    parts: list[Any] = list(design.parts)
    offset = design.offset
    if some is not None:
        parts, data = [part.of_rows(some) for part in parts], data.take(some)
        offset = None if offset is None else offset[some]
    weak = design.setting.weak
    return learn_parts(
        parts, data, offset, same=design.same, weak=weak, report=lambda **of: progress.report("learn", **of)
    )


def _linked(spec: TermsSpec, rival: Likelihood, table: pd.DataFrame, data: Data) -> tuple[TermsSpec, dict[str, Any]]:
    """The same model, or that with the link of a rival where its bound is clearly the larger one; by some of the rows,
    where there are many."""
    bounds, some = [], None
    for likelihood in (spec.likelihood, rival):
        one = replace(spec, likelihood=likelihood)
        linked = replace(data, likelihood=likelihood, row=one.exposed(data.row, table))
        with warnings.catch_warnings():  # what there is to say is said of the one that is taken
            warnings.simplefilter("ignore")
            design = _designed(one, table, linked)
        if len(table) > 2 * _TELLING and some is None:
            some = telling_rows([part.alike for part in design.parts], len(table), _TELLING)
        bounds.append(_learned(design, linked, some).fit.elbo)
    gain = bounds[1] - bounds[0]
    found = {"gain": gain, "taken": bool(gain > _CLEARLY), "rows": len(table) if some is None else len(some)}
    return (replace(spec, likelihood=rival) if gain > _CLEARLY else spec), {"link": found}


def restored(
    spec: TermsSpec,
    table: pd.DataFrame,
    setting: Setting,
    constant_precision: float,
    data: Data,
    values: dict[str, Any],
    names: tuple[str, ...],
    *,
    mean: Vector,
    site_precision: Vector,
    elbo: float,
    n_iter: int,
) -> FittedTerms:
    """A fitted model from what can't be found again: its numbers, and the mean and the sites of its posterior."""
    design = Design(spec.summed, table, setting, constant_precision)
    if not set(names) <= set(design.names):
        raise ValueError(f"it has parts {', '.join(names)}, and its terms are {', '.join(design.names)}")
    objective = PartsObjective(
        design.parts,
        replace(data, likelihood=spec.likelihood),
        design.offset,
        same=design.same,
        weak=design.setting.weak,
    )
    if set(values) != set(objective.space.values):
        raise ValueError("its values are not those of its terms")
    for name, value in values.items():
        if np.shape(value) != np.shape(objective.space.values[name]) or not np.isfinite(value).all():
            raise ValueError(f"its {name} is {value!r}")
    posterior = _posterior(design, values, names, mean, site_precision)
    space = _at(objective, values) if spec.learn else None
    return FittedTerms(spec, table, design, values, names, posterior, data, elbo, n_iter, {}, space)


def _posterior(
    design: Design, values: Mapping[str, Any], names: Sequence[str], mean: Vector, site_precision: Vector
) -> PartsPosterior:
    shared = {**values, **{alias: values[other] for alias, other in design.same.items()}}
    kept = [part for part in design.parts if part.name in names]
    components = [part.component({name: shared[f"{part.name}__{name}"] for name in part.sought}) for part in kept]
    family = AllOfParts(Parts(components, design.offset))
    if mean.shape != (family.parts.size,) or len(site_precision) != len(family.parts.times(mean)):
        raise ValueError(f"its mean has {len(mean)} numbers where its parts have {family.parts.size}")
    covariance = family.covariance(site_precision)
    if covariance is None:
        raise ValueError("its site_precision makes no posterior")
    return family.posterior(mean, covariance)


def _of_likelihood(values: Mapping[str, Any]) -> dict[str, Any]:
    prefix = "likelihood__"
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _designed(spec: TermsSpec, table: pd.DataFrame, data: Data, rows: int | None = None) -> Design:
    likelihood, _ = unwrapped(data.likelihood, "likelihood")
    plain = replace(data, likelihood=likelihood)
    setting = Setting(
        len(table) if rows is None else rows, plain.latent_unit, spec.hyperprior == "weak", spec.coefficient_scale
    )
    return Design(spec.summed, table, setting, constant_precision(plain))


def _at(objective: PartsObjective, values: Mapping[str, Any]) -> SearchSpace:
    """What was learned, with its values."""
    space = objective.space
    named = {name: np.asarray(values[name], dtype=np.float64) for name in space.values}
    moved = object.__new__(SearchSpace)
    moved.values, moved.coordinates = named, space.coordinates
    return moved


def _learning_info(learned: LearnedParts) -> dict[str, Any]:
    slopes = [float(np.abs(slope).max()) for slope in learned.gradient.values()]
    about = {
        "evaluations": learned.evaluations,
        "largest_slope": max(slopes, default=0.0),
        "dropped": list(learned.dropped),
        "at_bound": list(learned.at_bound),
    }
    return {"learning": about, "at_bound": list(learned.at_bound)}


class _Given(dict):  # type: ignore[type-arg]
    """Values of parameters, as a model that can be had at others."""

    def at(self, values: Mapping[str, Any]) -> _Given:
        return _Given(values)


def _settled(fitted: FittedTerms, objective: PartsObjective) -> FittedTerms:
    """The model integrated over its hyper-parameters where that is wanted, or with what is known of each of them."""
    spec, space = fitted.spec, fitted.space
    assert space is not None
    exact = fitted.posterior.precision.is_dense
    why = ""
    if spec.hyper == "plug-in":
        why = "asked for"
    elif not len(space):
        why = "nothing was learned"
    elif spec.hyper == "auto" and not (exact and len(fitted.data.y) <= _ROWS and len(space) <= _MOST_NUMBERS):
        why = f"more than {_ROWS} rows, or many levels and places; hyper='integrate' does it all the same"
    if not why:
        highest = _highest(space, fitted.likelihood)
        try:
            bound, given = cast(Any, objective), cast(Any, _Given(fitted.values))
            found = integrate(bound, given, space, [], len(fitted.data.y), highest, _DIGIT)
        except np.linalg.LinAlgError:
            found = None
        if found is not None and found.settled:
            nodes = []
            for number, values in enumerate(found.models):
                progress.report("hyper", model=number + 1, of=len(found.models))
                nodes.append(_with_values(fitted, objective, dict(values)))  # type: ignore[call-overload]
            table = learned_table(found, found, 0.0)
            info = {"done": "integrate", "models": len(nodes), "evaluations": found.evaluations}
            return replace(fitted, hyper=Hyper(nodes, found.weights, table), info={**fitted.info, "hyper": info})
        why = "their posterior could not be followed"
    return replace(fitted, info={**fitted.info, "hyper": {"done": "plug-in", "why": why}})


def _with_values(fitted: FittedTerms, objective: PartsObjective, values: dict[str, Any]) -> FittedTerms:
    """The same model at other hyper-parameters."""
    gone = [part.name for part in fitted.design.parts if part.name not in fitted.names]
    fit, data = objective.fit(values, without=gone)
    posterior: Any = fit.posterior
    return replace(fitted, values=values, posterior=posterior, data=data, elbo=fit.elbo, info={}, hyper=None)


def standard_errors(fitted: FittedTerms) -> Vector:
    """Of what was learned, on the scale of learning, from second derivatives of the bound."""
    space = fitted.space
    assert space is not None
    likelihood = fitted.spec.likelihood
    objective = PartsObjective(
        fitted.design.parts,
        replace(fitted.data, likelihood=likelihood),
        fitted.design.offset,
        same=fitted.design.same,
        weak=fitted.design.setting.weak,
    )
    top = space.vector()
    curvature = np.zeros((len(top), len(top)))
    for i, step in enumerate(_STEP * np.eye(len(top))):
        ends = [np.clip(top + sign * step, space.low, space.high) for sign in (1.0, -1.0)]
        try:
            slopes = [objective.on_vector(z)[1] for z in ends]
        except NotPositiveDefiniteError:
            continue
        apart = ends[0][i] - ends[1][i]
        curvature[i] = (slopes[1] - slopes[0]) / apart if apart else 0.0
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    # a direction that the data say nothing about has a standard error of 10: about anything
    return np.asarray(np.sqrt((vectors**2 / (np.maximum(values, 0.0) + 0.01)).sum(axis=1)))


def predict_terms(
    fitted: FittedTerms,
    table: pd.DataFrame,
    row: dict[str, NDArray] | None = None,
    terms: Sequence[str] | None = None,
    n_jobs: int | None = None,
) -> Predictive | MixturePredictive:
    """The predictive distribution of the response at each row of a table, by all terms or by some.

    Parameters
    ----------
    fitted : the model, with those beside it.
    table : with the columns that the terms use.
    row : what there is per row besides, checked by the likelihood.
    terms : names of parts; without those that aren't named, and without an offset.
    n_jobs : threads.
    """
    row = row or {} if terms is not None else fitted.spec.exposed(row or {}, table)
    with threads(n_jobs):
        found = [_predicted(one, table, row, terms) for one, _ in fitted.shares()]
    return found[0] if len(found) == 1 else MixturePredictive(found, [share for _, share in fitted.shares()])


def _predicted(
    fitted: FittedTerms, table: pd.DataFrame, row: dict[str, NDArray], terms: Sequence[str] | None
) -> Predictive:
    design, prediction = fitted.design, fitted.prediction
    offset = None if terms is not None else design.offset_of(table)
    mean, variance = np.zeros((2, len(table)))
    every: list[list[Any]] = []
    for start in range(0, len(table), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        piece = table.iloc[some]
        new = [
            None if terms is not None and part.name not in terms else part.new_rows(component, piece)
            for part, component in zip(fitted.parts, prediction.parts.components)
        ]
        every.append(new)
        given = [z for z in prediction.means(new) if z is not None]
        mean[some] = sum(given, np.zeros(len(piece)))
        if given:
            variance[some] = prediction.variance(new)
        progress.report("predict", rows=min(len(table), start + _TOGETHER), of=len(table))
    if offset is not None:
        mean = mean + offset
    variance = np.maximum(variance, 0.0)
    if terms is None:
        _warn_about_tails(fitted.likelihood, variance)

    def together() -> Any:
        """All rows as one."""
        if len(every) == 1:
            return every[0]
        return [
            None if terms is not None and part.name not in terms else part.new_rows(component, table)
            for part, component in zip(fitted.parts, prediction.parts.components)
        ]

    joint = _Joint(prediction, together, mean)
    return Predictive(fitted.likelihood, mean, variance, row, joint, 0.0, _reach(fitted, table, terms))


def _highest(space: SearchSpace, likelihood: Likelihood) -> Vector:
    """Of the z of nodes: where responses grow like exp η, a part's variance is no more than 1 above the best one, as in
    models of one surface; larger ones would make means as large as you please, though hardly anybody expects them."""
    z = space.vector()
    if not _grows_like_exp(likelihood):
        return np.full(len(z), np.inf)
    of_parts = np.array([c.name.endswith("__sd") for c in space.coordinates], dtype=bool)
    return np.where(of_parts, 0.5 * np.log(np.exp(2.0 * z) + 1.0), np.inf)


def _grows_like_exp(likelihood: Likelihood) -> bool:
    """Whether the mean of a response does, far up."""
    try:
        low, high = np.log(np.maximum(conditional_moments(likelihood, np.array([10.0, 20.0]), {})[0], 1e-300))
    except NotImplementedError:  # a user's own class without moments
        return False
    return bool(high - low >= _STEEP)


def _warn_about_tails(likelihood: Likelihood, variance: Vector) -> None:
    """Warn where means are made by what is hardly possible: of responses that grow like exp η, exp(m + v/2)."""
    unsure = np.flatnonzero(variance > _UNSURE)
    if len(unsure) and _grows_like_exp(likelihood):
        warn(
            f"the predictor's standard deviation is above {np.sqrt(_UNSURE):g} in {len(unsure)} of {len(variance)} "
            f"{rows_text(unsure)}, far from all data: means of the response there are made by what is hardly possible, "
            "and so are sums. Use medians, quantile(0.5), or leave these rows out"
        )


class _Joint:
    """`Seen`, once it is asked for."""

    def __init__(self, prediction: PartsPrediction, together: Any, mean: Vector) -> None:
        self._prediction, self._together, self._mean = prediction, together, mean

    @cached_property
    def _seen(self) -> Seen:
        return Seen(self._prediction, self._together(), self._mean)

    @property
    def n_points(self) -> int:
        return self._prediction.parts.size + len(self._mean)

    def __call__(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self._seen(n, rng)

    def covariance(self, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Of the predictor between all rows, or of its weighted sums."""
        return self._seen.covariance(weights)


def _reach(fitted: FittedTerms, table: pd.DataFrame, terms: Sequence[str] | None) -> Any:
    """How far rows are from the data, as the first field sees them; NaN where there is no field."""
    fields = [
        (number, part)
        for number, part in enumerate(fitted.parts)
        if isinstance(part, FieldPart) and (terms is None or part.name in terms)
    ]
    if not fields:
        return lambda: Reach(np.full(len(table), np.nan), np.full(len(table), np.nan))
    number, part = fields[0]

    def reach() -> Reach:
        components = fitted.prediction.parts.components
        process: Any = components[number]
        new = part.new_rows(process, table)
        seen: list[Any] = [None] * len(components)
        seen[number] = new
        return reach_of(process.prior, new.places, fitted.prediction.variance(seen))

    return reach


def update_terms(fitted: FittedTerms, table: pd.DataFrame, new: Data) -> FittedTerms:
    """The model with more rows, at the hyper-parameters that it has; so with the models beside it.

    Knots, units and contrasts stay those of the rows it was fitted to; levels and places join.
    """
    every = pd.concat([fitted.table, table[list(fitted.table.columns)]], ignore_index=True)
    data = _joined(fitted.data, replace(new, row=fitted.spec.exposed(new.row, table)))
    rows = fitted.design.setting.rows
    design = Design(fitted.spec.summed, every, replace(fitted.design.setting, rows=rows), _constant(fitted))
    objective = PartsObjective(
        design.parts,
        replace(data, likelihood=fitted.spec.likelihood),
        design.offset,
        same=design.same,
        weak=design.setting.weak,
    )
    gone = [part.name for part in design.parts if part.name not in fitted.names]

    def extended(one: FittedTerms) -> FittedTerms:
        fit, learned = objective.fit(one.values, without=gone)
        posterior: Any = fit.posterior
        changed = {"table": every, "design": design, "posterior": posterior, "data": learned, "elbo": fit.elbo}
        return replace(one, **changed, info={**one.info, **fit.info})

    found = extended(fitted)
    if fitted.hyper is not None:
        nodes = [extended(node) for node in fitted.hyper.models]
        found = replace(found, hyper=replace(fitted.hyper, models=nodes))
    return found


def _constant(fitted: FittedTerms) -> float:
    linear = [part for part in fitted.design.parts if isinstance(part, LinearPart) and part.constant]
    return float(linear[0].held.precision[linear[0].names.index("constant")]) if linear else 0.0


def _joined(old: Data, new: Data) -> Data:
    weight = None
    if old.weight is not None or new.weight is not None:
        both = [np.ones(len(one.y)) if one.weight is None else one.weight for one in (old, new)]
        weight = np.concatenate(both)
    row = {name: np.concatenate([values, new.row[name]]) for name, values in old.row.items()}
    return Data(old.likelihood, np.concatenate([old.y, new.y]), row, weight)


def columns_of(terms: Sequence[Term], columns: Sequence[str]) -> list[str]:
    """The columns that terms use, in the order of those that there are; an error names one that isn't there.

    >>> from npvi.terms import Group
    >>> columns_of([Linear("forest", "log(depth)")], ["depth", "slope", "forest"])
    ['depth', 'forest']
    >>> columns_of([Group("sight")], ["depth", "site"])
    Traceback (most recent call last):
    ValueError: 1|sight: there is no column 'sight': did you mean 'site'? There are depth, site
    """
    used: set[str] = set()
    for term in terms:
        if isinstance(term, Linear | Offset):
            used |= names_in(term, columns)
            continue
        for name in _columns(term):
            if name not in columns:
                raise ValueError(f"{term.name}: there is no column {name!r}{among(name, columns)}")
            used.add(name)
    return [name for name in columns if name in used]


def _columns(term: Any) -> list[str]:
    """Of a term that isn't made of expressions."""
    if hasattr(term, "over") and hasattr(term, "column"):
        return [term.column, *_columns(term.over)]
    found = list(term.columns)
    found += list(getattr(term, "slope", ()))
    by = getattr(term, "by", None)
    if by is not None:
        found.append(by if isinstance(by, str) else by.column)
    return found
