"""What the linear predictor is a sum of: components, each with a prior of its own, and several as one operator."""

from npvi.components.base import Component, ComponentFactor, Rows
from npvi.components.dense import Dense
from npvi.components.group import Group
from npvi.components.linear import Coefficients, CoefficientSpread, Trend
from npvi.components.parts import LogDeterminant, Moments, Parts, PartsPrecision, Recent, Variances
from npvi.components.process import Process, ProcessPrecision, SolverLog
from npvi.components.stack import Stack

__all__ = [
    "CoefficientSpread",
    "Coefficients",
    "Component",
    "ComponentFactor",
    "Dense",
    "Group",
    "LogDeterminant",
    "Moments",
    "Parts",
    "PartsPrecision",
    "Process",
    "ProcessPrecision",
    "Recent",
    "Rows",
    "SolverLog",
    "Stack",
    "Trend",
    "Variances",
]
