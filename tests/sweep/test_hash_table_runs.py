"""Hash tables in sweeps: planned, trained, stored, reported, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.data.synthetic import draw_queries, draw_table
from idwbench.models.hash_table import recall, stored_hash_table
from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import render
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import run_sweep, train
from idwbench.sweep.spec import plan, read_sweep

HEAD = """\
name: tables
dataset: {name: lookup, items: [4, 8], dimensions: 4, queries: 16, noise: 0.1, validation: 8}
protocol: {epochs: 2}
seeds: 2
grid:
"""
GRID = """\
  - {kind: hash_table, weighting: exact_match}
  - {kind: hash_table, similarity: [inner_product, idw], scaling: [none, qk_norm], weighting: [softmax, argmax]}
  - {kind: hash_table, similarity: idw, power: 4, projections: linear, learning_rate: [0.01, 0.1]}
"""


@pytest.fixture
def write(tmp_path: Path):
    def write(grid: str = GRID) -> Path:
        path = tmp_path / "tables.yaml"
        path.write_text(HEAD + grid)
        return path

    return write


def test_a_sweep_of_hash_tables_is_stored_and_reported_with_all_that_differs(write, tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    assert run_sweep(write(), db).complete == 2 * 2 * (1 + 8 + 2)
    runs = Results(db).find_runs()
    report = summarise(runs)
    assert {section.metric for section in report} == {"recall"}
    titles = [section.title for section in report]
    # One section for each data set and learning rate: 0.01, the default, and 0.1.
    assert len(set(titles)) == 4 and all("items 4" in title or "items 8" in title for title in titles)
    for section in report:
        rows = [(row.model.method, row.model.parameters_label) for row in section.rows]
        assert len(set(rows)) == len(rows)
    board = leaderboard(runs, best_over=["learning_rate"])
    assert {"dataset_items", "method", "scaling", "weighting", "projections", "power"} <= {
        column.name for column in board.columns
    }
    assert render(section_tables(report), "csv").count("\n") == 2 * 11 + 1


def test_a_stored_run_is_the_table_that_was_learned(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    data = {"name": "lookup", "items": 4, "dimensions": 3, "queries": 16}
    config = run_config(data, kind="hash_table", similarity="idw", projections="mlp", epochs=2, seed=3)
    run = train(config, db)
    hash_table, table = stored_hash_table(Results(db), run), draw_table(config.dataset, 3)
    assert recall(hash_table, table, draw_queries(config.dataset, 3, table)) == run.metric("recall")
    assert [point.epoch for point in Results(db).load_curve(run.run_key)] == [1, 2]


def test_a_run_of_another_kind_has_no_hash_table(tmp_path: Path) -> None:
    run = train(run_config("sine", kind="kernel_regression", kernel="gaussian"), tmp_path / "runs.db")
    with pytest.raises(ValueError, match="a run of kind kernel_regression has no hash table"):
        stored_hash_table(Results(tmp_path / "runs.db"), run)


def test_prototypes_and_kernel_regression_recall_too(tmp_path: Path) -> None:
    data = {"name": "lookup", "items": 4, "dimensions": 3, "queries": 16, "noise": 0.01}
    for settings in (
        {"method": "idw", "prototypes": 4, "epochs": 1},
        {"kind": "kernel_regression", "kernel": "shepard"},
    ):
        run = train(run_config(data, **settings), tmp_path / "runs.db")
        assert 0 <= (run.metric("recall") or 0) <= 1 and run.metric("rmse") is not None
    assert run.metric("recall") == 1


def test_planning_and_figures_are_available_from_the_command_line(write, tmp_path: Path) -> None:
    file, db = str(write()), str(tmp_path / "runs.db")
    assert len(plan(read_sweep(Path(file)))) == 44
    assert CliRunner().invoke(app, ["sweep", file, "--db", db]).exit_code == 0
    target = tmp_path / "recall.png"
    result = CliRunner().invoke(app, ["figure", "recall", "--table", "tables", "--db", db, "-o", str(target)])
    assert result.exit_code == 0, result.output
    assert target.stat().st_size > 1000
