"""Fitted models in one file: JSON and arrays behind a checksum, nothing that could be executed."""

# for other rooms, not for users
from npvi.io.metadata import config as config
from npvi.io.persistence import FORMAT, ModelFileError, describe, load, save

__all__ = ["FORMAT", "ModelFileError", "describe", "load", "save"]
