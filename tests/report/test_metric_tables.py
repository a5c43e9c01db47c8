"""Tables of metrics that only some runs, splits or kinds of runs have."""

import json

import pytest
from stored_runs import stored_run

from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import TABLE_FORMATS, render
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.records import StoredRun
from idwbench.runs.metrics import METRICS, MetricDefinition


def study(gap: float) -> StoredRun:
    metrics = {("cases", "gap"): gap}
    return stored_run(None, train=None, metrics=metrics, kind="patch_study", cases="wrong", prototypes=20)


@pytest.fixture(autouse=True)
def _distance(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = MetricDefinition("gap", "classification", percent=False, higher_is_better=False)
    monkeypatch.setitem(METRICS, lower.name, lower)


def test_a_metric_of_the_training_data_alone_is_marked_there():
    runs = [stored_run(method="idw", seed=s, metrics={("train", "gap"): 0.1234 + s / 1e4}) for s in range(3)]
    runs += [stored_run(method="neg_dist", seed=s, metrics={("train", "gap"): 12.34 + s}) for s in range(3)]
    report = summarise(runs, "gap")
    (table,) = section_tables(report)
    assert [column.name for column in table.columns] == [
        *("method", "setting", "prototypes", "n", "train", "learned_parameters"),
    ]
    assert {row.model.method: row.statistics["train"].best for row in report[0].rows} == {
        "idw": True,
        "neg_dist": False,
    }
    assert "**0.1235 ± 0.0001**" in render(section_tables(report), "markdown")
    assert "0.1235 ± 0.0001*" in render(section_tables(report), "rich")
    assert [record["best_train"] for record in table.records()] == [False, True]


def test_runs_without_the_metric_are_counted_in_a_note():
    runs = [stored_run(seed=0, metrics={("train", "gap"): 0.5}), stored_run(seed=1), stored_run(method="neg_dist")]
    for shown in (summarise(runs, "gap")[0], leaderboard(runs, "gap")):
        assert "2 complete runs without the metric 'gap'; not in the means." in shown.notes
    rows = summarise(runs, "gap")[0].rows
    assert [(row.model.method, row.n, list(row.statistics)) for row in rows] == [
        ("neg_dist", 1, []),
        ("idw", 2, ["train"]),
    ]


def test_a_table_without_the_metric_is_left_out_and_its_runs_are_counted():
    runs = [stored_run(metrics={("train", "gap"): 0.5}), stored_run(epochs=2), stored_run(dataset="diabetes")]
    (section,) = summarise(runs, "gap")
    # The regression has another task, which cannot have the metric.
    assert section.notes[-1] == "1 complete run of other tables without the metric 'gap'; not shown."


def test_baselines_are_rows_like_other_methods():
    runs = [stored_run(0.8, seed=seed) for seed in range(3)]
    runs += [stored_run(0.9, seed=seed, kind="baseline", method="kmeans") for seed in range(3)]
    report = summarise(runs)
    assert [(row.model.method, row.n) for row in report[0].rows] == [("idw", 3), ("kmeans", 3)]
    board = leaderboard(runs)
    assert [column.name for column in board.columns[:3]] == ["rank", "method", "n"]
    assert [(row["rank"], row["method"]) for row in board.records()] == [(1, "kmeans"), (2, "idw")]
    for shown in (section_tables(report), [board]):
        for table_format in TABLE_FORMATS:
            assert "kmeans" in render(shown, table_format)
    record = json.loads(render(section_tables(report), "json"))[1]
    assert (record["model"], record["method"], record["parameters"], record["initialisation"]) == (
        *("baseline", "kmeans", {}, None),
    )


def test_old_networks_keep_their_row_beside_measured_baselines():
    measured = stored_run(metrics={("train", "gap"): 0.5}, kind="baseline", method="kmeans")
    (section,) = summarise([stored_run(), measured], "gap")
    assert [row.model.method for row in section.rows] == ["idw", "kmeans"]
    assert "1 complete run without the metric 'gap'; not in the means." in section.notes


def test_a_kind_of_run_without_the_metric_is_not_shown():
    runs = [stored_run(0.9), study(0.5)]
    (section,) = summarise(runs)
    assert [row.model.kind for row in section.rows] == ["prototypes"]
    note = "1 run of kind patch_study, which has no metric 'accuracy'; not shown."
    assert note in section.notes
    assert note in leaderboard(runs).notes


def test_a_metric_of_a_study_leaves_the_networks_out_and_shows_its_own_split():
    report = summarise([stored_run(0.9), study(0.5)], "gap")
    (row,) = report[0].rows
    assert (row.model.kind, row.statistics["cases"].mean) == ("patch_study", 0.5)
    assert json.loads(render(section_tables(report), "json"))[0]["cases_mean"] == 0.5
    assert "cases" in render(section_tables(report), "markdown")
    assert "sorted by cases" in leaderboard([study(0.5)], "gap").metric
