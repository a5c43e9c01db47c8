"""Recording: results as they come, their removal, and runs that are trained again."""

import math
import socket
from importlib.metadata import version

import numpy as np
import pytest
from sqlalchemy import func, select

from idwbench import Results, __version__
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
    with pytest.raises(Exception, match=r"(?i)unique") as caught:
        store.finish([good, broken])
    assert not isinstance(caught.value, ResultsError)  # an error of the program, which is to be seen as such
    assert store.find_runs() == []
    assert count(store, curves) == count(store, metrics) == 0


def test_late_results_are_stored_and_of_a_run_taken_over_once(store, make_config, make_result, as_other_process):
    keys = store.lease(store.plan([make_config(seed) for seed in range(3)]))
    store.release(keys[:1])
    store.fail(keys[1:2], "worker lost")
    assert store.finish([make_result(make_config(0)), make_result(make_config(1))]) == keys[:2]
    assert [(run.state, run.error) for run in store.find_runs()[:2]] == [("complete", None)] * 2
    as_other_process("elsewhere", 1)
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET host = 'elsewhere', pid = 1, attempt = 2 WHERE state = 'running'")
    assert store.finish([make_result(make_config(2))]) == keys[2:]
    assert store.finish([make_result(make_config(2))]) == []
    store.fail(keys, "too late")
    assert [run.state for run in store.find_runs()] == ["complete"] * 3
    assert count(store, curves) == 3 * 75
    assert store.find_run(keys[2]).attempt == 2


# Removal


