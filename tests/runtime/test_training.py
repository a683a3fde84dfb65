"""The training loop: descent, repeatability, what happens when it goes wrong, and going on from a checkpoint."""

from __future__ import annotations

import json
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from npvi.runtime import training
from npvi.runtime.archive import read_archive
from npvi.runtime.checkpoints import CHECKPOINT
from npvi.runtime.interrupts import interrupts_held_back, interrupts_remembered
from npvi.runtime.precision import float64
from npvi.runtime.training import CheckpointError, TrainingStopped, named_optimizer, shuffled, train
from tests.support import model_files

N = 40


def regression(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 3)).astype(np.float32)
    y = X @ np.array([1.0, -2.0, 0.5], dtype=np.float32) + 0.1 * rng.standard_normal(N).astype(np.float32)
    return {"X": X, "y": y}


def squared_error(parameters, rows, key, data):
    return jnp.mean((data["y"][rows] - data["X"][rows] @ parameters["slopes"]) ** 2)


def noisy_error(parameters, rows, key, data):
    return squared_error(parameters, rows, key, data) + jax.random.normal(key) * parameters["slopes"].sum()


START = {"slopes": np.zeros(3, dtype=np.float32)}


def fit(loss=squared_error, epochs=30, optimizer=None, **options):
    options = {"data": regression(), **options}
    return train(
        loss, START, options.pop("batches", shuffled(N, 8)), optimizer or optax.adam(0.05), epochs=epochs, **options
    )


def same(a, b):
    return all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))


def without_clock(history):
    return {name: values for name, values in history.items() if name != "seconds"}


# -- descent ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(training.OPTIMIZERS))
def test_every_named_optimiser_reaches_least_squares(name):
    data = regression()
    best = np.linalg.lstsq(data["X"], data["y"], rcond=None)[0]
    rate = {"adagrad": 0.5, "sgd": 0.1}.get(name, 0.05)
    trained = fit(epochs=150, optimizer=named_optimizer(name, rate, steps=150 * 5))
    assert trained.outcome == "finished"
    assert trained.epochs == 150
    assert np.abs(trained.parameters["slopes"] - best).max() < 0.01


def test_one_step_of_one_batch_is_the_gradient_step_itself():
    data = regression()
    trained = fit(epochs=1, optimizer=optax.sgd(0.1), batches=shuffled(N, N))
    gradient = -2.0 * data["X"].T @ data["y"] / N
    np.testing.assert_allclose(trained.parameters["slopes"], -0.1 * gradient, rtol=1e-5)
    np.testing.assert_allclose(trained.history["loss"], [np.mean(data["y"] ** 2)], rtol=1e-5)


def test_double_precision_where_it_is_on():
    with float64():
        start = {"slopes": np.zeros(3)}
        data = jax.tree.map(lambda leaf: leaf.astype(np.float64), regression())
        trained = train(squared_error, start, shuffled(N, N), optax.sgd(0.1), epochs=500, data=data)
        assert trained.parameters["slopes"].dtype == np.float64
        best = np.linalg.lstsq(data["X"], data["y"], rcond=None)[0]
        assert np.abs(np.asarray(trained.parameters["slopes"]) - best).max() < 1e-12


def test_same_seed_same_result_other_seed_another():
    one, two, other = fit(noisy_error), fit(noisy_error), fit(noisy_error, seed=1)
    assert same(one.parameters, two.parameters)
    assert without_clock(one.history) == without_clock(two.history)
    assert not same(one.parameters, other.parameters)


def test_the_same_program_is_compiled_once_but_closures_anew():
    def closing_over(factor):
        def loss(parameters, rows, key, data):
            return factor["is"] * squared_error(parameters, rows, key, data)

        return loss

    factor = {"is": 1.0}
    loss = closing_over(factor)
    optimizer, batches = optax.sgd(0.01), shuffled(N, N)
    one = fit(loss, 1, optimizer, batches=batches).parameters["slopes"]
    factor["is"] = 2.0
    two = fit(loss, 1, optimizer, batches=batches).parameters["slopes"]
    np.testing.assert_allclose(two, 2.0 * one, rtol=1e-5)
    assert shuffled(N, 8) is shuffled(N, 8)
    assert named_optimizer("adam", 0.1, 7) is named_optimizer("adam", 0.1, 7)
    before = training._kept_epoch.cache_info().hits
    plain = [fit(squared_error, 1, optimizer, batches=batches).parameters["slopes"] for _ in range(2)]
    assert training._kept_epoch.cache_info().hits == before + 1
    np.testing.assert_array_equal(*plain)


