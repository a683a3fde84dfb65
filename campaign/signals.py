"""Interrupts, terminations and kills at random moments of long commands; fits in forked children and in threads.

After an interrupt a command ends with exit code 130, or had finished; what was there before is whole; what was killed
leaves nothing that stays, and the same command works afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np

from campaign.cases import Case, check
from campaign.tables import survey

__all__ = ["SECONDS", "SHARES", "case", "count"]

SECONDS = 240.0
SHARES: dict[str, float] = {}

_FIT = "--target n --inputs lon,lat --likelihood poisson --exposure hours --neighbors 10"
#: commands, each with the file that it writes
_COMMANDS = {
    "fit": (f"fit survey.csv {_FIT} --save new.npvi", "new.npvi"),
    "fit, gradients": (
        f"fit survey.csv {_FIT} --method npvi --optimizer sgd --epochs 300 --no-learn --save new.npvi",
        "new.npvi",
    ),
    "fit, grid": (f"fit survey.csv {_FIT} --grid length_scale=0.1,0.3,1,3 --save new.npvi", "new.npvi"),
    "predict": ("predict model.npvi places.csv --exposure hours --output new.csv", "new.csv"),
    "predict, parquet": ("predict model.npvi places.csv --exposure hours --output new.parquet", "new.parquet"),
    "diagnose": ("diagnose model.npvi survey.csv --exposure hours --plot new.png", "new.png"),
    "reproduce": ("reproduce precipitation --rows 300 --seeds 0 --methods npvi --quick --output results", ""),
}
if "NPVI_DATA" not in os.environ:  # it needs the paper's data
    del _COMMANDS["reproduce"]
#: seconds that a command may take from its last safe point to where it says that it is over
_ENDING = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: as users run it, whatever started the campaign (in the background interrupts are ignored); it says when Python is
#: ready, before which an interrupt is not npvi's to answer, and when nothing is left to stop but Python's own end
_COMMAND = """
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
from campaign.running import prepare; prepare()
from npvi.cli import main
open("started", "w").close()
try:
    main()
finally:
    open("ended", "w").close()
"""
_ROOT = Path(__file__).parents[1]


def count() -> int:
    return 120


def case(seed: int, number: int) -> Case:
    rng = np.random.default_rng([seed, number])
    if number % 6 == 5:
        how = str(rng.choice(list(_CHILDREN)))
        return Case(f"a fit in {how}", lambda: _child(how))
    name = list(_COMMANDS)[number % len(_COMMANDS)]
    blow, moment, old = _SIGNALS[rng.integers(len(_SIGNALS))], float(rng.uniform(0.02, 1.0)), bool(rng.uniform() < 0.5)
    what = f"{blow.name} to {name} after {moment:.0%} of its time{', an older file there' if old else ''}"
    return Case(what, lambda: _strike(name, blow, moment, old))


def _strike(name: str, blow: signal.Signals, moment: float, old: bool) -> str:
    words, target = _COMMANDS[name]
    folder = _folder()
    before = {path.name for path in folder.iterdir()}
    path, ended = folder / target if target else None, folder / "ended"
    if path is not None and old:
        path.write_bytes(b"old")
    seconds = _seconds(name)
    process = _start(words, folder)
    try:
        process.wait(moment * seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(blow)
    sent, at = time.monotonic(), time.time()
    said = process.communicate(timeout=120.0)[0]
    waited, code = time.monotonic() - sent, process.returncode
    if blow is signal.SIGINT:
        check(code in (0, 130), f"exit code {code} after an interrupt: {said[-600:]}")
        late = ended.exists() and ended.stat().st_mtime < at + _ENDING
        check(code == 130 or late, f"an interrupt is lost: the command goes on for {waited:.1f} s, to exit code 0")
        check(waited < 60.0, f"an interrupted command goes on for {waited:.0f} s")
        check("Traceback" not in said and "Exception ignored" not in said, f"a traceback is shown: {said[-900:]}")
    else:
        check(code in (0, -blow, 128 + blow, 130), f"exit code {code} after {blow.name}: {said[-600:]}")
    if path is not None:
        _check_file(path, old, code, folder)
    left = {found.name for found in folder.iterdir()} - before - {target, "results", ended.name}
    check(blow is signal.SIGKILL or not left, f"left behind: {sorted(left)}")
    again, started = _start(words, folder), time.monotonic()
    said = again.communicate(timeout=200.0)[0]
    _known[name] = min(seconds, time.monotonic() - started)
    check(again.returncode == 0, f"the same command then fails with {again.returncode}: {said[-600:]}")
    left = {found.name for found in folder.iterdir()} - before - {target, "results", ended.name}
    check(not left, f"left behind, even by the next run: {sorted(left)}")
    return "had finished" if code == 0 else "stopped"


def _check_file(path: Path, old: bool, code: int, folder: Path) -> None:
    """It is the old one, or a new one that is whole."""
    if not path.exists():
        check(not old, "the old file is gone")
        check(code != 0, "exit code 0, and nothing was written")
        return
    content = path.read_bytes()
    if old and content == b"old":
        check(code != 0, "exit code 0, and the old file is still there")
    elif path.suffix == ".npvi":
        process = _start(f"info {path.name}", folder)
        said = process.communicate(timeout=100.0)[0]
        check(process.returncode == 0, f"half a model was written: {said[-300:]}")
    elif path.suffix == ".csv":
        check(content.count(b"\n") == 1 + 40 * len(survey()) and content.endswith(b"\n"), "half a table was written")
    elif path.suffix == ".parquet":
        check(content.endswith(b"PAR1"), "half a table was written")
    else:
        check(content.endswith(b"IEND\xaeB`\x82"), "half a picture was written")


def _start(words: str, folder: Path) -> subprocess.Popen[str]:
    """A command that is running by now."""
    ready = folder / "started"
    process = _python(["-c", _COMMAND, *words.split()], folder)
    while not ready.exists() and process.poll() is None:
        time.sleep(0.01)
    ready.unlink(missing_ok=True)
    return process


def _python(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """Python in a process group of its own, with nobody's terminal."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


