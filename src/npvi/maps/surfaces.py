"""What a map or a table shows of a predictive distribution, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from npvi.checks import SHARE, as_numbers, check_number

__all__ = ["check_levels", "check_thresholds", "described", "exceed_name", "label_names", "surface_names", "surfaces"]

#: nodes of the integral over a nugget
_NODES = 40


def surfaces(
    dist: Any,
    quantiles: Sequence[float] = (),
    exceed: Sequence[float] = (),
    classes: Any = None,
) -> dict[str, NDArray]:
    """Mean, standard deviation, quantiles and probabilities of exceeding thresholds, one number per row each.

    Of two labels they are those of the probability of the second one, with the likelier label beside; of more the
    probability of each. What there is of the rows' reach comes last.

    Parameters
    ----------
    dist : of `predict_dist`.
    quantiles : from 0 to 1: "q5", "q50", …
    exceed : P(Y > t): "exceed_10", …
    classes : labels of a classifier.

    Examples
    --------
    >>> from npvi.likelihoods import Poisson
    >>> from npvi.predictive import Predictive, Reach
    >>> reach = Reach(np.zeros(2), np.zeros(2))
    >>> dist = Predictive(Poisson(), np.log([1.0, 20.0]), [0.0, 0.0], reach=lambda: reach)
    >>> found = surfaces(dist, [0.9], exceed=[2.0])
    >>> {name: values.round(3).tolist() for name, values in list(found.items())[1:4]}
    {'std': [1.0, 4.472], 'q90': [2.0, 26.0], 'exceed_2': [0.08, 1.0]}
    """
    if classes is None:
        found = {"mean": dist.mean, "std": dist.std}
        found |= {_quantile_name(q): values for q, values in zip(quantiles, dist.quantile(list(quantiles)))}
        found |= {exceed_name(t): dist.exceed(t) for t in exceed}
    else:
        if len(exceed):
            raise ValueError("exceed is for responses that are numbers: a label exceeds nothing")
        found = _of_labels(dist, classes, quantiles)
    return found | {"reach_distance": dist.reach.distance, "prior_share": dist.reach.prior_share}


def surface_names(quantiles: Sequence[float] = (), exceed: Sequence[float] = (), classes: Any = None) -> list[str]:
    """What `surfaces` has, before there are predictions.

    >>> surface_names([0.9], [2.0])
    ['mean', 'std', 'q90', 'exceed_2', 'reach_distance', 'prior_share']
    """
    own = ["mean", "std", *map(_quantile_name, quantiles), *map(exceed_name, exceed)]
    if classes is not None:
        own = [*(label_names(classes) if len(classes) > 2 else own), "label", "probability"]
    return [*own, "reach_distance", "prior_share"]


def described(name: str, unit: str = "a new response") -> str:
    """What a surface is, in words.

    >>> described("q95"), described("exceed_10")
    ('95 % quantile of a new response', 'probability that a new response exceeds 10')
    """
    if name.startswith("exceed_"):
        return f"probability that {unit} exceeds {name.removeprefix('exceed_')}"
    if name.startswith("p_"):
        return f"probability of {name.removeprefix('p_')}"
    known = {
        "mean": f"mean of {unit}",
        "std": f"standard deviation of {unit}",
        "label": "likeliest label",
        "probability": "probability of the likeliest label",
        "reach_distance": "distance to the nearest observation, in length scales",
        "prior_share": "share of the variance before the data that is left",
    }
    return known[name] if name in known else f"{name.removeprefix('q')} % quantile of {unit}"


def label_names(classes: Any) -> list[str]:
    """Names of the probabilities of three or more labels."""
    return [f"p_{label}" for label in classes]


def check_levels(quantiles: Any) -> list[float]:
    """Quantiles as a list of numbers between 0 and 1."""
    return [check_number(q, "quantiles", SHARE, "numbers between 0 and 1") for q in _listed(quantiles, "quantiles")]


def check_thresholds(exceed: Any) -> list[float]:
    """Thresholds as a list of numbers."""
    return [check_number(t, "exceed", words="finite numbers") for t in _listed(exceed, "exceed")]


def _listed(values: Any, name: str) -> list[Any]:
    if values is None:
        return []
    numbers = as_numbers(values, name)
    if numbers.ndim > 1:
        raise ValueError(f"{name} must be a number or a sequence of them; got shape {numbers.shape}")
    return [float(value) for value in np.atleast_1d(numbers)]


def _quantile_name(q: float) -> str:
    return f"q{100.0 * q:.10g}"


def exceed_name(t: float) -> str:
    """What the probability of exceeding t is called.

    >>> exceed_name(2.5)
    'exceed_2.5'
    """
    return f"exceed_{t:.10g}"


def _of_labels(dist: Any, classes: Any, quantiles: Sequence[float]) -> dict[str, NDArray]:
    """The probability of the second label, how uncertain it is, and the likelier label; of several that of each."""
    classes = np.asarray(classes)
    if len(classes) > 2:
        p = dist.probabilities
        return {**dict(zip(label_names(classes), p.T)), "label": dist.mode, "probability": p.max(axis=1)}
    link = dist.likelihood.links[dist.likelihood.link].mean_numpy
    centre, sd, mean = dist.latent_mean, np.sqrt(dist.latent_var), dist.mean
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    fresh = np.sqrt(dist.nugget)

    def probability_at(f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the second label where the surface is f: whatever the nugget of a row."""
        if not np.any(fresh > 0.0):
            return link(f)
        return np.sum([w * link(f + fresh * node) for node, w in zip(nodes, weights)], axis=0)

    square = sum(w * probability_at(centre + sd * node) ** 2 for node, w in zip(nodes, weights))
    found = {"mean": mean, "std": np.sqrt(np.maximum(square - mean**2, 0.0))}
    found |= {_quantile_name(q): probability_at(centre + ndtri(q) * sd) for q in quantiles}
    if len(classes) == 1:
        label, probability = np.zeros(len(mean), dtype=int), np.ones(len(mean))
    else:
        label, probability = (mean > 0.5).astype(int), np.maximum(mean, 1.0 - mean)
    return {**found, "label": classes[label], "probability": probability}
