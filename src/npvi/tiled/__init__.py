"""More rows than memory, more machines than one: models in tiles, kept in a folder."""

from npvi.tiled.regressor import TiledRegressor
from npvi.tiled.store import StoreError

__all__ = ["StoreError", "TiledRegressor"]
