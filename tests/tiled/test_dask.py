"""On a cluster of Dask: the same bits as in one process, whoever works, and whoever leaves."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from tests.tiled.conftest import FIT, tiled
from tests.tiled.test_faults import content

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


def test_the_bits_are_those_of_one_process(client, model, files, tmp_path):
    found = tiled(tmp_path / "store", client="current").fit(files, **FIT)
    assert content(tmp_path / "store") == content(model.store)
    assert found.elbo_ == model.elbo_


def test_a_worker_that_is_killed_is_no_loss(client, model, files, tmp_path):
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


def test_collections_give_their_own_kind(client, model, places):
    import dask.array
    import dask.dataframe

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