_known: dict[str, float] = {}


def _seconds(name: str) -> float:
    """How long a command takes that nobody stops."""
    if name not in _known:
        taken = []
        for _ in range(2):  # the first one may compile, and 70 % of its time be later than the end of the next
            process, started = _start(_COMMANDS[name][0], _folder()), time.monotonic()
            said = process.communicate(timeout=200.0)[0]
            check(process.returncode == 0, f"the command fails undisturbed: {said[-600:]}")
            taken.append(time.monotonic() - started)
        _known[name] = min(taken)
    return _known[name]


def _folder() -> Path:
    """A new folder with a table, a model and places to predict at."""
    import shutil

    folder = Path(tempfile.mkdtemp(prefix="npvi-campaign-"))
    if not _first:
        survey().to_csv(folder / "survey.csv", index=False)
        places = survey().loc[np.repeat(np.arange(len(survey())), 40)]
        places.to_csv(folder / "places.csv", index=False)
        words = f"fit survey.csv {_FIT} --no-learn --length-scale 0.3 --save model.npvi"
        process = _start(words, folder)
        said = process.communicate(timeout=200.0)[0]
        check(process.returncode == 0, f"the command fails undisturbed: {said[-600:]}")
        _first.append(folder)
    else:
        for file in ("survey.csv", "places.csv", "model.npvi"):
            shutil.copy(_first[0] / file, folder / file)
    return folder


_first: list[Path] = []

# -- children ---------------------------------------------------------------------------------------------------------

_FITTING = """
    import multiprocessing, os, sys, threading, warnings
    import numpy as np

    def fit(_=None):
        import npvi
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(30, 2))
        y = rng.poisson(2.0, 30)
        model = npvi.GPRegressor("poisson", kernel=npvi.kernels.RBF(0.3), nugget=0.1, learn=False, n_neighbors=5)
        return model.fit(X, y).predict(X)

    def tried(_=None):
        try:
            return fit()
        except Exception as error:  # which has to say what to do
            return f"{type(error).__name__}: {error}"

    def compare(found, expected):
        for one in found:
            if isinstance(one, str):
                print(one)
            else:
                print("same" if np.array_equal(one, expected) else "another answer")

    if __name__ == "__main__":
        # what Python 3.12 and JAX say of any fork beside threads, where the user calls it
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
"""
_CHILDREN = {
    "a forked child, after one in its parent": """
        expected = fit()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            compare(pool.map(tried, range(2)), expected)
    """,
    "a forked child, before one in its parent": """
        import npvi
        with multiprocessing.get_context("fork").Pool(2) as pool:
            compare(pool.map(tried, range(2)), fit())
    """,
    "a spawned child": """
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            compare(pool.map(tried, range(1)), fit())
    """,
    "four threads": """
        found = []
        threads = [threading.Thread(target=lambda: found.append(tried())) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        compare(found, fit())
    """,
    "a pool of joblib": """
        import joblib
        expected = fit()
        compare(joblib.Parallel(2)(joblib.delayed(tried)() for _ in range(2)), expected)
    """,
}


def _child(how: str) -> str:
    folder = Path(tempfile.mkdtemp(prefix="npvi-campaign-"))
    program = textwrap.dedent(_FITTING) + textwrap.indent(textwrap.dedent(_CHILDREN[how]), "    ")
    (folder / "fitting.py").write_text(program)
    process = _python(["fitting.py"], folder)
    try:
        said = process.communicate(timeout=120.0)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        check(False, "hangs: still running after 120 s")
    check(process.returncode == 0 and bool(said.strip()), f"exit code {process.returncode}: {said[-600:]}")
    lines = said.strip().splitlines()
    refused = ["spawn" in line for line in lines]
    check(all(line == "same" or told for line, told in zip(lines, refused)), f"says {said[-900:]}")
    return "refused" if any(refused) else "worked"
