"""Pictures of a diagnosis: is it calibrated, and what is left in the residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from npvi.checks import check_choice
from npvi.maps.drawing import verbatim
from npvi.plot.style import ALERT, INK, ORANGE, SOFT, axes_for, plain_ticks, tidy, title

__all__ = ["calibration", "residuals"]

#: most groups of rows with like predictions, and dots
_GROUPS, _DOTS = 20, 20_000
#: residuals at which colours end, in standard deviations
_FAR = 3.0


def calibration(found: Any, ax: Any = None) -> Any:
    """Draw how many responses intervals hold, and where responses fall in their distributions (the PIT).

    The bands are where chance alone goes: a line and bars within them are those of a calibrated model. Bars that are
    high at both ends mean intervals that are too narrow, in the middle too wide, a slope predictions that are too high
    or too low.

    Parameters
    ----------
    found : what `npvi.diagnose` returned.
    ax : two axes of matplotlib; new ones unless given.

    Returns
    -------
    The two axes.

    Examples
    --------
    >>> import npvi
    >>> X = np.random.default_rng(0).uniform(0.0, 9.0, (100, 1))
    >>> model = npvi.GPRegressor(learn=False).fit(X, np.sin(X[:, 0]))
    >>> intervals, pit = calibration(npvi.diagnose(model))
    >>> pit.get_title(loc="left")
    'Is the PIT flat?'
    """
    _check(found)
    left, right = axes_for(ax, 2)
    _coverage(left, found)
    _pit(right, found)
    return left, right


def residuals(found: Any, by: str = "distance", ax: Any = None) -> Any:
    """Draw what is left in the residuals, which are normal scores: standard deviations above or below the prediction.

    Parameters
    ----------
    found : what `npvi.diagnose` returned.
    by : {"distance", "place", "mean"}
        Their correlation between rows at some distance, which is 0 where the model has got all structure; a map of
        them, for models of places; or observed against predicted means, in groups of rows with like predictions.
    ax : axes of matplotlib; new ones unless given.

    Returns
    -------
    Axes of matplotlib.

    Examples
    --------
    >>> import npvi
    >>> X = np.random.default_rng(0).uniform(0.0, 9.0, (100, 2))
    >>> model = npvi.GPRegressor(learn=False).fit(X, np.sin(X[:, 0]))
    >>> residuals(npvi.diagnose(model), by="place").get_xlabel()
    'x'
    """
    _check(found)
    check_choice(by, "by", tuple(_KINDS))
    if by == "place" and found.places is None:
        raise ValueError(
            "by='place' is for models of places on a map; of this one by='distance' and by='mean' say more"
        )
    axis = axes_for(ax)
    _KINDS[by](axis, found)
    return axis


def _check(found: Any) -> None:
    if not hasattr(found, "pit") or not hasattr(found, "correlogram"):
        raise ValueError(
            "found must be what npvi.diagnose(model, X_test, y_test) or npvi.diagnose(model) returns, got "
            f"{type(found).__name__}"
        )


def _coverage(axis: Any, found: Any) -> None:
    levels = np.linspace(0.0, 1.0, 101)
    distance = np.sort(np.abs(found.pit - 0.5))
    held = np.searchsorted(distance, 0.5 * levels, side="right") / len(distance)
    error = 2.0 * np.sqrt(levels * (1.0 - levels) / found.rows)
    axis.fill_between(100 * levels, 100 * (levels - error), 100 * (levels + error), color=SOFT, linewidth=0)
    axis.plot([0, 100], [0, 100], color="0.5", linewidth=1)
    axis.plot(100 * levels, 100 * held, color=INK, linewidth=2)
    axis.plot([100 * level for level in found.coverage], [100 * s for s in found.coverage.values()], "o", color=INK)
    axis.set(xlim=(0, 100), ylim=(0, 100), xlabel="intervals of … %", ylabel="contain … % of the responses")
    share = f"90 % intervals contain {100 * found.coverage[0.9]:.0f} %"
    title(axis, "Intervals", f"{share}; grey: promised, band: chance")
    tidy(axis)


def _pit(axis: Any, found: Any) -> None:
    bins = int(np.clip(found.rows // 20, 5, 20))
    error = 2.0 * np.sqrt((bins - 1) / found.rows)
    axis.hist(found.pit, bins=bins, range=(0.0, 1.0), density=True, color=INK, edgecolor="white")
    axis.axhspan(1.0 - error, 1.0 + error, color=SOFT, alpha=0.6, linewidth=0)
    axis.axhline(1.0, color="0.5", linewidth=1)
    axis.set(xlim=(0, 1), xlabel="where responses fall in their distribution (PIT)", ylabel="density")
    axis.set_ylim(0.0, 1.1 * max(axis.get_ylim()[1], 1.0 + error))
    p = f"= {found.pit_pvalue:.2g}" if found.pit_pvalue >= 1e-4 else "< 0.0001"
    title(axis, "Is the PIT flat?", f"Kolmogorov-Smirnov p {p}; band: chance")
    tidy(axis)


def _by_distance(axis: Any, found: Any) -> None:
    table = found.correlogram
    axis.axhline(0.0, color="0.5", linewidth=1)
    if len(table):
        same_place = table.distance[0] == 0.0 and len(table) > 1
        shown = table.distance.copy()
        if same_place:
            shown[0] = 0.5 * shown[1]  # a place for 0 on a logarithmic axis
        axis.errorbar(shown, table.correlation, 2.0 * table.error, fmt="o-", color=INK, capsize=3)
        axis.set_xscale("log")
        limit = min(1.05, max(0.2, 1.1 * float(np.max(np.abs(table.correlation) + 2.0 * table.error))))
        axis.set_ylim(-limit, limit)
        low, high = axis.get_xlim()
        _mark_range(axis, found.range.distance, low, high)
        plain_ticks(axis, 1.4 * shown[0] if same_place else low, high, shown[0] if same_place else None)
    axis.set(xlabel=f"distance between rows ({verbatim(found.unit)})", ylabel="correlation of residuals")
    title(axis, "What is left in the residuals", "0 is right; bars: two standard errors")
    tidy(axis)


def _mark_range(axis: Any, distance: float, low: float, high: float) -> None:
    if not low < distance < high:
        return
    axis.axvline(distance, color=ALERT, linestyle=":")
    left = distance**2 > low * high  # in the right half there is no room on the right
    axis.annotate(
        "range of the kernel",
        (distance, 0.03),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if left else 4, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        color=ALERT,
        fontsize=9,
    )


def _by_mean(axis: Any, found: Any) -> None:
    order = np.argsort(found.mean, kind="stable")
    groups = np.array_split(order, int(np.clip(len(order) // 25, 1, _GROUPS)))
    mean, seen = (np.array([values[rows].mean() for rows in groups]) for values in (found.mean, found.y))
    error = np.array([found.y[rows].std() / np.sqrt(max(1, len(rows) - 1)) for rows in groups])
    wide = bool(mean[0] > 0.0 and mean[-1] > 50.0 * mean[0] and np.all(found.y >= 0.0))
    some = order[:: max(1, -(-len(order) // _DOTS))]
    label = "one row, zeros not shown" if wide else "one row"
    axis.plot(found.mean[some], found.y[some], ".", color=SOFT, markersize=4, label=label, zorder=1, rasterized=True)
    kept = seen > 0.0 if wide else np.ones(len(seen), dtype=bool)
    bars = 2.0 * error[kept]
    lower = np.minimum(bars, 0.8 * np.abs(seen[kept])) if wide else bars
    axis.errorbar(
        mean[kept],
        seen[kept],
        [lower, bars],
        fmt="o",
        color=INK,
        capsize=3,
        label="mean of a group",
    )
    ends = [float(min(mean.min(), seen[kept].min(initial=mean.min()))), float(max(mean.max(), seen.max()))]
    axis.plot(ends, ends, color=ALERT, linestyle="--", linewidth=1.2, label="as predicted")
    if wide:
        axis.set(xscale="log", yscale="log")
    axis.set(xlabel="predicted mean", ylabel="observed")
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    title(axis, "Observed against predicted", "groups on the dashed line are right; bars: two standard errors")
    tidy(axis)


def _by_place(axis: Any, found: Any) -> None:
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    colours = LinearSegmentedColormap.from_list("residuals", [INK, "#f2f2f0", ORANGE])
    x, y = found.places.T
    order = np.argsort(np.abs(found.residuals), kind="stable")[-_DOTS:]  # the largest last, on top
    size = float(np.clip(4000.0 / len(order), 1.5, 22.0))
    dots = axis.scatter(
        x[order],
        y[order],
        c=found.residuals[order],
        s=size,
        cmap=colours,
        norm=Normalize(-_FAR, _FAR),
        linewidths=0.2,
        edgecolors="0.5",
        rasterized=True,
    )
    degrees = found.axes[0].lower().startswith(("lon", "lng"))
    middle = 0.5 * float(np.min(y) + np.max(y))
    axis.set_aspect(1.0 / np.cos(np.deg2rad(middle)) if degrees and abs(middle) < 85.0 else "equal")
    axis.set(xlabel=verbatim(found.axes[0]), ylabel=verbatim(found.axes[1]))
    bar = axis.figure.colorbar(dots, ax=axis, fraction=0.035, pad=0.02, extend="both")
    bar.set_label("standard deviations")
    title(axis, "Residuals on the map", "orange: more than predicted, blue: less; patches of one colour are structure")
    tidy(axis)


_KINDS = {"distance": _by_distance, "place": _by_place, "mean": _by_mean}
