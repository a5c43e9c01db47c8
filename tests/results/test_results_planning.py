import pytest
from sqlalchemy import select

from idwbench.errors import ResultsError
from idwbench.results.tables import runs
from idwbench.runs.config import run_config
from idwbench.runs.datasets import NpzConfig


def test_a_sweep_plans_its_missing_runs_in_order(store, make_config):
    configs = [make_config(seed) for seed in (3, 1, 2)]
    assert store.register_sweep("moons", "", "", []) == []
    keys = store.register_sweep("moons", "three seeds", "name: moons\n", [*configs, configs[0]])
    assert keys == [config.run_key for config in configs]
    runs = store.find_runs(sweep="moons")
    assert [run.config for run in runs] == configs
    assert {run.state for run in runs} == {"planned"}
    store.register_sweep("moons", "", "", configs[::-1])
    assert [run.config for run in store.find_runs(sweep="moons")] == configs[::-1]
    assert [run.dataset for run in runs] == ["two_moons"] * 3


def test_a_plan_that_is_stored_already_is_not_written_again(store, make_config, statements):
    configs = [make_config(seed) for seed in range(3)]
    store.register_sweep("moons", "", "", configs)
    statements.clear()
    assert store.register_sweep("moons", "", "new text", configs) == [config.run_key for config in configs]
    writes = [text for text in statements if not text.startswith(("SELECT", "BEGIN"))]
    assert [text.split()[:3] for text in writes] == [["INSERT", "INTO", "sweeps"]]


def test_a_changed_plan_replaces_the_old_one_and_deletes_no_run(store, make_config, make_result):
    store.register_sweep("moons", "old", "old", [make_config(seed) for seed in range(4)])
    store.finish([make_result(make_config(0))])
    store.register_sweep("moons", "new", "new", [make_config(5), make_config(1)])
    assert [run.config.seed for run in store.find_runs(sweep="moons")] == [5, 1]
    assert sorted(run.config.seed for run in store.find_runs()) == [0, 1, 2, 3, 5]
    (sweep,) = store.list_sweeps()
    assert (sweep.description, sweep.spec) == ("new", "new")
    assert sweep.updated_at >= sweep.created_at


def file_config(path, seed=0, sha256="ab"):
    return run_config(NpzConfig(path=path, sha256=sha256), prototypes=2, epochs=1, seed=seed)


def test_all_runs_on_a_renamed_file_take_its_new_name(store, make_result):
    old = [file_config("a/old.npz", seed=seed) for seed in range(3)]
    other = file_config("a/old.npz", sha256="cd")
    store.plan([*old, other])
    store.finish([make_result(config) for config in old])
    new = [file_config("b/new.npz", seed=seed) for seed in (0, 7)]  # the seeds 1 and 2 are not asked for any more
    store.plan(new)
    store.finish([make_result(config) for config in new])
    runs = store.find_runs(states=["complete"])
    assert [run.config for run in runs] == [file_config("b/new.npz", seed=seed) for seed in (0, 1, 2, 7)]
    assert {run.dataset for run in runs} == {"new.npz"}
    assert store.find_run(other.run_key).config == other
    with store._database.read() as connection:
        board = connection.exec_driver_sql("SELECT dataset, n FROM leaderboard WHERE split = 'test'").all()
    assert board == [("new.npz", 4)]


def test_the_row_alone_is_enough_to_run_it_again_and_its_columns_hold_the_settings(store, make_config):
    protocol = {"epochs": 2, "batch_size": 4, "learning_rate": 0.1, "optimizer": "sgd", "momentum": 0.5}
    config = make_config(2**32 - 1, "neg_dist", 3, power=7.0, initialisation="kmeans", **protocol)
    store.plan([config])
    (run,) = store.find_runs()
    assert run.config == config
    assert run.run_key == run.config.run_key == config.run_key
    with store._database.read() as connection:
        (row,) = connection.execute(select(runs)).mappings()
    assert (row["model"], row["method"], row["prototypes"], row["power"]) == ("prototypes", "neg_dist", 3, 7.0)
    assert (row["epsilon"], row["plugin_sha256"], row["parameters"]) == (None, None, {"power": 7.0})
    assert (row["epochs"], row["optimizer"], row["seed"]) == (2, "sgd", 2**32 - 1)
    assert row["protocol"] == row["config"]["protocol"]
    assert row["protocol"]["momentum"] == 0.5


def test_a_large_sweep_is_registered_and_leased_with_as_many_statements_as_a_small_one(store, make_config, statements):
    store.register_sweep("small", "", "", [make_config(seed) for seed in range(3)])
    few = len(statements)
    keys = store.register_sweep("large", "", "", [make_config(seed) for seed in range(1_000)])
    assert len(statements) < 3 * few  # runs are looked up 900 at a time
    assert store.sweep_status("large").planned == 1_000
    assert store.lease(keys[::-1]) == keys[::-1]
    store.release(keys)
    assert store.pending(keys) == keys
    assert len(statements) < 6 * few


@pytest.mark.parametrize("place", ["name", "description", "text"])
@pytest.mark.parametrize("character", ["\0", "\udcff"])
def test_text_that_cannot_be_stored_is_refused_and_nothing_is_planned(store, make_config, place, character):
    texts = {"name": "moons", "description": "", "text": "", place: f"a{character}b"}
    problem = f"^the {place} of the sweep has a NUL or a lone surrogate, which no database can store$"
    with pytest.raises(ResultsError, match=problem):
        store.register_sweep(texts["name"], texts["description"], texts["text"], [make_config(0)])
    assert store.list_sweeps() == store.find_runs() == []
