from __future__ import annotations

import math
import socket
from importlib.metadata import version

import numpy as np
import pytest
from sqlalchemy import func, select

from idwbench import __version__
from idwbench.results.provenance import checkout_of, cpu_model
from idwbench.results.tables import curves, metrics
from idwbench.runs.results import Curve

AWKWARD = ("te'st", '100% "%s" :name ?')


def count(store, table):
    with store._database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_a_result_comes_back_as_it_was(store, make_config, make_result):
    result = make_result(make_config(7), device="cuda:1", threads=3)
    key = result.config.run_key
    store.lease(store.plan([result.config]))
    assert store.finish([result], "c0ffee") == [key]
    run = store.find_run(key)
    assert run.state == "complete"
    assert run.metrics == result.metrics
    assert (run.n_parameters, run.diverged_epoch, run.error) == (64, None, None)
    assert (run.engine, run.device, run.threads, run.seconds) == ("torch", "cuda:1", 3, 0.5)
    assert (run.host, run.attempt, run.data_sha256) == (socket.gethostname(), 1, "c0ffee")
    assert run.git == checkout_of()
    assert run.versions["torch"] == version("torch")
    assert run.versions["idwbench"] == __version__
    assert run.cpu == {"model": cpu_model(), "instruction_set": "AVX2"}
    assert run.started_at <= run.finished_at
    stored = store.load_arrays(key)
    assert list(stored) == ["keys", "values"]
    for name, array in result.arrays.items():
        np.testing.assert_array_equal(stored[name], array)
    assert stored["keys"].dtype == np.float32
    assert store.load_curve(key) == list(result.curve)


def test_a_diverged_run_is_a_result(store, make_config, make_diverged):
    result = make_diverged(make_config(0))
    store.finish([result])
    run = store.find_run(result.config.run_key)
    assert (run.state, run.diverged_epoch, run.metrics, run.n_parameters) == ("diverged", 2, {}, None)
    assert run.error == "not finite after epoch 2"
    assert store.load_arrays(run.run_key) == {}
    points = store.load_curve(run.run_key)
    assert points[0].values["train", "loss"] == 0.7
    assert math.isnan(points[1].values["train", "loss"])


def test_metrics_curves_and_arrays_of_any_name_and_layout_are_stored(store, make_config, make_result):
    values = {AWKWARD: np.float32(0.25), ("validation", "loss"): -1.5, ("test", "r2"): math.nan}
    strided = np.arange(12.0).reshape(3, 4).T[::2]
    more = {"keys": np.zeros((2, 2)), "values": strided, "bandwidth": np.array(0.5), "none": np.zeros((0, 3), "i1")}
    curve = Curve((AWKWARD, ("validation", "perplexity")), [1.0, 2.0, math.inf, 3.0])
    (key,) = store.finish([make_result(make_config(0), metrics=values, arrays=more, curve=curve)])
    assert store.finish([]) == []
    assert store.find_run(key).attempt == 1  # nobody planned it
    assert store.find_run(key).metrics == {AWKWARD: 0.25, ("validation", "loss"): -1.5}
    stored = store.load_arrays(key)
    assert {name: (array.dtype, array.tolist()) for name, array in stored.items()} == {
        name: (array.dtype, array.tolist()) for name, array in more.items()
    }
    first, second = store.load_curve(key)
    assert first == curve[0] and math.isnan(second.values[AWKWARD])


def test_many_results_are_one_transaction(store, make_config, make_result):
    good, bad = make_result(make_config(0)), make_result(make_config(1))
    point = bad.curve[0]
    broken = make_result(make_config(1), curve=(point, point))  # one epoch twice breaks the key of the table
    with pytest.raises(Exception, match=r"(?i)unique"):
        store.finish([good, broken])
    assert store.find_runs() == []
    assert count(store, curves) == count(store, metrics) == 0


def test_a_late_result_of_a_run_that_was_taken_over_counts_once(store, make_config, make_result, as_other_process):
    keys = store.lease(store.plan([make_config(0)]))
    as_other_process("elsewhere", 1)
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET state = 'running', host = 'elsewhere', pid = 1, attempt = 2")
    assert store.finish([make_result(make_config(0))]) == keys
    assert store.finish([make_result(make_config(0))]) == []
    store.fail(keys, "too late")
    assert store.find_run(keys[0]).state == "complete"
    assert count(store, curves) == 75
    assert store.find_run(keys[0]).attempt == 2


@pytest.mark.parametrize("undo", ["release", "fail"])
def test_a_late_result_of_a_released_or_failed_run_is_stored(store, make_config, make_result, undo):
    keys = store.lease(store.plan([make_config(0)]))
    store.release(keys) if undo == "release" else store.fail(keys, "worker lost")
    assert store.finish([make_result(make_config(0))]) == keys
    run = store.find_run(keys[0])
    assert (run.state, run.error) == ("complete", None)


def test_many_results_are_stored_with_as_many_statements_as_one(store, make_config, make_result, statements):
    store.finish([make_result(make_config(0))])
    few = len(statements)
    store.finish([make_result(make_config(seed)) for seed in range(1, 51)])
    assert len(statements) < 3 * few
    assert count(store, curves) == 51 * 75
