"""Where a long training stands, in a file (`npvi.runtime.archive`): trees of arrays and a description."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import jax
import numpy as np

from npvi.runtime.archive import ArchiveError, Kind, read_archive, write_archive
from npvi.runtime.fields import Check, anything
from npvi.runtime.files import UnwritableError, replacing

__all__ = ["CHECKPOINT", "CheckpointError", "fingerprint", "read_checkpoint", "write_checkpoint"]

CHECKPOINT = Kind(
    "checkpoint",
    2,
    renewed="go on with that version",
    intact="",
    zipped=("description", "npvi training 1"),
)

_ANEW = "give another path, or delete it to start anew"


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or written, or that belongs to something else."""


def write_checkpoint(path: str | os.PathLike[str], trees: dict[str, Any], description: dict[str, Any]) -> None:
    """Put `trees` of arrays and what JSON can say into one file, in place of the one that is there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "training.checkpoint"
    >>> write_checkpoint(path, {"parameters": {"a": np.arange(3)}}, {"epoch": 7})
    >>> trees, description = read_checkpoint(path, {"parameters": {"a": np.zeros(3, dtype=int)}})
    >>> trees, description["epoch"]
    ({'parameters': {'a': array([0, 1, 2])}}, 7)
    """
    arrays: dict[str, Any] = {
        f"{name}/{k}": leaf for name, tree in trees.items() for k, leaf in enumerate(_leaves(tree))
    }
    try:
        with replacing(path) as file:
            write_archive(file, CHECKPOINT, {"trees": list(trees), **description}, arrays)
    except UnwritableError as error:
        raise CheckpointError(f"checkpoint: {error}") from error


def read_checkpoint(
    path: str | os.PathLike[str], examples: dict[str, Any], fields: Check = anything
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The trees and the description of a file; `examples` have the structure, shapes and types that they must have,
    `fields` says what the description may be.

    Raises
    ------
    CheckpointError
        Where the file is damaged or holds something else.
    """
    try:
        with open(path, "rb") as opened:
            description, arrays = read_archive(opened, CHECKPOINT)
        fields(description, "")
        trees = [(name, examples[name]) for name in description["trees"]]
    except ArchiveError as error:
        raise CheckpointError(f"checkpoint: {os.fspath(path)} {error}; {_ANEW}") from error
    except OSError as error:
        raise CheckpointError(f"checkpoint: {os.fspath(path)} can't be read: {error}") from error
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint: {os.fspath(path)} is not a checkpoint of npvi ({error}); {_ANEW}"
        ) from error
    return {name: _tree(path, name, example, arrays) for name, example in trees}, description


def fingerprint(*trees: Any) -> str:
    """A checksum of arrays: their types, shapes and numbers.

    >>> fingerprint(np.zeros(3)) == fingerprint(np.zeros(3)), fingerprint(np.zeros(3)) == fingerprint(np.ones(3))
    (True, False)
    """
    digest = hashlib.sha256()
    for leaf in _leaves(trees):
        digest.update(f"{leaf.dtype} {leaf.shape} ".encode())
        content: Any = np.ascontiguousarray(leaf)
        digest.update(content)
    return digest.hexdigest()


def _leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def _tree(path: str | os.PathLike[str], name: str, example: Any, arrays: dict[str, np.ndarray]) -> Any:
    leaves, structure = jax.tree.flatten(example)
    found = [array for key, array in arrays.items() if key.startswith(f"{name}/")]
    for k, leaf in enumerate(leaves):
        array = arrays.get(f"{name}/{k}")
        wanted = (np.dtype(leaf.dtype), np.shape(leaf))
        if array is None or len(found) != len(leaves) or (array.dtype, array.shape) != wanted:
            got = "none" if array is None else f"{array.dtype} {array.shape}"
            raise CheckpointError(
                f"checkpoint: {os.fspath(path)} belongs to another training: array {k} of its {name} is {got}, here "
                f"{wanted[0]} {wanted[1]}; give another path, or delete it to start anew"
            )
    return jax.tree.unflatten(structure, [arrays[f"{name}/{k}"] for k in range(len(leaves))])
