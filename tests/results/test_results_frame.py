from __future__ import annotations

import pandas
import pytest

from idwbench.results.store import Results


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


def test_every_metric_has_a_column(filled):
    frame = filled.to_frame(dataset="two_moons").set_index("seed")
    assert frame.loc[5, "test_recall"] == 0.5
    assert frame.loc[5, "weight_decay"] == 0.5
    assert pandas.isna(frame.loc[5, "test_accuracy"])


def test_a_frame_can_be_grouped_by_a_setting(filled):
    assert filled.to_frame().groupby("method")["test_accuracy"].count().to_dict() == {"fc_relu": 0, "idw": 1}


def test_a_frame_without_runs_has_columns(db):
    frame = Results(db).to_frame()
    assert len(frame) == 0
    assert {"run_key", "dataset", "seed", "state"} <= set(frame.columns)
