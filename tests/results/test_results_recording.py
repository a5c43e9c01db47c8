import math
import socket
from importlib.metadata import version

import numpy as np
import pytest
from sqlalchemy import func, select

from idwbench import __version__
from idwbench.errors import ResultsError
from idwbench.results.provenance import checkout_of, cpu_model
from idwbench.results.tables import arrays, curves, metrics
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


def test_metrics_are_added_to_complete_runs_and_those_that_a_run_has_stay(store, make_config, make_result):
    result, planned = make_result(make_config(1)), make_config(2)
    store.finish([result], None)
    (other,) = store.plan([planned])
    key = result.config.run_key
    measured = {("test", "accuracy"): 0.125, ("train", "chamfer"): 7.0, ("train", "coverage"): math.nan}
    store.add_metrics({key: measured, other: measured})
    assert store.find_run(key).metrics == {**result.metrics, ("train", "chamfer"): 7.0}
    assert store.find_run(other).metrics == {}


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


# Removal


def test_a_run_of_no_sweep_is_gone_with_all_that_is_stored_of_it(store, make_config, make_result):
    store.finish([make_result(make_config(0)), make_result(make_config(1))])
    before = [count(store, table) for table in (metrics, curves, arrays)]
    removal = store.remove_runs([make_config(0).run_key])
    assert (removal.removed, removal.planned) == ((make_config(0).run_key,), ())
    assert [run.config for run in store.find_runs()] == [make_config(1)]
    assert [count(store, table) for table in (metrics, curves, arrays)] == [n // 2 for n in before]
    assert store.find_run(make_config(1).run_key).metric("accuracy") == 0.975


def test_a_run_of_a_sweep_stays_in_its_plan_as_if_it_had_never_been_trained(store, make_config, make_result):
    configs = [make_config(0), make_config(1)]
    keys = store.register_sweep("moons", "", "", configs)
    never = store.find_run(keys[0])
    store.lease(keys)
    store.finish([make_result(config) for config in configs])
    assert store.remove_runs([keys[0]]).planned == (keys[0],)
    assert store.find_run(keys[0]) == never
    assert store.load_curve(keys[0]) == [] and store.load_arrays(keys[0]) == {}
    status = store.sweep_status("moons")
    assert (status.total, status.planned, status.complete) == (2, 1, 1)
    assert store.lease(keys) == [keys[0]]


def test_nothing_is_removed_if_one_of_the_runs_is_being_trained_or_unknown(
    store, make_config, make_result, as_other_process
):
    keys = store.plan([make_config(0), make_config(1)])
    store.finish([make_result(make_config(0))])
    store.lease([keys[1]])
    with pytest.raises(ResultsError, match="no run has the key"):
        store.remove_runs([keys[0], "0" * 64])
    with pytest.raises(ResultsError, match=f"run {keys[1][:12]} is being trained by process .*nothing was removed"):
        store.remove_runs(keys)
    assert len(store.find_runs()) == 2
    as_other_process(socket.gethostname(), 2**22 + 1)  # larger than any process number of Linux
    store.reset(keys[:1], ["complete"])
    store.lease(keys[:1])
    assert store.remove_runs(keys[:1]).removed == (keys[0],)  # whose process has ended


def test_recordings_and_checkpoints_are_deleted_and_others_stay(store, make_config):
    keys = store.plan([make_config(0), make_config(1)])
    if store.recording_folder is None:
        assert store.remove_runs(keys[:1]).removed == (keys[0],)
        return
    for key in keys:
        for folder in (key, f"{key}.partial"):
            (store.recording_folder / folder).mkdir(parents=True)
            (store.recording_folder / folder / "rows.npy").write_bytes(b"1")
        store.checkpoint_folder.mkdir(exist_ok=True)
        (store.checkpoint_folder / f"{key}.safetensors").write_bytes(b"1")
    store.remove_runs(keys[:1])
    left = {path.name for folder in (store.recording_folder, store.checkpoint_folder) for path in folder.iterdir()}
    assert left == {keys[1], f"{keys[1]}.partial", f"{keys[1]}.safetensors"}
