"""What the linear predictor is a sum of: components, each with a prior of its own, and several as one operator."""

from npvi.components.base import Component, ComponentFactor, Rows
from npvi.components.dense import Dense
from npvi.components.group import Group
from npvi.components.linear import Coefficients, CoefficientSpread, Trend
from npvi.components.mesh import Mesh, MeshField
from npvi.components.new_rows import NewRows, OfFew, OfGroup, OfProcess
from npvi.components.parts import LogDeterminant, Moments, Parts, PartsPrecision, Recent, Variances
from npvi.components.precision_posterior import again
from npvi.components.prediction import PartsPrediction, Seen
from npvi.components.process import ACCURACY, PROBES, Process, ProcessPrecision, SolverLog
from npvi.components.spline import CyclicSpline, Spline
from npvi.components.stack import Stack

__all__ = [
    "ACCURACY",
    "PROBES",
    "CoefficientSpread",
    "Coefficients",
    "Component",
    "ComponentFactor",
    "CyclicSpline",
    "Dense",
    "Group",
    "LogDeterminant",
    "Mesh",
    "MeshField",
    "Moments",
    "NewRows",
    "OfFew",
    "OfGroup",
    "OfProcess",
    "Parts",
    "PartsPrecision",
    "PartsPrediction",
    "Process",
    "ProcessPrecision",
    "Recent",
    "Rows",
    "Seen",
    "SolverLog",
    "Spline",
    "Stack",
    "Trend",
    "Variances",
    "again",
]
