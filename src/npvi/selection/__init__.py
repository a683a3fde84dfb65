"""Cross-validation that keeps neighbours together, and choosing by a grid."""

from npvi.selection.grid import GridResult, grid_search
from npvi.selection.splitters import LeaveLocationOut, SpatialBlockSplit

__all__ = ["GridResult", "LeaveLocationOut", "SpatialBlockSplit", "grid_search"]
