"""A trained network: saved, loaded, and asked about data that it never saw."""

from __future__ import annotations

import base64
import io
import os
from dataclasses import dataclass, field
from importlib import resources
from itertools import pairwise
from typing import Any, BinaryIO

import jax
import jax.numpy as jnp
import numpy as np

from npvi.amortized.guess import FEATURES
from npvi.amortized.perceptron import Layers, apply
from npvi.checks import check_path
from npvi.likelihoods import Gaussian, Likelihood, LogNormal, as_likelihood
from npvi.runtime.archive import ArchiveError, Kind, read_archive, write_archive
from npvi.runtime.fields import anything, each, items, maybe, number, record, text, whole
from npvi.runtime.files import UnwritableError, replacing

__all__ = ["RECOGNIZER", "Recognizer", "RecognizerError", "exact_sites", "pretrained"]

RECOGNIZER = Kind("recognizer", 2, "train it again with npvi.fit_network", zipped=("about", "npvi recognizer 1"))
_ARRAYS = ("centre", "scale", "low", "high")
#: features have no unit: what a network sees, and what it makes of it, is of size 1 or so
_LARGEST = 1e6
#: what a file says besides its arrays
_ABOUT = record(
    {
        "likelihood": text,
        "settings": maybe(each(anything)),
        "n_inputs": maybe(whole(1)),
        "rounds": whole(0, 100),
        "layers": whole(1, 100),
        "features": items(text),
        "history": each(items(number(finite=False))),
    }
)


class RecognizerError(ValueError):
    """A recognizer that cannot be read, written, or used for this model."""


