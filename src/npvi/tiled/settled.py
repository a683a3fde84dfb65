"""The model that all tiles have in common: its numbers, learned from some of the rows or given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.config import from_config, to_config
from npvi.graph import Cube
from npvi.kernels import Kernel
from npvi.learning import Model
from npvi.likelihoods import Likelihood
from npvi.model import Fitted, LinearPart, Spec

__all__ = ["Settled"]


@dataclass(frozen=True)
class Settled:
    """Kernel, nugget and likelihood with their numbers, the mean's columns, and how the process is approximated.

    Attributes
    ----------
    kernel, nugget, likelihood : of the model.
    part : which columns the process sees, and which enter the mean.
    coefficient_precision : of the prior of the mean's coefficients.
    neighbors : K.
    info : how it was learned.
    metric : the kernel by whose distances tiles are cut and rows are ordered, which stays as it is when all rows move
        the numbers of `kernel`; that one by default.
    """

    kernel: Kernel
    nugget: float
    likelihood: Likelihood
    part: LinearPart
    coefficient_precision: NDArray[np.float64]
    neighbors: int
    info: Mapping[str, Any]
    metric: Kernel | None = None

    @classmethod
    def of(cls, fitted: Fitted, neighbors: int) -> Settled:
        """Of a model that was fitted to some of the rows."""
        model = fitted.model
        precision = model.coefficient_precision
        if precision is None:
            precision = np.zeros(len(fitted.linear_part.names))
        learning = fitted.info.get("learning", {})
        info = {
            "rows": int(fitted.graph.n_points),
            "learned": bool(learning),
            "evaluations": int(learning.get("evaluations", 0)),
            "at_bound": list(learning.get("at_bound", [])),
        }
        return cls(model.kernel, float(model.nugget), model.likelihood, fitted.linear_part, precision, neighbors, info)

    def at(self, model: Model, info: Mapping[str, Any]) -> Settled:
        """With other numbers, and what is known of them; distances stay as they are."""
        return replace(
            self,
            kernel=model.kernel,
            nugget=float(model.nugget),
            likelihood=model.likelihood,
            info={**self.info, **info},
            metric=self.metric or self.kernel,
        )

    def sharing(self, share: float) -> Settled:
        """With a share of Gaussian noise as nugget, which is the same: rows next to each other on two sides of a border
        hold each other the less stiffly."""
        variance = float(self.likelihood.variance)  # type: ignore[attr-defined]
        more = max(0.0, share * variance - self.nugget)
        return replace(self, nugget=self.nugget + more, likelihood=self.likelihood.replace(variance=variance - more))

    @cached_property
    def model(self) -> Model:
        """For priors and stacks."""
        return Model(self.kernel, self.nugget, self.likelihood, coefficient_precision=self.coefficient_precision)

    @cached_property
    def spec(self) -> Spec:
        """What an estimator would have said of it."""
        return Spec(
            self.kernel, self.likelihood, self.part.coords, self.nugget, n_neighbors=self.neighbors, learn=False
        )

    def points(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where distances are those of the kernel."""
        return (self.metric or self.kernel).coordinates(self.part.places(X))

    def cube(self, box: NDArray[np.float64], sample: NDArray[np.float64]) -> Cube:
        """Around all points, from the (2, d) lowest and highest of their inputs; where points aren't inputs in other
        units, from a sample of them."""
        corners = self.points(box)
        if corners.shape[1] == len(self.part.coords):
            return Cube.around(corners)
        farthest = float(np.abs(self.points(sample)).max())
        return Cube(np.full(corners.shape[1], -farthest), 2.0 * farthest)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        part = self.part
        return {
            "kernel": to_config(self.kernel),
            "nugget": self.nugget,
            "likelihood": to_config(self.likelihood),
            "mean": {
                "coords": part.coords.tolist(),
                "covariates": part.covariates.tolist(),
                "constant": part.constant,
                "center": part.center.tolist(),
                "scale": part.scale.tolist(),
                "names": list(part.names),
                "precision": self.coefficient_precision.tolist(),
            },
            "neighbors": self.neighbors,
            "info": dict(self.info),
            **({} if self.metric is None else {"metric": to_config(self.metric)}),
        }

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Settled:
        """What `as_dict` has said."""
        mean = about["mean"]
        part = LinearPart(
            np.array(mean["coords"], np.int64),
            np.array(mean["covariates"], np.int64),
            bool(mean["constant"]),
            np.array(mean["center"], np.float64),
            np.array(mean["scale"], np.float64),
            tuple(mean["names"]),
        )
        return cls(
            from_config(about["kernel"]),
            float(about["nugget"]),
            from_config(about["likelihood"]),
            part,
            np.array(mean["precision"], np.float64),
            int(about["neighbors"]),
            about["info"],
            from_config(about["metric"]) if "metric" in about else None,
        )
