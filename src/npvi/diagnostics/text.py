"""The report of a diagnosis, in plain text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from npvi.diagnostics.means import NEIGHBORS

if TYPE_CHECKING:
    from npvi.diagnostics.diagnosis import Diagnosis

__all__ = ["report"]

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