@dataclass(frozen=True)
class Recognizer:
    """A network that recognises the posterior: what a guess lacks to the optimum, from unit-free numbers about it.

    `npvi.fit_network` trains one on data, `npvi.fit_network_on_simulations` on none; ``network="pretrained"`` is one
    that comes with the package. It doesn't depend on the kernel or on the number of points.

    Attributes
    ----------
    likelihood : the name of the class that it was trained for.
    settings : those of the likelihood that have no number, such as the link; None where it was trained on all of them.
    n_inputs : columns of X; None where it was trained on several.
    rounds : of the guess that it corrects.
    layers : weights.
    centre, scale : of the features, in training.
    low, high : between these nearly all features lay in training.
    history : of training.

    Examples
    --------
    >>> import npvi
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> y = rng.poisson(np.exp(np.sin(6 * X[:, 0])))
    >>> settings = dict(method="npvi-nn", kernel=npvi.kernels.Matern32(0.3), nugget=0.5, learn=False)
    >>> recognizer = npvi.fit_network(npvi.GPRegressor("poisson", **settings), X, y, steps=40)
    >>> model = npvi.GPRegressor("poisson", **settings, network=recognizer).fit(X, y)
    >>> model.fit_info_["applicability"]["verdict"]
    'trust'
    """

    likelihood: str
    settings: dict[str, Any] | None
    n_inputs: int | None
    rounds: int
    layers: Layers = field(repr=False)
    centre: np.ndarray = field(repr=False)
    scale: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    history: dict[str, list[float]] = field(default_factory=dict, repr=False)

    def corrections(self, features: Any) -> jax.Array:
        """What the guesses lack, shape (N, 2)."""
        return apply(self.layers, jnp.asarray((features - self.centre) / self.scale, jnp.float32))

    def outside(self, features: np.ndarray) -> float:
        """The share of points that are unlike any in training."""
        reach = 0.1 * (self.high - self.low)
        strange = (features < self.low - reach) | (features > self.high + reach)
        return float(np.mean(strange.any(axis=1)))

    def check(self, likelihood: Likelihood, n_inputs: int) -> None:
        """Raise RecognizerError where it was trained for something else."""
        name, settings = type(likelihood).__name__, _settings(likelihood)
        if name != self.likelihood:
            raise RecognizerError(
                f"network: this recognizer was trained for {self.likelihood} noise, the model has {name}; train one "
                'with npvi.fit_network, or take network="pretrained"'
            )
        if self.settings is not None and settings != self.settings:
            raise RecognizerError(
                f"network: this recognizer was trained with {_text(self.settings)}, the model has {_text(settings)}"
            )
        if self.n_inputs is not None and n_inputs != self.n_inputs:
            raise RecognizerError(
                f"network: this recognizer was trained on {self.n_inputs} inputs, the model has {n_inputs}"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one file, a few kilobytes; `Recognizer.load` reads it back."""
        check_path(path)
        try:
            with replacing(path) as file:
                self._write(file)
        except UnwritableError as error:
            raise RecognizerError(str(error)) from error

    def to_text(self) -> str:
        """All of it as text, for a file of something else."""
        buffer = io.BytesIO()
        self._write(buffer)
        return base64.b64encode(buffer.getvalue()).decode()

    @classmethod
    def from_text(cls, text: str) -> Recognizer:
        """Read what `to_text` made."""
        if not isinstance(text, str):
            raise RecognizerError(f"text must be what to_text made, got {text!r}")
        try:
            content = base64.b64decode(text, validate=True)
        except (TypeError, ValueError) as error:
            raise RecognizerError(f"the text isn't that of a recognizer ({error})") from error
        return cls._read(io.BytesIO(content), "the text")

    def _write(self, file: BinaryIO) -> None:
        about = {
            "likelihood": self.likelihood,
            "settings": self.settings,
            "n_inputs": self.n_inputs,
            "rounds": self.rounds,
            "layers": len(self.layers),
            "features": list(FEATURES),
            "history": self.history,
        }
        arrays = {name: np.asarray(getattr(self, name), np.float32) for name in _ARRAYS}
        for k, (weights, biases) in enumerate(self.layers):
            arrays |= {f"weights{k}": np.asarray(weights), f"biases{k}": np.asarray(biases)}
        write_archive(file, RECOGNIZER, about, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recognizer:
        """Read what `save` wrote."""
        check_path(path)
        try:
            with open(path, "rb") as opened:
                return cls._read(opened, os.fspath(path))
        except FileNotFoundError as error:
            raise RecognizerError(f"{os.fspath(path)}: there is no such file") from error
        except IsADirectoryError as error:
            raise RecognizerError(f"{os.fspath(path)} is a folder, and a recognizer is a file") from error
        except OSError as error:
            raise RecognizerError(f"{os.fspath(path)} can't be read: {error}") from error

    @classmethod
    def _read(cls, opened: BinaryIO, where: str) -> Recognizer:
        try:
            about, arrays = read_archive(opened, RECOGNIZER)
            _ABOUT(about, "")
        except ArchiveError as error:
            raise RecognizerError(f"{where} {error}") from error
        except ValueError as error:
            raise RecognizerError(f"{where} isn't a recognizer of npvi ({error})") from error
        if about["features"] != list(FEATURES):
            raise RecognizerError(
                f"{where} was written by a version of npvi whose networks look at other numbers: {RECOGNIZER.renewed}"
            )
        names = [f"{kind}{k}" for k in range(about["layers"]) for kind in ("weights", "biases")]
        if set(arrays) != {*names, *_ARRAYS}:
            raise RecognizerError(f"{where} has other arrays than a recognizer of {about['layers']} layers")
        if not all(values.dtype.kind == "f" and np.isfinite(values).all() for values in arrays.values()):
            raise RecognizerError(f"{where}: there are weights that aren't finite")
        if any(values.size and np.abs(values).max() > _LARGEST for values in arrays.values()):
            raise RecognizerError(f"{where}: there are weights beyond ±{_LARGEST:g}, which no training finds")
        layers = [(arrays[f"weights{k}"], arrays[f"biases{k}"]) for k in range(about["layers"])]
        sizes = [len(FEATURES), *(biases.size for _, biases in layers)]
        shapes = [weights.shape for weights, _ in layers]
        flat = all(biases.ndim == 1 for _, biases in layers)
        if shapes != list(pairwise(sizes)) or sizes[-1] != 2 or not flat:
            raise RecognizerError(f"{where}: weights of shapes {shapes} don't fit together")
        if any(arrays[name].shape != (len(FEATURES),) for name in _ARRAYS) or not (arrays["scale"] > 0.0).all():
            raise RecognizerError(f"{where}: the scales of its features make no sense")
        if np.any(arrays["low"] > arrays["high"]):
            raise RecognizerError(f"{where}: its features lay in training between low and high, and low is higher")
        return cls(
            about["likelihood"],
            about["settings"],
            about["n_inputs"],
            about["rounds"],
            layers,
            history=about["history"],
            **{name: arrays[name] for name in _ARRAYS},
        )


def exact_sites(likelihood: Likelihood) -> bool:
    """Whether sites don't depend on where they are expanded, so that there is nothing to recognise.

    >>> from npvi.likelihoods import Poisson
    >>> exact_sites(LogNormal()), exact_sites(Poisson())
    (True, False)
    """
    return type(likelihood) in (Gaussian, LogNormal)


def pretrained(likelihood: str | Likelihood) -> Recognizer:
    """The network that comes with the package for this noise, which may be named; trained on simulations only."""
    name = type(as_likelihood(likelihood)).__name__
    file = resources.files("npvi.amortized") / "pretrained" / f"{name.lower()}.network"
    if not file.is_file():
        have = sorted(
            f.name.removesuffix(".network") for f in (resources.files("npvi.amortized") / "pretrained").iterdir()
        )
        raise RecognizerError(
            f'network="pretrained": there is none for the likelihood {name} (but for {", ".join(have)}); leave network '
            "out to train one on the data, or train one with npvi.fit_network_on_simulations"
        )
    with resources.as_file(file) as path:
        return Recognizer.load(path)


def likelihood_settings(likelihood: Likelihood) -> tuple[str, dict[str, Any]]:
    """Name and settings by which a recognizer knows a likelihood."""
    return type(likelihood).__name__, _settings(likelihood)


def _settings(likelihood: Likelihood) -> dict[str, Any]:
    return {name: getattr(likelihood, name) for name in likelihood.static}


def _text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "no settings"
