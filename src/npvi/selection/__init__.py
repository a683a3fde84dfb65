"""Cross-validation that keeps neighbours together, and choosing by a grid."""

from npvi.selection.grid import PAPER_LENGTH_SCALES, GridResult, grid_search
from npvi.selection.splitters import LeaveLocationOut, SpatialBlockSplit

__all__ = ["PAPER_LENGTH_SCALES", "GridResult", "LeaveLocationOut", "SpatialBlockSplit", "grid_search"]
