"""The estimator for tables that no memory holds."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from npvi.checks import (
    LARGEST,
    as_numbers,
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_jobs,
    check_number,
    check_path,
    refuse_masked,
    refuse_repeated_names,
)
from npvi.config import parameter_config, to_config
from npvi.estimators import GPRegressor, Maps, NamedParts
from npvi.graph import build_graph
from npvi.inference import Data
from npvi.kernels import Kernel
from npvi.learning import Learner, SearchSpace, Table, can_collapse, unwrapped
from npvi.likelihoods import Likelihood, Softmax, as_likelihood
from npvi.maps import is_xarray
from npvi.model import Fitted, Spec, coordinate_columns, latent_at
from npvi.parameters import Parameter, Parametrised
from npvi.predictive import Predictive, Reach
from npvi.runtime import progress
from npvi.runtime.interrupts import interrupts_remembered
from npvi.runtime.parallel import threads
from npvi.tiled.building import build, checked_rows, plan_of, update
from npvi.tiled.fitting import fitted_tile
from npvi.tiled.job import PLAN, Job, job_at
from npvi.tiled.lazy import is_lazy, of_dataset, predicted
from npvi.tiled.running import OnDask, Runner, runner_of
from npvi.tiled.sense import blaming, check_manifest
from npvi.tiled.settled import Settled
from npvi.tiled.source import Source
from npvi.tiled.store import MANIFEST, Store, StoreError

__all__ = ["TiledRegressor"]

#: bytes that a row which a tile sees takes while it is fitted, and what a process takes in any case
_BYTES, _BASE = 3000.0, 0.9e9
#: share of rows that a tile sees and doesn't own, about; rows of a tile, at least and at most
_AROUND, _TILE = 1.6, (2_000, 250_000)
#: of a worker's memory, what it may take before Dask pauses it, and a little less
_UNPAUSED = 0.75
#: rows that tell the scales of covariates where nothing is learned
_AS_GIVEN = 2**14
#: of Gaussian noise, what counts as nugget where nobody says what that is
_OF_NOISE = 1e-3
#: cells of a map that are predicted at a time: each time every tile under them is read
_CELLS = 2**21
_UNITS = ("", "K", "M", "G", "T")
#: settings that a model in memory has, too
_OF_MODEL = ("likelihood", "kernel", "nugget", "mean", "learn", "coords", "coefficient_scale", "hyperprior")
#: extras of likelihoods that tables may have a column for
_EXTRAS = ("exposure", "trials")


class TiledRegressor(Maps, NamedParts, BaseEstimator):
    """A Gaussian process for tables larger than memory: in tiles, one after the other or on a Dask cluster.

    The model is that of `GPRegressor` with ``method="full"`` and ``order="nested"``: space is cut into tiles of about
    equal rows, each is fitted with the rows around it, and then rounds bring the tiles to agree, until the equations of
    all rows hold. All that is found is kept in a folder. Run it again after a failure, and it goes on where it was.

    Parameters
    ----------
    likelihood, kernel, nugget, mean, learn, coords, coefficient_scale, hyperprior : as in `GPRegressor`.
    n_neighbors : int
        Parents of each point.
    store : str or path
        The folder; made where it isn't there.
    memory : str or number
        What all processes of this machine may take together, such as "4GB"; with a cluster, what one of its workers
        has. It decides how large tiles are.
    tile_rows : int or "auto"
        Rows of a tile; by memory, and 250,000 at most. A fit that goes on keeps the tiles that it began with.
    learn_rows : int
        Rows that the numbers are first learned from, in memory: half in compact blocks, half from everywhere. Where
        there are more, all of them then say, tile by tile, where the numbers are to go from there.
    halo : float
        How far a tile sees: rows that are no further away than so many times the distance to rows before them in the
        order; farther away, ever fewer of them.
    rounds : int
        Rounds at most in which tiles are brought to agree. The last step, in posterior standard deviations, is to be
        0.002 in the root mean square and 0.02 at most; else a warning says what it is.
    max_iter : int
        Iterations of the fit of a tile.
    client : "current", None or a client of dask.distributed
        "current" is the current client, if there is one, else this process; None is this process. The workers of a
        cluster must see the tables and the folder under the same names.
    n_jobs : int, optional
        Tiles at a time in this process; all cores by default.
    random_state : int
    verbose : int

    Attributes
    ----------
    kernel_, nugget_, likelihood_, mean_coefficients_ : what was learned.
    extent_ : the lowest and the highest of each input, shape (2, d), of the rows of the fit.
    elbo_ : the evidence lower bound.
    certificate_ : rounds, and what was left of the equations after each.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> folder = tempfile.mkdtemp()
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.uniform(size=3000), "y": rng.uniform(size=3000)})
    >>> table["count"] = rng.poisson(np.exp(np.sin(6.0 * table["x"])))
    >>> table.to_parquet(f"{folder}/survey.parquet")
    >>> model = TiledRegressor("poisson", kernel="rbf", learn=False, store=f"{folder}/birds.npvi", tile_rows=2000)
    >>> model = model.fit(f"{folder}/*.parquet", target="count")
    >>> model.certificate_["certified"], bool(2.0 < model.predict([[0.25, 0.5]])[0] < 3.5)  # e at the top
    (True, True)
    """

    cells_at_a_time = _CELLS

    def __init__(
        self,
        likelihood="gaussian",
        kernel="matern",
        nugget=None,
        mean="constant",
        learn=True,
        coords=None,
        coefficient_scale="weak",
        hyperprior="weak",
        n_neighbors=20,
        store=None,
        memory="4GB",
        tile_rows="auto",
        learn_rows=65536,
        halo=16.0,
        rounds=30,
        max_iter=50,
        client="current",
        n_jobs=None,
        random_state=0,
        verbose=0,
    ):
        self.likelihood = likelihood
        self.kernel = kernel
        self.nugget = nugget
        self.mean = mean
        self.learn = learn
        self.coords = coords
        self.coefficient_scale = coefficient_scale
        self.hyperprior = hyperprior
        self.n_neighbors = n_neighbors
        self.store = store
        self.memory = memory
        self.tile_rows = tile_rows
        self.learn_rows = learn_rows
        self.halo = halo
        self.rounds = rounds
        self.max_iter = max_iter
        self.client = client
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        source: Any,
        target: str,
        inputs: Sequence[str] | None = None,
        exposure: str | None = None,
        trials: str | None = None,
    ) -> Self:
        """Fit to tables in Parquet files.

        Parameters
        ----------
        source : a file, a folder, a pattern such as ``"survey/*.parquet"``, or several of these.
        target : column with the responses.
        inputs : columns of places and covariates; all others by default.
        exposure, trials : columns with what the likelihood takes per row.

        Returns
        -------
        self
        """
        likelihood = self._checked()
        _check_name(target, "target")
        extras = {name: column for name, column in zip(_EXTRAS, (exposure, trials)) if column is not None}
        for name, column in extras.items():
            _check_name(column, name)
            if name not in likelihood.extras:
                raise ValueError(f"{name} doesn't go with the {type(likelihood).__name__} likelihood")
        names = [inputs] if isinstance(inputs, str) else inputs
        if names is not None:
            if not isinstance(names, list | tuple) or not names:
                raise TypeError(f"inputs must be names of columns, or None; got {names!r:.60}")
            for column in names:
                _check_name(column, "inputs")
        tables = Source.of(source, target, None if names is None else list(names), extras)
        self._checked_spec(likelihood, list(tables.inputs))  # before tables are read
        runner = runner_of(self.client, self.n_jobs)
        rows = self._rows_of_tiles(runner)
        columns = list(tables.inputs)
        plan = plan_of(
            self._settings(),
            tables.as_dict(),
            rows,
            int(self.learn_rows) if self.learn else _AS_GIVEN,
            likelihood=to_config(_plain(likelihood)),
            coords=_columns(self.coords, columns),
            halo=float(self.halo),
            rounds=int(self.rounds),
            max_iter=int(self.max_iter),
        )
        report = progress.print_progress if check_flag(self.verbose, "verbose") else None
        with interrupts_remembered(), progress.reporting(report):
            build(Job(Store(self.store)), plan, self._learned, self._space, runner)
        return self._open()

    def update(self, source: Any) -> Self:
        """Let the rows of more tables join the posterior; hyper-parameters and tiles stay as they are.

        The tables have the columns of the fit, by the same names. Tiles with new rows and those around them are fitted
        again, and then further ones, until tiles next to such that stay don't move; all others keep their files. Rows
        outside of all others belong to the nearest tile. The model in the folder is the old one until the new one is
        there; after a failure run the same again. Files whose rows the model has already are left out, so that
        ``update("survey/*.parquet")`` takes those that are new.

        Parameters
        ----------
        source : a file, a folder, a pattern such as ``"survey/*.parquet"``, or several of these.

        Returns
        -------
        self
        """
        fitted = self._job.source
        tables = Source.of(source, fitted.target, list(fitted.inputs), fitted.extras)
        check_jobs(self.n_jobs)
        runner = runner_of(self.client, self.n_jobs)
        report = progress.print_progress if check_flag(self.verbose, "verbose") else None
        with interrupts_remembered(), progress.reporting(report):
            update(Store(self.store), tables, runner, check_count(self.rounds, "rounds", 0))
        return self._open()

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TiledRegressor:
        """The model in a folder, whose files are all there; what `npvi.load` calls.

        Raises
        ------
        StoreError
            Where it isn't finished, or isn't what it was.
        """
        check_path(folder, "folder")
        model = cls(store=folder)._open()
        settled = model._job.settled
        parts = {"likelihood": settled.likelihood, "kernel": settled.kernel, "nugget": settled.nugget}
        return model.set_params(**parts, n_neighbors=settled.neighbors, rounds=int(model._job.plan["rounds"]))

    def predict_dist(self, X: Any, exposure: Any = None, trials: Any = None) -> Predictive:
        """The predictive distribution of the response at each row of X, as `GPRegressor.predict_dist`; but not of rows
        together.

        Parameters
        ----------
        X : (rows, d) array, or a DataFrame that has the inputs as columns.
        exposure, trials : data per row.
        """
        X = self._inputs(X)
        given = {"exposure": exposure, "trials": trials}
        for name in self._job.source.extras:
            if given.get(name) is None:
                warnings.warn(
                    f"the model was fitted with {name}, and none is given here: every row counts as {name} 1. Give "
                    f"{name}=…, or {name}=1.0 if that is what you want",
                    UserWarning,
                    stacklevel=2,
                )
        row = self.likelihood_.check_row(given, len(X))
        mean, variance, distance, share = np.empty((4, len(X)))
        settled = self._job.settled
        tile = self._nonempty[self._job.tiling.tile_of(settled.points(X))]
        for number in np.unique(tile).tolist():
            mine = np.flatnonzero(tile == number)
            fitted = _tile_of(self._job, number)
            with threads(self.n_jobs):
                latent = latent_at(fitted, X[mine], self.n_jobs)
                mean[mine], variance[mine] = latent.mean, latent.variance
                reach = latent.reach()
            distance[mine], share[mine] = reach.distance, reach.prior_share
            if not (np.isfinite([latent.mean, latent.variance]).all() and np.all(latent.variance >= 0.0)):
                raise StoreError(f"{self._job.store.folder} can't be used: predictions of tile {number} are not finite")
            progress.report("tile", number=number, rows=len(mine))
        found = Reach(distance, share)
        return Predictive(self.likelihood_, mean, variance, row, None, settled.nugget, lambda: found)

    def predict(self, X: Any, return_std: bool = False, exposure: Any = None, trials: Any = None) -> Any:
        """Mean of the response at each row of X; with `return_std` also its standard deviation.

        A DataFrame of Dask gives one, with columns ``mean`` and ``std``, and an array of Dask one with these two
        columns: they are computed when they are asked for, by workers that see the folder. So does a Dataset of xarray,
        which has the inputs as variables or coordinates; one that isn't of Dask is computed at once. `exposure` and
        `trials` are then numbers, or names of columns or variables.
        """
        folder = str(Store(self.store).folder.absolute())
        if is_xarray(X):
            row = {"exposure": exposure, "trials": trials}
            return of_dataset(type(self).load, folder, X, self._job.source.inputs, row)
        if is_lazy(X):
            return predicted(type(self).load, folder, X, exposure, trials)
        dist = self.predict_dist(X, exposure, trials)
        return (dist.mean, dist.std) if check_flag(return_std, "return_std") else dist.mean

    def to_local(self) -> GPRegressor:
        """The same model in memory, for what tiles don't serve: fitted once more, to all rows of the folder, with the
        numbers that were learned.

        Raises
        ------
        ValueError
            Where this machine hasn't the memory.
        """
        import pandas as pd

        job, settled = self._job, self._job.settled
        _check_memory(int(job.layout["rows"].sum()))
        tiles = np.flatnonzero(job.layout["rows"]).tolist()
        rows = np.concatenate([checked_rows(job, tile) for tile in tiles])
        X, y, row = job.source.split(rows)
        said = job.plan["settings"]
        model = GPRegressor(
            settled.likelihood,
            kernel=settled.kernel,
            nugget=settled.nugget,
            mean=said["mean"],
            coords=settled.part.coords.tolist(),
            coefficient_scale=said["coefficient_scale"],
            learn=False,
            n_neighbors=settled.neighbors,
            order="nested",
            hyper="plug-in",
            random_state=said["random_state"],
            n_jobs=self.n_jobs,
        )
        names = list(job.source.inputs)
        with blaming(job.store.folder / PLAN):
            model.feature_names_in_ = np.array(names, dtype=object)
            model._spec(settled.likelihood, len(names))
        return model.fit(pd.DataFrame(X, columns=names), y, **row)

    # -- what was learned ---------------------------------------------------------------------------------------------

    @property
    def kernel_(self) -> Kernel:
        """With its numbers."""
        return self._job.settled.kernel

    @property
    def nugget_(self) -> float:
        """Variance of what is each row's own."""
        return self._job.settled.nugget

    @property
    def likelihood_(self) -> Likelihood:
        """With its numbers."""
        return self._job.settled.likelihood

    @property
    def mean_coefficients_(self) -> dict[str, tuple[float, float]]:
        """Of the mean, for the covariates as they came: value and standard error."""
        return {name: (value, error) for name, (value, error) in self.about_["coefficients"].items()}

    @property
    def elbo_(self) -> float:
        """The evidence lower bound."""
        return float(self.about_["elbo"])

    @property
    def certificate_(self) -> dict[str, Any]:
        """Rounds, and what was left after each, in posterior standard deviations."""
        return dict(self.about_["certificate"])

    def describe(self) -> dict[str, Any]:
        """What is known of a fitted model, in JSON's own types."""
        job, about = self._job, self.about_
        settled = job.settled.as_dict()
        kept = ("npvi", "tiles", "rows_of_tiles", "seen", "elbo", "coefficients", "certificate")
        updates = [{name: value for name, value in one.items() if name != "source"} for one in about["updates"]]
        return {
            "estimator": type(self).__name__,
            "n_rows": about["rows"],
            "feature_names_in": list(job.source.inputs),
            "notes": {"target": job.source.target, **job.source.extras},
            **{name: settled[name] for name in ("likelihood", "kernel", "nugget", "neighbors")},
            "learned": settled["info"]["learned"],
            "learned_from": settled["info"]["rows"],
            "standard_errors": dict(settled["info"].get("standard_errors", {})),
            "updates": updates,
            "bytes": sum(about["files"].values()),
            **{name: about[name] for name in kept},
        }

    @property
    def extent_(self) -> NDArray[np.float64]:
        """The lowest and the highest of each input."""
        return self._job.box

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The inputs."""
        return np.array(self._job.source.inputs, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many there are."""
        return len(self._job.source.inputs)

    @property
    def _row_of_fit(self) -> tuple[str, ...]:
        """What there was per row besides the response."""
        return tuple(self._job.source.extras)

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _job(self) -> Job:
        if not hasattr(self, "about_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this TiledRegressor isn't fitted: call fit, or npvi.load its folder")
        job = job_at(str(Store(self.store).folder.absolute()))
        if job.manifest != self.about_:
            raise StoreError(
                f"{job.store.folder} was updated or fitted again since this model was opened: npvi.load it again"
            )
        return job

    @property
    def _nonempty(self) -> NDArray[np.int64]:
        """For each tile one with rows: itself, or the nearest."""
        rows, boxes = np.array(self.about_["rows_of_tiles"]), self._job.layout["boxes"]
        found = np.arange(len(rows))
        full = np.flatnonzero(rows)
        for empty in np.flatnonzero(rows == 0):
            whole = self._job.tiling
            middle = whole.cube.low + whole.boxes[empty].mean(axis=0) / 2.0**whole.cube.bits * whole.cube.side
            found[empty] = full[np.argmin(np.abs(boxes[full].mean(axis=1) - middle).sum(axis=1))]
        return found

    def _open(self) -> Self:
        store = Store(self.store)
        job = job_at(str(store.folder.absolute()))
        about = job.manifest
        with blaming(store.folder / MANIFEST):
            check_manifest(about, job.layout["rows"], len(job.settled.part.names))
        self.about_ = about
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if not isinstance(state.get("client"), str | None):  # a connection is this process's own
            state["client"] = "current"
        return state

    def _inputs(self, X: Any) -> NDArray[np.float64]:
        """Rows, with the columns that the model knows."""
        names = list(self._job.source.inputs)
        refuse_masked(X, "X")
        refuse_repeated_names(X, "X")
        if hasattr(X, "columns"):
            missing = [name for name in names if name not in X.columns]
            if missing:
                raise ValueError(f"X has no column {', '.join(map(repr, missing))}; it has {', '.join(X.columns)}")
            X = X[names].to_numpy()
        found = as_numbers(X, "X")
        if found.ndim != 2 or found.shape[1] != len(names):
            raise ValueError(f"X must have a column for each of {', '.join(names)}; got shape {found.shape}")
        check_finite(found, "X", LARGEST)
        return found

    def _checked(self) -> Likelihood:
        """The likelihood, once all settings are as they may be."""
        if self.store is None:
            raise ValueError("store must be the path of a folder, in which the model is kept; got None")
        check_path(self.store, "store")
        if os.path.isfile(self.store):
            raise ValueError(f"store must be a folder; {os.fspath(self.store)} is a file")
        check_jobs(self.n_jobs)
        check_choice(self.learn, "learn", (True, False))
        check_count(self.rounds, "rounds", 0)
        check_count(self.learn_rows, "learn_rows", 1000)
        needed = _BASE + self.learn_rows * _BYTES
        if self.learn and needed > _bytes(self.memory):
            raise ValueError(
                f"memory={self.memory!r} isn't enough to learn from {self.learn_rows:,} rows: {needed / 1e9:.1f}GB are "
                "needed, or fewer learn_rows"
            )
        check_count(self.max_iter, "max_iter")
        check_count(self.n_neighbors, "n_neighbors")
        if check_number(self.halo, "halo") < 4.0:
            raise ValueError(f"halo must be at least 4, so that a tile sees the parents of its rows; got {self.halo:g}")
        likelihood = as_likelihood(self.likelihood)
        if isinstance(likelihood, Softmax):
            raise ValueError("likelihood='softmax' isn't served in tiles: three or more labels have a function each")
        wanted = set(likelihood.extras) - set(_EXTRAS)
        if wanted & {"censored"}:
            raise ValueError(f"the {type(likelihood).__name__} likelihood isn't served in tiles: it needs `censored`")
        return likelihood

    def _settings(self) -> dict[str, Any]:
        """What defines the model, in JSON's own types."""
        return {name: _as_json(getattr(self, name)) for name in (*_OF_MODEL, "n_neighbors", "random_state")}

    def _rows_of_tiles(self, runner: Runner) -> int:
        """Rows of a tile, as many as there is memory for."""
        if not isinstance(self.tile_rows, str) or self.tile_rows != "auto":
            return check_count(self.tile_rows, "tile_rows", 100)
        # on a cluster every worker has the memory, for as many tasks as it has threads
        sharing = runner.width if not isinstance(runner, OnDask) else max(runner.client.nthreads().values(), default=1)
        share = _UNPAUSED if isinstance(runner, OnDask) else 1.0
        room = (share * _bytes(self.memory) - _BASE) / sharing
        rows = int(room / _BYTES / _AROUND)
        if rows < _TILE[0]:
            needed = (_BASE + sharing * _TILE[0] * _BYTES * _AROUND) / share / 1e9
            raise ValueError(
                f"memory={self.memory!r} isn't enough for {sharing} tiles of {_TILE[0]:,} rows at a time: at least "
                f"{needed:.1f}GB are needed, or a smaller n_jobs"
            )
        return min(rows, _TILE[1])

    def _learned(self, rows: NDArray[np.float64], plan: Mapping[str, Any]) -> Settled:
        """The model, from some of the rows: by one thread, for the same bits everywhere."""
        import pandas as pd

        source = Source.from_dict(plan["source"])
        X, y, row = source.split(rows)
        model = self._as_one(min(int(self.n_neighbors), max(1, len(rows) - 1)))
        model.fit(pd.DataFrame(X, columns=list(source.inputs)), y, **row)
        settled = Settled.of(model.fitted_, int(self.n_neighbors))
        one = self.nugget is None and can_collapse(model.fitted_.data)  # of nugget and noise
        return settled.sharing(_OF_NOISE) if one else settled

    def _space(self, rows: NDArray[np.float64], plan: Mapping[str, Any], settled: Settled) -> SearchSpace:
        """What may be learned of a model, by the rows that it was learned from."""
        source = Source.from_dict(plan["source"])
        X, y, row = source.split(rows)
        likelihood = settled.likelihood
        data = Data(likelihood, likelihood.check_response(y), likelihood.check_row(row, len(y), y))
        spec = self._checked_spec(as_likelihood(self.likelihood), list(source.inputs))
        learner = Learner(spec.said, lambda X: build_graph(X, settled.neighbors), weak=spec.hyperprior == "weak")
        return learner.space(Table(settled.part.places(X), data, settled.part.basis(X)), settled.model)

    def _as_one(self, neighbors: int) -> GPRegressor:
        """The same model in memory."""
        settings = {name: getattr(self, name) for name in _OF_MODEL}
        return GPRegressor(
            **settings,
            n_neighbors=neighbors,
            order="nested",
            hyper="plug-in",
            random_state=self.random_state,
            n_jobs=1,
        )

    def _checked_spec(self, likelihood: Likelihood, columns: list[str]) -> Spec:
        """The settings of a model in memory; ValueError where one isn't."""
        model = self._as_one(int(self.n_neighbors))
        model.feature_names_in_ = np.array(columns, dtype=object)
        return model._spec(likelihood, len(columns))

    @cached_property
    def _sklearn_output_config(self) -> dict[str, str]:
        return {}


