"""The posterior of one model at given numbers: by closed forms, by stochastic gradients or by a network."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components import Stack
from npvi.graph import Graph
from npvi.inference import FAMILIES, Data, Start, fit_posterior, fit_softmax
from npvi.inference.stochastic import SGD
from npvi.kernels import diagonal, evaluate
from npvi.learning import Model, Table
from npvi.likelihoods import Softmax, conditional_moments, predictive_moments
from npvi.model.fitted import Fitted
from npvi.model.linear_part import LinearPart
from npvi.model.spec import Spec
from npvi.priors import NNGP
from npvi.runtime import progress
from npvi.runtime.warn import warn

__all__ = ["Clock", "ScaleWarning", "Task", "UnusablePosteriorError", "fitted_at", "infer", "not_converged"]


class ScaleWarning(UserWarning):
    """The kernel's length scale doesn't fit the inputs."""


#: times the largest response: no mean is as large where a posterior makes sense
_BEYOND = 1e30


class UnusablePosteriorError(ValueError):
    """A posterior that no prediction should be made from."""


@dataclass(frozen=True)
class Task:
    """What is fitted: a model, and the rows it is fitted to.

    Attributes
    ----------
    spec : the model as it was said to be.
    table : the rows, in an order that doesn't depend on the caller's, unless that is asked for.
    rows : the caller's number of each.
    part : which columns the process sees, and which enter the mean.
    coefficient_precision : of the prior of the mean's coefficients.
    """

    spec: Spec
    table: Table
    rows: NDArray[np.int64]
    part: LinearPart
    coefficient_precision: NDArray[np.float64]


class Clock:
    """Seconds per stage.

    >>> clock = Clock()
    >>> clock.lap("graph")
    >>> list(clock.laps)
    ['graph']
    """

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """A stage ends here."""
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now


def fitted_at(
    task: Task, model: Model, graph: Graph, start: Start | None, clock: Clock | None = None, given: bool = False
) -> Fitted:
    """The posterior at the numbers of `model`, by itself; where these were `given` by a user, whether they make sense
    is looked at."""
    clock = Clock() if clock is None else clock
    ordered = task.table.take(graph.order)
    data = replace(ordered.data, likelihood=model.likelihood)
    prior: Any = model.prior(ordered.X, graph)
    if given:
        _warn_about_scale(prior, np.random.default_rng(0))
    clock.lap("prior")
    progress.report("prior", points=len(ordered))
    stack = model.stack(prior, ordered.basis)
    fit, recognizer = infer(task.spec, prior, data, stack, start, task.spec.seed)
    trend = fit.trend  # computed here, in these threads
    clock.lap("inference")
    prior.forget_precision()
    fitted = Fitted(
        spec=task.spec,
        model=replace(model, nugget=float(model.nugget)),
        graph=graph.relabelled(task.rows),
        prior=prior,
        posterior=fit.posterior,
        trend=trend,
        data=data,
        basis=ordered.basis,
        linear_part=task.part,
        elbo=fit.elbo,
        n_iter=max(1, fit.info["n_iter"]),
        info={**fit.info, "seconds": clock.laps},
        recognizer=recognizer,
    )
    return replace(fitted, info={**fitted.info, **fitted.sums()})


def _warn_about_scale(prior: NNGP, rng: np.random.Generator) -> None:
    """Warn where the kernel makes all points independent of each other, or all equal."""
    n = prior.graph.n_points
    if n < 3:
        return
    total = diagonal(prior.kernel, prior.X)
    # how much of a point's variance its parents explain, next to what the nugget leaves to explain
    explained = 1.0 - (prior.conditional_variance - prior.nugget) / total
    if np.median(explained[1:]) < 1e-3:
        warn(
            "the kernel makes nearly all points independent: neighbouring points hardly correlate, so predictions fall "
            "back to the prior mean. Is the length scale in the units of the inputs?",
            ScaleWarning,
        )
        return
    a, b = rng.integers(n, size=(2, 256))
    far = (prior.X[a] != prior.X[b]).any(axis=1)
    if far.any():
        a, b = a[far], b[far]
        correlation = evaluate(prior.kernel, prior.X[a], prior.X[b]) / (np.sqrt(total[a]) * np.sqrt(total[b]))
        if correlation.min() > 0.9999:
            warn(
                "the kernel makes all points equal: even distant points are perfectly correlated, so the fitted "
                "surface is flat. Is the length scale in the units of the inputs?",
                ScaleWarning,
            )


def infer(spec: Spec, prior: Any, data: Data, stack: Stack, start: Start | None, seed: int) -> tuple[Any, Any]:
    """A `Fit`, or the like for several classes, and the network that it took, if it took one.

    Every posterior of a model comes from here: one that isn't made of finite numbers, or expects infinite responses in
    its own rows, is refused.
    """
    found = _inferred(spec, prior, data, stack, start, seed)
    wrong = _wrong(found[0], prior, data)
    if wrong and found[0].info["interrupted"]:
        raise KeyboardInterrupt("fit interrupted before it had a usable posterior")
    if wrong and start is not None:  # it may have led astray
        found = _inferred(spec, prior, data, stack, None, seed)
        wrong = _wrong(found[0], prior, data)
    if wrong:
        if isinstance(spec.optimizer, SGD) and spec.optimizer.checkpoint is not None:
            raise UnusablePosteriorError(
                f"stochastic gradients led to no usable posterior: {wrong}. Take a smaller learning_rate, and delete "
                f"the checkpoint {spec.optimizer.checkpoint}, from which they would go on"
            )
        if spec.optimizer != "closed":
            raise UnusablePosteriorError(
                f"stochastic gradients led to no usable posterior: {wrong}. Take a smaller learning_rate"
            )
        if found[1] is not None:
            raise UnusablePosteriorError(
                f"the network led to no usable posterior: {wrong}. Take another network, or method='full'; nugget and "
                f"variance of the kernel may also be too large for the likelihood ({data.likelihood!r})"
            )
        weights = "" if data.weight is None else "weights (sample_weight) too small, "
        raise UnusablePosteriorError(
            f"the fit has no usable posterior: {wrong}. Nugget and variance of the kernel may be too large for the "
            f"likelihood ({data.likelihood!r}), {weights}or responses too far apart: give smaller ones, divide "
            "y by its typical size (and counts by an exposure), or take another likelihood or link"
        )
    return found


def _wrong(fit: Any, prior: Any, data: Data) -> str:
    """Why a posterior can't be used; empty where it can."""
    mean, variance = fit.posterior.mean, fit.posterior.variance
    if not np.isfinite(fit.elbo):
        return f"its bound is {fit.elbo}"
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        return "means or variances of f are not finite"
    if mean.ndim > 1:  # of several labels, whose probabilities are finite whatever f is
        return ""
    variance = fit.variance  # what isn't known of the coefficients included
    # as of new rows there; of those that were observed the one where the mean of exp f is largest
    fresh = prior.fresh_variance
    size = mean + 0.5 * (variance + fresh)
    highest = np.array([np.argmax(size if data.weight is None else np.where(data.weight > 0.0, size, -np.inf))])
    row = {name: values[highest] for name, values in data.row.items()}
    # its variance is off by what rounding makes of the kernel's
    rounding = np.finfo(float).eps * np.max(prior.marginal_variance)
    new = variance[highest] + fresh[highest] + rounding
    with np.errstate(all="ignore"):
        try:
            expected = predictive_moments(data.likelihood, mean[highest], new, row)[0]
        except NotImplementedError:  # a user's own class without moments
            return ""
    seen = np.abs(data.y[data.y != 0.0])
    if not expected[0] > _BEYOND * (seen.max() if len(seen) else 1.0):
        return ""
    # a user's own density may have no mean whatever f is
    if np.isfinite(conditional_moments(data.likelihood, np.zeros(1), row)[0][0]):
        f = f"{mean[highest[0]]:.3g} ± {np.sqrt(new[0]):.3g}"
        few = fresh[highest[0]] - prior.nugget > 0.5 * new[0]
        why = (
            "; most of it is what the inducing points leave open, of which there are too few (n_inducing)"
            if few
            else ""
        )
        return f"responses with f = {f} have a mean of {expected[0]:.3g}{why}"
    return ""


