"""Fields on a mesh: what a `Field` with ``mesh=`` becomes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from npvi.components import Mesh, MeshField, OfFew
from npvi.terms.base import only
from npvi.terms.field import APART, SurfacePart

__all__ = ["MeshPart"]

Columns = NDArray[np.float64]

#: numbers at nodes, of all levels
_MOST = 6000


class MeshPart(SurfacePart):
    """A process on the nodes of a mesh: ``range`` and ``sd``."""

    def _place(self, X: Columns, known: int) -> None:
        given = self._term.mesh
        try:
            if isinstance(given, tuple):
                self._mesh = Mesh.on(np.asarray(given, dtype=np.float64))
            else:
                assert given is not None
                self._mesh = Mesh.of(X[:known, :2], given)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        self._copies = 1 if self._levels is None else len(self._levels)
        nodes = len(self._mesh.nodes)
        if self._copies * nodes > _MOST:
            raise ValueError(
                f"{self.name}: a mesh of {nodes:,} nodes for each of {self._copies} levels is {self._copies * nodes:,} "
                f"numbers, at most {_MOST:,} are taken: give a larger mesh=, or leave it out"
            )
        self._seen = self._functions(X, self._weight)
        self.X = X[:, :2]

    def _functions(self, X: Columns, weight: NDArray[np.float64] | None) -> scipy.sparse.csr_array:
        """What rows see of the numbers of all levels."""
        A = self._mesh.functions(X[:, :2])
        n = A.shape[1]
        level = np.zeros(len(X)) if self._levels is None else np.round(X[:, 2] / APART)
        data = A.data if weight is None else A.data * np.repeat(weight, 3)
        entries = (data, A.indices + np.repeat(level.astype(np.int64) * n, 3), A.indptr)
        return scipy.sparse.csr_array(entries, shape=(len(X), self._copies * n))

    # -- as a model of a part -----------------------------------------------------------------------------------------

    def component(self, values: Mapping[str, Any]) -> MeshField:
        return MeshField(self._seen, self._mesh.precision(only(values, "range"), only(values, "sd")))

    def gradient(
        self, component: MeshField, values: Mapping[str, Any], functions: Columns, factor: Any
    ) -> dict[str, Any]:
        reach, sd = only(values, "range"), only(values, "sd")
        return {
            "range": component.gradient(self._mesh.slope(reach, sd), functions, factor),
            "sd": component.gradient(-2.0 / sd * component.block, functions, factor),
        }

    @property
    def alike(self) -> Columns:
        return self.X

    def of_rows(self, rows: NDArray[np.intp]) -> MeshPart:
        some = copy(self)
        some._seen, some.X = self._seen[rows], self.X[rows]
        return some

    # -- as a term ----------------------------------------------------------------------------------------------------

    def new_rows(self, component: Any, table: pd.DataFrame) -> OfFew:
        return OfFew(self._functions(self._inputs(table), self._weights(table)))
