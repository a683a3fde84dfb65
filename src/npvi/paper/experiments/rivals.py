"""One fit of a method with inducing points, whose training is planned so that it ends in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from npvi.datasets import Split
from npvi.paper.rivals import DGP, SAVIGP, SVGP
from npvi.paper.rivals.stochastic import Schedule

__all__ = ["fit_rival"]

#: points for the covariance of DGP, as in the paper
_COVARIANCE = 200
#: The estimators' own batches and Adam, whose learning rate falls to 0 until the last epoch, which has to come in time.
#: Best validation score of the precipitation normals (ℓ = 0.5) within 15 s on two busy cores, lower is better: with the
#: paper's AdaGrad, rate 0.1 and batches of 50, SVGP -0.924 (M = 200) and -0.945 (1000), DGP -0.886 and -0.912; with
#: Adam planned for 200 epochs and cut short -0.914, -1.018, -0.894, -0.933; planned for the epochs that there is time
#: for -0.915, -1.296, -0.895, -0.939. Over 200 epochs of the bird counts SVGP (M = 200) reached 4.16 by AdaGrad and
#: 3.46 by Adam. So Adam with time to end is what they get: it loses 0.01 once and wins up to 0.7.
_BATCH = 256
#: what is enough: 400 epochs ended at the same scores as 200 (M = 200: SVGP -0.904 and -0.905, DGP -0.905 twice)
_EPOCHS = 200
#: rows that SAVIGP handles at a time
_BLOCK = 1024
#: steps until the estimators first look at the clock: no fit has fewer
_STEPS = 100
#: share of a fit's time to find out how fast it is; seconds below which that isn't worth it, and the steps it has then
_PILOT, _SHORT, _FEW = 0.2, 10.0, 200
#: iterations of L-BFGS-B, or this share of all looks at the validation rows, without a better score: it has converged
_PATIENCE, _SHARE = 20, 0.5
#: of the time that is left, what is planned with
_MARGIN = 0.9


@dataclass(frozen=True)
class _Pace:
    """Seconds before the first step, compiling among them, and those of a step."""

    before: float
    step: float

    @classmethod
    def of(cls, info: dict[str, Any], steps: int) -> _Pace:
        """From what a fit with so many steps tells: all rounds are alike but for the first."""
        ends = info["seconds"]
        if len(ends) == 1:
            return cls(0.0, ends[0] / steps)
        one = (ends[-1] - ends[0]) / (len(ends) - 1)
        return cls(max(0.0, ends[0] - one), one * len(ends) / steps)

    def steps(self, seconds: float) -> int:
        """How many there is time for."""
        return int(max(0.0, seconds - self.before) / self.step)


#: by method, M and what the data look like
_paces: dict[tuple[Any, ...], _Pace] = {}
_compiled: set[tuple[Any, ...]] = set()


def fit_rival(method: str, split: Split, settings: dict[str, Any], seconds: float | None) -> tuple[Any, bool]:
    """A fitted model, and whether it was given all the training that it wants.

    Parameters
    ----------
    method : "svgp", "savigp" or "dgp".
    split : training and validation rows.
    settings : of the estimator.
    seconds : that it may take; None: as many as it wants.
    """
    key = (method, settings["n_inducing"], split.X_train.shape, type(settings["likelihood"]))
    if method == "savigp":
        if key not in _compiled:  # on few rows: the first of many fits shouldn't be the one that pays
            few = Split(*(array[:_BLOCK] for array in split))
            _fit(SAVIGP(epochs=1, batch_size=_BLOCK, **settings), few)
            _compiled.add(key)
        model: Any = SAVIGP(budget=seconds, batch_size=_BLOCK, patience=_PATIENCE, **settings)
        return model, _fit(model, split) != "out of time"
    steps_per_epoch = -(-len(split.y_train) // _BATCH)
    most = max(_EPOCHS, -(-_STEPS // steps_per_epoch))
    epochs = most
    if seconds is not None and seconds <= _SHORT:
        epochs = min(most, -(-_FEW // steps_per_epoch))
    elif seconds is not None:
        if key not in _paces:
            pilot = _estimator(method, settings, most, len(split.y_train), _PILOT * seconds)
            _fit(pilot, split)
            _remember(key, pilot, steps_per_epoch)
        steps = _paces[key].steps(_MARGIN * seconds)
        epochs = min(most, max(steps // steps_per_epoch, -(-_STEPS // steps_per_epoch)))
    model = _estimator(method, settings, epochs, len(split.y_train), seconds)
    outcome = _fit(model, split)
    _remember(key, model, steps_per_epoch)
    return model, outcome != "out of time" and (epochs == most or outcome == "stopped early")


def _estimator(method: str, settings: dict[str, Any], epochs: int, n: int, budget: float | None) -> Any:
    looks = Schedule(n, min(_BATCH, n), epochs).rounds
    # the score gets better until the learning rate has fallen, at the end: patience is long
    more = {"epochs": epochs, "batch_size": _BATCH, "budget": budget, "patience": max(_PATIENCE, int(_SHARE * looks))}
    if method == "dgp":
        return DGP(n_covariance=min(_COVARIANCE, settings["n_inducing"]), **settings, **more)
    return SVGP(**settings, **more)


def _fit(model: Any, split: Split) -> str:
    """How it ended."""
    model.fit(split.X_train, split.y_train, X_val=split.X_val, y_val=split.y_val)
    outcome = str(model.fit_info_["outcome"])
    if outcome == "interrupted":  # by a person, who wants more than the end of this fit
        raise KeyboardInterrupt
    return outcome


def _remember(key: tuple[Any, ...], model: Any, steps_per_epoch: int) -> None:
    info = model.fit_info_
    found = _Pace.of(info, max(1, round(info["epochs"] * steps_per_epoch)))
    if len(info["seconds"]) == 1:  # which has compiling in it: the truth is no slower than the fastest of those
        found = min(found, _paces.get(key, found), key=lambda pace: pace.step)
    _paces[key] = found
