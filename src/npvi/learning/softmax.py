"""The bound of a model with several classes as a function of its hyper-parameters, which all classes share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.graph import Graph
from npvi.inference import AllCovariances, Data, Start, class_noises, fit_softmax
from npvi.learning.objective import Model, _by_name
from npvi.posteriors import StackedPosterior
from npvi.priors import NNGP, expected_log_density_gradient

__all__ = ["SoftmaxObjective"]

#: draws of each class's posterior, and those of all together that a gradient looks at
_DRAWS, _ALL_DRAWS = 16, 64


class SoftmaxObjective:
    """The bound of the best q, warm-started from one model to the next: `BoundObjective` for several classes.

    Parameters
    ----------
    X, data, basis : in the graph's order.
    """

    def __init__(self, X: NDArray, data: Data, basis: NDArray, graph: Graph, start: Start | None = None) -> None:
        self.X, self.data, self.basis, self.graph, self.start = X, data, basis, graph, start
        self._noises = class_noises(graph, data.likelihood.n_classes)  # type: ignore[attr-defined]

    def __call__(self, model: Model) -> tuple[float, dict[str, Any]]:
        prior = NNGP(model.kernel, model.nugget, self.X, self.graph)
        stack = model.stack(prior, self.basis)
        family = AllCovariances(prior, self._noises[0], _DRAWS, strict=True)
        fit = fit_softmax(
            family,
            self.data,
            stack,
            self.start,
            tolerance=1e-2,
            max_iterations=3,
            enough=0.1,
            noises=self._noises,
        )
        if fit.info["interrupted"]:  # this fit is only a step
            raise KeyboardInterrupt
        self.start = Start(fit.posterior.mean, fit.posterior.variance)
        n_classes = len(fit.posterior.parts)
        means, draws = stack.centred(fit.posterior.mean), self._draws(fit.posterior)
        shares = np.full(n_classes, 1.0 / n_classes), np.full(draws.shape[1], 1.0 / draws.shape[1])
        found = expected_log_density_gradient(prior, np.hstack([means, draws]), np.concatenate(shares))
        gradient = _by_name(found.kernel, "kernel") | {"nugget": found.nugget}
        return fit.elbo, {name: n_classes * slope for name, slope in gradient.items()}

    def _draws(self, posterior: StackedPosterior) -> NDArray[np.float64]:
        """Columns whose mean square is the mean of the classes' covariances."""
        parts: Any = posterior.parts
        if all(part.exact for part in parts):
            root = np.linalg.cholesky(sum(part.draws @ part.draws.T for part in parts))
            return root * np.sqrt(len(root) / (len(parts) * parts[0].draws.shape[1]))
        few = max(1, min(_DRAWS, _ALL_DRAWS // len(parts)))
        return np.hstack([part.deviations(own.columns(0, few)) for part, own in zip(parts, self._noises)])
