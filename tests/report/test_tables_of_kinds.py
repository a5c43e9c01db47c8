"""Tables of one kind of runs: the dual form of perceptrons, and studies of what their memories hold."""

import json
import statistics
from dataclasses import replace

import pytest
from stored_runs import columns, stored_run

from idwbench.report.render import render
from idwbench.report.reports import table as report
from idwbench.report.studies import dual_form, memory_tables
from idwbench.runs.metrics import ATTENDED_PLACES

OF = ["mnist", "fashion_mnist"]
MNIST = {"name": "mnist", "scaling": "unit"}
JOINT, SEQUENCE = {"name": "joint", "of": OF}, {"name": "sequence", "of": OF}
SHARES = ("target_if_wrong", "output_if_wrong", "output_if_right")
PAPER = {  # Table 1, as printed
    "layer_0": ("17.2", "49.5", "75.1"),
    "layer_1": ("18.0", "52.9", "78.8"),
    "layer_2": ("20.6", "60.1", "84.7"),
}


def share(place, layer, seed):
    return 0.2 * (1 + place) + layer / 100 + seed**2 / 50


PROTOCOL = {"epochs": 8, "batch_size": 128, "learning_rate": 0.003, "optimizer": "sgd", "schedule": "constant"}
PROTOCOL |= {"momentum": 0.9, "gradient_clip": 1.0}


def perceptron(dataset=SEQUENCE, seed=0, state="complete", depth=2, **settings):
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
def table():
    return dual_form([perceptron(data, seed) for seed in range(3) for data in (SEQUENCE, MNIST, JOINT)])


def test_accuracies_are_means_over_seeds_for_each_part_beside_the_published(table):
    accuracies, _ = table
    assert columns(accuracies) == {
        "dataset": ["mnist", "joint", "joint", "sequence", "sequence"],
        "task": ["mnist", *OF, *OF],
        "n": ["3"] * 5,
        "accuracy": ["96.00 ± 1.00", "51.00 ± 1.00", "81.00 ± 1.00", "51.00 ± 1.00", "81.00 ± 1.00"],
        "paper accuracy": ["97", "97", "87", "45", "85"],
        "accuracy_before": ["–", "–", "–", "91.00 ± 1.00", "–"],
        "paper accuracy_before": ["", "", "", "97", ""],
    }
    assert [column.header for column in accuracies.columns].count("paper") == 2


def test_shares_of_each_layer_are_means_over_seeds_and_only_those_of_mnist_are_published(table):
    found = columns(table[1])
    assert found["dataset"] == ["mnist"] * 3 + ["joint"] * 3 + ["sequence"] * 3
    assert found["layer"] == ["layer_0", "layer_1", "layer_2"] * 3 and found["wrong_inputs"] == ["301 ± 1"] * 9
    for place, name in enumerate(SHARES):
        values = [[100 * share(place, layer, seed) for seed in range(3)] for layer in range(3)]
        assert found[name] == [f"{statistics.mean(v):.2f} ± {statistics.stdev(v):.2f}" for v in values] * 3
        assert found[f"paper {name}"] == [shares[place] for shares in PAPER.values()] + [""] * 6


def test_other_networks_and_data_have_no_published_values():
    others = [(MNIST, {"width": 5}), (MNIST, {"depth": 3}), ("fashion_mnist", {}), (JOINT | {"of": OF[::-1]}, {})]
    for dataset, settings in others:
        tables = dual_form([perceptron(dataset, **settings)])
        assert not any("paper" in name for table in tables for name in columns(table))
        assert not any("arXiv" in note for table in tables for note in table.notes)
    assert any("arXiv 2202.05798" in note for note in dual_form([perceptron(MNIST)])[1].notes)


def test_where_layers_attend_in_parts_has_right_and_wrong_answers_apart():
    def attending(seed, **facts):
        run = perceptron(JOINT, seed, depth=1)
        places = {(split, f"{place}_{layer}"): (number + layer + seed) / 100
                  for split in ("right_1", "wrong_1", "right_2") for layer in range(2)
                  for number, place in enumerate(ATTENDED_PLACES)}  # fmt: skip
        inputs = {(split, "answered_inputs"): 100.0 + seed for split in ("right_1", "wrong_1", "right_2")}
        return replace(run, metrics={**run.metrics, **places, **inputs})

    found = dual_form([attending(0), attending(2), perceptron(MNIST, depth=1)])
    assert len(found) == 3 and not any("paper" in name for name in columns(found[2]))
    places = columns(found[2])
    assert places["layer"] == ["layer_0"] * 3 + ["layer_1"] * 3 and places["n"] == ["2"] * 6
    assert places["part"] == ["mnist", "mnist", "fashion_mnist"] * 2 and places["answered_inputs"] == ["101 ± 1"] * 6
    assert places["answers"] == ["right", "wrong", "right"] * 2
    assert places["attends_target"] == ["1.00 ± 1.41"] * 3 + ["2.00 ± 1.41"] * 3
    assert places["attends_answer"] == ["–", "2.00 ± 1.41", "–", "–", "3.00 ± 1.41", "–"]
    assert places["attends_other_class"] == ["6.00 ± 1.41"] * 3 + ["7.00 ± 1.41"] * 3
    records = [record for record in json.loads(render(found, "json")) if record["part"]]
    assert len(records) == 6 and records[1]["attends_other_answer_mean"] == pytest.approx(0.05)
    assert (records[1]["part"], records[1]["answers"], records[1]["answered_inputs_mean"]) == ("mnist", "wrong", 101)


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
    notes = ("1 run diverged; not in the means.", "1 run failed; not shown.", "1 run not finished; not shown.")
    assert table[1].notes[-3:] == notes
    for state, words in (("planned", "not finished"), ("failed", "failed")):
        (table,) = dual_form([perceptron(MNIST, seed, state) for seed in range(2)])
        assert table.title.startswith("mnist · ") and not table.groups
        assert table.notes == (f"2 runs {words}; not shown.",)


