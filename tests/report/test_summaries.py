"""Summaries: rows, means, marks, titles and references; and metrics that only some runs, splits or kinds have."""

import json
import math
from dataclasses import replace

import pytest
from case_tables import case_table
from stored_runs import stored_run

from idwbench.attention.scores import METHODS
from idwbench.report.leaderboard import leaderboard
from idwbench.report.references import SOURCES
from idwbench.report.render import render
from idwbench.report.summaries import find_reference, section_tables, summarise
from idwbench.runs.metrics import METRICS, MetricDefinition

TEN = range(10)


def best(rows, split="test"):
    return [row.model.method for row in rows if split in row.statistics and row.statistics[split].best]


def references(row):
    return {source: one for source in SOURCES if (one := find_reference(source, row)) is not None}


def test_rows_stand_by_prototypes_then_the_papers_order_then_parameters():
    runs = [stored_run(method=method, prototypes=count) for method in reversed(METHODS) for count in (16, 2)]
    runs += [stored_run(power=power, prototypes=2) for power in (16.0, 1.0, 4.0)]
    runs += [stored_run(initialisation="kmeans", prototypes=2)]
    models = [row.model for row in summarise(runs)[0].rows]
    assert [model.method for model in models if model.prototypes == 16] == list(METHODS)
    assert [model.prototypes for model in models] == sorted(model.prototypes for model in models)
    labels = [model.parameters_label for model in models if model.prototypes == 2 and model.method == "idw"]
    ends = ("", "", ", initialisation kmeans", "", "")
    expected = [f"p={power}, ε=0.001{end}" for power, end in zip((1, 2, 2, 4, 16), ends, strict=True)]
    assert labels == expected


def test_the_best_is_chosen_among_equal_numbers_of_prototypes():
    runs = [
        stored_run(0.8, method="idw", prototypes=2, holdout=0.7, validation=0.6),
        stored_run(0.7, method="fc_relu", prototypes=2, holdout=0.9, validation=0.5, train=0.99),
        stored_run(0.9, method="idw", prototypes=16),
        stored_run(0.95, method="fc_relu", prototypes=16),
    ]
    rows = summarise(runs)[0].rows
    assert [row.model.prototypes for row in rows] == [2, 2, 16, 16]
    assert (best(rows[:2]), best(rows[2:])) == (["idw"], ["fc_relu"])
    assert (best(rows, "holdout"), best(rows, "validation"), best(rows, "train")) == (["fc_relu"], ["idw"], [])


def test_equal_means_share_the_mark_and_others_are_tested_against_that_with_the_most_seeds():
    seeds = {"idw": (0.95, 0.975, 1.0), "inv_dist": (1.0, 0.975, 0.95), "fc_relu": (0.975,) * 3}
    runs = [stored_run(a, method=method, seed=s) for method, own in seeds.items() for s, a in enumerate(own)]
    assert best(summarise(runs)[0].rows) == ["fc_relu", "inv_dist", "idw"]
    runs += [stored_run(0.975, method="scaled_dot", seed=s) for s in range(6)]
    runs += [stored_run(0.97 - s / 1000, method="neg_dist", seed=s) for s in range(6)]
    p_values = {row.model.method: row.statistics["test"].p_value for row in summarise(runs)[0].rows}
    assert p_values == dict.fromkeys((*seeds, "scaled_dot")) | {"neg_dist": 2 / 2**6}


def test_what_a_test_paired_by_seed_does_not_distinguish_from_the_best_is_marked_and_few_pairs_are_not_tested():
    seeds = [0.5 + s / 100 for s in TEN]
    runs = [stored_run(a, method="idw", seed=s) for s, a in enumerate(seeds)]
    # Always worse, by little: p = 2/2¹⁰; in reverse, since paired by order half the differences had either sign.
    runs += [stored_run(a - 0.001, method="inv_dist", seed=s) for s, a in reversed(list(enumerate(seeds)))]
    # Worse by more on average, but for half of the seeds better: p > 0.05.
    runs += [stored_run(a + (0.02 if s % 2 else -0.03), method="neg_dist", seed=s) for s, a in enumerate(seeds)]
    runs += [stored_run(a, method="gaussian", seed=s, sigma_squared=3.0) for s, a in enumerate(seeds)]
    runs += [stored_run(a - 0.001, method="fc_relu", seed=s + 5) for s, a in enumerate(seeds)]
    (section,) = summarise(runs)
    assert best(section.rows) == ["neg_dist", "gaussian", "idw"]
    p_values = {row.model.method: row.statistics["test"].p_value for row in section.rows}
    assert (p_values["inv_dist"], p_values["fc_relu"]) == (2 / 2**10, None)
    assert section.is_tested
    assert "Wilcoxon signed-rank test" in section.notes[0]
    assert section.notes[1] == "n = 5: too few seeds for a paired test (6 are needed)."


