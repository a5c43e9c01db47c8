"""The table of the dual form: means over seeds, published values beside them, and all formats."""

import csv
import io
import json
import statistics

import pytest
from stored_runs import stored_run

from idwbench.report.dual_form import dual_form
from idwbench.report.render import render
from idwbench.report.tables import Table
from idwbench.results.records import StoredRun

OF = ["mnist", "fashion_mnist"]
MNIST = {"name": "mnist", "scaling": "unit"}
JOINT, SEQUENCE = {"name": "joint", "of": OF}, {"name": "sequence", "of": OF}
SHARES = ("target_if_wrong", "output_if_wrong", "output_if_right")
PAPER = {  # Table 1, as printed
    "layer_0": ("17.2", "49.5", "75.1"),
    "layer_1": ("18.0", "52.9", "78.8"),
    "layer_2": ("20.6", "60.1", "84.7"),
}


def share(place: int, layer: int, seed: int) -> float:
    return 0.2 * (1 + place) + layer / 100 + seed**2 / 50


PROTOCOL = {"epochs": 8, "batch_size": 128, "learning_rate": 0.003, "optimizer": "sgd", "schedule": "constant"}
PROTOCOL |= {"momentum": 0.9, "gradient_clip": 1.0}


def perceptron(dataset=SEQUENCE, seed: int = 0, state: str = "complete", depth: int = 2, **settings) -> StoredRun:
    """Return a run whose metrics are functions of its seed."""
    name = dataset if isinstance(dataset, str) else dataset["name"]
    metrics = {("test", "wrong_inputs"): 300.0 + seed}
    for place, share_name in enumerate(SHARES):
        metrics |= {("test", f"{share_name}_{layer}"): share(place, layer, seed) for layer in range(depth + 1)}
    if name in ("joint", "sequence"):
        metrics |= {("test", "accuracy_1"): 0.5 + seed / 100, ("test", "accuracy_2"): 0.8 + seed / 100}
    if name == "sequence":
        metrics["test", "accuracy_1_before"] = 0.9 + seed / 100
    facts = {"dataset": dataset, "seed": seed, "state": state, "metrics": metrics, "train": None}
    return stored_run(0.97 - seed / 100, **facts, kind="mlp", depth=depth, **{**PROTOCOL, **settings})


@pytest.fixture
def table() -> tuple[Table, ...]:
    return dual_form([perceptron(data, seed) for seed in range(3) for data in (SEQUENCE, MNIST, JOINT)])


def columns(table: Table) -> dict[str, list[str]]:
    return {column.name: [cell.text for cell in column.cells] for column in table.columns}


def test_accuracies_are_means_over_seeds_for_each_part_beside_the_published(table):
    accuracies, _ = table
    assert columns(accuracies) == {
        "dataset": ["mnist", "joint", "joint", "sequence", "sequence"],
        "task": ["mnist", *OF, *OF],
        "n": ["3"] * 5,
        "accuracy": ["96.00 ± 1.00", "51.00 ± 1.00", "81.00 ± 1.00", "51.00 ± 1.00", "81.00 ± 1.00"],
        "paper": ["97", "97", "87", "45", "85"],
        "before": ["–", "–", "–", "91.00 ± 1.00", "–"],
        "paper before": ["", "", "", "97", ""],
    }
    assert [column.header for column in accuracies.columns].count("paper") == 2


def test_shares_of_each_layer_are_means_over_seeds_and_only_those_of_mnist_are_published(table):
    found = columns(table[1])
    assert found["dataset"] == ["mnist"] * 3 + ["joint"] * 3 + ["sequence"] * 3
    assert found["layer"] == ["layer_0", "layer_1", "layer_2"] * 3 and found["wrong"] == ["301 ± 1"] * 9
    for place, name in enumerate(SHARES):
        values = [[100 * share(place, layer, seed) for seed in range(3)] for layer in range(3)]
        assert found[name] == [f"{statistics.mean(v):.2f} ± {statistics.stdev(v):.2f}" for v in values] * 3
        assert found[f"paper {name}"] == [shares[place] for shares in PAPER.values()] + [""] * 6


def test_other_networks_and_data_have_no_published_values():
    for dataset, settings in (
        (MNIST, {"width": 5}),
        (MNIST, {"depth": 3}),
        ("fashion_mnist", {}),
        (JOINT | {"of": OF[::-1]}, {}),
    ):
        tables = dual_form([perceptron(dataset, **settings)])
        assert not any("paper" in name for table in tables for name in columns(table))
        assert not any("arXiv" in note for table in tables for note in table.notes)
    assert any("arXiv 2202.05798" in note for note in dual_form([perceptron(MNIST)])[1].notes)


def test_settings_that_vary_have_columns_and_the_others_are_in_the_title():
    runs = [perceptron(data, width=7, depth=depth) for data in (SEQUENCE, JOINT) for depth in (1, 2)]
    table = dual_form(runs)
    title = table[0].title
    assert "width 7" in title and "of mnist, fashion_mnist" in title and "depth" not in title
    shares = columns(table[1])
    assert shares["dataset"] == ["joint"] * 5 + ["sequence"] * 5
    assert shares["depth"] == ["1"] * 2 + ["2"] * 3 + ["1"] * 2 + ["2"] * 3
    assert shares["layer"] == ["layer_0", "layer_1", "layer_0", "layer_1", "layer_2"] * 2


def test_diverged_and_unfinished_runs_are_counted_and_in_no_mean():
    states = ("complete", "complete", "diverged", "planned", "failed")
    table = dual_form([perceptron(MNIST, seed, state) for seed, state in enumerate(states)])
    found = columns(table[0])
    assert (found["n"], found["diverged"], found["accuracy"]) == (["2"], ["1"], ["96.50 ± 0.71"])
    assert table[1].notes[-3:] == (
        "1 run diverged; not in the means.",
        "1 run failed; not shown.",
        "1 run not finished; not shown.",
    )


@pytest.mark.parametrize("state", ["planned", "failed"])
def test_perceptrons_that_have_not_ended_are_counted_as_in_other_tables(state):
    (table,) = dual_form([perceptron(MNIST, seed, state) for seed in range(2)])
    assert table.title.startswith("mnist · ") and not table.groups
    assert table.notes == (f"2 runs {'not finished' if state == 'planned' else state}; not shown.",)


def test_csv_and_json_hold_the_same_rows_one_for_each_setting_and_layer(table):
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    records = json.loads(render(table, "json"))
    assert len(rows) == len(records) == 9
    assert [row["dataset_of"] for row in rows] == [""] * 3 + ["mnist, fashion_mnist"] * 6
    for row, record in zip(rows, records, strict=True):
        assert row.keys() == record.keys()
        for name in ("accuracy_1_before_mean", "paper_accuracy_2", "output_if_right_std", "paper_target_if_wrong"):
            assert row[name] == ("" if record[name] is None else str(record[name]))
    first, last = records[0], records[-1]
    assert (first["dataset"], first["layer"], first["paper_output_if_right"]) == ("mnist", "layer_0", 0.751)
    assert (last["task_2"], last["paper_accuracy_1"], last["paper_accuracy_1_before"]) == ("fashion_mnist", 0.45, 0.97)
    assert last["paper_output_if_right"] is None and last["accuracy_1_before_mean"] == pytest.approx(0.91)
