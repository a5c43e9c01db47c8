"""Reports with data sets as columns: means of each data set, marks in each column, and mean ranks by SciPy."""

import json

import numpy as np
import pytest
from scipy.stats import rankdata
from stored_runs import stored_run

from idwbench.errors import ConfigError
from idwbench.report.by_dataset import by_dataset
from idwbench.report.render import render
from idwbench.report.summaries import section_tables, summarise

SETS = ("two_moons", "digits", "iris", "wine", "blobs")
MODELS = ({"kind": "scikit_learn", "method": "knn"}, {"kind": "scikit_learn", "method": "svc"}, {"method": "idw"})
PROTOCOL = {"epochs": 5, "batch_size": 4, "learning_rate": 0.1}


def settings_of(model):
    return {**model, **PROTOCOL, **({} if "kind" in model else {"prototypes": 8})}


@pytest.fixture
def accuracies():
    """By data set, model and seed of the data; two models tie on the first data set."""
    found = np.random.default_rng(0).uniform(0.5, 1, (len(SETS), len(MODELS), 5)).round(3)
    found[0, 1] = found[0, 0]
    return found


@pytest.fixture
def report(accuracies):
    runs = [
        stored_run(value, dataset={"name": name, "seed": seed}, train=0.9, **settings_of(model))
        for name, of_models in zip(SETS, accuracies, strict=True)
        for model, values in zip(MODELS, of_models, strict=True)
        for seed, value in enumerate(values.tolist())
    ]
    return summarise(runs)


def columns(tables):
    return {column.name: [cell.text for cell in column.cells] for table in tables for column in table.columns}


def test_a_cell_is_a_mean_with_its_spread_the_best_is_marked_and_ranks_are_over_all_data_sets(report, accuracies):
    tables = by_dataset(report)
    assert [[column.name for column in table.columns] for table in tables] == [
        ["method", "setting", "prototypes", "two_moons", "digits", "iris", "wine"],
        ["method", "setting", "prototypes", "blobs", "rank"],
    ]
    found = columns(tables)
    assert found["method"] == ["knn", "svc", "idw"] and found["prototypes"] == ["–", "–", "8"]
    for name, of_models in zip(SETS, 100 * accuracies, strict=True):
        assert found[name] == [f"{values.mean():.2f} ± {values.std(ddof=1):.2f}" for values in of_models]
    marked = {
        column.name: [cell.best for cell in column.cells] for table in by_dataset(report) for column in table.columns
    }
    for name, means in zip(SETS, accuracies.mean(2), strict=True):
        assert marked[name] == np.isclose(means, means.max(), rtol=1e-12).tolist()
    ranks = rankdata(-accuracies.mean(2), axis=1).mean(0)
    assert columns(by_dataset(report))["rank"] == [f"{rank:.1f}" for rank in ranks]
    assert render(by_dataset(report), "csv") == render(section_tables(report), "csv")
    assert len(json.loads(render(by_dataset(report), "json"))) == len(SETS) * len(MODELS)


def test_a_model_that_a_data_set_lacks_has_no_mean_rank():
    runs = [
        stored_run(0.8, dataset=name, **settings_of(model))
        for name in SETS[:2]
        for model in MODELS
        if name != "digits" or "kind" in model
    ]
    found = columns(by_dataset(summarise(runs)))
    assert found["digits"] == ["80.00", "80.00", "–"]
    assert found["rank"] == ["1.8", "1.8", "–"]


def test_the_split_can_be_chosen_and_is_named(report):
    shown = by_dataset(report, "train")
    assert columns(shown)["iris"] == ["90.00 ± 0.00"] * 3
    assert "on the split train" in shown[0].metric
    with pytest.raises(ConfigError) as caught:
        by_dataset(report, "tset")
    assert str(caught.value) == "split: no run has accuracy on a split 'tset' (did you mean 'test'?)"


def test_settings_of_data_sets_that_are_not_the_default_are_noted():
    runs = [
        stored_run(0.8, dataset={"name": name, "seed": seed, **extra}, **settings_of(MODELS[0]))
        for name, extra in (("two_moons", {"noise": 0.3}), ("iris", {}))
        for seed in range(2)
    ]
    *_, table = by_dataset(summarise(runs))
    assert table.notes[0] == "two_moons · noise 0.3."
    assert "Spread and tests: over the 2 seeds 0 to 1 of the data." in table.notes


def test_columns_of_one_data_set_are_named_by_what_differs_and_notes_are_about_what_is_shown():
    runs = [
        stored_run(0.8, dataset="mnist", method=method, seed=seed, epochs=epochs)
        for method in ("idw", "fc_relu")
        for seed in range(2)
        for epochs in (3, 5)
    ]
    (table,) = by_dataset(summarise(runs))
    assert [column.header for column in table.columns[-3:]] == ["mnist · epochs 3", "mnist · epochs 5", "mean rank"]
    assert table.notes == (
        "mnist · epochs 3: mnist · epochs 3 · batch size 4 · learning rate 0.001.",
        "mnist · epochs 5: mnist · epochs 5 · batch size 4 · learning rate 0.001.",
        "n = 2: too few seeds for a paired test (6 are needed).",
    )
