"""Cross-validation that keeps neighbours together, in scikit-learn's form."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, GroupKFold
from sklearn.utils import _safe_indexing

from npvi.checks import as_numbers, check_count, random_state, refuse_masked
from npvi.graph import check_points, number_places
from npvi.kernels import EARTH_RADIUS

__all__ = ["LeaveLocationOut", "SpatialBlockSplit"]

#: blocks per fold, where no size is given
_BLOCKS_PER_FOLD = 10


class _OfPlaces(BaseCrossValidator):
    """Folds that places alone decide on."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The rows to train on and those to test on, fold by fold; `y` and `groups`, which scikit-learn gives, are not
        looked at."""
        folds = list(self._iter_test_indices(X))
        rows = np.arange(sum(map(len, folds)))  # each is in one fold
        for test in folds:
            yield np.setdiff1d(rows, test, assume_unique=True), test


class SpatialBlockSplit(_OfPlaces):
    """Folds made of square blocks of space.

    Rows held out at random have training rows all around them, so ordinary cross-validation says how well a model fills
    small gaps. Held-out blocks say how well it predicts at places farther from all data.

    Blocks are dealt to folds from the largest down, each to the fold with fewest rows.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    block_size : float or sequence of float, optional
        Side of a block in the units of the coordinates, or one side per column. By default about 10 blocks per fold.
        For a GeoDataFrame in longitudes and latitudes it is in kilometres.
    columns : int, str or sequence of them, optional
        The coordinates among the columns of X; all columns unless given, and of a GeoDataFrame its points. Names need a
        DataFrame.
    random_state : int, RandomState or None
        Moves the grid of blocks and shuffles blocks of the same size. None starts the grid at the smallest coordinates.

    Examples
    --------
    >>> import npvi
    >>> X = np.array([[0.1, 0.2], [0.3, 0.1], [1.5, 0.4], [1.6, 0.2], [0.2, 1.7], [1.9, 1.8]])
    >>> for train, test in npvi.SpatialBlockSplit(n_splits=2, block_size=1.0).split(X):
    ...     print(train, test)
    [2 3 5] [0 1 4]
    [0 1 4] [2 3 5]

    In a search, with the first two columns as coordinates:

    >>> from sklearn.model_selection import cross_val_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> cross_val_score(npvi.GPRegressor(), X, y, cv=npvi.SpatialBlockSplit(3, columns=[0, 1])).shape
    (3,)
    """

    def __init__(
        self,
        n_splits: int = 5,
        block_size: float | Sequence[float] | None = None,
        columns: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_splits = n_splits
        self.block_size = block_size
        self.columns = columns
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return check_count(self.n_splits, "n_splits", 2)

    def blocks(self, X: Any) -> NDArray[np.int64]:
        """The number of each row's block.

        >>> SpatialBlockSplit(2, block_size=1.0).blocks([[0.0], [0.9], [1.1]]).tolist()
        [0, 0, 1]
        """
        return self._blocks(X)[0]

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[NDArray[np.int64]]:
        block, rng = self._blocks(X)
        yield from _folds(block, self.n_splits, rng)

    def _blocks(self, X: Any) -> tuple[NDArray[np.int64], np.random.RandomState | None]:
        n_splits = self.get_n_splits()
        points = _coordinates(X, self.columns)
        rng = None if self.random_state is None else random_state(self.random_state)
        shift: NDArray[np.float64] = (
            np.zeros(points.shape[1]) if rng is None else np.asarray(rng.uniform(size=points.shape[1]))
        )
        points = points - points.min(axis=0)
        if self.block_size is None:
            return _default_blocks(points, shift, n_splits), rng
        size = _check_size(self.block_size, points.shape[1])
        block = number_places(np.floor(points / size + shift))
        found = int(block.max()) + 1
        if found < n_splits:
            raise ValueError(
                f"block_size={self.block_size!r} gives {found} blocks that hold rows, fewer than n_splits={n_splits}; "
                f"the coordinates extend over {_listed(points.max(axis=0))}: choose smaller blocks or fewer folds"
            )
        return block, rng


class LeaveLocationOut(_OfPlaces):
    """Folds made of whole locations: rows with identical coordinates stay together.

    Repeated visits to one site tell of each other; with some of them in the training data, a score says little about
    new sites.

    Parameters
    ----------
    n_splits : int, optional
        Number of folds, to which locations are dealt from the one with most rows down, each to the fold with fewest
        rows. By default each location is a fold of its own.
    columns : int, str or sequence of them
        The coordinates among the columns of X. Names need a DataFrame. May be left out for a GeoDataFrame, whose points
        they are, and where there are one or two columns: among more there may be covariates, and a year or a
        temperature is no part of a location.

    Examples
    --------
    >>> import npvi
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, 1.0], [4.0, 5.0]])
    >>> for train, test in npvi.LeaveLocationOut().split(X):
    ...     print(train, test)
    [1 3] [0 2]
    [0 2 3] [1]
    [0 1 2] [3]
    >>> npvi.LeaveLocationOut(n_splits=2).get_n_splits()
    2
    """

    def __init__(self, n_splits: int | None = None, columns: Any = None) -> None:
        self.n_splits = n_splits
        self.columns = columns

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds; the number of locations in X where `n_splits` is None."""
        if self.n_splits is not None:
            return check_count(self.n_splits, "n_splits", 2)
        if X is None:
            raise ValueError("X is needed to count its locations: give X, or n_splits")
        return int(self._locations(X).max()) + 1

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[NDArray[np.int64]]:
        location = self._locations(X)
        if self.n_splits is None:
            yield from _members(location)
        else:
            yield from _folds(location, self.n_splits, None)

    def _locations(self, X: Any) -> NDArray[np.int64]:
        X = X if hasattr(X, "shape") and not isinstance(X, type) else as_numbers(X, "X")
        if self.columns is None and not _has_geometry(X):
            _check_few_columns(X)
        location = number_places(_coordinates(X, self.columns))
        found = int(location.max()) + 1
        needed = 2 if self.n_splits is None else check_count(self.n_splits, "n_splits", 2)
        if found < needed:
            raise ValueError(
                f"X has {found} different locations, fewer than "
                + (f"n_splits={needed}: choose fewer folds" if self.n_splits is not None else "the two that folds need")
            )
        return location


