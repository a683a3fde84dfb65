"""Hyper-parameters: from the data's own scales to those with the largest bound, and what isn't known about them."""

from npvi.learning.bfgs import newton_step, secant
from npvi.learning.integration import Integration, integrate
from npvi.learning.learner import Learned, Learner, learn
from npvi.learning.objective import BoundObjective, Model, can_collapse, with_values
from npvi.learning.parts import GroupModel, Held, LearnedParts, PartModel, PartsObjective, Sought, learn_parts, seen_by
from npvi.learning.space import SearchSpace, learnable, unwrapped
from npvi.learning.standard_errors import TWO_SIDED, parameter_table, with_smoothness
from npvi.learning.start import in_units_of_data, limits, starting_model
from npvi.learning.table import Table, telling_rows

__all__ = [
    "TWO_SIDED",
    "BoundObjective",
    "GroupModel",
    "Held",
    "Integration",
    "Learned",
    "LearnedParts",
    "Learner",
    "Model",
    "PartModel",
    "PartsObjective",
    "SearchSpace",
    "Sought",
    "Table",
    "can_collapse",
    "in_units_of_data",
    "integrate",
    "learn",
    "learn_parts",
    "learnable",
    "limits",
    "newton_step",
    "parameter_table",
    "secant",
    "seen_by",
    "starting_model",
    "telling_rows",
    "unwrapped",
    "with_smoothness",
    "with_values",
]
