"""The posterior of an estimator at given hyper-parameters: by closed forms, by stochastic gradients or by a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npvi.inference import FAMILIES, Data, MeanFunction, Start, fit_posterior
from npvi.inference.stochastic import SGD
from npvi.likelihoods.families.softmax import Softmax
from npvi.runtime import progress

if TYPE_CHECKING:
    from npvi.estimators.base import BaseGP

__all__ = ["infer", "not_converged"]


def infer(model: BaseGP, prior: Any, data: Data, mean_function: MeanFunction, start: Start | None, seed: int) -> Any:
    """A `Fit`, or the like for several classes; the method and its settings are those of the estimator."""
    if model.method == "npvi-nn":
        if isinstance(data.likelihood, Softmax):
            raise ValueError(
                "method='npvi-nn' recognises the posterior of one function, and three labels or more have one "
                "each: use method='full' or 'npvi'"
            )
        from npvi.amortized import inference  # rarely needed

        fit, model.recognizer_ = inference.infer(
            model.network, model.solve, model.refine, data, mean_function, seed, _report_iteration
        )
        return fit
    if model.optimizer != "closed":
        return _by_gradients(model, prior, data, mean_function, start, seed)
    solve: Any = fit_posterior
    if isinstance(data.likelihood, Softmax):
        from npvi.inference.softmax import fit_softmax  # rarely needed

        solve = fit_softmax
    return solve(
        FAMILIES[model.method](prior),
        prior,
        data,
        mean_function,
        start,
        tolerance=model.tol,
        max_iterations=model.max_iter,
        progress=_report_iteration,
    )


def _by_gradients(
    model: BaseGP, prior: Any, data: Data, mean_function: MeanFunction, start: Start | None, seed: int
) -> Any:
    """The paper's own way to its posterior."""
    if isinstance(data.likelihood, Softmax):
        raise ValueError(
            "optimizer='sgd' is for one latent function, and three or more labels have one each: use optimizer='closed'"
        )

    settings = SGD() if model.optimizer == "sgd" else model.optimizer

    def report(numbers: dict[str, float]) -> None:
        progress.report("epoch", of=settings.epochs, **numbers)

    from npvi.inference.stochastic import fit_stochastic  # which needs JAX and optax

    return fit_stochastic(FAMILIES["npvi"](prior), prior, data, mean_function, start, settings, seed, report)


def _report_iteration(numbers: dict[str, float]) -> None:
    progress.report("iteration", **numbers)


def not_converged(info: dict[str, Any], max_iter: int) -> str:
    """What to tell of a fit that has not converged."""
    if info.get("optimizer") == "sgd":
        return (
            f"stochastic gradients ended {info['expected_gain']:.3g} below the largest bound, as seen from there: "
            "raise epochs or the learning rate, or use optimizer='closed'. See fit_info_"
        )
    reached = max(info["mean_residual"][-1], info["covariance_residual"][-1])
    why = f"max_iter={max_iter} was reached" if info["n_iter"] >= max_iter else "no further step raises the bound"
    return f"the fit did not converge to tol: {why} at a residual of {reached:.1e}. See fit_info_"
