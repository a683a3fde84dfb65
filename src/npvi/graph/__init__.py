"""Order the points, find for each the earlier points it depends on, and neighbours of new points."""

# for other rooms, not for users
from npvi.graph.build import ORDERS as ORDERS
from npvi.graph.build import RULES as RULES
from npvi.graph.build import build_graph, extend_graph
from npvi.graph.build import sort_ascending as sort_ascending
from npvi.graph.graph import Children, Graph, Parts
from npvi.graph.graph import check_parents as check_parents
from npvi.graph.graph import check_points as check_points
from npvi.graph.grid import grid_order as grid_order
from npvi.graph.neighbors import NeighborIndex
from npvi.graph.neighbors import arrange as arrange
from npvi.graph.neighbors import build_tree as build_tree
from npvi.graph.neighbors import search as search
from npvi.graph.places import number_places as number_places
from npvi.graph.tiles import Cube as Cube
from npvi.graph.tiles import Tiling as Tiling
from npvi.graph.tiles import halo as halo
from npvi.graph.tiles import nested_levels as nested_levels
from npvi.graph.tiles import place_levels as place_levels
from npvi.graph.tiles import point_keys as point_keys
from npvi.graph.tiles import straddling as straddling

__all__ = ["Children", "Graph", "NeighborIndex", "Parts", "build_graph", "extend_graph"]
