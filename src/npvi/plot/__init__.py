"""Pictures: matplotlib's axes are returned, to go on with."""

from npvi.maps.drawing import figure_size, map
from npvi.plot.effects import terms
from npvi.plot.fitting import neighbourhood, trace
from npvi.plot.judging import calibration, residuals

__all__ = ["calibration", "figure_size", "map", "neighbourhood", "residuals", "terms", "trace"]
