from __future__ import annotations

import hashlib

import pytest

from idwbench.errors import ResultsError
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import replay_run, train
from idwbench.sweep.observer import Observer

DATA = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 10}


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_a_run_trained_again_is_identical_and_the_database_stays_as_it_is(tmp_path, engine):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, prototypes=4, epochs=2), db, engine=engine)
    before = hashlib.sha256(db.read_bytes()).digest()
    replay = replay_run(run.run_key[:12], db)
    assert replay.identical
    assert replay.runs[0].engine == engine and "engine" not in replay.environment
    assert replay.metrics["test", "accuracy"] == (run.metric("accuracy"), run.metric("accuracy"))
    assert set(replay.arrays) == {"keys", "values"} and replay.curve == 0
    assert hashlib.sha256(db.read_bytes()).digest() == before
    assert Results(db, read_only=True).find_run(run.run_key).attempt == 1


def test_a_changed_result_and_environment_are_found(tmp_path):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, prototypes=4, epochs=2), db)
    with Results(db)._database.write() as connection:
        connection.exec_driver_sql("UPDATE metrics SET value = 0.25 WHERE split = 'test' AND name = 'accuracy'")
        connection.exec_driver_sql("UPDATE curves SET value = value + 1 WHERE epoch = 2 AND name = 'loss'")
        connection.exec_driver_sql("""UPDATE runs SET cpu = '{"model": "Z80"}', data_sha256 = 'f00'""")
    replay = replay_run(run.run_key, db)
    assert not replay.identical
    assert replay.metrics["test", "accuracy"] == (0.25, run.metric("accuracy"))
    assert replay.curve == pytest.approx(1)
    assert replay.arrays["keys"].identical
    assert replay.environment["cpu model"][0] == "Z80" and replay.environment["data sha256"][0] == "f00"


def test_a_study_of_patches_and_its_network_are_repeated(tmp_path):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, kind="patch_study", prototypes=4, epochs=2), db)
    numbers = []
    observer = Observer()
    observer.planned = lambda *planned: numbers.append(planned)
    replay = replay_run(run.run_key, db, observer=observer)
    assert replay.identical and "eta" in replay.arrays
    assert numbers == [(2, 2, 0, 0)]


def test_a_recorded_run_keeps_its_recording(tmp_path):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, kind="mlp", width=3, record=True, epochs=1, optimizer="sgd"), db)
    folder = Results(db).recording_folder / run.run_key
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    assert replay_run(run.run_key, db).identical
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()} == before


def test_a_run_without_a_result_cannot_be_repeated(tmp_path):
    db = tmp_path / "idwbench.db"
    [key] = Results(db).plan([run_config(DATA)])
    with pytest.raises(ResultsError, match="is planned: it has no result"):
        replay_run(key, db)
