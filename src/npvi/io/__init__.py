"""Fitted models in one file: JSON and arrays behind a checksum, nothing that could be executed."""

from npvi.io.persistence import FORMAT, ModelFileError, describe, load, save

__all__ = ["FORMAT", "ModelFileError", "describe", "load", "save"]
