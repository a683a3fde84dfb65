"""From data to what a network sees: a guess at the posterior by exact algebra, and unit-free numbers about it.

The guess takes a few Newton rounds for the mean, from y's own sites on, and one set of column solves for the variances.
What it lacks to the optimum a network has to supply, in units of the guess's own standard deviations. Nothing that the
network sees or says has a unit: neither those of inputs and responses, nor the scale of f.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

__all__ = ["FEATURES", "FURTHEST", "Guess", "Sites", "View", "guess", "sites"]

#: steps of message passing where no round is taken
_HOPS = 5
#: below, what an observation says makes no difference
_NOTHING = 1e-6
#: a network may move a guess by no more than this many standard deviations, and a variance by no more than this factor
#: on the scale of logarithms
FURTHEST = (30.0, 4.0)

#: what a network sees of a point
FEATURES = (
    "variance against that given all other points",
    "prior variance given the parents",
    "prior variance",
    "slope in the mean",
    "slope in the deviation",
    "curvature in the mean",
    "curvature in mean and deviation",
    "curvature in the deviation",
    "what is left of the equation for the mean",
    "information before the last round",
    "information after it",
    "last step",
)


class View(Protocol):
    """Data under a prior, as far as a guess needs them: all points together, or those of one patch.

    Arrays are NumPy's or JAX's, as `xp` says.
    """

    @property
    def xp(self) -> Any:
        """`numpy`, or `jax.numpy`."""
        ...

    start: Any
    """y's own fitted values, and how far from them f may be, both of shape (N,)."""
    start_variance: Any
    precision_diagonal: Any
    conditional_variance: Any
    marginal_variance: Any

    def pull(self, mean: Any) -> Any:
        """P mean."""
        ...

    def solve(self, precision: Any, slope: Any) -> Any:
        """(P + W)⁻¹ slope."""
        ...

    def variance(self, precision: Any) -> Any:
        """Marginal variances of the best L Lᵀ for these site precisions."""
        ...

    def expectations(self, mean: Any, variance: Any) -> tuple[Any, Any]:
        """Gradient in the mean, and site precision, of the expected log-likelihood."""
        ...

    def curvatures(self, mean: Any, sd: Any) -> tuple[Any, Any, Any, Any, Any]:
        """First and second derivatives: in mean, in sd, in both means, in mean and sd, in both sds."""
        ...


class Guess(NamedTuple):
    """Means, variances, and what a network is told about each point, shape (N, 12)."""

    mean: Any
    variance: Any
    features: Any


class Sites(NamedTuple):
    """What stands in for the observations: the expected log-likelihood, expanded around `mean`."""

    mean: Any
    gradient: Any
    precision: Any


def guess(view: View, rounds: int) -> Guess:
    """The guess after some rounds, each with a solve; with none of them by a few steps of message passing."""
    xp = view.xp
    mean, variance = view.start, view.start_variance
    gradient, w = view.expectations(mean, variance)
    w = before = xp.maximum(w, 0.0)
    step = xp.zeros_like(mean)
    for _ in range(rounds):
        step = view.solve(w, gradient - view.pull(mean))
        mean, before = mean + step, w
        gradient, w = view.expectations(mean, 1.0 / (view.precision_diagonal + w))
        w = xp.maximum(w, 0.0)
    if not rounds:
        fixed = w * mean + gradient
        mean = fixed / (w + 1.0 / view.marginal_variance)
        for _ in range(_HOPS):
            step = 0.5 * (fixed - w * mean - view.pull(mean)) / (view.precision_diagonal + w)
            mean = mean + step
    variance = view.variance(w)
    gradient, after = view.expectations(mean, variance)
    after = xp.maximum(after, 0.0)
    return Guess(mean, variance, _features(view, mean, variance, gradient, before, after, step))


def _features(view: View, mean: Any, variance: Any, gradient: Any, before: Any, after: Any, step: Any) -> Any:
    xp = view.xp
    sd = xp.sqrt(variance)
    in_mean, in_sd, mean_mean, mean_sd, sd_sd = view.curvatures(mean, sd)
    columns = [
        xp.log(variance * (view.precision_diagonal + after)),
        xp.log(view.conditional_variance / variance),
        xp.log(view.marginal_variance / view.conditional_variance),
        xp.arcsinh(in_mean * sd),
        xp.arcsinh(in_sd * sd),
        0.5 * xp.arcsinh(10.0 * mean_mean * variance),
        0.5 * xp.arcsinh(10.0 * mean_sd * variance),
        0.5 * xp.arcsinh(10.0 * sd_sd * variance),
        xp.arcsinh((gradient - view.pull(mean)) * sd),
        xp.log(before * variance + _NOTHING),
        xp.log(after * variance + _NOTHING),
        xp.arcsinh(step / sd),
    ]
    return xp.stack(columns, axis=-1)


def sites(view: View, guessed: Guess, correction: Any) -> Sites:
    """Sites at the guess as a network corrects it: `correction` has shape (N, 2), for means and log variances."""
    xp = view.xp
    limits = xp.asarray(FURTHEST)
    correction = limits * xp.tanh(correction / limits)
    mean = guessed.mean + xp.sqrt(guessed.variance) * correction[..., 0]
    gradient, precision = view.expectations(mean, guessed.variance * xp.exp(correction[..., 1]))
    return Sites(mean, gradient, xp.maximum(precision, 0.0))
