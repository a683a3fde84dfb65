"""More rows than memory, more machines than one: models in tiles, kept in a folder."""

from npvi.tiled.regressor import TiledRegressor
from npvi.tiled.store import StoreError, is_store

__all__ = ["StoreError", "TiledRegressor", "is_store"]
