"""Can it be trusted: the certificate and the warnings in words; and how the model was made."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from npvi.diagnostics import NEIGHBORS, Diagnosis, about_coverage
from npvi.reporting.page import Panel, table, text
from npvi.reporting.study import Study

__all__ = ["making_panel", "tiles", "verdict_panel"]

#: residual from which on a fit isn't at its optimum, in the words of a report
_CLOSE = 1e-3

_METHODS = {
    "full": "the best Gaussian posterior (method full)",
    "npvi": "the posterior of Liu & Liu 2019 (method npvi), whose variances are too small where single rows say little",
    "npvi-nn": "a posterior that a network recognised (method npvi-nn)",
}


def tiles(study: Study) -> str:
    """The most important numbers at a glance."""
    info, judged = study.core.fit_info_, study.judged
    found = [(f"{len(study.y):,}", "rows fitted")]
    if judged is not None:
        how = f"of {len(judged.y):,} test rows" if judged.tested else "of the rows, each left out"
        found.append((f"{100 * judged.coverage[0.9]:.1f} %", f"{how} are in their 90 % intervals"))
        found.append((f"{judged.log_density:.3f}", "mean log density (higher is better)"))
        found.append(
            (f"{judged.means.rmse:.3g}", f"error of the means (RMSE); a constant {judged.means.rmse_constant:.3g}")
        )
    if "sum_seen" in info and np.ndim(info["sum_seen"]) == 0 and study.classes is None:
        found.append(
            (_number(info["sum_expected"]), f"expected sum of the rows fitted, seen {_number(info['sum_seen'])}")
        )
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{text(value)}</b><span>{text(words)}</span></div>' for value, words in found)
        + "</div>"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def verdict_panel(study: Study) -> Panel:
    """Sentences, each good, to be known, or a warning."""
    found = certificate(study)
    judged = study.judged
    if judged is not None:
        found += [("good", words) for words in _held(study, judged)]
        found += [("bad", _sentence(warning)) for warning in judged.warnings]
        how = "rows that the model hasn't seen" if judged.tested else "leaving out each row of the data"
        if not judged.warnings:
            found.append(
                ("good", f"No warnings, judging by {how}: intervals, means and residuals are as they should be.")
            )
        elif not judged.tested:
            found.append(("note", f"Judged by {how}; rows that it hasn't seen (--data; X and y in Python) say more."))
    else:
        found.append(("note", "Models of three or more labels are judged by test rows, with log_score and score."))
    lines = "".join(f'<li class="{kind}">{text(words, 900)}</li>' for kind, words in found)
    return Panel("trust", "Can it be trusted?", f'<ul class="verdict">{lines}</ul>')


def _held(study: Study, judged: Diagnosis) -> list[str]:
    """What predictions promised and responses kept."""
    found, means = [], judged.means
    if about_coverage(judged.coverage, len(judged.y)) is None:
        found.append(f"90 % intervals hold {100.0 * judged.coverage[0.9]:.1f} % of the responses.")
    if study.classes is None and not (means.sum_off or means.worse_than_neighbors) and np.isfinite(means.rmse):
        near = (
            "" if np.isnan(means.rmse_neighbors) else f", of means of {NEIGHBORS} neighbours {means.rmse_neighbors:.3g}"
        )
        sums = f"{_number(means.sum_predicted)} where {_number(means.sum_seen)} was seen"
        found.append(
            f"Means can be used: they sum to {sums}; their error is {means.rmse:.3g}, that of a constant "
            f"{means.rmse_constant:.3g}{near}."
        )
    return found


def certificate(study: Study) -> list[tuple[str, str]]:
    """What the fit says of itself: "good", "note" or "bad", and a sentence."""
    info = study.core.fit_info_
    found: list[tuple[str, str]] = []
    if "applicability" in info:
        verdict = info["applicability"]
        kind = "good" if verdict["verdict"] == "trust" else "bad"
        found.append(
            (
                kind,
                f"The network's verdict is “{verdict['verdict']}”: beside the full posterior means are up to "
                f"{verdict['mean_offset']:.2g} standard deviations off.",
            )
        )
    elif info.get("converged"):
        ends = [info[name][-1] for name in ("mean_residual", "covariance_residual") if len(info.get(name, ()))]
        off = f"; the two residuals of its equations are {ends[0]:.0e} and {ends[1]:.0e}" if len(ends) == 2 else ""
        found.append(("good", f"The fit converged{off}."))
    if info.get("guarantee"):
        found.append(("good" if "global" in info["guarantee"] else "note", f"What that means: {info['guarantee']}."))
    error = info.get("variance_error")
    if error is not None and np.isfinite(error):
        kind = "good" if error < 0.05 else "bad"
        found.append(
            (kind, f"Standard deviations of predictions are off by about {100 * error:.1g} % where they were checked.")
        )
    hyper = info.get("hyper") or {}
    if hyper.get("done") == "integrate":
        found.append(
            ("good", f"What isn't known of the hyper-parameters is in all intervals ({hyper['models']} models).")
        )
    elif info.get("learning"):
        found.append(("note", "Hyper-parameters are the best ones: what isn't known of them is not in the intervals."))
    return found


def making_panel(study: Study) -> Panel:
    """How it was made."""
    from npvi import __version__

    core, info = study.core, study.core.fit_info_
    seconds = info.get("seconds") or {}
    facts: list[tuple[str, Any]] = [
        ("rows", f"{len(study.y):,}"),
        ("target", study.target),
        ("inputs", ", ".join(study.names)),
        ("likelihood", _short(core.likelihood_)),
        *_structure(study),
        ("bound", f"{core.elbo_:,.2f}, {core.elbo_ / max(1, len(study.y)):.4f} per row"),
        ("iterations", f"{info.get('n_iter', 0)}"),
        ("seconds", ", ".join(f"{name} {value:.1f}" for name, value in seconds.items()) or "not recorded"),
        ("made by", f"npvi {__version__}"),
    ]
    rows = [[text(name), text(value, 2000)] for name, value in facts]
    return Panel("making", "How it was made", table(["", ""], rows, kind="facts"))


def _structure(study: Study) -> list[tuple[str, Any]]:
    core, fitted = study.core, study.core.fitted_
    if study.summed:
        return [("terms", ", ".join(fitted.design.names)), ("posterior", _METHODS["full"])]  # type: ignore[attr-defined]
    return [
        ("kernel", _short(core.kernel_)),
        ("posterior", _METHODS.get(fitted.spec.method, fitted.spec.method)),
        ("prior", _prior(core)),
    ]


def _short(part: Any) -> str:
    """A kernel or a likelihood on one line, its numbers with few digits.

    >>> from npvi.kernels import RBF
    >>> _short(RBF(0.123456789))
    'RBF(length_scale=0.1235)'
    """
    line = " ".join(repr(part).split())
    return re.sub(r"\d+\.\d{5,}(e[+-]?\d+)?", lambda number: f"{float(number[0]):.4g}", line)


def _prior(core: Any) -> str:
    if core.prior == "nngp":
        return f"nearest-neighbour Gaussian process, {core.prior_.graph.n_neighbors} neighbours"
    return f"{core.prior}, {len(core.structure_.points):,} inducing points"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