def test_a_removed_run_is_gone_and_one_of_a_sweep_is_planned_as_if_never_trained(store, make_config, make_result):
    keys = store.register_sweep("moons", "", "", [make_config(0), make_config(1)])
    never = store.find_run(keys[0])
    store.lease(keys)
    store.finish([make_result(make_config(seed)) for seed in (0, 1, 2, 3)])
    before = [count(store, table) for table in (metrics, curves, arrays)]
    removal = store.remove_runs([keys[0], make_config(2).run_key])
    assert (removal.removed, removal.planned) == ((make_config(2).run_key,), (keys[0],))
    assert [run.config.seed for run in store.find_runs()] == [0, 1, 3]
    assert [count(store, table) for table in (metrics, curves, arrays)] == [n // 2 for n in before]
    assert store.find_run(make_config(3).run_key).metric("accuracy") == 0.975
    assert store.find_run(keys[0]) == never
    assert store.load_curve(keys[0]) == [] and store.load_arrays(keys[0]) == {}
    status = store.sweep_status("moons")
    assert (status.total, status.planned, status.complete) == (2, 1, 1)
    assert store.lease(keys) == [keys[0]]


def test_nothing_is_removed_if_one_run_is_in_training_or_unknown(store, make_config, make_result, as_other_process):
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


@pytest.fixture
def keys(store, make_config, make_result, make_diverged):
    """A complete, a diverged, a failed and a planned run."""
    keys = store.register_sweep("moons", "", "", [make_config(seed) for seed in range(4)])
    store.lease(keys[2:3])
    store.fail(keys[2:3], "no memory")
    store.finish([make_result(make_config(0)), make_diverged(make_config(1))])
    return keys


def everything(store, key):
    """A run with its result, but without the process that trained it last."""
    run = store.find_run(key)
    facts = (run.state, run.metrics, run.n_parameters, run.diverged_epoch, run.engine, run.seconds, run.versions)
    facts += (run.cpu, run.data_sha256, run.finished_at)
    curve = [repr(point) for point in store.load_curve(key)]
    return facts, curve, {name: array.tolist() for name, array in store.load_arrays(key).items()}


ENDED = ("complete", "diverged", "failed")


def test_until_a_retraining_ends_the_old_results_are_there_and_count(store, db, keys):
    before = [everything(store, key) for key in keys]
    assert store.reset(keys[::-1], ["diverged"]) == [keys[1]]
    assert store.pending(keys) == [keys[1], keys[3]]
    assert store.reset(keys[::-1], ENDED) == keys[2::-1]
    assert store.pending(keys) == keys
    assert [everything(store, key) for key in keys] == before
    assert store.lease(keys) == keys
    assert store.pending(keys) == store.lease(keys) == []
    assert store.sweep_status("moons").running == 4
    assert [everything(store, key) for key in keys[:2]] == before[:2]
    assert [run.retraining for run in store.find_runs()] == [True, True, False, False]
    assert [run.run_key for run in store.find_runs(states=["complete"])] == keys[:1]
    assert [run.run_key for run in store.find_runs(states=["running"])] == keys[2:]
    store.release(keys)
    assert [everything(store, key) for key in keys] == before
    assert not store.find_run(keys[0]).retraining
    assert store.find_run(keys[2]).error == "no memory"
    assert Results(db).pending(keys) == keys[3:]  # a reset is forgotten with its process
    assert store.lease(keys) == keys


def test_a_retraining_that_fails_or_is_taken_over_keeps_the_result(store, db, keys, as_other_process, monkeypatch):
    before = [everything(store, key) for key in keys[:2]]
    store.reset(keys[:3], ENDED)
    store.lease(keys[:3])
    store.fail(keys[:3], "worker lost")
    assert [everything(store, key) for key in keys[:2]] == before
    failed = [(run.state, run.error) for run in store.find_runs()[:3]]
    assert failed == [(state, "worker lost") for state in ("complete", "diverged", "failed")]
    assert store.pending(keys[:3]) == []
    as_other_process(socket.gethostname(), 2**22 + 1)  # larger than any process number of Linux
    store.reset(keys[:1], ENDED)
    store.lease(keys[:1])
    monkeypatch.undo()
    successor = Results(db)
    assert successor.lease(keys[:1]) == keys[:1]
    successor.fail(keys[:1], "again")
    assert everything(store, keys[0]) == before[0]


def test_the_views_count_a_run_while_it_is_trained_again(store, keys):
    def counted():
        query = "SELECT n, mean, n_diverged FROM leaderboard WHERE split = 'test' OR n = 0"
        with store._database.read() as connection:
            wide = connection.exec_driver_sql("SELECT state, retraining FROM runs_wide ORDER BY seed").all()
            return connection.exec_driver_sql(query).all(), [(state, bool(again)) for state, again in wide]

    board, wide = counted()
    assert board == [(1, 0.975, 1)]
    assert wide == [(state, False) for state in ("complete", "diverged", "failed", "planned")]
    store.reset(keys, ENDED)
    store.lease(keys)
    assert counted() == (board, [("complete", True), ("diverged", True), ("running", False), ("running", False)])
    store.release(keys)
    assert counted() == (board, wide)


@pytest.mark.parametrize("leased", [True, False])
def test_a_retraining_replaces_the_whole_result(store, keys, make_config, make_result, make_diverged, leased):
    store.reset(keys, ENDED)
    if leased:
        store.lease(keys)
    new = make_result(make_config(1), test=0.5)
    assert store.finish([make_diverged(make_config(0)), new]) == keys[:2]
    (diverged, complete) = store.find_runs()[:2]
    assert (diverged.state, diverged.metrics, diverged.n_parameters) == ("diverged", {}, None)
    assert (diverged.diverged_epoch, diverged.error) == (2, "not finite after epoch 2")
    first, second = (point.values["train", "loss"] for point in store.load_curve(keys[0]))
    assert first == 0.7 and math.isnan(second)
    assert store.load_arrays(keys[0]) == {}
    assert (complete.state, complete.metrics) == ("complete", new.metrics)
    assert (complete.diverged_epoch, complete.error) == (None, None)
    np.testing.assert_array_equal(store.load_arrays(keys[1])["keys"], new.arrays["keys"])
    assert store.pending(keys[:2]) == []
    assert store.finish([make_result(make_config(1), test=0.1)]) == []  # only the first result replaces the old one
    assert store.find_run(keys[1]).metric("accuracy") == 0.5


def test_two_processes_that_reset_the_same_runs_share_them(store, db, keys, make_config, make_result):
    other = Results(db)
    for one in (store, other):
        assert one.reset(keys[:2], ENDED) == keys[:2]
    assert other.lease(keys[:1]) == keys[:1]
    assert store.lease(keys[:2]) == keys[1:2]
    other.finish([make_result(make_config(0), test=0.5)])
    assert store.pending(keys[:1]) == store.lease(keys[:1]) == []
    assert store.finish([make_result(make_config(0), test=0.1)]) == []
