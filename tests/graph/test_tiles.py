"""Tiles: the nested order whatever the tiling, boxes of about equal size, halos with the parents in them."""

import numpy as np
import pytest

from npvi.graph import build_graph
from npvi.graph.tiles import (
    Cube,
    Tiling,
    halo,
    nested_levels,
    nested_order,
    place_levels,
    point_keys,
    straddling,
)


def clouds():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, 6.0, 3000)
    coast = np.column_stack([np.cos(angle), np.sin(angle)]) * (1.0 + 0.001 * rng.standard_normal((3000, 1)))
    return {
        "square": rng.random((3000, 2)),
        "line": rng.random((2000, 1)),
        "space and time": rng.random((2500, 3)) * [1.0, 5.0, 0.1],
        "coast": coast,
        "clusters": np.vstack([rng.normal(c, 1e-4, (600, 2)) for c in rng.random((5, 2))]),
        "visited again": np.repeat(rng.random((500, 2)), 5, axis=0),
        "lattice": np.stack(np.meshgrid(np.arange(50.0), np.arange(40.0)), axis=-1).reshape(-1, 2),
        "one place": np.ones((300, 2)),
    }


@pytest.fixture(params=list(clouds()))
def points(request):
    return clouds()[request.param]


def brute_levels(points):
    """By going through the cells of every level."""
    cube, keys = Cube.around(points), point_keys(points)
    n, d = points.shape
    levels = np.full(n, cube.bits * d + 1)
    scaled = np.minimum((points - cube.low) / cube.side, np.nextafter(1.0, 0.0))
    for level in range(cube.bits * d, -1, -1):
        halvings = (level - np.arange(d) + d - 1) // d
        cells = np.floor(scaled * 2.0**halvings)
        _, cell = np.unique(cells, axis=0, return_inverse=True)
        cell = cell.ravel()
        order = np.lexsort((np.arange(n), keys, cell))
        first = order[np.append(True, np.diff(cell[order]) > 0)]
        levels[first] = level
    return levels


def test_levels_are_those_of_the_cells(points):
    cube, keys = Cube.around(points), point_keys(points)
    found = nested_levels(cube.numbers(points), keys, cube.bits)
    expected = brute_levels(points)
    # of those that are equal in all, either may be first
    assert np.array_equal(np.sort(found), np.sort(expected))
    _, place, count = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    alone = count[place.ravel()] == 1
    assert np.array_equal(found[alone], expected[alone])
    shared = place_levels(cube.numbers(points), found)
    assert shared.max() <= cube.bits * points.shape[1]
    assert np.array_equal(shared[alone], found[alone])


def test_the_order_goes_from_coarse_to_fine():
    points = np.random.default_rng(1).random((4096, 2))
    order = nested_order(points)
    assert np.array_equal(np.sort(order), np.arange(4096))
    gaps = [np.sqrt(((points[order[:k], None] - points[None, order[:k]]) ** 2).sum(-1)) for k in (16, 256)]
    nearest = [np.median(np.min(g + 9.0 * np.eye(len(g)), axis=1)) for g in gaps]
    random = [0.5 / np.sqrt(k) for k in (16, 256)]  # of points anywhere
    assert all(found > expected for found, expected in zip(nearest, random))
    assert np.array_equal(build_graph(points, 5, order="nested").order, order)


def test_the_order_does_not_know_of_rows_or_units():
    rng = np.random.default_rng(2)
    points = rng.random((500, 2))
    p = rng.permutation(500)
    assert np.array_equal(points[p][nested_order(points[p])], points[nested_order(points)])


@pytest.mark.parametrize("count", [2, 7, 16])
def test_tiles_find_the_levels_of_all(points, count):
    cube, keys = Cube.around(points), point_keys(points)
    numbers = cube.numbers(points)
    everything = nested_levels(numbers, keys, cube.bits)
    tiling = Tiling.cut(points[::3], cube, count)
    tile = tiling.tile_of(points)
    levels = np.empty(len(points), np.int16)
    open_ = np.zeros(len(points), dtype=bool)
    for t in range(tiling.count):
        rows = np.flatnonzero(tile == t)
        inside = (numbers[rows] >= tiling.boxes[t, 0]) & (numbers[rows] < tiling.boxes[t, 1])
        assert inside.all()
        levels[rows] = nested_levels(numbers[rows], keys[rows], cube.bits)
        open_[rows] = straddling(numbers[rows], levels[rows], tiling.boxes[t], cube.bits)
    levels[open_] = nested_levels(numbers[open_], keys[open_], cube.bits)
    _, place, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    alone = counts[place.ravel()] == 1
    assert np.array_equal(levels[alone], everything[alone])
    assert np.array_equal(np.sort(levels), np.sort(everything))


def test_tiles_have_about_as_many_points_each():
    points = clouds()["coast"]
    tiling = Tiling.cut(points, Cube.around(points), 12)
    sizes = np.bincount(tiling.tile_of(points), minlength=tiling.count)
    assert tiling.count == 12
    assert sizes.min() > 0.6 * 250
    assert sizes.max() < 1.5 * 250
    other = Tiling.from_dict(tiling.as_dict())
    assert np.array_equal(other.tile_of(points), tiling.tile_of(points))


def test_points_at_one_place_are_one_tile():
    points = clouds()["one place"]
    assert Tiling.cut(points, Cube.around(points), 8).count == 1
    assert Tiling.cut(np.vstack([points, [[2.0, 2.0]]]), Cube(np.ones(2), 1.0), 8).count == 2


def test_a_tile_sees_the_parents_of_its_points():
    points = np.random.default_rng(3).random((20_000, 2))
    cube, keys = Cube.around(points), point_keys(points)
    levels = nested_levels(cube.numbers(points), keys, cube.bits)
    graph = build_graph(points, 10, order=np.lexsort((keys, levels)))
    tiling = Tiling.cut(points, cube, 9)
    tile = tiling.tile_of(points)
    parents = np.where(graph.parents < 0, graph.order[0], graph.order[graph.parents])
    for t in range(tiling.count):
        own = tile == t
        box = np.stack([points[own].min(axis=0), points[own].max(axis=0)])
        seen = own | halo(points, cube.spacing(levels), box, reach=8.0)
        assert seen[parents[own[graph.order]]].all()
        assert own.sum() < seen.sum() < 0.6 * len(points)
