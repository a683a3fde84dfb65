"""Pictures of a fit: how it went, and who informs whom."""

from __future__ import annotations

from typing import Any

import numpy as np

from npvi.checks import check_count
from npvi.maps.drawing import verbatim
from npvi.plot.style import INK, ORANGE, axes_for, tidy, title

__all__ = ["neighbourhood", "trace"]

#: observations that are drawn behind a neighbourhood
_BEHIND = 20_000
#: how far to either side a neighbourhood is drawn, in extents of the parents
_AROUND = 1.5


def trace(model: Any, ax: Any = None) -> Any:
    """Draw the bound and the two residuals of a fit, iteration by iteration.

    Parameters
    ----------
    model : fitted.
    ax : two axes of matplotlib; new ones unless given.

    Returns
    -------
    The two axes.

    Examples
    --------
    >>> import npvi
    >>> model = npvi.GPRegressor("poisson", learn=False).fit(np.arange(40.0)[:, None], np.arange(40) % 5)
    >>> bound, certificate = trace(model)
    >>> certificate.get_yscale()
    'log'
    """
    info = getattr(getattr(model, "model_", model), "fit_info_", None)
    if info is None:
        raise ValueError(f"model must be a fitted model of npvi, got {type(model).__name__}")
    left, right = axes_for(ax, 2)
    bound = np.asarray(info.get("elbo", ()), dtype=float)
    left.plot(np.arange(len(bound)), bound, "o-", color=INK, markersize=4)
    left.set(xlabel="iteration", ylabel="bound on the log evidence")
    left.ticklabel_format(axis="y", useOffset=False)
    end = "converged" if info.get("converged") else "NOT converged"
    title(left, "The bound", f"{len(bound)} values, {end}")
    for name, colour, marker in (("mean_residual", INK, "o-"), ("covariance_residual", ORANGE, "s--")):
        values = np.asarray(info.get(name, ()), dtype=float)
        right.plot(np.arange(len(values)), values, marker, color=colour, markersize=4, label=name.partition("_")[0])
    right.set(xlabel="iteration", ylabel="residual", yscale="log")
    right.legend(frameon=False, title="equations of the")
    title(right, "The certificate", "both small: this is the best Gaussian")
    for axis in (left, right):
        tidy(axis)
        axis.xaxis.get_major_locator().set_params(integer=True)
    return left, right


def neighbourhood(model: Any, row: int | None = None, ax: Any = None) -> Any:
    """Draw an observation's parents in the graph, and the weights that their values have in its own before the data.

    Parameters
    ----------
    model : fitted, with the prior "nngp".
    row : number of a row of the fit; the last one in the order unless given.
    ax : axes of matplotlib; new ones unless given.

    Returns
    -------
    Axes of matplotlib.

    Examples
    --------
    >>> import npvi
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> model = npvi.GPRegressor(learn=False).fit(X, X.sum(axis=1))
    >>> neighbourhood(model, 3).get_title(loc="left")
    'Row 3 and its parents'
    """
    model = getattr(model, "model_", model)
    prior: Any = getattr(model, "prior_", None)
    if not hasattr(prior, "conditional_mean_weights"):
        raise ValueError("model must be fitted with prior='nngp': others have no parents")
    graph = model.graph_
    n = graph.n_points
    row = int(graph.order[-1]) if row is None else check_count(row, "row", 0)
    if row >= n:
        raise ValueError(f"row must be the number of a row of the fit, from 0 to {n - 1}; got {row}")
    position = int(np.flatnonzero(graph.order == row)[0])
    parents = graph.parents[position]
    kept = parents >= 0
    parents, weights = parents[kept], prior.conditional_mean_weights[position][kept]
    axis = axes_for(ax, size=(6.4, 5.2))
    places, labels = _places(model)
    some = places[:: max(1, -(-n // _BEHIND))]
    axis.scatter(*some.T, s=np.clip(4000.0 / len(some), 0.5, 8.0), color="0.75", linewidths=0, rasterized=True)
    own, largest = places[position], max(float(np.abs(weights).max(initial=0.0)), 1e-300)
    for parent, weight in zip(parents, weights):
        colour, share = (INK if weight >= 0.0 else ORANGE), abs(weight) / largest
        style = "-" if weight >= 0.0 else "--"
        axis.plot(*np.transpose([own, places[parent]]), style, color=colour, linewidth=0.6 + 3.5 * share, alpha=0.8)
        axis.plot(*places[parent], "o", color=colour, markersize=3.0 + 4.0 * share)
    axis.plot(*own, "*", color="#c1272d", markersize=15, markeredgecolor="white")
    axis.set(xlabel=verbatim(labels[0]), ylabel=verbatim(labels[1]))
    title(axis, f"Row {row} and its parents", "thick: large weights; orange, dashed: negative")
    tidy(axis)
    return axis


def _places(model: Any) -> tuple[Any, tuple[str, str]]:
    """Where rows are drawn, in the graph's order: the first two inputs of the process, or the only one and y."""
    X = model.prior_.X
    named = getattr(model, "feature_names_in_", [f"x{number}" for number in range(model.n_features_in_)])
    names = [str(named[column]) for column in model.linear_part_.coords]
    if X.shape[1] == 1:
        return np.column_stack([X[:, 0], model.data_.y]), (names[0], "response")
    return X[:, :2], (names[0], names[1])