def _inferred(spec: Spec, prior: Any, data: Data, stack: Stack, start: Start | None, seed: int) -> tuple[Any, Any]:
    if spec.method == "npvi-nn":
        if isinstance(data.likelihood, Softmax):
            raise ValueError(
                "method='npvi-nn' recognises the posterior of one function, and three labels or more have one "
                "each: use method='full' or 'npvi'"
            )
        from npvi.amortized import inference  # rarely needed

        return inference.infer(spec.network, spec.solve, spec.refine, data, stack, seed, _report_iteration)
    if spec.optimizer != "closed":
        return _by_gradients(spec, prior, data, stack, start, seed), None
    solve: Any = fit_posterior
    if isinstance(data.likelihood, Softmax):
        solve = fit_softmax
    fit = solve(
        FAMILIES[spec.method](prior),
        data,
        stack,
        start,
        tolerance=spec.tol,
        max_iterations=spec.max_iter,
        progress=_report_iteration,
    )
    return fit, None


def _by_gradients(spec: Spec, prior: Any, data: Data, stack: Stack, start: Start | None, seed: int) -> Any:
    """The paper's own way to its posterior."""
    if isinstance(data.likelihood, Softmax):
        raise ValueError(
            "optimizer='sgd' is for one latent function, and three or more labels have one each: use optimizer='closed'"
        )

    settings = spec.optimizer if isinstance(spec.optimizer, SGD) else SGD()

    def report(numbers: dict[str, float]) -> None:
        progress.report("epoch", of=settings.epochs, **numbers)

    from npvi.inference.stochastic import fit_stochastic  # which needs JAX and optax

    return fit_stochastic(FAMILIES["npvi"](prior), prior, data, stack, start, settings, seed, report)


def _report_iteration(numbers: dict[str, float]) -> None:
    progress.report("iteration", **numbers)


def not_converged(info: dict[str, Any], max_iter: int) -> str:
    """What to tell of a fit that has not converged."""
    if info.get("optimizer") == "sgd":
        return (
            f"stochastic gradients ended {info['expected_gain']:.3g} below the largest bound, as seen from there: "
            "raise epochs or the learning rate, or use optimizer='closed'. See fit_info_"
        )
    reached = max(info["mean_residual"][-1], info["covariance_residual"][-1])
    why = f"max_iter={max_iter} was reached" if info["n_iter"] >= max_iter else "no further step raises the bound"
    return f"the fit did not converge to tol: {why} at a residual of {reached:.1e}. See fit_info_"
