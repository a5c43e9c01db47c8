from __future__ import annotations

import json

import pytest
from texts import TEXT, text_file
from typed import assert_one_line

SWEEP = """\
name: letters
dataset: {name: text, path: own.txt}
protocol: {epochs: 1, batch_size: 8}
seeds: 2
grid: {kind: transformer_lm, method: [idw, scaled_dot], depth: 1, width: 8, heads: 2, context: 8}
"""


@pytest.fixture
def sweep(tmp_path):
    path = tmp_path / "letters.yaml"
    path.write_text(SWEEP)
    return path


def test_a_sweep_of_language_models_is_trained_and_reported(run, sweep, tmp_path):
    text_file(tmp_path)
    result = run("sweep", sweep, "-j", 1)
    assert result.exit_code == 0, result.output
    assert "engine: transformer_lm" in result.stderr
    board = json.loads(run("report", "--leaderboard", "letters", "--json").stdout)
    assert "bits_per_character" in json.dumps(board)
    assert run("report", "--table", "letters", "--metric", "activation_memory").exit_code == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "own.txt: the file is empty"),
        (b"abcdef", "the training text is too short: 4 characters, expected more than 8"),
        (b"ab", "too short: of 2 characters 0 would be for training, 1 for validation and 1 for test"),
        (TEXT.encode("utf-16"), "own.txt: not UTF-8 text: line 1, byte 1 is 0xff"),
    ],
)
def test_a_text_that_cannot_be_used_gets_one_line(content, problem, run, sweep, tmp_path):
    (tmp_path / "own.txt").write_bytes(content)
    result = run("sweep", sweep)
    assert result.exit_code in (1, 2) and isinstance(result.exception, SystemExit)
    assert "letters: 0 of 4 done" in result.stderr.splitlines()[0]
    assert problem in result.stderr.splitlines()[-1] and len(result.stderr.splitlines()) == 2


def test_a_missing_text_and_a_folder_get_one_line_before_anything_is_stored(run, sweep, tmp_path):
    assert_one_line(run("sweep", sweep), 2, "letters.yaml:2:29: dataset.path: ", "own.txt: no such file")
    (tmp_path / "own.txt").mkdir()
    assert_one_line(run("sweep", sweep), 2, "own.txt: is a folder, expected a file")
    assert not (tmp_path / "results").exists()


def test_train_says_that_a_text_needs_another_kind(run, tmp_path):
    text_file(tmp_path)
    result = run("train", "--dataset", "own.txt")
    assert_one_line(
        result, 2, "--dataset: own.txt is a text, which the kind prototypes does not support (give a .csv or .npz"
    )
    assert not (tmp_path / "results").exists()
