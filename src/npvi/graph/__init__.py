"""Order the points, find for each the earlier points it depends on, and neighbours of new points."""

from npvi.graph.build import build_graph, extend_graph
from npvi.graph.graph import Children, Graph, Parts
from npvi.graph.neighbors import NeighborIndex

__all__ = ["Children", "Graph", "NeighborIndex", "Parts", "build_graph", "extend_graph"]
