from __future__ import annotations

import math
import socket
import time
from importlib.metadata import version

import numpy as np
import pytest
from sqlalchemy import func, select

from idwbench.errors import ResultsError
from idwbench.results import tensors
from idwbench.results.models import curves
from idwbench.results.models import tensors as tensor_table
from idwbench.results.provenance import own_checkout


def count(store, table):
    with store._database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_a_result_comes_back_as_it_was(store, make_config, make_result):
    result = make_result(make_config(7), device="cuda:1", threads=3)
    key = result.config.run_key
    store.claim(store.plan([result.config]))
    assert store.finish([result], "c0ffee") == [key]
    run = store.find_run(key)
    assert run.state == "complete"
    assert (run.train_accuracy, run.test_accuracy, run.holdout_accuracy) == (0.99, 0.975, 0.995)
    assert (run.n_features, run.n_classes, run.diverged_epoch, run.error) == (2, 2, None, None)
    assert (run.engine, run.device, run.threads, run.seconds) == ("torch", "cuda:1", 3, 0.5)
    assert (run.host, run.attempt, run.data_sha256) == (socket.gethostname(), 1, "c0ffee")
    assert run.git == own_checkout()
    assert run.versions["torch"] == version("torch")
    assert run.started_at <= run.finished_at
    stored = store.load_tensors(key)
    assert list(stored) == ["keys", "values"]
    np.testing.assert_array_equal(stored["keys"], result.keys)
    np.testing.assert_array_equal(stored["values"], result.values)
    assert stored["keys"].dtype == np.float32
    points = store.load_curve(key)
    assert [(p.epoch, p.learning_rate, p.train_loss, p.test_accuracy) for p in points] == [
        (p.epoch, p.learning_rate, p.train_loss, p.test_accuracy) for p in result.curve
    ]


def test_a_diverged_run_is_a_result(store, make_config, make_diverged):
    result = make_diverged(make_config(0))
    store.finish([result])
    run = store.find_run(result.config.run_key)
    assert (run.state, run.diverged_epoch, run.test_accuracy) == ("diverged", 2, None)
    assert run.error == "not finite after epoch 2"
    assert store.load_tensors(run.run_key) == {}
    points = store.load_curve(run.run_key)
    assert points[0].train_loss == 0.7
    assert math.isnan(points[1].train_loss)


def test_an_infinite_loss_is_stored_as_not_finite(store, make_config, make_result):
    result = make_result(make_config(0))
    endless = tuple(type(point)(point.epoch, 0.1, math.inf, 0.5) for point in result.curve)
    store.finish([make_result(make_config(0), curve=endless)])
    assert all(math.isnan(point.train_loss) for point in store.load_curve(result.config.run_key))


def test_many_results_are_one_transaction(store, make_config, make_result):
    good, bad = make_result(make_config(0)), make_result(make_config(1))
    point = bad.curve[0]
    broken = make_result(make_config(1), curve=(point, point))  # one epoch twice breaks the key of the table
    with pytest.raises(Exception, match="UNIQUE"):
        store.finish([good, broken])
    assert store.find_runs() == []
    assert count(store, curves) == 0


def test_the_first_result_of_a_run_stays(store, make_config, make_result):
    first, late = make_result(make_config(0)), make_result(make_config(0), test_accuracy=0.1)
    assert store.finish([first, late][:1]) == [first.config.run_key]
    assert store.finish([late]) == []
    assert store.find_run(first.config.run_key).test_accuracy == 0.975
    assert count(store, curves) == 25
    assert count(store, tensor_table) == 2


def test_a_late_result_of_a_run_that_was_taken_over_counts_once(store, make_config, make_result, as_other_process):
    keys = store.claim(store.plan([make_config(0)]))
    as_other_process("elsewhere", 1)
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET state = 'running', host = 'elsewhere', pid = 1, attempt = 2")
    assert store.finish([make_result(make_config(0))]) == keys
    assert store.finish([make_result(make_config(0))]) == []
    store.fail(keys, "too late")
    assert store.find_run(keys[0]).state == "complete"
    assert count(store, curves) == 25


@pytest.mark.parametrize("undo", ["release", "fail"])
def test_a_late_result_of_a_released_or_failed_run_is_welcome(store, make_config, make_result, undo):
    keys = store.claim(store.plan([make_config(0)]))
    store.release(keys) if undo == "release" else store.fail(keys, "worker lost")
    assert store.finish([make_result(make_config(0))]) == keys
    run = store.find_run(keys[0])
    assert (run.state, run.error) == ("complete", None)


def test_a_result_that_nobody_planned_is_added(store, make_config, make_result):
    store.finish([make_result(make_config(seed)) for seed in range(3)])
    assert [run.state for run in store.find_runs()] == ["complete"] * 3
    assert [run.host for run in store.find_runs()] == [socket.gethostname()] * 3


def test_finishing_nothing_is_allowed(store):
    assert store.finish([]) == []


def test_a_thousand_small_runs_are_stored_within_a_second(store, make_config, make_result):
    results = [make_result(make_config(seed)) for seed in range(1_000)]
    store.claim(store.plan([result.config for result in results]))
    start = time.process_time()
    store.finish(results, "ab")
    # Takes 0.2 s of one core; time on the clock would depend on what else the machine does.
    assert time.process_time() - start < 1
    assert count(store, curves) == 25_000


def test_bytes_that_are_no_tensor_are_refused():
    with pytest.raises(ResultsError, match="tensor 'keys' cannot be read"):
        tensors.unpack_tensor("keys", b"not safetensors")
    with pytest.raises(ResultsError, match="tensor 'keys' cannot be read"):
        tensors.unpack_tensor("keys", tensors.pack_tensor("other", np.zeros(2)))


def test_a_tensor_that_is_not_contiguous_is_stored_rightly():
    array = np.arange(12.0).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(tensors.unpack_tensor("x", tensors.pack_tensor("x", array)), array)
