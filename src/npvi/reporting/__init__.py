"""Reports: one HTML file about a fitted model, for people who don't have it."""

from npvi.reporting.page import Panel
from npvi.reporting.writing import PANELS, report

__all__ = ["PANELS", "Panel", "report"]
