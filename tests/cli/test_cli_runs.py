from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typed import SMALL_SWEEP, assert_one_line, files

from idwbench.cli.runs_table import row_facts, run_lines, time_label
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import run_sweep


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    (folder / "small.yaml").write_text(SMALL_SWEEP.replace("seeds: 3", "seeds: 2"))
    run_sweep(folder / "small.yaml", folder / "idwbench.db", jobs=1)
    results = Results(folder / "idwbench.db")
    failing = results.find_runs()[0].config.model_copy(update={"seed": 7})
    [key] = results.plan([failing])
    results.lease([key])
    results.fail([key], "Traceback (most recent call last):\n  …\nValueError: an \x1b[31mimpossible value\n")
    return folder / "idwbench.db"


@pytest.fixture
def db(stored, tmp_path) -> Path:
    return Path(shutil.copy(stored, tmp_path / "runs.db"))


@pytest.fixture
def keys(db) -> list[str]:
    return list(Results(db, read_only=True).to_frame()["run_key"])


def test_the_group_alone_prints_its_help(run):
    result = run("runs")
    assert all(name in result.stdout for name in ("list", "show", "diff", "rm", "export", "replay"))
    assert "Traceback" not in result.output


def test_a_list_has_one_line_for_each_run_and_the_reason_of_a_failure(run, db, keys):
    lines = run("runs", "list", "--db", db).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [key[:12] for key in (keys[-1], *keys[-2::-1])]
    assert "test accuracy" in lines[0] and lines[0].endswith("error")
    [heading, failed] = run("runs", "list", "--db", db, "--state", "failed").stdout.splitlines()
    assert "accuracy" not in heading and "time" not in heading
    assert failed.endswith("  failed         1  ValueError: an \\x1b[31mimpossible value")


@pytest.mark.parametrize(
    ("words", "n"),
    [
        (["--where", "method == 'idw' and prototypes == 4"], 3),
        (["--where", "method in ['idw', 'neg_dist'] and seed < 1", "--sweep", "small"], 3),
        (["--where", "prototypes > 4", "--limit", "3"], 3),
        (["--where", "method == 'idw' and prototypes >= 4", "--state", "complete", "--state", "failed"], 5),
        (["--where", "state == 'complete' and epochs == 3 and seed == 1"], 5),
        (["--limit", "2"], 2),
    ],
)
def test_runs_are_selected_by_an_expression_a_sweep_and_states(run, db, words, n):
    result = run("runs", "list", "--db", db, "--json", *words)
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)) == n


def test_the_newest_or_those_of_an_order_come_first(run, db, keys):
    def listed(*words):
        return json.loads(run("runs", "list", "--db", db, "--json", *words).stdout)

    assert [row["run_key"] for row in listed("--limit", "1")] == keys[-1:]
    values = [row["value"] for row in listed("--sort", "-test_accuracy")]
    assert values == [*sorted([v for v in values if v is not None], reverse=True), None]
    assert [row["seed"] for row in listed("--sort", "seed")] == [0] * 5 + [1] * 5 + [7]


def test_tags_and_notes_are_shown_and_found(run, db, keys):
    key = keys[0][:12]
    assert run("runs", "tag", key, "best", "--db", db).stdout == f"{key}: best\n"
    assert run("runs", "tag", key, "paper", "--db", db).stdout == f"{key}: best, paper\n"
    assert run("runs", "note", key, "seems\u00a0well", "--db", db).exit_code == 2
    assert run("runs", "note", key, "seems well", "--db", db).stdout == f"{key}: seems well\n"
    [heading, line] = run("runs", "list", "--db", db, "--where", "'best' in tags").stdout.splitlines()
    assert heading.endswith("  tags         note") and line.endswith("  best, paper  seems well")
    assert (
        "  tags                best, paper\n  note                seems well\n"
        in run("runs", "show", key, "--db", db).stdout
    )
    assert json.loads(run("runs", "show", key, "--db", db, "--json").stdout)["note"] == "seems well"
    assert run("runs", "tag", key, "best", "--remove", "--db", db).stdout == f"{key}: paper\n"
    assert run("runs", "note", key, "", "--db", db).stdout == f"{key}: no note\n"


