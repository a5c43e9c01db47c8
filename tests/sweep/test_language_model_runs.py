"""Sweeps with language models: their files, results and tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from texts import TEXT, text_file

from idwbench.errors import ConfigError
from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import render
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import run_sweep, train
from idwbench.sweep.spec import plan, read_sweep

SMALL = "depth: 1, width: 8, heads: 2, context: 8"
SWEEP = f"""\
name: letters
dataset: {{name: text, path: own.txt}}
protocol: {{epochs: 2, batch_size: 8}}
seeds: 2
grid:
  - {{kind: transformer_lm, method: idw, power: [1, 2], {SMALL}}}
  - {{kind: transformer_lm, method: scaled_dot, learning_rate: [0.001, 0.01], {SMALL}}}
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    text_file(tmp_path)
    path = tmp_path / "letters.yaml"
    path.write_text(SWEEP)
    return path


def test_settings_of_the_network_and_parameters_of_the_score_are_axes(sweep):
    runs = plan(read_sweep(sweep))
    assert len(runs) == 8 and len({run.run_key for run in runs}) == 8
    assert [run.model.label for run in runs[::2]] == [
        "transformer_lm · idw · p=1, ε=0.001, depth 1, width 8, heads 2, context 8",
        "transformer_lm · idw · p=2, ε=0.001, depth 1, width 8, heads 2, context 8",
        *["transformer_lm · scaled_dot · 1/√features, depth 1, width 8, heads 2, context 8"] * 2,
    ]


def test_a_sweep_of_language_models_is_trained_reported_and_ranked(sweep, tmp_path):
    db = tmp_path / "results.db"
    status = run_sweep(sweep, db, jobs=1)
    assert (status.complete, status.total) == (8, 8)
    runs = Results(db).find_runs(sweep="letters")
    text = render(section_tables(summarise(runs)), "markdown")
    for words in ("p=1, ε=0.001, depth 1", "bits per character", "learning rate 0.001", "validation", "own.txt"):
        assert words in text
    board = leaderboard(runs)
    assert [row["rank"] for row in board.records()] == [1, 2, 3, 4]
    means = [row["test_mean"] for row in board.records()]
    assert means == sorted(means)  # fewer bits are better
    assert {"method", "power", "learning_rate"} <= {column.name for column in board.columns}
    for metric in ("seconds_per_step", "activation_memory"):
        assert all(run.metric(metric, "train") > 0 for run in runs)
        assert section_tables(summarise(runs, metric))
    assert Results(db).to_frame()["test_bits_per_character"].notna().all()


def test_a_text_that_is_too_short_leaves_no_database(tmp_path):
    path, db = text_file(tmp_path, TEXT), tmp_path / "results.db"
    config = run_config({"name": "text", "path": str(path)}, kind="transformer_lm", context=40)
    with pytest.raises(ConfigError, match="context: the training text is too short: 37 characters, expected more than"):
        train(config, db)
    assert not db.exists()


def test_the_default_protocol_of_texts_is_their_own(tmp_path):
    config = run_config({"name": "text", "path": str(text_file(tmp_path))}, kind="transformer_lm")
    assert (config.model.method, config.protocol.batch_size) == ("idw", 8)
    assert config.protocol == run_config("aesop", kind="transformer_lm").protocol
