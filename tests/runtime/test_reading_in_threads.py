"""Arrays read by several threads: one after the other, which Python 3.11 asks for."""

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from npvi.runtime import reading
from npvi.runtime.archive import Kind, read_archive, write_archive


def test_threads_read_one_after_the_other(monkeypatch):
    kind, file = Kind("toy", 1, "make another one"), io.BytesIO()
    write_archive(file, kind, {}, {"a": np.arange(5)})
    inside, most, count = 0, 0, threading.Lock()
    read = reading._read_array

    def slowly(*about):
        nonlocal inside, most
        with count:
            inside += 1
            most = max(most, inside)
        time.sleep(0.01)
        with count:
            inside -= 1
        return read(*about)

    monkeypatch.setattr(reading, "_read_array", slowly)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: read_archive(io.BytesIO(file.getvalue()), kind)[1]["a"].sum(), range(12)))
    assert found == [10] * 12
    assert most == 1