def test_a_diverged_run_is_counted_and_in_no_mean_nor_is_an_accuracy_that_is_no_number():
    runs = [stored_run(0.8), stored_run(seed=1, state="diverged"), stored_run(method="gaussian", state="diverged")]
    (section,) = summarise([*runs, stored_run(math.nan, seed=2)])
    gaussian, idw = section.rows
    assert (idw.n, idw.n_diverged, idw.n_parameters) == (2, 1, 15_880)
    assert (idw.statistics["test"].mean, idw.statistics["test"].n) == (0.8, 1)
    assert (gaussian.n, gaussian.n_diverged, gaussian.statistics, gaussian.n_parameters) == (0, 1, {}, None)
    assert "2 runs diverged; not in the means." in section.notes


def test_titles_name_what_differs_from_the_default_or_between_sections_the_papers_protocol_first():
    runs = [
        stored_run(epochs=2, batch_size=64),
        stored_run(),
        stored_run(dataset={"name": "two_moons", "noise": 0.2}),
        stored_run(dataset="two_moons", epochs=1, schedule="constant", optimizer="sgd", momentum=0.9),
        stored_run(dataset={"name": "digits", "validation": 0.25}, learning_rate=0.01, gradient_clip=5.0),
    ]
    assert [section.title for section in summarise(runs)] == [
        "two_moons · noise 0.1 · epochs 1 · batch size 10 · learning rate 0.01 · optimizer sgd · schedule constant · "
        "momentum 0.9",
        "two_moons · noise 0.2 · epochs 25 · batch size 10 · learning rate 0.01",
        "digits · validation 0.25 · epochs 50 · batch size 16 · learning rate 0.01 · gradient clip 5",
        "mnist · epochs 50 · batch size 4 · learning rate 0.001",
        "mnist · epochs 2 · batch size 64 · learning rate 0.001",
    ]
    assert summarise(runs[2:3])[0].title.startswith("two_moons · noise 0.2 ·")


def test_a_users_file_is_named_by_itself_and_by_content_only_when_two_share_a_name():
    def file(folder, sha, seed):
        return stored_run(dataset={"name": "npz", "path": f"{folder}/mine.npz", "sha256": sha * 64}, seed=seed)

    moved = summarise([file("here", "a", 0), file("there", "a", 1)])
    assert [section.rows[0].n for section in moved] == [2]
    assert moved[0].title.startswith("mine.npz · epochs 50")
    renamed = replace(file("there", "a", 1), dataset="yours.npz")
    assert [section.rows[0].n for section in summarise([file("here", "a", 0), renamed])] == [2]
    two = summarise([file("here", "a", 0), file("there", "b", 0)])
    assert [section.title.split(" · ")[1] for section in two] == ["sha256 aaaaaaaa", "sha256 bbbbbbbb"]


def test_the_papers_table_1_stands_beside_its_six_methods_and_no_other_model():
    published = {  # by the paper, and by the authors' code
        **{"fc_relu": (0.9599, 0.9549), "scaled_dot": (0.9315, 0.9338), "neg_dist": (0.8363, 0.9368)},
        **{"gaussian": (0.1135, 0.1135), "inv_dist": (0.1135, 0.1135), "idw": (0.8820, 0.8784)},
    }
    scale = {"scaled_dot": {"scale": "prototypes"}}
    others = [{"power": 4.0}, {"initialisation": "samples"}, {"prototypes": 10}, {"method": "scaled_dot"}]
    runs = [stored_run(method=method, **scale.get(method, {})) for method in published]
    (section,) = summarise(runs + [stored_run(**other) for other in others])
    found = {row.model.label: references(row) for row in section.rows if references(row)}
    assert {label: (one["paper"].test_accuracy, one["authors"].test_accuracy) for label, one in found.items()} == {
        run.config.model.label: published[run.config.model.method] for run in runs
    }
    assert {one["authors"].n for one in found.values()} == {1}
    assert [note.split(":")[0] for note in section.notes if "accuracy" in note] == ["paper", "authors' code"]
    assert not any("did not" in note for note in section.notes)


@pytest.mark.parametrize(("dataset", "expected"), case_table("references"))
def test_a_reference_belongs_to_the_same_data_and_another_protocol_is_stated_beside_it(dataset, expected):
    (section,) = summarise([stored_run(dataset=dataset, prototypes=16)])
    found = references(section.rows[0])
    assert {source: reference.test_accuracy for source, reference in found.items()} == expected
    (other,) = summarise([stored_run(dataset=dataset, prototypes=16, weight_decay=0.01)])
    assert any("batch size 10" in n and n.endswith("these runs did not.") for n in other.notes) == bool(expected)


