"""`idwbench report --by-dataset`: one table for several data sets, from the command line."""

from __future__ import annotations

import re
from pathlib import Path

SWEEP = """\
name: two_sets
dataset: [{name: iris, seed: [0, 1]}, {name: wine, seed: [0, 1]}]
seeds: 1
grid:
  - {kind: scikit_learn, method: [knn, nearest_centroid]}
"""


def test_data_sets_are_columns_of_one_table(run, tmp_path):
    path, db = tmp_path / "two_sets.yaml", ["--db", str(tmp_path / "results.db")]
    path.write_text(SWEEP)
    assert run("sweep", str(path), *db).exit_code == 0
    shown = run("report", "--table", "two_sets", "--by-dataset", *db, "--format", "markdown")
    assert shown.exit_code == 0
    head = "| method | parameters | iris | wine | mean rank |"
    assert head in re.sub(" +", " ", shown.stdout)
    assert "on the split test, mean ± sample standard deviation over 2 seeds" in shown.stdout
    train = run("report", "--table", "two_sets", "--by-dataset", "--split", "train", *db)
    assert "on the split train" in train.stdout
    times = run("report", "--table", "two_sets", "--by-dataset", "--metric", "fit_seconds", *db)
    assert "fit seconds (lower is better) on the split train" in times.stdout
    file = tmp_path / "table.md"
    assert run("report", "--table", "two_sets", "--by-dataset", *db, "-o", str(file)).exit_code == 0
    assert file.read_text() == shown.stdout


def test_options_that_do_not_fit_together_are_refused(run, tmp_path):
    db = ["--db", str(tmp_path / "results.db")]
    for words, message in (
        (["--table", "x", "--split", "train"], "--split: only with --leaderboard or --by-dataset"),
        (["--table", "x", "--by-dataset", "--interval"], "--interval: cannot be combined with --by-dataset"),
        (["--leaderboard", "x", "--by-dataset"], "--by-dataset: only with --table"),
    ):
        result = run("report", *words, *db)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())
    assert not Path(tmp_path / "results.db").exists()
