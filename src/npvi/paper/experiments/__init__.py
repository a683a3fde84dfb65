"""The paper's tables and figures, made again on real data; ``npvi reproduce`` in a shell does it.

A `Plan` says how much is computed: `FULL` is the paper's protocol, `QUICK` a small version of all of it. `reproduce`
computes the cells that a folder doesn't hold yet, then writes tables and figures of what there is.
"""

from npvi.paper.experiments.plan import FULL, QUICK, Plan
from npvi.paper.experiments.running import NAMES, Report, reproduce
from npvi.paper.experiments.store import Cell, Store

__all__ = ["FULL", "NAMES", "QUICK", "Cell", "Plan", "Report", "Store", "reproduce"]
