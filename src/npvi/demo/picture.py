"""The picture of the demonstration."""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from npvi.demo.survey import SIZE, DemoResult

__all__ = ["draw"]


def draw(result: DemoResult, file: IO[bytes], format: str = "png") -> None:
    """Data, truth, prediction and uncertainty side by side.

    Parameters
    ----------
    result : DemoResult
    file : binary file
    format : {"png", "pdf", "svg"}

    Examples
    --------
    >>> import io
    >>> from npvi.demo.survey import run_demo
    >>> file = io.BytesIO()
    >>> draw(run_demo(rows=200, side=8), file)
    >>> file.getvalue()[1:4]
    b'PNG'
    """
    # the classes behind pyplot: nothing global is touched, and no display is needed
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17.5, 5.9), dpi=130)
    figure.set_layout_engine("constrained", rect=(0.005, 0.01, 0.99, 0.96))  # or the titles touch the edge
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 4, sharey=True)
    survey, rows = result.survey, len(result.survey.counts)
    low, high = np.quantile(result.truth, [0.005, 0.995])
    colours: dict[str, Any] = {"norm": LogNorm(low, high), "cmap": "viridis"}
    maps: dict[str, Any] = {"origin": "lower", "extent": (0, SIZE, 0, SIZE), "interpolation": "nearest"}

    seen = np.clip(survey.counts / survey.hours, low, high)
    size = float(np.clip(50_000 / rows, 0.7, 25.0))
    axes[0].scatter(*survey.places.T, c=seen, s=size, linewidths=0, **colours)
    _title(axes[0], "What the observers saw", f"{rows:,} visits, most near towns and roads")
    axes[1].imshow(result.truth, **maps, **colours)
    _title(axes[1], "The truth", "known, because the survey is simulated")
    shown = axes[2].imshow(np.ma.masked_where(result.beyond, result.rate), **maps, **colours)
    _title(axes[2], "What the model predicts", f"correlation with the truth {result.scores['correlation_on_map']:.2f}")
    percent = 100.0 * result.uncertainty
    known = np.ma.masked_where(result.beyond, percent)
    doubt = axes[3].imshow(known, vmin=0.0, vmax=float(np.quantile(percent, 0.995)), cmap="magma", **maps)
    factor = np.sqrt(result.scores["squared_error_over_variance"])
    honest = f"real errors are {factor:.1f} times as large, on average"
    _title(axes[3], "How uncertain it says it is", honest)
    for axis in axes:
        axis.set(xlim=(0, SIZE), ylim=(0, SIZE), xlabel="kilometres east", aspect="equal")
    axes[0].set_ylabel("kilometres north")
    bar = figure.colorbar(shown, ax=axes[:3], location="bottom", extend="both", aspect=60, shrink=0.7, pad=0.03)
    bar.set_label("birds per hour (one scale for all three)")
    _plain_ticks(bar, low, high)
    bar = figure.colorbar(doubt, ax=axes[3], location="bottom", extend="max", aspect=25, shrink=0.95, pad=0.03)
    bar.set_label("standard deviation, % of the predicted rate")
    figure.savefig(file, format=format)


def _title(axis: Any, title: str, subtitle: str) -> None:
    axis.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=22)
    axis.text(0.0, 1.02, subtitle, transform=axis.transAxes, fontsize=10.5, color="0.35")


def _plain_ticks(bar: Any, low: float, high: float) -> None:
    """1, 2, 5, 10 … instead of powers of ten."""
    ticks = [digit * 10.0**power for power in range(-4, 7) for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks], minor=False)
    bar.minorticks_off()
