"""What a report is about: a fitted model, its data in the rows' order, what things are called, and how well it does."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.diagnostics import Diagnosis, diagnose
from npvi.estimators import BaseGP, VaryingNoiseRegressor, training_responses
from npvi.kernels import Sphere
from npvi.maps import Inputs, inputs_of, is_geographic, training_inputs, with_medians
from npvi.model import in_rows
from npvi.parameters import Parametrised

__all__ = ["Study"]

Vector = NDArray[np.float64]


@dataclass(eq=False)
class Study:
    """A fitted model and what a report was asked to show of it.

    Attributes
    ----------
    model : as it was given.
    test : inputs, responses and data per row that the model hasn't seen, or None.
    grid, quantiles, exceed, covariates, bbox, axes, crs : of the map, as in `npvi.maps.predict_grid`.
    row : exposure and the like of the map, one number each.
    target : what the responses are called.
    seed : of everything random.
    called : what inputs are called, where the model doesn't know.
    before : what came before the model, in words.
    """

    model: Any
    test: tuple[Any, Any, dict[str, Any]] | None = None
    grid: Any = None
    quantiles: tuple[float, ...] = (0.05, 0.95)
    exceed: tuple[float, ...] = ()
    covariates: Any = None
    bbox: Any = None
    axes: tuple[str, str] | None = None
    crs: Any = None
    row: dict[str, Any] = field(default_factory=dict)
    target: str = "response"
    seed: int = 0
    called: tuple[str, ...] | None = None
    before: str = ""

    #: whether it is of a sum of terms (`summed.TermsStudy`)
    summed = False

    @property
    def last(self) -> Any:
        """The estimator itself, where there are steps before it."""
        return self.model

    @cached_property
    def core(self) -> BaseGP:
        """The model of f, where there is another of the noise besides."""
        return self.last.model_ if isinstance(self.last, VaryingNoiseRegressor) else self.last

    @property
    def several(self) -> bool:
        """Whether there is a function for each of several labels."""
        return self.core.fitted_.several

    @property
    def classes(self) -> Any:
        """Labels of a classifier, or None."""
        return getattr(self.model, "classes_", None)

    @cached_property
    def X(self) -> Vector:
        """Inputs of the training rows, all columns."""
        return training_inputs(self.model)

    @cached_property
    def y(self) -> Vector:
        """Responses of the training rows; labels as their numbers."""
        return training_responses(self.last)

    @cached_property
    def per_unit(self) -> Vector:
        """Responses per unit of exposure, or per trial, where there were such."""
        fitted = self.core.fitted_
        per = next((fitted.data.row[name] for name in ("exposure", "trials") if name in fitted.data.row), None)
        return self.y if per is None else self.y / in_rows(fitted, per)

    @property
    def unit_words(self) -> str:
        """What a mapped response is, in words."""
        lacking = [name for name in self.core.fitted_.data.row if name in ("exposure", "trials")]
        per = " per unit of exposure" if "exposure" in lacking else " per trial" if "trials" in lacking else ""
        if self.classes is not None:
            return f"probability of {self.classes[-1]}" if len(self.classes) < 3 else "probability"
        return f"{self.target}{per}"

    @cached_property
    def names(self) -> list[str]:
        """Of all inputs."""
        named = getattr(self.model, "feature_names_in_", None)
        named = self.called if named is None else named
        if named is not None:
            return [str(name) for name in named]
        found = [f"x{number}" for number in range(self.X.shape[1])]
        if self.places is not None:
            for number, name in zip(self.places.places, self.places.axes):
                found[number] = name
        return found

    @property
    def inner(self) -> tuple[Vector, list[str]]:
        """Inputs of the training rows as the process sees them, and their names."""
        return self.X, self.names

    @property
    def unseen(self) -> tuple[Any, Any, dict[str, Any]] | None:
        """Test rows as the estimator itself sees them."""
        return self.test

    @property
    def tested_places(self) -> Vector:
        """Where test rows are on the map."""
        assert self.judged is not None
        assert self.places is not None
        return self.judged.X[:, list(self.places.places)]

    @cached_property
    def places(self) -> Inputs | None:
        """Which inputs are places on a map; None where none are."""
        try:
            found = inputs_of(self.model, self.axes, self.crs)
        except ValueError:
            if self.axes is not None or self.crs is not None:
                raise
            return None
        x, y = found.axes
        known = found.crs is not None or self.axes is not None or self.grid is not None or self.bbox is not None
        pairs = (("x", "y"), ("easting", "northing"), ("east", "north"), ("lon", "lat"), ("longitude", "latitude"))
        return found if known or (x.lower(), y.lower()) in pairs else None

    @property
    def on_map(self) -> tuple[Any, Any, Any, str]:
        """The model that is mapped, its covariates, the extent, and what is held, in words."""
        assert self.places is not None
        template = {*map(str, getattr(self.grid, "data_vars", ())), str(getattr(self.grid, "name", None))}
        held, words = with_medians(self.model, self.places, self.covariates, template)
        return self.model, held, self.bbox, words

    @property
    def degrees(self) -> bool:
        """Whether places are longitudes and latitudes."""
        return self.places is not None and self.places.crs is not None and is_geographic(self.places.crs)

    @property
    def on_sphere(self) -> bool:
        """Whether distances are those on the Earth, in kilometres."""
        if self.summed:
            return False
        kernel = self.core.kernel_
        nested = kernel.get_params(deep=True).values() if isinstance(kernel, Parametrised) else ()
        return isinstance(kernel, Sphere) or any(isinstance(part, Sphere) for part in nested)

    @cached_property
    def judged(self) -> Diagnosis | None:
        """Predictions beside responses: of test rows, else of each row of the fit from all others; None where there are
        three or more labels."""
        if self.several:
            return None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the model was fitted with")
            if self.unseen is None:
                return diagnose(self.last, seed=self.seed)
            X, y, row = self.unseen
            return diagnose(self.last, X, y, seed=self.seed, **row)

    def predict(self, X: Vector) -> Any:
        """The predictive distribution at rows of inputs, per unit of exposure."""
        table: Any = X
        if hasattr(self.model, "feature_names_in_"):
            import pandas as pd

            table = pd.DataFrame(X, columns=self.model.feature_names_in_)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the model was fitted with")
            row = {name: np.full(len(X), float(value)) for name, value in self.row.items()}
            return self.model.predict_dist(table, **row)