def test_there_is_a_record_for_each_setting_and_layer(table):
    records = json.loads(render(table, "json"))
    assert [record["dataset_of"] for record in records] == [None] * 3 + [OF] * 6
    assert render(table, "csv").count('"mnist, fashion_mnist"') == 6
    first, last = records[0], records[-1]
    assert (first["dataset"], first["layer"], first["paper_output_if_right"]) == ("mnist", "layer_0", 0.751)
    assert (last["task_2"], last["paper_accuracy_1"], last["paper_accuracy_1_before"]) == ("fashion_mnist", 0.45, 0.97)
    assert last["paper_output_if_right"] is None and last["accuracy_1_before_mean"] == pytest.approx(0.91)


def a_study(seed, metrics, **settings):
    facts = {"dataset": "mnist", "seed": seed, "train": None, "metrics": metrics}
    return stored_run(None, **facts, kind="memory_study", width=9, **PROTOCOL, **settings)


def masked(seed, mask="label=3"):
    ways = {"masked": 0.1, "retrained": 0.9, "whole": 0.8}
    metrics = {(way, "rest_accuracy"): value + seed / 50 for way, value in ways.items()}
    metrics |= {(way, "masked_accuracy"): value / 2 for way, value in ways.items()}
    metrics |= {(way, "different_answers"): 0.3 for way in ("masked", "whole")}
    return a_study(seed, metrics, mask=mask)


def limited(seed, keep, slots, accuracy):
    metrics = {("test", "accuracy"): accuracy + seed / 50, ("test", "same_answers"): 0.5}
    metrics |= {} if keep == "merged" else {("test", "attention_to_answer"): 0.25}
    return a_study(seed, metrics, keep=keep, slots=slots)


def cells(table):
    texts = columns(table)
    return [dict(zip(texts, row, strict=True)) for row in zip(*texts.values(), strict=True)]


def test_masks_have_a_row_for_each_way_in_one_order_and_distances_from_the_network_trained_again():
    (table,) = memory_tables([masked(seed, mask) for seed in (0, 1) for mask in ("label=3", "rows=0.1")])
    lines = cells(table)
    ways = ["as trained", "masked", "trained again without it"]
    assert [(line["mask"], line["network"]) for line in lines] == [
        (m, w) for m in ("label=3", "rows=0.1") for w in ways
    ]
    assert [line["rest_accuracy"] for line in lines[:3]] == ["81.00 ± 1.41", "11.00 ± 1.41", "91.00 ± 1.41"]
    assert [line["different_answers"] for line in lines[:3]] == ["30.00 ± 0.00", "30.00 ± 0.00", "–"]
    assert {line["n"] for line in lines} == {"2"} and len(set(table.groups)) == 2
    record = table.records()[1]
    assert (record["network"], record["rest_accuracy_mean"]) == ("masked", pytest.approx(0.11))
    assert record["total_variation_mean"] is None


def test_limits_have_a_row_for_each_number_of_slots_and_a_column_for_each_rule():
    runs = [limited(seed, keep, n, n / 100) for seed in (0, 1) for n in (50, 3) for keep in ("top", "merged")]
    runs += [masked(0), limited(0, "recent", 50, 0.125)]
    masks, accuracy, same, attention = report(runs).tables
    lines = cells(accuracy)
    assert [(line["slots"], line["top"], line["merged"]) for line in lines] == [
        ("3", "4.00 ± 1.41", "4.00 ± 1.41"),
        ("50", "51.00 ± 1.41", "51.00 ± 1.41"),
    ]
    assert [line["recent"] for line in lines] == ["–", "12.50"]
    assert {column.name for column in attention.columns} >= {"top", "recent"}
    assert "merged" not in {column.name for column in attention.columns}
    assert len(cells(masks)) == 3 and {line["top"] for line in cells(same)} == {"50.00 ± 0.00"}
    assert {record["keep"] for record in accuracy.records()} == {"top", "merged", "recent"}
    assert "| largest attention |" in render((accuracy,), "markdown").replace("  ", "")