@lru_cache(maxsize=1)
def _tile_of(job: Job, tile: int) -> Fitted:
    """A tile as a model, remembered for the next rows."""
    trend = job.manifest["trend"]
    coefficients = np.array(trend["coefficients"], np.float64)
    covariance = np.array(trend["covariance"], np.float64).reshape(len(coefficients), len(coefficients))
    return fitted_tile(job, tile, (coefficients, covariance))


def _bytes(memory: Any) -> float:
    """Of "4GB", or of a number.

    >>> _bytes("4GB"), _bytes("512 MiB"), _bytes(2e9)
    (4000000000.0, 536870912.0, 2000000000.0)
    """
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(i?)B?\s*", memory, re.IGNORECASE)
        if found is None:
            raise ValueError(f"memory must be such as '4GB', or a number of bytes; got {memory!r}")
        return float(found[1]) * (1024.0 if found[3] else 1000.0) ** _UNITS.index(found[2].upper())
    return check_number(memory, "memory")


def _check_memory(rows: int) -> None:
    """Raise where this machine has less than a model of so many rows takes."""
    needed, sizes = _BASE + rows * _BYTES, getattr(os, "sysconf_names", {})
    if {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(sizes):
        there = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        if needed > there:
            raise ValueError(
                f"{rows:,} rows in memory take about {needed / 1e9:.1f}GB, and this machine has {there / 1e9:.1f}GB: "
                "stay with tiles"
            )


def _plain(likelihood: Likelihood) -> Any:
    """With numbers inside, not with what is said of them."""
    return unwrapped(likelihood, "likelihood")[0]


def _as_json(value: Any) -> Any:
    if isinstance(value, Parameter):
        return parameter_config(value)
    if isinstance(value, Parametrised):
        return to_config(value)
    if isinstance(value, list | tuple | range):
        return [_as_json(one) for one in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy, JAX and pandas
        return value.tolist()
    return value


def _check_name(value: Any, name: str) -> None:
    """Raise TypeError unless it names a column."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be named by text, the column of the tables; got {value!r:.60}")


def _columns(coords: Any, names: list[str]) -> list[int]:
    """Numbers of the columns that the process sees."""
    return coordinate_columns(coords, names, len(names)).tolist()
