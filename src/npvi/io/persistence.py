"""Fitted models in one file: save and load."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from npvi.checks import check_path
from npvi.io import archive as model_file
from npvi.io.archive import FORMAT, ModelFileError
from npvi.io.metadata import check_metadata
from npvi.io.packing import pack
from npvi.io.unpacking import unpack

__all__ = ["FORMAT", "ModelFileError", "describe", "load", "save"]


def save(model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one file; an older file of that name is replaced only once the new one is complete.

    Parameters
    ----------
    model : GPRegressor, VaryingNoiseRegressor, GPClassifier, or a Pipeline of transformers and one of these, fitted
    path : str or path
    notes : mapping of JSON's own types, optional
        Kept in the file for `describe`, such as the names of the columns that the model was fitted from.

    Raises
    ------
    ModelFileError
        Where the model is not fitted, holds what cannot be saved, or the file cannot be written.

    Examples
    --------
    >>> import npvi, tempfile
    >>> model = npvi.GPRegressor(n_neighbors=2, learn=False).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.npvi")
    >>> save(model, path, notes={"target": "count"})
    >>> describe(path)["notes"]
    {'target': 'count'}
    """
    check_path(path)
    metadata, arrays = pack(model, dict(notes or {}))
    try:
        check_metadata(metadata)
    except ValueError as error:
        raise ModelFileError(f"this model cannot be saved, because nobody could load it: {error}") from error
    model_file.write(path, metadata, arrays)


def load(path: str | os.PathLike[str], custom: Mapping[str, Callable] | None = None) -> Any:
    """Read a model that `save` wrote: it predicts as it did, and can be cloned, refitted and saved again.

    No code in the file is run, because there is none. Functions of your own are not in it either; they are asked for by
    name.

    Parameters
    ----------
    path : str or path
    custom : mapping from names to functions, optional
        Functions that the model was made with, for example ``{"cauchy": cauchy}``.

    Returns
    -------
    GPRegressor, VaryingNoiseRegressor, GPClassifier or Pipeline

    Raises
    ------
    ModelFileError
        Where the file is not a model, is damaged, or was written in another format: by a newer or much older npvi.

    Examples
    --------
    >>> import npvi, numpy as np, tempfile
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = npvi.GPRegressor(kernel="rbf", learn=False, n_neighbors=5).fit(X, np.sin(X[:, 0]))
    >>> path = os.path.join(tempfile.mkdtemp(), "model.npvi")
    >>> model.save(path)
    >>> bool(load(path).predict([[1.5]])[0] == model.predict([[1.5]])[0])
    True
    """
    check_path(path)
    if not isinstance(custom, Mapping | None):
        raise TypeError(f"custom must map names to functions, or be None; got {custom!r}")
    if _in_tiles(path):
        from npvi import TiledRegressor

        return TiledRegressor.load(path)
    metadata, arrays = model_file.read(path)
    with _blaming(path):
        check_metadata(metadata)
        return unpack(metadata, arrays, custom or {})


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a file, in JSON's own types, without building the model.

    Examples
    --------
    >>> import npvi, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.npvi")
    >>> model = npvi.GPRegressor(kernel="rbf", learn=False, n_neighbors=2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> model.save(path)
    >>> describe(path)["n_rows"], describe(path)["kernel"]["type"]
    (3, 'RBF')
    """
    if _in_tiles(path):
        from npvi import TiledRegressor

        return TiledRegressor.load(path).describe()
    metadata = model_file.read(path, with_arrays=False)[0]
    with _blaming(path):
        check_metadata(metadata)
    return metadata


def _in_tiles(path: str | os.PathLike[str]) -> bool:
    """Whether it is the folder of a model in tiles, finished or not."""
    return any(os.path.isfile(os.path.join(path, name)) for name in ("plan.json", "manifest.json"))


@contextmanager
def _blaming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong inside, the file is to blame: `save` would not have written it."""
    try:
        yield
    except MemoryError:
        raise
    except KeyError as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: it has no {error}") from error
    except Exception as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: {error}") from error