def test_intervals_stand_beside_test_and_holdout_in_every_format_and_need_three_seeds():
    runs = [stored_run(0.8 + seed / 100, seed=seed, holdout=0.7 + seed / 50, validation=0.5) for seed in range(4)]
    runs += [stored_run(0.8 + seed / 100, seed=seed, method="neg_dist") for seed in range(2)]
    (section,) = summarise(runs, intervals=True)
    few, many = section.rows
    assert {split for split, one in many.statistics.items() if one.interval} == {"test", "holdout"}
    assert not any(one.interval for one in few.statistics.values()) and "n < 3: no interval." in section.notes
    (table,) = section_tables((section,))
    assert [column.name for column in table.columns][5:9] == ["test", "test interval", "holdout", "holdout interval"]
    assert "interval" not in render(section_tables(summarise(runs)), "markdown")
    for shown in (table, leaderboard(runs, intervals=True)):
        record = next(record for record in shown.records() if record["n"] == 4)
        assert (record["test_interval"], record["train_low"]) == ("BCa", None)
        label = f"{100 * record['test_low']:.2f} to {100 * record['test_high']:.2f}"
        for table_format in ("rich", "markdown", "latex"):
            text = render([shown], table_format)
            assert label in text and "BCa bootstrap with 9,999 resamples" in " ".join(text.split())
        for table_format in ("json", "csv"):
            assert repr(record["test_low"]) in render([shown], table_format)


def study(gap):
    metrics = {("cases", "gap"): gap}
    return stored_run(None, train=None, metrics=metrics, kind="patch_study", cases="wrong", prototypes=20)


@pytest.fixture(autouse=True)
def _gap(monkeypatch):
    lower = MetricDefinition("gap", "classification", percent=False, higher_is_better=False)
    monkeypatch.setitem(METRICS, lower.name, lower)


def test_a_metric_of_the_training_data_alone_is_marked_there():
    runs = [stored_run(method="idw", seed=s, metrics={("train", "gap"): 0.1234 + s / 1e4}) for s in range(3)]
    runs += [stored_run(method="neg_dist", seed=s, metrics={("train", "gap"): 12.34 + s}) for s in range(3)]
    report = summarise(runs, "gap")
    (table,) = section_tables(report)
    names = ["method", "setting", "prototypes", "n", "train", "learned_parameters"]
    assert [column.name for column in table.columns] == names
    marks = {row.model.method: row.statistics["train"].best for row in report[0].rows}
    assert marks == {"idw": True, "neg_dist": False}
    assert "**0.1235 ± 0.0001**" in render(section_tables(report), "markdown")
    assert "0.1235 ± 0.0001*" in render(section_tables(report), "rich")
    assert [record["best_train"] for record in table.records()] == [False, True]


def test_runs_without_the_metric_keep_their_row_and_are_counted_but_not_a_table_without_it():
    runs = [stored_run(seed=0, metrics={("train", "gap"): 0.5}), stored_run(seed=1), stored_run(method="neg_dist")]
    runs.append(stored_run(metrics={("train", "gap"): 0.5}, kind="baseline", method="kmeans"))
    for shown in (summarise(runs, "gap")[0], leaderboard(runs, "gap")):
        assert "2 complete runs without the metric 'gap'; not in the means." in shown.notes
    rows = summarise(runs, "gap")[0].rows
    assert [(row.model.method, row.n, list(row.statistics)) for row in rows] == [
        *(("neg_dist", 1, []), ("idw", 2, ["train"]), ("kmeans", 1, ["train"]))
    ]
    runs = [stored_run(metrics={("train", "gap"): 0.5}), stored_run(epochs=2), stored_run(dataset="diabetes")]
    (section,) = summarise(runs, "gap")
    # The regression has another task, which cannot have the metric.
    assert section.notes[-1] == "1 complete run of other tables without the metric 'gap'; not shown."


def test_a_kind_of_run_without_the_metric_is_not_shown_and_one_of_a_study_has_its_own_split():
    runs = [stored_run(0.9), study(0.5)]
    (section,) = summarise(runs)
    assert [row.model.kind for row in section.rows] == ["prototypes"]
    note = "1 run of kind patch_study, which has no metric 'accuracy'; not shown."
    assert note in section.notes
    assert note in leaderboard(runs).notes
    report = summarise(runs, "gap")
    (row,) = report[0].rows
    assert (row.model.kind, row.statistics["cases"].mean) == ("patch_study", 0.5)
    assert json.loads(render(section_tables(report), "json"))[0]["cases_mean"] == 0.5
    assert "cases" in render(section_tables(report), "markdown")
    assert "sorted by cases" in leaderboard([study(0.5)], "gap").caption
