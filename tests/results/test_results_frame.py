import pandas
import pytest
from pandas.testing import assert_frame_equal

from idwbench.report.selection import select_runs
from idwbench.results.frame import records, runs_frame, with_settings


@pytest.fixture
def filled(store, make_config, make_result, make_diverged):
    store.register_sweep("moons", "", "", [make_config(1), make_config(0), make_config(2, "fc_relu")])
    store.finish([make_result(make_config(0)), make_diverged(make_config(1))])
    store.finish([make_result(make_config(5, weight_decay=0.5), metrics={("test", "recall"): 0.5})])
    return store


def test_a_frame_has_one_row_a_run_with_settings_and_metrics(filled):
    frame = filled.to_frame(sweep="moons")
    assert list(frame["seed"]) == [1, 0, 2]
    assert list(frame["state"]) == ["diverged", "complete", "planned"]
    complete = frame.iloc[1]
    expected = {
        "dataset": "two_moons",
        "dataset_noise": 0.1,
        "dataset_seed": 0,
        "model": "prototypes",
        "method": "idw",
        "prototypes": 16,
        "initialisation": "default",
        "power": 2.0,
        "epochs": 25,
        "weight_decay": 0.0,
        "train_accuracy": 0.99,
        "test_accuracy": 0.975,
        "holdout_accuracy": 0.995,
        "n_parameters": 64,
        "seconds": 0.5,
    }
    assert {name: complete[name] for name in expected} == expected
    assert pandas.isna(frame.iloc[0]["test_accuracy"])
    assert pandas.isna(frame.iloc[2]["power"])
    assert filled.to_frame().set_index("seed").loc[5, "test_recall"] == 0.5


def test_runs_of_one_setting_share_its_configuration(store, make_config, make_result):
    configs = [make_config(seed, prototypes=n, power=power) for power in (1.0, 2.0) for n in (2, 4) for seed in (3, 1)]
    store.finish([make_result(config) for config in configs])
    table = store.run_table()
    assert table.groupby("setting").seed.apply(sorted).tolist() == [[1, 3]] * 4
    assert table.groupby("setting").config.agg(lambda column: len({*map(id, column)})).tolist() == [1] * 4
    assert [config.with_seed(seed) for config, seed in zip(table.config, table.seed, strict=True)] == configs
    assert list(store.to_frame()["label"]) == [config.model.label for config in configs]


def test_a_table_of_records_is_that_of_the_database_and_gives_them_back(filled):
    stored = filled.find_runs()
    columns = [*with_settings(runs_frame(stored)).columns]
    assert_frame_equal(with_settings(runs_frame(stored)), filled.to_frame()[columns], check_dtype=False)
    found = records(filled.run_table())
    facts = ("run_key", "config", "dataset", "state", "metrics")
    assert [[getattr(run, name) for name in facts] for run in found] == [
        [getattr(run, name) for name in facts] for run in stored
    ]


def test_a_table_may_have_a_part_of_the_metrics_and_facts(filled):
    table = filled.run_table(metrics=["recall", "none"], facts=["seconds"])
    assert [name for name in table.columns if isinstance(name, tuple)] == [("test", "recall")]
    assert table.set_index("seed")[[("test", "recall")]].loc[5].tolist() == [0.5]
    assert "seconds" in table.columns and "host" not in table.columns


def test_a_frame_says_which_runs_lost_their_process_and_which_are_trained_again(filled, make_config, as_other_process):
    complete, planned = make_config(0).run_key, make_config(2, "fc_relu").run_key
    filled.reset([complete], ["complete"])
    filled.lease([complete])
    as_other_process("elsewhere", 1)
    filled.lease([planned])
    frame = filled.to_frame().set_index("run_key")
    assert (frame["state"][complete], frame["retraining"][complete]) == ("complete", True)
    assert (frame["state"][planned], frame["stale"][planned]) == ("running", False)
    assert not frame["retraining"][planned]


def test_a_selection_for_a_metric_has_it_alone_unless_a_run_lacks_it(filled):
    def names(metric):
        table = select_runs(filled, "two_moons", ["idw"], [16], metric=metric)
        return {name for name in table.columns if isinstance(name, tuple)}

    assert ("test", "recall") in names("loss")  # which the message of a report names
    filled.add_metrics({run.run_key: {("train", "loss"): 0.1} for run in filled.find_runs(states=["complete"])})
    assert names("loss") == {(split, "accuracy") for split in ("train", "test", "holdout")} | {
        ("train", "loss"),
        ("test", "recall"),
    }