def _check_few_columns(X: Any) -> None:
    shape = np.shape(X)
    if len(shape) == 2 and shape[1] > 2:
        names = f" ({', '.join(map(str, X.columns))})" if hasattr(X, "columns") else ""
        raise ValueError(
            f"X has {shape[1]} columns{names}, and LeaveLocationOut can't know which of them are the location: say it "
            f"by columns=, such as columns=[0, 1], or columns=range({shape[1]}) for all of them"
        )


def _coordinates(X: Any, columns: Any) -> NDArray[np.float64]:
    if columns is None and _has_geometry(X):
        return _points_of(X)
    if columns is not None:
        try:
            chosen = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
        except TypeError:
            raise ValueError(f"columns must be numbers or names of columns of X, got {columns!r}") from None
        if not chosen:
            raise ValueError("columns is empty: name at least one coordinate, or give None for all columns")
        refuse_masked(X, "X")
        X = X if hasattr(X, "shape") else as_numbers(X, "X")
        try:
            X = _safe_indexing(X, chosen, axis=1)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            names = list(X.columns) if hasattr(X, "columns") else f"numbers from 0 to {X.shape[1] - 1}"
            raise ValueError(f"columns={columns!r} aren't all in X, whose columns are {names}") from error
    return check_points(X, "X")


def _has_geometry(X: Any) -> bool:
    """Whether it is a GeoDataFrame; nothing is imported to find out."""
    geopandas = sys.modules.get("geopandas")
    return geopandas is not None and isinstance(X, geopandas.GeoDataFrame)


def _points_of(X: Any) -> NDArray[np.float64]:
    """Points of a GeoDataFrame in the units of its system; longitudes and latitudes in kilometres, to the east and to
    the north, as wide as they are at the middle latitude."""
    if not np.all((X.geometry.geom_type == "Point") & ~X.geometry.is_empty):
        raise ValueError(
            "X must have a point in each row: X.set_geometry(X.representative_point()) makes some of polygons"
        )
    points = check_points(np.column_stack([X.geometry.x, X.geometry.y]), "X")
    if X.crs is None or not X.crs.is_geographic:
        return points
    middle = np.deg2rad(0.5 * (points[:, 1].min() + points[:, 1].max()))
    return np.deg2rad(points) * EARTH_RADIUS * np.array([np.cos(middle), 1.0])


def _default_blocks(points: NDArray[np.float64], shift: NDArray[np.float64], n_splits: int) -> NDArray[np.int64]:
    """Blocks of about a tenth of a fold each; smaller where data are in few of them."""
    extent = points.max(axis=0)
    varies = extent > 0.0
    distinct = int(number_places(points).max()) + 1
    if distinct < n_splits:
        raise ValueError(
            f"X has {distinct} different locations, fewer than n_splits={n_splits}: choose fewer folds or other columns"
        )
    wanted = min(_BLOCKS_PER_FOLD * n_splits, distinct)
    size = float(np.exp(np.mean(np.log(extent[varies])))) * wanted ** (-1.0 / varies.sum())
    while True:
        block = number_places(np.floor(points / size + shift))
        # half the number wanted will do: data seldom fill their bounding box
        if 2 * (int(block.max()) + 1) >= max(wanted, 2 * n_splits):
            return block
        size *= 0.75


def _check_size(size: Any, dimension: int) -> NDArray[np.float64]:
    sizes = as_numbers(size, "block_size")
    if sizes.shape not in [(), (dimension,)] or not np.all(np.isfinite(sizes) & (sizes > 0.0)):
        raise ValueError(
            f"block_size must be a positive number, or one for each of the {dimension} coordinates; got {size!r}"
        )
    return sizes


def _folds(group: NDArray[np.int64], n_splits: int, rng: np.random.RandomState | None) -> Iterator[NDArray[np.int64]]:
    """The rows of each fold; groups go, largest first, to the fold with fewest rows."""
    count = int(group.max()) + 1
    turn = np.arange(count) if rng is None else np.argsort(rng.permutation(count))
    # of groups of one size scikit-learn deals the last first
    last_first = (count - 1 - turn)[group]
    return (test for _, test in GroupKFold(n_splits).split(last_first, groups=last_first))


def _members(label: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The rows with each label, ascending."""
    return np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label))[:-1])


def _listed(values: NDArray[np.float64]) -> str:
    return " × ".join(f"{value:.3g}" for value in values)
