from __future__ import annotations

import socket

import pytest

from idwbench.errors import ResultsError
from idwbench.results.tables import arrays, curves, metrics


def content(store, table):
    with store._database.read() as connection:
        return connection.execute(table.select()).all()


def test_a_run_of_no_sweep_is_gone_with_all_that_is_stored_of_it(store, make_config, make_result):
    store.finish([make_result(make_config(0)), make_result(make_config(1))])
    before = [len(content(store, table)) for table in (metrics, curves, arrays)]
    removal = store.remove_runs([make_config(0).run_key])
    assert (removal.removed, removal.planned) == ((make_config(0).run_key,), ())
    assert [run.config for run in store.find_runs()] == [make_config(1)]
    assert [len(content(store, table)) for table in (metrics, curves, arrays)] == [n // 2 for n in before]
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
