"""Running tasks: in threads of this process, or on a Dask cluster. Tasks are pure: folder and number in, a file out.

No data travel with tasks, none is pinned to a worker, and none waits for another. Every task has one thread, so that it
makes the same bits wherever it runs; several run side by side.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from npvi.runtime import progress
from npvi.runtime.interrupts import safe_point
from npvi.runtime.parallel import n_threads, threads

__all__ = ["Loop", "OnDask", "Runner", "Watch", "runner_of"]

#: tasks handed to a cluster per thread of it: the rest wait here, so that its scheduler isn't filled
_AHEAD = 2
#: how often a task is tried again that has failed for the cluster's reasons
_RETRIES = 2
#: seconds after which it is looked whether there still are workers, and for which there may be none
_PATIENCE, _NOBODY = 5.0, 300.0
_LOST = (
    "the cluster was lost with its scheduler. What is finished is kept: run the same fit again on another, or on none"
)


class Runner(Protocol):
    """Something that runs tasks."""

    @property
    def width(self) -> int:
        """Tasks that run side by side."""
        ...

    def run(self, name: str, task: Callable[..., None], calls: Sequence[tuple], done: Callable[[tuple], None]) -> None:
        """Call ``task(*call)`` for each, and `done` with each call that has ended; the first error ends it all."""
        ...


def _alone(task: Callable[..., None], call: tuple) -> None:
    with threads(1):
        task(*call)


class Loop:
    """Tasks in threads of this process.

    >>> ended = []
    >>> Loop(1).run("square", lambda x: None, [(1,), (2,)], ended.append)
    >>> ended
    [(1,), (2,)]
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        with threads(n_jobs):
            self.width = n_threads()

    def run(self, name: str, task: Callable[..., None], calls: Sequence[tuple], done: Callable[[tuple], None]) -> None:
        """Some at a time."""
        if self.width == 1:
            for call in calls:
                _alone(task, call)
                done(call)
            return
        waiting = list(reversed(calls))
        running: dict[Future, tuple] = {}
        with ThreadPoolExecutor(self.width, thread_name_prefix="npvi-tile") as pool:
            try:
                while waiting or running:
                    while waiting and len(running) < self.width:
                        call = waiting.pop()
                        running[pool.submit(_alone, task, call)] = call
                    ended, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                    safe_point()
                    for future in ended:
                        call = running.pop(future)
                        future.result()
                        done(call)
            finally:
                for future in running:
                    future.cancel()


class OnDask:
    """Tasks on a cluster of Dask, whose workers see the same folder.

    Parameters
    ----------
    client : of dask.distributed.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    @property
    def width(self) -> int:
        """Threads of all workers there are now."""
        return max(1, sum(self.client.nthreads().values()))

    def run(self, name: str, task: Callable[..., None], calls: Sequence[tuple], done: Callable[[tuple], None]) -> None:
        """A few more at a time than there are threads; a task whose worker is lost goes to another."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        waiting = list(reversed(calls))
        running: dict[Any, tuple] = {}
        idle = 0.0
        try:
            while waiting or running:
                with _asking():
                    while waiting and len(running) < _AHEAD * self.width:
                        call = waiting.pop()
                        number = "-".join(str(part) for part in call[1:-1])
                        key = f"{name}-{number}-{os.urandom(4).hex()}"
                        running[self.client.submit(_alone, task, call, key=key, pure=False, retries=_RETRIES)] = call
                    ended = self._ended(list(running))
                    idle = 0.0 if ended or self.client.nthreads() else idle + _PATIENCE
                if idle >= _NOBODY:
                    raise RuntimeError(
                        f"the cluster has had no workers for {idle:.0f} seconds. What is finished is kept: run the "
                        "same fit again when there are some"
                    )
                for future in ended:
                    call = running.pop(future)
                    try:
                        future.result()
                    except (CancelledError, CommClosedError) as error:
                        raise RuntimeError(_LOST) from error
                    except KilledWorker as error:
                        raise RuntimeError(
                            f"workers were lost again and again with the task {name!r} of {call[1:]}: have they as "
                            "much memory as memory= says? What is finished is kept"
                        ) from error
                    done(call)
        finally:
            with suppress(*_gone()):
                self.client.cancel(list(running))

    def _ended(self, running: list[Any]) -> set[Any]:
        """Tasks of these that have ended, once there is one, or after a while."""
        from distributed import wait

        try:
            with self.client.as_current():  # whichever is the default one
                ended: set[Any] = wait(running, timeout=_PATIENCE, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            return set()
        return ended


def _gone() -> tuple[type[Exception], ...]:
    """What a client says whose scheduler isn't there any more."""
    from distributed import CancelledError
    from distributed.client import ClosedClientError

    return (CancelledError, ClosedClientError, OSError)


@contextmanager
def _asking() -> Iterator[None]:
    """Asks a scheduler, and says so where it isn't there any more."""
    try:
        yield
    except _gone() as error:
        raise RuntimeError(_LOST) from error


def runner_of(client: Any, n_jobs: int | None) -> Runner:
    """What `client` asks for: "current" is the current client where there is one, else this process; None is this
    process; or a client.

    Raises
    ------
    TypeError
        Where it is something else.
    """
    if client is None:
        return Loop(n_jobs)
    if isinstance(client, str):
        if client != "current":
            raise ValueError(f"client must be 'current', None or a client of dask.distributed; got {client!r}")
        found = _current()
        return Loop(n_jobs) if found is None else OnDask(found)
    if not (hasattr(client, "submit") and hasattr(client, "nthreads")):
        raise TypeError(f"client must be 'current', None or a client of dask.distributed; got {client!r}")
    return OnDask(client)


def _current() -> Any:
    """The current client; None where there is none, or Dask isn't there: who has one has imported it."""
    import sys

    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None


class Watch:
    """Tells whoever listens how far a stage is: tasks done, rows a second, seconds left.

    Parameters
    ----------
    stage : its name.
    rows : of each call.
    """

    def __init__(self, stage: str, rows: Sequence[int], skipped: int = 0) -> None:
        self.stage, self.of, self.rows = stage, len(rows) + skipped, rows
        self.tasks, self.seen, self.started, self.skipped = skipped, 0, time.perf_counter(), skipped

    def done(self, rows: int) -> None:
        """A task has ended that was about so many rows."""
        self.tasks, self.seen = self.tasks + 1, self.seen + rows
        seconds = max(time.perf_counter() - self.started, 1e-9)
        left = (sum(self.rows) - self.seen) * seconds / max(self.seen, 1)
        progress.report(
            self.stage, done=self.tasks, of=self.of, rows_per_second=self.seen / seconds, seconds_left=max(left, 0.0)
        )
