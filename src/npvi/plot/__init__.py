"""Pictures: matplotlib's axes are returned, to go on with."""

from npvi.plot.maps import map

__all__ = ["map"]
