"""Reports of models that are sums of terms: what such a study is, and the effects of its parts."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npvi.checks import check_number
from npvi.diagnostics import places_of_terms
from npvi.maps import Inputs, are_degrees, as_label
from npvi.reporting.figures import INK, SOFT, figure
from npvi.reporting.page import Panel, plain, plot, text
from npvi.reporting.study import Study
from npvi.terms import GroupPart, SmoothPart

__all__ = ["AtTypical", "TermsStudy", "effects_of_terms"]

Vector = NDArray[np.float64]

#: levels of a group that are drawn, and points of a curve
_LEVELS, _STEPS = 40, 120
#: standard deviations to either side that hold 90 %
_NINETY = 1.6449


class AtTypical:
    """A sum of terms as a function of two columns, all others as in a typical row: what a map asks.

    Parameters
    ----------
    model : fitted, with terms.
    axes : the two columns.
    row : values of all other columns.
    """

    n_features_in_ = 2

    def __init__(self, model: Any, axes: tuple[str, str], row: dict[str, Any]) -> None:
        self._model, self._row = model, row
        self.feature_names_in_ = np.array(axes, dtype=object)
        self.likelihood_ = model.likelihood_
        self._row_of_fit = model._row_of_fit

    def predict_dist(self, X: Any, **row: Any) -> Any:
        """The predictive distribution at rows of the two columns."""
        table = X.assign(**self._row)
        return self._model.predict_dist(table, **row)


class TermsStudy(Study):
    """A study of a sum of terms: its table has columns of any kind, and its map those of the first field."""

    summed = True

    @property
    def several(self) -> bool:
        """There is one predictor."""
        return False

    @property
    def table(self) -> pd.DataFrame:
        """The columns that terms use, a row for each observation."""
        return self.core.fitted_.table  # type: ignore[attr-defined]

    @cached_property
    def names(self) -> list[str]:
        """Of all columns."""
        return [str(name) for name in self.table.columns]

    @cached_property
    def X(self) -> Vector:
        """The two columns of the map; none where there is no map."""
        where = self.places
        return np.empty((len(self.table), 0)) if where is None else self.table[list(where.axes)].to_numpy(dtype=float)

    @cached_property
    def per_unit(self) -> Vector:
        """Responses per unit of exposure, or per trial."""
        row = self.core.fitted_.data.row
        per = next((row[name] for name in ("exposure", "trials") if name in row), None)
        return self.y if per is None else self.y / per

    @cached_property
    def places(self) -> Inputs | None:
        """The columns of the first field, where these are two."""
        where = self.axes or places_of_terms(self.core)
        if where is None or len(where) != 2 or not all(name in self.names for name in where):
            return None
        x, y = (self.table[name].to_numpy(dtype=float) for name in where)
        bounds = (float(x.min()), float(y.min()), float(x.max()), float(y.max()))
        degrees = are_degrees([name.lower() for name in where], bounds)
        crs = self.crs if self.crs is not None else "EPSG:4326" if degrees else None
        return Inputs((where[0], where[1]), True, (0, 1), crs, bounds)

    @property
    def tested_places(self) -> Vector:
        """Where test rows are on the map."""
        assert self.judged is not None
        assert self.judged.places is not None
        return self.judged.places

    @cached_property
    def typical(self) -> dict[str, Any]:
        """Values of the columns that are not on the map: what was given, else medians, and of labels the commonest."""
        assert self.places is not None
        given = dict(self.covariates or {})
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise ValueError(f"covariates: no term uses {unknown[0]!r}; they use {', '.join(self.names)}")
        found = {}
        for name in self.names:
            if name not in self.places.axes:
                column = self.table[name]
                numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
                if name not in given:
                    found[name] = column.median() if numeric else column.mode().iloc[0]
                elif numeric:
                    found[name] = check_number(given[name], f"covariates[{name!r}]")
                else:
                    found[name] = as_label(given[name], name)
        return found

    @property
    def on_map(self) -> tuple[Any, Any, Any, str]:
        """The model that is mapped, its covariates, the extent, and what is held, in words."""
        assert self.places is not None
        held = ", ".join(f"{name} = {_shown(value)}" for name, value in self.typical.items())
        words = f"All other columns are as in a typical row: {held}." if held else ""
        model = AtTypical(self.model, self.places.axes, self.typical)
        return model, None, self.places.bounds if self.bbox is None else self.bbox, words


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | int | np.number) else plain(value, 40)


def effects_of_terms(study: Study) -> Panel | None:
    """What smooths and groups add to the predictor; None where there are none."""
    fitted: Any = study.core.fitted_
    plots, places, left = {}, [], 0
    for number, part in enumerate(fitted.parts):
        key = f"effect-{number}"
        if isinstance(part, GroupPart):
            effects = study.core.effects(part.name)  # type: ignore[attr-defined]
            left += max(0, len(effects) - _LEVELS)
            plots[key] = _levels(effects, part.name)
        elif isinstance(part, SmoothPart) and len(part._term.columns) == 1 and part._term.by is None:
            plots[key] = _curve(study, part.name, part._term.columns[0])
        else:
            continue
        places.append(plot(key, f"effect of {part.name}", 1.5, 40))
    if not plots:
        return None
    words = "What each part adds to the predictor, with intervals that hold with 90 %."
    words += f" Of large groups the {_LEVELS} levels are shown whose effects are largest." if left else ""
    body = f'<p class="hint">{text(words, 600)}</p><div class="pair">{"".join(places)}</div>'
    return Panel("effects", "Effects", body, plots)


def _curve(study: Study, name: str, column: str) -> Any:
    seen = study.core.fitted_.table[column].to_numpy(dtype=float)  # type: ignore[attr-defined]
    values = np.linspace(seen.min(), seen.max(), _STEPS)
    dist = study.model.predict_dist(pd.DataFrame({column: values}), terms=[name])
    half = _NINETY * np.sqrt(dist.latent_var)
    found = figure(column, f"effect of {name}")
    found.varea(values, dist.latent_mean - half, dist.latent_mean + half, fill_color=SOFT, fill_alpha=0.8)
    found.line(values, dist.latent_mean, line_color=INK, line_width=2.5)
    ticks = np.unique(seen)
    ticks = ticks[:: max(1, len(ticks) // 200)]
    bottom = float((dist.latent_mean - half).min())
    found.scatter(ticks, np.full(len(ticks), bottom), marker="dash", angle=np.pi / 2, size=7, line_color="#5b6875")
    return found


def _levels(effects: pd.DataFrame, name: str) -> Any:
    """Levels from the smallest effect to the largest."""
    from bokeh.models import FixedTicker, HoverTool, PlainText

    largest = effects["mean"].abs().to_numpy().argsort()[::-1][:_LEVELS]
    shown = effects.iloc[np.sort(largest)].sort_values("mean")
    at = np.arange(len(shown))
    several = shown["effect"].nunique() > 1
    labels = [
        plain(f"{level}: {effect}" if several else level, 24) for level, effect in zip(shown["level"], shown["effect"])
    ]
    found = figure(f"effect of {name}", "", y_range=(-0.7, len(shown) - 0.3))
    found.line([0.0, 0.0], [-0.7, len(shown) - 0.3], line_color="#5b6875", line_dash="dashed")
    found.segment(shown["lower"].to_numpy(), at, shown["upper"].to_numpy(), at, line_color=INK, line_width=1.5)
    columns = {"x": shown["mean"].to_numpy(), "y": at, "level": labels}
    dots = found.scatter("x", "y", source=columns, size=7, fill_color=INK, line_color="white")
    found.yaxis.ticker = FixedTicker(ticks=at.tolist())
    found.yaxis.major_label_overrides = {float(place): PlainText(text=label) for place, label in zip(at, labels)}
    if len(shown) > 20:
        found.yaxis.major_label_text_font_size = "9px"
    found.add_tools(HoverTool(renderers=[dots], tooltips=[("level", "@level"), ("effect", "@x{0.000}")]))
    return found
