"""How stochastic gradients are to be used."""

from __future__ import annotations

import os
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

from npvi.checks import RATE, Kind, check_number, check_path
from npvi.parameters import Parametrised

if TYPE_CHECKING:
    import optax

__all__ = ["SGD", "GradientSettings", "is_count"]

#: the paper's learning rate, and one for the optimisers that it doesn't use
_RATES = {"adagrad": 0.2}
_RATE = 0.05
#: the paper's batches, and into how many an epoch is divided at most
_BATCH, _STEPS = 50, 128
#: nobody has as many of anything, and compiled code counts in 32 bits
_MANY = 2**31
_SHARE = Kind("a share of the rows, from 0 to less than 1", lambda value: 0.0 <= value < 1.0)


class GradientSettings(Parametrised):
    """What all settings of stochastic gradients have in common; the parameters are documented in `SGD`."""

    static: tuple[str, ...] = (
        "optimizer",
        "learning_rate",
        "batch_size",
        "epochs",
        "samples",
        "validation",
        "patience",
        "checkpoint",
    )
    local: ClassVar[tuple[str, ...]] = ("checkpoint",)
    optional: ClassVar[tuple[str, ...]] = ()
    """Settings that may be None."""

    def __init__(
        self,
        optimizer: Any,
        learning_rate: Any,
        batch_size: int | None,
        epochs: Any,
        samples: int | None,
        validation: float,
        patience: int | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> None:
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.epochs = epochs
        self.samples = samples
        self.validation = validation
        self.patience = patience
        check_path(checkpoint, "checkpoint", optional=True)
        # as text, which a model file can hold
        self.checkpoint = None if checkpoint is None else os.fspath(checkpoint)

    def validate(self) -> None:
        """Raise ValueError where a setting is not allowed."""
        import optax  # slow imports, and models that are fitted by closed forms never need them

        from npvi.runtime.training import OPTIMIZERS

        known = isinstance(self.optimizer, str) and self.optimizer in OPTIMIZERS
        if not (known or isinstance(self.optimizer, optax.GradientTransformation)):
            names = ", ".join(map(repr, OPTIMIZERS))
            raise ValueError(f"optimizer must be one of {names}, or an optimiser of optax; got {self.optimizer!r}")
        rate = self.learning_rate
        if known and not self._left_out("learning_rate"):
            check_number(rate, "learning_rate", RATE)
        for name in ("batch_size", "epochs", "samples", "patience"):
            value = getattr(self, name)
            if not (self._left_out(name) or is_count(value)):
                raise ValueError(f"{name} must be a whole number from 1, got {value!r}")
        check_number(self.validation, "validation", _SHARE)

    def _left_out(self, name: str) -> bool:
        return name in self.optional and getattr(self, name) is None

    def transformation(self, steps: int) -> optax.GradientTransformation:
        """The optimiser, for so many steps in all."""
        if not isinstance(self.optimizer, str):
            return self.optimizer
        from npvi.runtime.training import named_optimizer  # a slow import

        return named_optimizer(self.optimizer, float(self._rate), steps if self._decays else None)

    @property
    def _rate(self) -> Any:
        """The learning rate of an optimiser that has a name."""
        return self.learning_rate

    @property
    def _decays(self) -> bool:
        """Whether the learning rate falls on the way to the last epoch."""
        return isinstance(self.optimizer, str) and self.optimizer != "adagrad"

    def _course(self, epochs: int) -> dict[str, Any]:
        """Which optimiser, and where the end is, if a learning rate that falls depends on it."""
        named = self.optimizer if isinstance(self.optimizer, str) else "optax"
        return {"optimizer": named, "epochs": epochs if self._decays else None}


class SGD(GradientSettings):
    """The paper's way to its posterior: stochastic gradients of the bound, from batches of points.

    It reaches what ``optimizer="closed"`` does, slowly, without a system of equations of all points together.

    Parameters
    ----------
    optimizer : {"adagrad", "adam", "rmsprop", "sgd"} or optimiser of optax
        The paper's is AdaGrad. The learning rate of the other names falls to 0 along a cosine.
    learning_rate : float or None
        In units of the prior's standard deviation. None: 0.2 for AdaGrad, as in the paper, 0.05 for the others. An
        optimiser of optax has its own.
    batch_size : int or None
        Points in a batch. None: 50, as in the paper, or 1/128 of the points where that is more, because a step also
        passes once over all of μ and L.
    epochs : int
        Most passes through the data.
    samples : int or None
        Draws of f per point and step; the paper takes 1. None: exact expectations, and so less noise.
    validation : float
        Share of the rows that is held out: they don't inform the posterior, and the epoch that predicts them best wins.
    patience : int or None
        Epochs without a better one after which training ends: by the rows held out or, without any, by the bound.
    checkpoint : path or None
        A file that keeps where training is; fitting again with the same one goes on from there. Files of models don't
        keep it.

    Notes
    -----
    ``fit_info_`` has the bound of each epoch as the batches saw it (``elbo_estimate``), and at the end what is exact:
    ``elbo``, both residuals, and ``expected_gain``, by how much the largest bound lies above, as seen from there. Less
    than a thousandth per row counts as converged.

    Examples
    --------
    >>> import numpy as np
    >>> import npvi
    >>> X = np.linspace(0.0, 1.0, 100)[:, None]
    >>> settings = SGD(optimizer="adam", learning_rate=0.05, epochs=300)
    >>> model = npvi.GPRegressor(method="npvi", learn=False, optimizer=settings).fit(X, np.sin(6 * X[:, 0]))
    >>> model.fit_info_["epochs"]
    300
    """

    optional = ("learning_rate", "batch_size", "samples", "patience")

    def __init__(
        self,
        optimizer: Any = "adagrad",
        learning_rate: float | None = None,
        batch_size: int | None = None,
        epochs: int = 500,
        samples: int | None = None,
        validation: float = 0.0,
        patience: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(optimizer, learning_rate, batch_size, epochs, samples, validation, patience, checkpoint)

    def validate(self) -> None:
        """Raise ValueError where a setting is not allowed."""
        super().validate()
        if self.learning_rate is not None and not isinstance(self.optimizer, str):
            raise ValueError("learning_rate belongs to the optimisers that have a name; that of optax has its own")

    def for_companion(self) -> SGD:
        """The same for a second model, whose checkpoint stands beside that of the first."""
        return self if self.checkpoint is None else self.replace(checkpoint=f"{self.checkpoint}.companion")

    def batch(self, n: int) -> int:
        """Points in a batch, of `n`."""
        if self.batch_size is None:
            return min(n, max(_BATCH, -(-n // _STEPS)))
        if self.batch_size > n:
            raise ValueError(f"batch_size must be at most {n}, the number of rows; got {self.batch_size}")
        return int(self.batch_size)

    @property
    def _rate(self) -> Any:
        return self.learning_rate or _RATES.get(self.optimizer, _RATE)

    def identity(self) -> dict[str, Any]:
        """What the course of training depends on, for its checkpoint."""
        names = ("learning_rate", "batch_size", "samples", "validation")
        numbers = {name: getattr(self, name) for name in names}
        plain = {name: None if value is None else float(value) for name, value in numbers.items()}
        return {**self._course(int(self.epochs)), **plain}


def is_count(value: Any) -> bool:
    """Whether it is a whole number from 1, and below 2³¹.

    >>> is_count(3), is_count(True), is_count(0)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) < _MANY