def test_no_runs_are_an_empty_list(run, db):
    assert run("runs", "list", "--db", db, "--state", "planned").stderr == "no runs\n"
    assert json.loads(run("runs", "list", "--db", db, "--state", "planned", "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["list", "--where", "methd == 1"], 2, "--where: no column is called 'methd' (did you mean 'method'?)"),
        (["list", "--where", "method=idw"], 2, "--where: 'method=idw' is no expression (use =="),
        (["list", "--where", "__import__('os')"], 2, "got '__import__('os')'"),
        (["list", "--sort", "sed"], 2, "--sort: no column is called 'sed' (did you mean 'seed'?)"),
        (["tag", "zz", "best"], 1, "zz"),
        (["note", "zz", "well"], 1, "zz"),
        (["list", "--state", "fialed"], 2, "--state: no state is called 'fialed' (did you mean 'failed'?)"),
        (["list", "--sweep", "smal"], 1, "did you mean 'small'?"),
        (["list", "method=idw"], 2, "method=idw"),
        (["lsit"], 2, "'list'"),
        (["show", "zz"], 1, "no run has a key that begins with 'zz'"),
        (["show"], 2, "run"),
        (["diff", "zz", "zz"], 1, "zz"),
        (["replay", "zz"], 1, "zz"),
        (["rm"], 2, "give keys of runs, or conditions"),
        (["rm", "--state", "failed"], 2, "needs a confirmation (--yes)"),
        (["rm", "zz", "--yes"], 1, "zz"),
        (["rm", "zz", "--where", "seed == 1", "--yes"], 2, "either keys or conditions"),
        (["export", "-o", "runs.xlsx"], 2, "does not name a format"),
        (["export", "-o", "runs.csv", "--format", "parquet"], 2, "ending in .parquet"),
        (["export", "-o", "model.pt"], 2, "idwbench export writes models"),
        (["export", "-o", "missing/runs.csv"], 2, "missing"),
    ],
)
def test_wrong_input_is_one_line_and_nothing_is_written(run, db, tmp_path, words, code, expected):
    before = db.read_bytes(), files(tmp_path)
    assert_one_line(run("runs", *words, "--db", db), code, expected)
    assert (db.read_bytes(), files(tmp_path)) == before


def test_a_database_that_does_not_exist_is_not_created(run, tmp_path):
    for words in (["list"], ["show", "ab"], ["rm", "ab", "--yes"], ["export", "-o", "runs.csv"]):
        assert_one_line(run("runs", *words, "--db", "none.db"), 1, "does not exist")
    assert files(tmp_path) == set()


def test_a_run_is_shown_with_everything_that_is_stored_of_it(run, db, keys):
    text = run("runs", "show", keys[0][:10], "--db", db).stdout
    expected = ("run " + keys[0], "settings", "metrics", "curve", "float32 (4, 2)", "  started ")
    for words in (*expected, "  sweeps              small"):
        assert words in text
    facts = json.loads(run("runs", "show", keys[0], "--db", db, "--json").stdout)
    assert facts["config"]["seed"] == 0 and len(facts["curve"]) == 3
    assert facts["arrays"]["keys"] == {"dtype": "float32", "shape": [4, 2]}
    assert facts["metrics"]["test_accuracy"] == Results(db).find_run(keys[0]).metric("accuracy")
    assert facts["attempt"] == 1 and facts["recording"] is None


def test_a_failed_run_is_shown_with_its_traceback(run, db, keys):
    text = run("runs", "show", keys[-1], "--db", db).stdout
    assert "Traceback (most recent call last):" in text and "\x1b" not in text and "\\x1b[31mimpossible" in text


