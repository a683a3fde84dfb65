"""Ctrl-C at any moment: exit code 130, and nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest

import npvi
from npvi.runtime.interrupts import interrupts_held_back, interrupts_remembered, safe_point

#: seconds before the signal, most of them of a command that takes longer; exit codes of one that ended by it, the
#: latter while Python itself was still starting
MOMENTS = np.random.default_rng(18).uniform(0.2, 10.0, 4)
INTERRUPTED = (130, -signal.SIGINT)


@pytest.fixture
def usual_interrupts():
    """Started in the background, a process ignores interrupts, and so would the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(arguments, folder, after):
    """The exit code of a command that gets Ctrl-C after so many seconds, and what it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "npvi.cli", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


@pytest.mark.usefixtures("usual_interrupts")
@pytest.mark.parametrize(("after", "likelihood"), list(zip(MOMENTS, ["poisson", "student_t"] * 2)))
def test_a_command_that_is_interrupted_says_so(tmp_path, after, likelihood):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(20_000, 2)), columns=["x", "z"]).assign(y=rng.poisson(3.0, 20_000))
    table.to_csv(tmp_path / "table.csv", index=False)
    arguments = ["fit", "table.csv", "--target", "y", "--inputs", "x,z", "--likelihood", likelihood]
    code, said = interrupted([*arguments, "--save", "model.npvi"], tmp_path, after)
    assert code in INTERRUPTED or (code == 0 and "Fitted" in said), said
    left = sorted(os.listdir(tmp_path))
    assert left in (["table.csv"], ["model.npvi", "table.csv"])
    if "model.npvi" in left:
        npvi.load(tmp_path / "model.npvi")


@pytest.mark.usefixtures("usual_interrupts")
def test_an_interrupt_that_a_callback_swallows_strikes_at_the_next_safe_point():
    class Swallows:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)  # Python prints what is raised here, and goes on

    def work():
        with interrupts_remembered():
            thing = Swallows()
            del thing
            reached.append(1)
            safe_point()
            reached.append(2)

    reached = []
    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    safe_point()  # nothing is left over


@pytest.mark.usefixtures("usual_interrupts")
def test_an_interrupt_after_the_last_safe_point_is_not_lost():
    with pytest.raises(KeyboardInterrupt), interrupts_remembered():
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("usual_interrupts")
def test_the_second_interrupt_strikes_at_once():
    def twice():
        with interrupts_remembered():
            signal.raise_signal(signal.SIGINT)
            reached.append(1)
            signal.raise_signal(signal.SIGINT)
            reached.append(2)

    reached = []
    with pytest.raises(KeyboardInterrupt):
        twice()
    assert reached == [1]


@pytest.mark.usefixtures("usual_interrupts")
def test_what_is_held_back_strikes_afterwards():
    def work():
        with interrupts_remembered():
            with interrupts_held_back() as happened:
                signal.raise_signal(signal.SIGINT)
                safe_point()
                reached.append(bool(happened))
            safe_point()
            reached.append("on")

    reached = []
    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == [True]


@pytest.mark.usefixtures("usual_interrupts")
def test_what_is_held_back_and_not_acted_on_strikes_at_the_end():
    with pytest.raises(KeyboardInterrupt), interrupts_held_back():
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("usual_interrupts")
def test_a_fit_stops_at_a_safe_point():
    X, y = np.random.default_rng(0).uniform(size=(60, 2)), np.arange(60) % 4

    def swallowed(stage, numbers):
        if stage == "learn" and numbers["evaluation"] == 2:
            signal.raise_signal(signal.SIGINT)
            seen.append(stage)

    seen = []
    with npvi.runtime.progress.reporting(swallowed), pytest.raises(KeyboardInterrupt):
        npvi.GPRegressor("poisson", n_neighbors=5).fit(X, y)
    assert seen == ["learn"]


def test_an_interrupt_after_the_last_safe_point_of_a_command_is_not_lost():
    program = """
        import signal, sys, typer, npvi.cli
        from npvi.cli.errors import guarded

        signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup's children ignore it
        app = npvi.cli.app = typer.Typer()
        @app.command()
        def fit():
            with guarded("fit"):
                signal.raise_signal(signal.SIGINT)
                print("done")
        sys.argv = ["npvi"]
        npvi.cli.main()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "done\n")
    assert "npvi fit: interrupted" in done.stderr


def test_an_interrupt_after_the_end_of_a_command_is_too_late():
    program = """
        import atexit, signal, sys
        from npvi.cli import main
        atexit.register(signal.raise_signal, signal.SIGINT)
        sys.argv = ["npvi", "--version"]
        main()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_is_terminated_leaves_nothing_half_written(tmp_path):
    program = """
import os, signal, sys
import npvi.cli
from npvi.runtime.files import replacing

def app():
    with replacing("new.csv") as file:
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGTERM)

npvi.cli.app = app
npvi.cli.main()
"""
    (tmp_path / "new.csv").write_text("old")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == -signal.SIGTERM
    assert [found.name for found in tmp_path.iterdir()] == ["new.csv"]
    assert (tmp_path / "new.csv").read_text() == "old"
