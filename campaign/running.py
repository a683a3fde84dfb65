"""Cases in worker processes, which may hang or die, several at a time."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import queue
import resource
import shutil
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from campaign.cases import Name, Outcome, Surprise, part

__all__ = ["BEFORE", "Summary", "repeat", "run"]

BEFORE = "NPVI_CAMPAIGN_BEFORE"
"""Environment variable: a function "module:name" that every process calls first; tests put bugs there."""

#: seconds in which a worker imports and compiles what all cases share, before its first one
_START = 300.0
#: seconds of the clock for each of its own that a case may take
_ASLEEP = 8.0
#: memory that a worker may take in all, and that one case may add for a moment
_MEMORY, _GROWTH = 8 << 30, 1 << 30


@dataclass
class Summary:
    """Of one part."""

    part: str
    seconds: float = 0.0
    cpu: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Outcome] = field(default_factory=list)
    too_many: list[str] = field(default_factory=list)
    limited: list[Outcome] = field(default_factory=list)
    """Those that came to what only some may."""
    slowest: Outcome | None = None

    @property
    def cases(self) -> int:
        return sum(self.counts.values())


def run(
    name: str,
    seed: int,
    seconds: float,
    jobs: int = 2,
    numbers: Iterable[int] | None = None,
    report: Callable[[Summary, Outcome], None] = lambda *_: None,
) -> Summary:
    """Run cases of a part until all are done or the time is up."""
    summary, started = Summary(name), time.monotonic()
    todo, lock = iter(range(part(name).count()) if numbers is None else numbers), threading.Lock()
    done: queue.Queue[Outcome | None] = queue.Queue()

    def next_number() -> int | None:
        with lock:
            return None if time.monotonic() - started > seconds else next(todo, None)

    def work() -> None:
        worker = _Worker()
        try:
            while (number := next_number()) is not None:
                done.put(worker.run(Name(name, seed, number)))
        finally:
            worker.stop()
            done.put(None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    left = jobs
    while left:
        outcome = done.get()
        if outcome is None:
            left -= 1
            continue
        summary.counts[outcome.came] += 1
        summary.cpu += outcome.cpu
        summary.seconds = time.monotonic() - started
        if outcome.finding:
            summary.findings.append(outcome)
        if outcome.came in part(name).SHARES:
            summary.limited.append(outcome)
        if summary.slowest is None or outcome.cpu > summary.slowest.cpu:
            summary.slowest = outcome
        report(summary, outcome)
    for came, share in part(name).SHARES.items():
        if summary.counts[came] > max(1.0, share * summary.cases):
            summary.too_many.append(f"{summary.counts[came]} of {summary.cases} cases: {came}; {share:.0%} may be")
    return summary


def repeat(name: Name) -> Outcome:
    """One case again, in a process of its own."""
    worker = _Worker()
    try:
        return worker.run(name)
    finally:
        worker.stop()


class _Worker:
    """A process that runs one case after the other; a new one where it hung or died."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._folder = tempfile.mkdtemp(prefix="npvi-campaign-")
        self._process = context.Process(target=_serve, args=(theirs, self._folder), daemon=True)
        self._process.start()
        theirs.close()
        self._ready = False

    def run(self, name: Name) -> Outcome:
        if not self._process.is_alive():
            self._start()
        limit, what, started = part(name.part).SECONDS, "(while it was made)", time.monotonic()
        try:
            if not self._ready:
                if not self._answers(_START):
                    return self._lost(name, what, started, f"a worker takes more than {_START:.0f} s to start")
                self._ready = self._pipe.recv()
            self._pipe.send(name)
            if not self._answers(limit):
                return self._lost(name, what, started, f"takes more than {limit:.0f} s to make")
            what = self._pipe.recv()
            if not self._answers(limit):
                return self._lost(name, what, started, f"hangs: still running after {limit:.0f} s")
            outcome: Outcome = self._pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join(10.0)
            code = self._process.exitcode
            died = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
            return self._lost(name, what, started, f"the process died of {died}")
        return outcome

    def _answers(self, seconds: float) -> bool:
        """Whether the process answers within so many seconds of its own, whatever else the machine has to do; of the
        clock, where it sleeps, within `_ASLEEP` times as many."""
        busy, started = _busy(self._process.pid), time.monotonic()
        while not self._pipe.poll(0.5):
            if _busy(self._process.pid) - busy > seconds or time.monotonic() - started > _ASLEEP * seconds:
                return False
        return True

    def _lost(self, name: Name, what: str, started: float, finding: str) -> Outcome:
        self.stop()
        return Outcome(name, what, "finding", time.monotonic() - started, finding)

    def stop(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()
        shutil.rmtree(self._folder, ignore_errors=True)


def _serve(pipe: multiprocessing.connection.Connection, folder: str) -> None:
    """What a worker does; all that it writes is in its folder."""
    _die_with(os.getppid())
    prepare()
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    os.chdir(folder)  # for what is written to odd paths
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what verbose models say
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, hard))
    _warm_up()
    pipe.send(True)
    for name in _received(pipe):
        try:
            case = part(name.part).case(name.seed, name.number)
            pipe.send(case.what)
        except Exception:
            pipe.send("(while it was made)")
            pipe.send(Outcome(name, "(while it was made)", "finding", 0.0, traceback.format_exc()))
            continue
        before, came, finding = _memory(), "finding", ""
        started, busy = time.monotonic(), _worked()
        try:
            came = case.run()
        except Surprise as surprise:
            finding = str(surprise)
        except Exception:
            finding = "the campaign itself failed:\n" + traceback.format_exc()
        seconds, grown = time.monotonic() - started, _memory(peak=True) - before
        if not finding and grown > _GROWTH:
            finding = f"takes {grown >> 20} MiB"
        pipe.send(Outcome(name, case.what, "finding" if finding else came, seconds, finding, _worked() - busy))


def _warm_up() -> None:
    """Import and compile what most cases share, so that the first of them has the same limit as others. What goes wrong
    here is for cases to find, as in tests that put bugs in."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(30, 2)), rng.poisson(2.0, 30).astype(float)
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        from npvi import GPRegressor

        for likelihood in ("poisson", "student_t"):
            dist = GPRegressor(likelihood, learn=True).fit(X, y).predict_dist(X[:3])
            dist.quantile(0.5)


def _die_with(parent: int) -> None:
    """End this process, in the middle of whatever it does, where the one that started it has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _received(pipe: multiprocessing.connection.Connection) -> Iterator[Name]:
    while True:
        try:
            yield pipe.recv()
        except EOFError:
            return


def prepare() -> None:
    """What every process of the campaign does before anything else."""
    folder = Path(__file__).parents[1] / ".pytest_cache" / "jax"  # that of the tests
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("NPVI_DEBUG", None)  # which has tracebacks shown
    if BEFORE in os.environ:
        module, _, function = os.environ[BEFORE].partition(":")
        getattr(importlib.import_module(module), function)()


def _worked() -> float:
    """CPU seconds of this process and of those it waited for."""
    return sum(os.times()[:4])


def _busy(pid: int | None) -> float:
    """CPU seconds of a process so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it died, which the pipe tells
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(peak: bool = False) -> int:
    """Bytes in use, or the most since it was last asked for what is in use."""
    if not peak:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:" if peak else "VmRSS:")[2].split()[0])