def test_two_runs_are_compared(run, db, keys):
    text = run("runs", "diff", keys[0], keys[1], "--db", db).stdout
    assert text.splitlines()[3].split() == ["seed", "0", "1"]
    assert "keys (4, 2): largest difference" in text and "environment: equal" in text
    facts = json.loads(run("runs", "diff", keys[0], keys[0], "--db", db, "--json").stdout)
    assert facts["settings"] == {} and facts["arrays"]["keys"]["identical"]


def test_removing_says_how_many_and_keeps_the_plan_of_the_sweep(run, db, keys):
    result = run("runs", "rm", "--db", db, "--where", "method == 'idw' and prototypes == 4", "--yes")
    assert result.stderr == "removed 3 runs, 2 of them planned again by their sweeps\n"
    status = Results(db).sweep_status("small")
    assert (status.total, status.planned, status.complete) == (10, 2, 8)
    facts = json.loads(run("runs", "rm", keys[3], "--db", db, "-y", "--json").stdout)
    assert facts == {"removed": [], "planned": [keys[3]]}


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, 11), ("y\n", 0, 10)])
def test_removing_asks_first(run, db, monkeypatch, answer, code, left):
    from typer.testing import CliRunner

    from idwbench.cli.app import app

    monkeypatch.setattr("idwbench.cli.runs._is_interactive", lambda: True)
    result = CliRunner().invoke(app, ["runs", "rm", "--state", "failed", "--db", str(db)], input=answer)
    assert "remove 1 run from" in result.stderr and result.exit_code == code
    assert len(Results(db).find_runs()) == left


@pytest.mark.slow
def test_an_exported_model_is_the_one_that_training_writes(run, tmp_path):
    words = ("train", "--dataset", "two_moons", "--prototypes", "4", "--epochs", "2", "--db", "t.db")
    assert run(*words, "-o", "model.pt").exit_code == 0
    [stored] = Results(tmp_path / "t.db").find_runs()
    assert run("export", stored.run_key[:12], "-o", "again.pt", "--db", "t.db").exit_code == 0
    assert (tmp_path / "again.pt").read_bytes() == (tmp_path / "model.pt").read_bytes()
    assert_one_line(run("export", stored.run_key, "-o", "again.pt", "--db", "t.db"), 2, "--force replaces it")


def test_a_curve_that_differs_is_shown(run, db, keys):
    text = run("runs", "diff", keys[0], keys[1], "--db", db).stdout
    assert "\ncurve: largest difference " in text
    with Results(db)._database.write() as connection:
        connection.exec_driver_sql("UPDATE curves SET value = NULL WHERE epoch = 1")
    assert run("runs", "replay", keys[0], "--db", db).stdout.endswith(
        "\ncurve: largest difference inf\nenvironment: equal\n"
    )
    facts = json.loads(run("runs", "replay", keys[0], "--db", db, "--json").stdout)
    assert not facts["identical"] and facts["curve_difference"] is None


DAMAGES = [("versions", "[1]"), ("git", "3"), ("cpu", "[]"), ("durations", '{"set_up": "x"}'), ("n_parameters", "many")]
READERS = [
    ("runs", "show", "KEY"),
    ("runs", "diff", "KEY", "KEY"),
    ("runs", "export", "-o", "a.csv"),
    ("explain", "KEY", "--x", "0,0"),
    ("report", "--table", "small"),
]


@pytest.mark.parametrize("column", [name for name, _ in DAMAGES] + ["error"])
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_damaged_run_is_one_line_that_names_run_and_column(run, db, keys, words, column):
    damaged = {**dict(DAMAGES), "error": b"\xff"}[column]
    with closing(sqlite3.connect(db)) as connection, connection:
        value = "CAST(? AS TEXT)" if column == "error" else "?"
        connection.execute(f"UPDATE runs SET {column} = {value} WHERE run_key = ?", (damaged, keys[0]))
    result = run(*(keys[0] if word == "KEY" else word for word in words), "--db", db)
    if words[0] == "report" and result.exit_code == 0:
        return  # a table does not read this column
    assert_one_line(result, 1, f"run {keys[0][:12]}: its {column} cannot be read: ")


