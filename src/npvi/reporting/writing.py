"""A fitted model as a page that a colleague can open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sklearn import pipeline as sklearn_pipeline
from sklearn.utils.validation import check_is_fitted

from npvi.checks import check_path, check_seed
from npvi.estimators import BaseGP, Pipeline, VaryingNoiseRegressor
from npvi.maps import check_levels, check_thresholds
from npvi.model import FittedTerms
from npvi.reporting.calibration import calibration_panel, residuals_panel
from npvi.reporting.map_panel import map_panel
from npvi.reporting.neighbourhood import neighbourhood_panel
from npvi.reporting.page import Panel, page, text
from npvi.reporting.parts import parts_panel
from npvi.reporting.pipelines import PipelineStudy, as_the_last_sees, can_be_undone, steps_of
from npvi.reporting.slices import effects_panel, slices_panel
from npvi.reporting.study import Study
from npvi.reporting.summed import TermsStudy
from npvi.reporting.verdict import making_panel, tiles, verdict_panel
from npvi.runtime import progress
from npvi.runtime.extras import needed
from npvi.runtime.files import check_writable, replacing
from npvi.runtime.interrupts import interrupts_remembered

__all__ = ["PANELS", "report"]

PANELS: Sequence[Callable[[Study], Panel | None]] = (
    verdict_panel,
    map_panel,
    effects_panel,
    slices_panel,
    calibration_panel,
    parts_panel,
    residuals_panel,
    neighbourhood_panel,
    making_panel,
)
"""Sections of a report, in order; one that has nothing to say of a model is None."""


def report(
    model: Any,
    path: Any,
    X: Any = None,
    y: Any = None,
    *,
    grid: Any = None,
    quantiles: Any = (0.05, 0.95),
    exceed: Any = (),
    covariates: Any = None,
    bbox: Any = None,
    axes: tuple[str, str] | None = None,
    crs: Any = None,
    target: str = "response",
    title: str | None = None,
    seed: int = 0,
    test_row: dict[str, Any] | None = None,
    **row: Any,
) -> None:
    """Write one HTML file about a fitted model: maps or slices, calibration, what was learned, warnings in words.

    It opens from disk, in any browser of today, without a network: a policy inside forbids it to ask for anything.

    Parameters
    ----------
    model : fitted GPRegressor, GPClassifier or VaryingNoiseRegressor, or a pipeline that ends in one. Where its steps
        can be undone (scalers can), maps and effects are of what goes into the first step; else of what the last one
        before the model makes of it.
    path : the file to write.
    X, y : rows that the model hasn't seen, which it is judged by; without them each of its own rows is left out.
    grid, quantiles, exceed, covariates, bbox, axes, crs : of the map, as in `predict_grid`. Inputs that are no places
        and aren't given are at the medians of the data.
    target : what the responses are called.
    title : of the page.
    seed : of random samples of rows.
    test_row : exposure and the like of the rows of X, by name.
    **row : `exposure` and the like of the map, a number each; 1 unless given.

    Examples
    --------
    >>> import tempfile, npvi, numpy as np
    >>> from pathlib import Path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(200, 2))
    >>> model = npvi.GPRegressor("poisson", learn=False).fit(X, rng.poisson(np.exp(np.sin(X[:, 0]))))
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> npvi.report(model, path, grid=0.5, exceed=3, target="birds")
    >>> path.stat().st_size < 10e6, "birds" in path.read_text(encoding="utf-8")
    (True, True)
    """
    needed("bokeh", "report", "reports")
    check_path(path)
    last = model.steps[-1][1] if isinstance(model, sklearn_pipeline.Pipeline) else model
    if not isinstance(last, BaseGP | VaryingNoiseRegressor):
        raise TypeError(
            "model must be a GPRegressor, GPClassifier or VaryingNoiseRegressor, or a pipeline that ends in one; got "
            f"{type(model).__name__}{'' if last is model else f' that ends in {type(last).__name__}'}; of a "
            "search take best_estimator_"
        )
    check_is_fitted(last, "posterior_" if isinstance(last, BaseGP) else "model_")
    if not isinstance(test_row, dict | None):
        raise TypeError(
            f"test_row must map names such as exposure to data of the rows of X; got {type(test_row).__name__}"
        )
    if (X is None) != (y is None):
        raise ValueError("X and y go together: rows that the model hasn't seen, and what was observed there")
    check_writable(path)
    study = _study_of(
        model,
        None if X is None else (X, y, test_row or {}),
        grid=grid,
        quantiles=tuple(check_levels(quantiles)),
        exceed=tuple(check_thresholds(exceed)) if getattr(last, "classes_", None) is None else (),
        covariates=covariates,
        bbox=bbox,
        axes=axes,
        crs=crs,
        row={name: value for name, value in row.items() if value is not None},
        target=target,
        seed=check_seed(seed),
    )
    with interrupts_remembered():
        panels = []
        for number, panel in enumerate(PANELS):
            progress.report("report", panel=number, of=len(PANELS))
            found = panel(study)
            if found is not None:
                panels.append(found)
        heading = f"{target}: what the model says" if title is None else title
        html = page(heading, _lead(study), panels)
    with replacing(path) as file:
        file.write(html.encode("utf-8"))


def _study_of(model: Any, test: Any, **asked: Any) -> Study:
    """The kind of study that a model needs."""
    if isinstance(model, sklearn_pipeline.Pipeline):
        steps = steps_of(model)
        if steps and can_be_undone(model):
            # scikit-learn's own pipeline has no predictive distribution
            return PipelineStudy(Pipeline(model.steps), test, before=f"Before it came {steps}.", **asked)
        model, test, names = as_the_last_sees(model, test)
        asked |= {"called": names, "before": f"These are what {steps} made of the columns." if steps else ""}
    kind = TermsStudy if isinstance(getattr(model, "fitted_", None), FittedTerms) else Study
    return kind(model, test, **asked)


def _lead(study: Study) -> str:
    core = study.core
    inputs = ", ".join(study.names[:12]) + (", …" if len(study.names) > 12 else "")
    noise = type(core.likelihood_).__name__
    what = f"A sum of {_terms(study)}" if study.summed else "A Gaussian process"
    words = f"{what} with {noise} noise, fitted to {len(study.y):,} rows of {inputs}. {study.before}"
    return f"<p>{text(words, 600)}</p>{tiles(study)}"


def _terms(study: Study) -> str:
    fitted: Any = study.core.fitted_
    return ", ".join(part.name for part in fitted.parts)