def test_the_start_stays_as_it_is():
    start = {"slopes": jnp.zeros(3)}
    train(squared_error, start, shuffled(N, 8), optax.adam(0.05), epochs=2, data=regression())
    np.testing.assert_array_equal(start["slopes"], 0.0)


@pytest.mark.parametrize("size", [1, 8, 7, N])
def test_batches_hold_different_rows_and_an_epoch_holds_all(size):
    rows = np.asarray(shuffled(N, size)(jax.random.key(3), None))
    assert rows.shape == (-(-N // size), size)
    assert all(len(set(batch)) == size for batch in rows.tolist())
    assert set(rows.ravel().tolist()) == set(range(N))
    assert not np.array_equal(rows, np.asarray(shuffled(N, size)(jax.random.key(4), None)))


def test_cosine_decay_ends_at_rest():
    optimizer = named_optimizer("sgd", 0.1, steps=5)
    state = optimizer.init(jnp.ones(1))
    sizes = []
    for _ in range(6):
        update, state = optimizer.update(jnp.ones(1), state)
        sizes.append(-float(update[0]))
    np.testing.assert_allclose(sizes, 0.1 * 0.5 * (1.0 + np.cos(np.pi * np.arange(6) / 5)), atol=1e-8)


# -- judging ----------------------------------------------------------------------------------------------------------


def test_the_best_parameters_are_returned_and_patience_ends_it():
    values = iter([3.0, 1.0, float("nan"), 2.0, 1.0, 0.0])
    seen = []

    def evaluate(parameters):
        seen.append(np.array(parameters["slopes"]))
        return next(values)

    trained = fit(evaluate=evaluate, patience=3)
    assert trained.outcome == "stopped early"
    assert trained.epochs == 5  # the value of 0 would have been the sixth
    assert trained.best_epoch == 1
    np.testing.assert_array_equal(trained.parameters["slopes"], seen[1])
    assert not np.array_equal(seen[1], seen[-1])


def test_evaluations_every_few_epochs_and_after_the_last():
    reports = []
    trained = fit(
        epochs=7,
        evaluate=lambda parameters: float(jnp.abs(parameters["slopes"]).sum()),
        evaluate_every=3,
        report=lambda **numbers: reports.append(numbers),
    )
    assert trained.history["evaluation_epoch"] == [2, 5, 6]
    assert [report["epoch"] for report in reports] == list(range(7))
    assert [report["epoch"] for report in reports if "evaluation" in report] == [2, 5, 6]
    assert [report["loss"] for report in reports] == trained.history["loss"]


# -- going wrong ------------------------------------------------------------------------------------------------------


def in_order(key, data):
    return jnp.arange(N).reshape(10, 4)


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_a_batch_that_is_not_finite_changes_nothing_and_is_the_last(broken):
    data = {**regression(), "poison": np.zeros(N, dtype=np.float32)}
    data["poison"][[22, 31]] = 1.0  # in batches 5 and 7

    def loss(parameters, rows, key, data):
        poison = data["poison"][rows].sum()
        zero = jnp.where(poison > 0.0, 0.0 * parameters["slopes"][0], 1.0)
        bad = jnp.log(zero) if broken == "loss" else jnp.sqrt(zero)  # √x is finite at 0, and its slope isn't
        return squared_error(parameters, rows, key, data) + bad

    with pytest.warns(TrainingStopped, match="epoch 0 at batch 5"):
        trained = fit(loss, batches=in_order, data=data, optimizer=optax.sgd(0.05))
    assert trained.outcome == "not finite"
    assert trained.stopped_at == (0, 5)
    slopes = np.zeros(3)
    for rows in np.arange(N).reshape(10, 4)[:5]:
        X, y = data["X"][rows].astype(np.float64), data["y"][rows]
        slopes -= 0.05 * 2.0 * X.T @ (X @ slopes - y) / 4
    np.testing.assert_allclose(trained.parameters["slopes"], slopes, atol=1e-6)


def test_parameters_that_would_overflow_are_not_taken():
    with pytest.warns(TrainingStopped, match="smaller learning rate"):
        trained = fit(optimizer=optax.sgd(1e38), epochs=5)
    assert np.isfinite(trained.parameters["slopes"]).all()


def test_too_little_memory_is_said_so():
    def loss(parameters, rows, key, data):
        many = jnp.arange(2**22) * parameters["slopes"][0]
        return jnp.exp(jnp.outer(many, many) @ many).sum()  # 70 TB

    with pytest.raises(MemoryError, match="smaller batches"):
        fit(loss)


def test_other_errors_pass():
    def loss(parameters, rows, key, data):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        fit(loss)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number from 1, got 0"),
        ({"patience": 0, "evaluate": lambda _: 0.0}, "patience must be a whole number from 1"),
        ({"patience": 2}, "give evaluate as well"),
        ({"evaluate_every": 1.5}, "evaluate_every must be a whole number"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        fit(**options)


@pytest.mark.parametrize("size", [0, -1, N + 1])
def test_wrong_batch_sizes(size):
    with pytest.raises(ValueError, match=f"between 1 and {N} rows.*got {size}"):
        shuffled(N, size)


@pytest.mark.parametrize("rate", [0.0, -0.1, float("nan"), float("inf")])
def test_wrong_learning_rates(rate):
    with pytest.raises(ValueError, match="learning_rate must be a positive number"):
        named_optimizer("adam", rate)


# -- interrupts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def usual_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_interrupts")
def test_an_interrupt_ends_training_after_the_epoch():
    def report(epoch, **_):
        if epoch == 3:
            signal.raise_signal(signal.SIGINT)

    trained = fit(report=report)
    assert trained.outcome == "interrupted"
    assert trained.epochs == 4
    assert same(trained.parameters, fit(epochs=4).parameters)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_raised_by_a_callback_keeps_the_state():
    def report(epoch, **_):
        if epoch == 3:
            raise KeyboardInterrupt

    assert fit(report=report).epochs == 4


@pytest.mark.usefixtures("usual_interrupts")
def test_the_second_interrupt_strikes():
    def twice():
        with interrupts_held_back() as happened:
            signal.raise_signal(signal.SIGINT)
            assert happened == [True]
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        twice()


@pytest.mark.usefixtures("usual_interrupts")
def test_an_interrupt_before_training_strikes_there():
    def work():
        with interrupts_remembered():
            signal.raise_signal(signal.SIGINT)
            fit(report=lambda **numbers: reached.append(numbers["epoch"]))
            reached.append("on")

    reached = []
    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == []


@pytest.mark.usefixtures("usual_interrupts")
def test_an_interrupt_in_an_epoch_that_is_the_last_one_anyway_strikes_afterwards():
    def judge(parameters):
        values.append(float(len(values)))
        if len(values) == 2:  # no better than before, and patience is at its end
            signal.raise_signal(signal.SIGINT)
        return values[-1]

    values = []
    with pytest.raises(KeyboardInterrupt):
        fit(evaluate=judge, patience=1)
    assert values == [0.0, 1.0]


def test_somebody_elses_handler_stays(usual_interrupts):
    calls = []
    signal.signal(signal.SIGINT, lambda *_: calls.append("theirs"))
    with interrupts_held_back() as happened:
        signal.raise_signal(signal.SIGINT)
    assert (calls, happened) == (["theirs"], [])


# -- checkpoints ------------------------------------------------------------------------------------------------------


def error_of(parameters):
    data = regression()
    return float(np.mean((data["y"] - data["X"] @ np.asarray(parameters["slopes"])) ** 2))


def interrupted_at(epoch_to_stop):
    def report(epoch, **_):
        if epoch == epoch_to_stop:
            raise KeyboardInterrupt

    return report


def test_going_on_gives_what_an_uninterrupted_run_gives(tmp_path):
    path = tmp_path / "training.checkpoint"
    options = {"epochs": 20, "evaluate": error_of, "evaluate_every": 3, "patience": 50}
    whole = fit(noisy_error, **options)
    for epoch in (4, 11):
        part = fit(noisy_error, **options, checkpoint=path, report=interrupted_at(epoch))
        assert (part.outcome, part.epochs) == ("interrupted", epoch + 1)
    rest = fit(noisy_error, **options, checkpoint=path)
    assert same(whole.parameters, rest.parameters)
    assert without_clock(whole.history) == without_clock(rest.history)
    assert len(rest.history["seconds"]) == 20
    assert (whole.best_epoch, whole.epochs) == (rest.best_epoch, rest.epochs)
    assert rest.history["seconds"] == sorted(rest.history["seconds"])


@pytest.mark.parametrize("place", ["judging", "noting"])
def test_going_on_from_an_epoch_that_was_interrupted(tmp_path, monkeypatch, place):
    """By a second interrupt, which strikes where the epoch is computed, and what came of it not yet noted."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def struck(*program):
        run = training._compiled_epoch(*program)
        losses = type("Losses", (), {"__array__": interrupted})()
        return lambda *state: (*run(*state)[:2], losses, -1)

    path, options = tmp_path / "training.checkpoint", {"epochs": 6, "evaluate_every": 2}
    whole = fit(noisy_error, **options, evaluate=error_of)
    with monkeypatch.context() as patch:
        if place == "noting":
            patch.setattr(training, "_kept_epoch", struck)
        with pytest.raises(KeyboardInterrupt):
            fit(noisy_error, **options, evaluate=interrupted, checkpoint=path)
    rest = fit(noisy_error, **options, evaluate=error_of, checkpoint=path)
    assert same(whole.parameters, rest.parameters)
    assert without_clock(whole.history) == without_clock(rest.history)


def test_a_finished_training_is_not_done_again(tmp_path):
    def never(*_):
        raise AssertionError("trained again")

    path = tmp_path / "training.checkpoint"
    first = fit(checkpoint=path)
    again = fit(never, checkpoint=path)
    assert same(first.parameters, again.parameters)
    assert fit(checkpoint=path, epochs=31).epochs == 31


def test_a_training_that_stopped_stays_stopped(tmp_path):
    path = tmp_path / "training.checkpoint"
    for _ in range(2):
        with pytest.warns(TrainingStopped):
            trained = fit(optimizer=optax.sgd(1e38), checkpoint=path)
        assert trained.outcome == "not finite"
    assert isinstance(trained.stopped_at, tuple)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("training") / "training.checkpoint"
    fit(epochs=2, checkpoint=path, optimizer=named_optimizer("adagrad", 0.1), settings={"rate": (1, 2)})
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "other seed"),
        ({"settings": {"rate": 2}}, "other settings"),
        ({"data": regression(1)}, "other data"),
        ({"optimizer": optax.adam(0.1)}, "optimizer_state"),
        ({"optimizer": named_optimizer("rmsprop", 0.1)}, "other optimizer"),
    ],
)
def test_a_checkpoint_of_something_else(checkpoint, change, message):
    right = {"settings": {"rate": (1, 2)}, "optimizer": named_optimizer("adagrad", 0.1)}
    assert fit(epochs=2, checkpoint=checkpoint, **right).epochs == 2
    with pytest.raises(CheckpointError, match=f"belongs to another training.*{message}"):
        fit(epochs=4, checkpoint=checkpoint, **{**right, **change})


def test_a_checkpoint_of_another_shape(checkpoint):
    start = {"slopes": np.zeros(4, dtype=np.float32)}
    with pytest.raises(CheckpointError, match=r"array 0 of its parameters is float32 \(3,\), here float32 \(4,\)"):
        train(squared_error, start, shuffled(N, 8), named_optimizer("adagrad", 0.1), epochs=2, checkpoint=checkpoint)


@pytest.mark.parametrize("length", [0, 10, 200, -1])
def test_a_cut_off_checkpoint(checkpoint, tmp_path, length):
    path = tmp_path / "cut.checkpoint"
    path.write_bytes(checkpoint.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"is (not a checkpoint|damaged|cut off).*delete it to start anew"):
        fit(epochs=3, checkpoint=path)


def test_checkpoints_from_before_there_were_archives(checkpoint, tmp_path):
    with open(checkpoint, "rb") as file:
        about, arrays = read_archive(file, CHECKPOINT)
    for version, old in [("npvi training 1", tmp_path / "old"), ("another 1", tmp_path / "other")]:
        with open(old, "wb") as file:
            np.savez(file, description=np.array(json.dumps({"format": version, **about})), **arrays)
    (tmp_path / "new").write_bytes(checkpoint.read_bytes())
    right = {"settings": {"rate": (1, 2)}, "optimizer": named_optimizer("adagrad", 0.1)}
    now, before = (fit(epochs=4, checkpoint=tmp_path / name, **right) for name in ("new", "old"))
    assert before.epochs == 4
    assert same(before.parameters, now.parameters)
    with pytest.raises(CheckpointError, match=r"doesn't say that it is one.*delete it to start anew"):
        fit(epochs=4, checkpoint=tmp_path / "other", **right)


def test_an_altered_checkpoint(checkpoint, tmp_path):
    content = bytearray(checkpoint.read_bytes())
    content[-1] ^= 1
    (tmp_path / "altered").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"was altered since it was saved.*delete it to start anew"):
        fit(epochs=3, checkpoint=tmp_path / "altered")


@pytest.fixture(scope="module")
def judged_checkpoint(tmp_path_factory):
    """Of 5 epochs; after three of them, 1, 3 and 4, there was an evaluation, and the second one was best."""
    path, values = tmp_path_factory.mktemp("training") / "judged.checkpoint", iter([3.0, 1.0, 2.0])
    fit(epochs=5, checkpoint=path, evaluate=lambda _: next(values), evaluate_every=2)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda told: told["history"].update(seconds=[]), "history.seconds must have one number for each of its 5"),
        (lambda told: told["history"].update(seconds=[-1.0] * 5), "history.seconds.0. must be a number from 0"),
        (lambda told: told["history"]["loss"].pop(), "history.loss must have one number for each .* epochs, got 4"),
        (lambda told: told["history"].update(loss=[10**400] * 5), "history.loss.0. must be a number"),
        (lambda told: told.update(epochs=4), "history.loss must have one number for each of its 4 epochs, got 5"),
        (lambda told: told["history"]["evaluation"].pop(), "one number for each of the 3 epochs of its history"),
        (lambda told: told["history"]["evaluation_epoch"].reverse(), "history.evaluation_epoch must rise"),
        (lambda told: told["history"].update(evaluation_epoch=[1, 3, 5]), "rise, and end before its 5 epochs"),
        (lambda told: told.update(best_epoch=1), "its best_epoch must be that of its best parameters"),
        (lambda told: told.update(best_epoch=None), "its best_epoch must be that of its best parameters"),
        (lambda told: told.update(waited=0), "its waited, 0, the number of the 3 evaluations since then; got 3"),
        (lambda told: told.update(best_epoch=None, waited=9), "its waited, 9"),
        (lambda told: told["trees"].remove("best"), "its best_epoch must be that of its best parameters"),
        (lambda told: told.update(outcome="zzz"), "outcome must be one of stopped early, not finite"),
        (lambda told: told.update(outcome="not finite"), "stopped_at must be in the last epoch"),
        (lambda told: told.update(stopped_at=[4, 1]), "stopped_at must be in the last epoch"),
        (lambda told: told.update(outcome="not finite", stopped_at=[7, 1]), "stopped_at must be in the last epoch"),
    ],
)
def test_a_checkpoint_whose_parts_disagree(judged_checkpoint, tmp_path, change, message):
    with open(judged_checkpoint, "rb") as file:
        told, arrays = read_archive(file, CHECKPOINT)
    change(told)
    path = model_files.write(tmp_path / "altered", told, arrays, CHECKPOINT)
    with pytest.raises(CheckpointError, match=rf"altered is not a checkpoint.*{message}.*delete it to start anew"):
        fit(epochs=6, checkpoint=path, evaluate=error_of, evaluate_every=2)


def test_other_files_are_no_checkpoints(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        fit(epochs=3, checkpoint=tmp_path / "other.npz")


def test_no_pickles_inside(checkpoint):
    with open(checkpoint, "rb") as file:
        about, arrays = read_archive(file, CHECKPOINT)
    assert about["epochs"] == 2
    assert {array.dtype.kind for array in arrays.values()} <= set("fiu")
    assert os.listdir(checkpoint.parent) == ["training.checkpoint"]  # nothing temporary is left


def test_a_checkpoint_that_cannot_be_written_is_found_before_training(tmp_path):
    def never(*_):
        raise AssertionError("trained before looking")

    with pytest.raises(CheckpointError, match=r"cannot write .*does not exist"):
        fit(never, checkpoint=tmp_path / "missing" / "training.checkpoint")