def test_a_table_of_all_runs_is_exported(run, db, tmp_path):
    result = run("runs", "export", "-o", "runs.csv", "--db", db, "--state", "complete")
    assert (result.stdout, result.stderr) == ("runs.csv\n", "10 runs written\n")
    assert len((tmp_path / "runs.csv").read_text().splitlines()) == 11


def test_runs_without_a_result_are_left_out_of_a_folder(run, db, keys, tmp_path):
    result = run("runs", "export", keys[0], keys[-1], "-o", "board", "--format", "tensorboard", "--db", db)
    assert result.stderr == "1 run written (1 run without a result left out)\n"
    assert len(list((tmp_path / "board").iterdir())) == 1


def test_a_run_that_is_repeated_is_identical(run, db, keys):
    before = db.read_bytes()
    result = run("runs", "replay", keys[0], "--db", db)
    assert (result.exit_code, result.stdout) == (0, "identical\n")
    assert db.read_bytes() == before


def test_a_changed_result_is_found_and_the_exit_code_is_1(run, db, keys):
    with Results(db)._database.write() as connection:
        connection.exec_driver_sql("UPDATE metrics SET value = 0.125 WHERE split = 'test' AND name = 'accuracy'")
    result = run("runs", "replay", keys[0], "--db", db)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["metrics", "stored", "new", "difference"]
    assert lines[3].startswith(" test accuracy in %  12.5 ")
    assert "array keys (4, 2): identical" in lines and "curve: equal" in lines
    facts = json.loads(run("runs", "replay", keys[0], "--db", db, "--json").stdout)
    assert not facts["identical"] and facts["metrics"]["test_accuracy"]["stored"] == 0.125


def test_lines_fit_the_terminal_and_errors_move_to_the_next_line(db, keys):
    results = Results(db)
    results.tag(keys[:1], "best")
    frame = results.to_frame()
    for width in (88, 100, 140):
        assert max(len(line) for text in run_lines(frame, width) for line in text.splitlines()) <= width
    assert len(list(run_lines(frame, 140))) == len(frame) + 1
    assert any("\n    ValueError" in text for text in run_lines(frame, 80))
    assert any(text.endswith("ValueError: an \\x1b[31mimpossible value") for text in run_lines(frame, 200))


def test_the_metric_of_a_list_follows_from_the_task(tmp_path):
    from idwbench.runs.results import RunResult

    results, metrics = (
        Results(tmp_path / "kinds.db"),
        {"sine": "rmse", "lookup": "recall", "aesop": "bits_per_character"},
    )
    kinds = {"lookup": {"kind": "hash_table", "similarity": "idw"}, "aesop": {"kind": "lstm_lm"}}
    for dataset, name in metrics.items():
        config = run_config(dataset, **kinds.get(dataset, {}))
        values = {("test", name): 0.25, ("test", "loss"): 1.0}
        results.finish([RunResult(config, "complete", (), values, {}, 8, None, 0.1, "torch", "cpu", 1, "AVX2")])
    frame = results.to_frame()
    assert [(row["metric"], row["value"]) for row in row_facts(frame)] == [(name, 0.25) for name in metrics.values()]
    assert next(run_lines(frame, None)).split()[:2] == ["run", "data"]


def test_times_have_a_unit_that_fits():
    assert [time_label(seconds) for seconds in (None, 0.00127, 0.2149, 95.4, 750, 11520)] == [
        *("", "1.3 ms", "0.21 s", "95 s", "12.5 min", "3.2 h")
    ]
