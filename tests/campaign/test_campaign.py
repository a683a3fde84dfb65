"""The campaign: a little of each part finds nothing, and bugs that are put in are found."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from campaign.cases import Name, Outcome, Surprise, part
from campaign.judging import attempt
from campaign.running import BEFORE, run

from campaign import __main__ as command
from campaign import files, misuse, subjects
from npvi.tiled.store import MANIFEST

SEED = 1


def number_of(part_name, what, first=3000):
    """The number of the first case whose description starts so."""
    cases = (
        n for n in range(min(part(part_name).count(), first)) if part(part_name).case(SEED, n).what.startswith(what)
    )
    return next(cases)


def number_of_misuse(call, argument, value):
    names = [(one.call, one.name) for one in subjects.arguments()]
    order, values = misuse._order(SEED)
    which = names.index((call, argument))
    turn = list(values[which]).index(list(misuse.VALUES).index(value))
    return int(turn * len(names) + list(order).index(which))


def findings(part_name, *numbers):
    return run(part_name, SEED, 300.0, jobs=1, numbers=numbers).findings


def test_every_public_name_is_tried_or_left_out_for_a_reason():
    tried = {argument.call for argument in subjects.arguments()}
    left_out = {name for names in subjects.LEFT_OUT.values() for name in names}
    for path, value in subjects.public():
        no_arguments = not subjects._parameters(value) if path.rpartition(".")[2] not in left_out else True
        assert path in tried or path.rpartition(".")[2] in left_out or no_arguments, path
    assert not left_out & {call.rpartition(".")[2] for call in tried}


def test_all_data_per_row_and_methods_are_tried():
    tried = {str(argument) for argument in subjects.arguments()}
    for name in ("sample_weight", "exposure", "trials", "noise_variance", "censored"):
        assert f"poisson.fit({name}=…)" in tried
    assert {"predict_dist of poisson.interval(level=…)", "stream_posterior(inputs=…)"} & tried
    assert {"load(path=…)", "graph.build_graph(X=…)", "GPRegressor(nugget=…)"} <= tried


def test_what_is_valid_is_known_of_all_that_a_call_needs():
    with pytest.raises(LookupError, match=r"in tiles\.update needs source: say in _GIVEN"):
        subjects._argument("in tiles.update", lambda source: source, "source", None, {}, lambda found: found)


@pytest.mark.parametrize("name", command.PARTS)
def test_cases_are_made_of_seed_and_number_alone(name):
    makes = part(name).case
    assert [makes(7, n).what.split("/tmp")[0] for n in (0, 5)] == [makes(7, n).what.split("/tmp")[0] for n in (0, 5)]
    assert len({makes(7, n).what for n in range(30)} | {makes(8, n).what for n in range(30)}) > 25


def test_what_a_call_may_do():
    def fail(error):
        def call():
            raise error

        return call

    assert attempt(lambda: [1.0, {"a": 2.0}], ["level"]) == "worked"
    assert attempt(fail(ValueError("level must be below 1")), ["level"]) == "refused"
    for error in (ValueError("the truth value is ambiguous"), KeyError("level"), ZeroDivisionError("level")):
        with pytest.raises(Surprise):
            attempt(fail(error), ["level"])
    with pytest.raises(Surprise, match="1 of 2 numbers"):
        attempt(lambda: {"a": pytest.importorskip("numpy").array([1.0, float("nan")])}, ["level"])


@pytest.mark.slow
def test_a_fit_without_its_manifest_is_one_without_updates(tmp_path):
    store = tmp_path / "store"
    shutil.copytree(files._tiles(True), store)
    (store / MANIFEST).unlink()
    assert files._go_on(store, "fit", whole=False) == "worked"


def test_names_of_cases():
    assert Name.read(str(Name("files", 3, 17))) == Name("files", 3, 17)
    with pytest.raises(ValueError, match="misuse:3:1207"):
        Name.read("files")


def test_the_command_tells_of_findings_and_how_to_repeat_them(monkeypatch, capsys):
    found = Outcome(Name("files", 3, 17), "a file", "finding", 0.1, "it was read")

    def run(name, seed, seconds, jobs, numbers, report):
        summary = command.Summary(name)
        summary.counts.update(worked=4, finding=1)
        summary.findings.append(found)
        report(summary, found)
        return summary

    monkeypatch.setattr(command, "run", run)
    assert command.main(["files", "--seed", "3"]) == 1
    said = capsys.readouterr().out
    assert "python -m campaign repeat files:3:17" in said
    assert "it was read" in said
    assert "seed 3" in said


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cases"), {"files": 60, "tables": 40, "problems": 8, "signals": 1}.items())
def test_a_little_of_each_part_finds_nothing(name, cases):
    summary = run(name, SEED, 300.0, jobs=1, numbers=range(cases))
    assert summary.cases == cases
    assert [outcome.finding for outcome in summary.findings] == []


@pytest.mark.slow
def test_valid_calls_work():
    some = subjects.arguments()[::13]
    numbers = [number_of_misuse(argument.call, argument.name, "valid") for argument in some]
    summary = run("misuse", SEED, 300.0, jobs=1, numbers=numbers)
    assert summary.counts == {"worked": len(some)}


@pytest.mark.slow
def test_a_model_that_dies_or_hangs_is_found(monkeypatch):
    warm = number_of_misuse("gaussian.predict_dist", "X", "valid")
    bad = number_of_misuse("gaussian.update", "X", "valid")
    monkeypatch.setattr(misuse, "SECONDS", 3.0)
    monkeypatch.setenv(BEFORE, "tests.campaign.bugs:crash")
    (died,) = findings("misuse", warm, bad)
    assert "SIGSEGV" in died.finding
    monkeypatch.setenv(BEFORE, "tests.campaign.bugs:hang")
    (hung,) = findings("misuse", warm, bad)
    assert "hangs" in hung.finding


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "part_name", "number"),
    [
        ("forget_checks", "misuse", lambda: number_of_misuse("gaussian.fit", "sample_weight", "minus one")),
        ("predict_infinity", "misuse", lambda: number_of_misuse("gaussian.predict", "X", "valid")),
        ("another_quantile", "problems", lambda: number_of("problems", "30 rows of 2 columns")),
        ("skip_checksums", "files", lambda: number_of("files", "poisson: more at its end")),
        ("show_what_comes", "tables", lambda: number_of("tables", "info: csv")),
        ("swallow_interrupts", "signals", lambda: number_of("signals", "SIGINT to predict after 2")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bugs_are_found(monkeypatch, bug, part_name, number):
    monkeypatch.setenv(BEFORE, f"tests.campaign.bugs:{bug}")
    assert findings(part_name, number())
    if part_name != "signals":
        monkeypatch.delenv(BEFORE)
        assert not findings(part_name, number())


def test_workers_end_with_the_command(monkeypatch):
    """Killed while a worker is busy for ever, it leaves no process behind."""
    monkeypatch.setenv(BEFORE, "signal:pause")
    script = (
        "import os, signal\nfrom campaign.running import _Worker\n"
        "if __name__ == '__main__':\n"
        "    worker = _Worker()\n    print(worker._process.pid, flush=True)\n    worker._pipe.poll(3.0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(script)
        file.flush()
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        found = subprocess.run([sys.executable, file.name], capture_output=True, text=True, timeout=60.0)
    pid, ends = int(found.stdout), time.monotonic() + 10.0
    while _is_alive(pid) and time.monotonic() < ends:
        time.sleep(0.1)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
