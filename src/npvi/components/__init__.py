"""What the linear predictor is a sum of: components, each with a prior of its own, and several as one operator."""

from npvi.components.base import Component, Rows
from npvi.components.linear import Coefficients, CoefficientSpread, Trend
from npvi.components.process import Process, ProcessPrecision, SolverLog
from npvi.components.stack import Stack

__all__ = [
    "CoefficientSpread",
    "Coefficients",
    "Component",
    "Process",
    "ProcessPrecision",
    "Rows",
    "SolverLog",
    "Stack",
    "Trend",
]
