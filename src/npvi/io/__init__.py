"""Fitted models in one file: JSON and arrays behind a checksum, nothing that could be executed."""

from npvi.io.persistence import load

__all__ = ["load"]
