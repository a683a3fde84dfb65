"""On a cluster of Dask: the same bits as in one process, whoever works, and whoever leaves."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tests.tiled.conftest import FIT, tiled
from tests.tiled.test_faults import content

dask = pytest.importorskip("dask")
pytest.importorskip("dask.dataframe", reason="needs Dask: pip install 'npvi[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'npvi[dask]'")

# what Dask itself leaves behind, and warns of
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="2GB", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("workers", [1, 4])  # and 2, below
def test_the_bits_are_those_of_one_process(workers, client, model, files, tmp_path):
    scaled(client, workers)
    found = tiled(tmp_path / "store", client="current").fit(files, **FIT)
    assert content(tmp_path / "store") == content(model.store)
    assert found.elbo_ == model.elbo_


def scaled(client, workers):
    client.cluster.scale(workers)
    deadline = time.monotonic() + 60.0
    while len(client.nthreads()) != workers and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(client.nthreads()) == workers


def test_a_worker_that_is_killed_is_no_loss(client, model, files, tmp_path):
    scaled(client, 2)
    store = tmp_path / "store"
    workers = list(client.run(os.getpid).values())

    def kill():
        while len(list(store.rglob("fit.npvi"))) < 2:
            time.sleep(0.01)
        os.kill(workers[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    tiled(store, client=client).fit(files, **FIT)
    killer.join()
    assert content(store) == content(model.store)
    assert workers[0] not in client.run(os.getpid).values()


def test_a_scheduler_that_is_killed_is_named_and_the_fit_goes_on_without_it(model, files, tmp_path):
    about, store = tmp_path / "scheduler.json", tmp_path / "store"
    here = ["--scheduler-file", str(about), "--no-dashboard"]
    alone = ["--nthreads", "1", "--no-nanny", "--death-timeout", "5"]
    scheduler, worker = (
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.{what}", *here, *more], stderr=subprocess.DEVNULL)
        for what, more in (("dask_scheduler", ["--port", "0"]), ("dask_worker", alone))
    )

    def kill():
        while len(list(store.rglob("fit.npvi"))) < 2 and scheduler.poll() is None:
            time.sleep(0.01)
        scheduler.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    try:
        quick = {"distributed.comm.timeouts.connect": "2s", "distributed.comm.retry.count": 0}
        with dask.config.set(quick), distributed.Client(scheduler_file=str(about), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            killer.start()
            with pytest.raises(RuntimeError, match="lost with its scheduler"):
                tiled(store, client=client).fit(files, **FIT)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    killer.join()
    tiled(store).fit(files, **FIT)
    assert content(store) == content(model.store)


def test_collections_give_their_own_kind(client, model, places):
    import dask.array

    frame = dask.dataframe.from_pandas(places, npartitions=3)
    lazy = model.predict(frame, exposure=1.0)
    assert isinstance(lazy, dask.dataframe.DataFrame)
    mean, std = model.predict(places, return_std=True, exposure=1.0)
    found = lazy.compute()
    # rows that are predicted together share what is left out of their variances
    assert np.allclose(found["mean"], mean, rtol=1e-4)
    assert np.allclose(found["std"], std, rtol=1e-4)
    array = model.predict(dask.array.from_array(places.to_numpy(), chunks=(120, 2)), exposure=1.0)
    assert isinstance(array, dask.array.Array)
    assert array.shape == (300, 2)
    assert np.allclose(array.compute(), np.column_stack([mean, std]), rtol=1e-4)


def test_a_map_is_made_by_workers(client, model):
    import dask.array

    xarray = pytest.importorskip("xarray")
    axes = {"lat": np.linspace(0.95, 0.05, 10), "lon": np.linspace(0.05, 0.95, 10)}
    template = xarray.DataArray(dask.array.zeros((10, 10), chunks=(4, 5)), coords=axes, dims=("lat", "lon"))
    at = {"forest": 0.3}
    found, whole = model.predict_grid(template, covariates=at), model.predict_grid(template.compute(), covariates=at)
    xarray.testing.assert_allclose(found.compute(), whole, rtol=1e-4)
    table = xarray.Dataset({"forest": template + 0.3})
    np.testing.assert_allclose(model.predict(table, exposure=1.0)["mean"].values, whole["mean"].values, rtol=1e-4)
