"""Sweeps with language models: their files, results and tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from texts import TEXT, text_file

from idwbench.errors import ConfigError, SpecError
from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import render
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.kinds.transformer_lm import LanguageModelConfig
from idwbench.sweep.execution import run_sweep, train
from idwbench.sweep.observer import Observer
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


def problem_of(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(SpecError) as error:
        plan(read_sweep(path))
    return str(error.value).removeprefix(f"{path}:")


def test_settings_of_the_network_and_parameters_of_the_score_are_axes(sweep):
    runs = plan(read_sweep(sweep))
    assert len(runs) == 8 and len({run.run_key for run in runs}) == 8
    assert [run.model.label for run in runs[::2]] == [
        "transformer_lm · idw · p=1, ε=0.001, depth 1, width 8, heads 2, context 8",
        "transformer_lm · idw · p=2, ε=0.001, depth 1, width 8, heads 2, context 8",
        *["transformer_lm · scaled_dot · 1/√features, depth 1, width 8, heads 2, context 8"] * 2,
    ]


def test_a_run_is_the_same_after_json(sweep):
    for run in plan(read_sweep(sweep)):
        again = RunConfig.model_validate_json(run.model_dump_json())
        assert (again, again.run_key) == (run, run.run_key)
        assert isinstance(again.model, LanguageModelConfig)


def test_a_sweep_of_language_models_is_trained_reported_and_ranked(sweep, tmp_path):
    db = tmp_path / "results.db"
    status = run_sweep(sweep, db, jobs=1)
    assert (status.complete, status.total) == (8, 8)
    runs = Results(db).find_runs(sweep="letters")
    text = render(section_tables(summarise(runs)), "markdown")
    for words in ("p=1, ε=0.001, depth 1", "bits per character", "learning rate 0.001", "validation", "own.txt"):
        assert words in text
    board = leaderboard(runs)
    assert [row["rank"] for row in board.records(True)] == [1, 2, 3, 4]
    means = [row["test_mean"] for row in board.records(True)]
    assert means == sorted(means)  # fewer bits are better
    assert {"method", "power", "learning_rate"} <= {column.name for column in board.columns}
    for metric in ("seconds_per_step", "activation_memory"):
        assert all(run.metric(metric, "train") > 0 for run in runs)
        assert section_tables(summarise(runs, metric))
    assert Results(db).to_frame()["test_bits_per_character"].notna().all()


def test_an_interrupted_sweep_continues_to_the_same_bytes(sweep, tmp_path):
    class Interrupting(Observer):
        def epoch(self, stack, epoch):
            raise KeyboardInterrupt

    whole, broken = tmp_path / "whole.db", tmp_path / "broken.db"
    run_sweep(sweep, whole, jobs=1)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, broken, jobs=1, observer=Interrupting())
    folder = tmp_path / "broken.db.checkpoints"
    assert len([*folder.iterdir()]) == 1
    run_sweep(sweep, broken, jobs=1)
    assert not folder.exists()
    for run in plan(read_sweep(sweep)):
        one, other = (Results(db).load_arrays(run.run_key) for db in (whole, broken))
        assert one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("heads: 2", "heads: 3", "expected a divisor of the width 8, got 3"),
        ("method: idw", "method: idv", "unknown method 'idv' (did you mean 'idw'?)"),
        ("method: idw", "method: fc_relu", "the weights of fc_relu are not a softmax, as attention layers need"),
        ("power: [1, 2]", "powers: [1, 2]", "unknown key (did you mean 'power'?)"),
        ("context: 8", "context: 0", "input should be greater than or equal to 1, got 0"),
        ("name: text, path: own.txt", "name: two_moons", "transformer_lm needs a text, and the data set two_moons is"),
        ("grid:", "grid:\n  - {method: idw, prototypes: 2}", "own.txt is a text, which the kind"),
        ("path: own.txt", "path: none.txt", "none.txt: no such file"),
        ("path: own.txt", "path: own.txt, tokens: word", "input should be 'characters' or 'words', got 'word'"),
        ("path: own.txt", "path: own.txt, tokens: words", "kind: transformer_lm predicts characters"),
    ],
)
def test_a_sweep_that_cannot_be_trained_gets_one_line(old, new, problem, sweep):
    found = problem_of(sweep, SWEEP.replace(old, new, 1))
    assert problem in found and "\n" not in found


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
