"""Pictures: matplotlib's axes are returned, to go on with."""

from npvi.plot.maps import figure_size, map

__all__ = ["figure_size", "map"]
