"""`idwbench runs …`: what is stored, seen, compared, changed and watched."""

import json
import shutil
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from stored_runs import query, run_result, stored_run
from typed import assert_one_line
from typer.testing import CliRunner

from idwbench import Results, run_config
from idwbench.cli.app import app
from idwbench.cli.runs_watch import lines_of, watch
from idwbench.cli.stored_runs import row_facts
from idwbench.results.records import SweepStatus
from idwbench.results.sweeps import SweepProgress, TrainingProcess


@pytest.fixture
def db(bench, tmp_path):
    """The database of the small sweep, with a run that failed."""
    path = shutil.copy(bench / "results/idwbench.db", tmp_path / "runs.db")
    results = Results(path)
    [key] = results.plan([results.find_runs()[0].config.model_copy(update={"seed": 7})])
    results.lease([key])
    results.fail([key], "Traceback (most recent call last):\n  …\nValueError: an \x1b[31mimpossible value\n")
    return Path(path)


@pytest.fixture
def runs(run, db, monkeypatch):
    """Type `idwbench runs …` on the database."""
    monkeypatch.setenv("IDWBENCH_DB", str(db))
    return lambda words, *others: run(f"runs {words}", *others)


@pytest.fixture
def keys(db):
    return list(Results(db, read_only=True).to_frame()["run_key"])


def test_a_list_has_a_line_for_each_run_with_the_reason_of_a_failure_selected_and_the_newest_first(runs, keys):
    lines = runs("list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [key[:12] for key in (keys[-1], *keys[-2::-1])]
    assert "test accuracy" in lines[0] and lines[0].endswith("error")
    [heading, failed] = runs("list --state failed").stdout.splitlines()
    assert "accuracy" not in heading and "time" not in heading
    assert failed.endswith("  failed         1  ValueError: an \\x1b[31mimpossible value")
    assert runs("list --state planned").stderr == "no runs\n"
    assert runs("list --where method=='idv'").stderr == "no runs: no method is 'idv' (did you mean 'idw'?)\n"
    assert json.loads(runs("list --state planned --json").stdout) == []

    def listed(words, *where):
        return json.loads(runs(f"list --json {words}", *where).stdout)

    assert len(listed("--sweep small --limit 3 --where", "method in ['idw', 'neg_dist'] and seed < 1")) == 3
    assert len(listed("--state complete --state failed --where", "method == 'idw' and prototypes >= 4")) == 7
    assert [row["run_key"] for row in listed("--limit 1")] == keys[-1:]
    values = [row["value"] for row in listed("--sort -test_accuracy")]
    assert values == [*sorted([v for v in values if v is not None], reverse=True), None]


def test_a_list_fits_the_terminal_and_reasons_stand_below(runs, db, keys, monkeypatch):
    Results(db).tag(keys[:1], "best")
    monkeypatch.setenv("TERM", "dumb")
    for width in (80, 100, 140):
        monkeypatch.setattr("idwbench.cli.output.terminal_width", lambda width=width: width)
        lines = runs("list").stdout.splitlines()
        assert max(map(len, lines)) <= width
        assert all(sum(key[:12] in line for line in lines) >= 1 for key in keys)
        assert any("ValueError: an \\x1b[31mimpossible value" in line for line in lines[len(keys) :])


def test_the_metric_of_a_list_follows_from_the_task(tmp_path):
    results = Results(tmp_path / "kinds.db")
    metrics = {"sine": "rmse", "lookup": "recall", "aesop": "bits_per_character"}
    kinds = {"lookup": {"kind": "hash_table", "similarity": "idw"}, "aesop": {"kind": "lstm_lm"}}
    for dataset, name in metrics.items():
        config = run_config(dataset, **kinds.get(dataset, {}))
        results.finish([run_result(config, metrics={("test", name): 0.25, ("test", "loss"): 1.0})])
    facts = row_facts(results.run_table())
    assert ([*facts["metric"]], [*facts["value"]]) == ([*metrics.values()], [0.25] * 3)


def test_tags_and_notes_are_shown_and_found(runs, keys):
    key = keys[0][:12]
    assert runs(f"tag {key} best").stdout == f"{key}: best\n"
    assert runs(f"tag {key} paper").stdout == f"{key}: best, paper\n"
    assert runs(f"note {key}", "seems\u00a0well").exit_code == 2
    assert runs(f"note {key}", "seems well").stdout == f"{key}: seems well\n"
    [heading, line] = runs("list --where", "'best' in tags").stdout.splitlines()
    assert heading.endswith("  tags         note") and line.endswith("  best, paper  seems well")
    assert "  tags                best, paper\n  note                seems well\n" in runs(f"show {key}").stdout
    assert json.loads(runs(f"show {key} --json").stdout)["note"] == "seems well"
    assert runs(f"tag {key} best --remove").stdout == f"{key}: paper\n"
    assert runs(f"note {key}", "").stdout == f"{key}: no note\n"


def test_a_run_is_shown_with_everything_that_is_stored_of_it(runs, db, keys):
    text = runs(f"show {keys[0][:10]}").stdout
    expected = ("run " + keys[0], "settings", "metrics", "curve", "float32 (4, 2)", "  started ")
    assert all(words in text for words in (*expected, "  sweeps              small"))
    facts = json.loads(runs(f"show {keys[0]} --json").stdout)
    assert facts["config"]["seed"] == 0 and len(facts["curve"]) == 3
    assert facts["arrays"]["keys"] == {"dtype": "float32", "shape": [4, 2]}
    assert facts["metrics"]["test_accuracy"] == Results(db).find_run(keys[0]).metric("accuracy")
    assert facts["attempt"] == 1 and facts["recording"] is None
    failed = runs(f"show {keys[-1]}").stdout
    assert "Traceback (most recent call last):" in failed
    assert "\x1b" not in failed and "\\x1b[31mimpossible" in failed


def test_two_runs_are_compared(runs, keys):
    text = runs(f"diff {keys[0]} {keys[1]}").stdout
    assert text.splitlines()[3].split() == ["seed", "0", "1"]
    assert "array keys    (4, 2), largest difference " in text and "environment: equal" in text
    assert "\ncurve         largest difference " in text
    assert json.loads(runs(f"diff {keys[0]} {keys[1]} --json").stdout)["settings"] == {"seed": [0, 1]}


def test_a_run_that_is_repeated_is_identical_or_what_differs_is_shown(runs, db, keys):
    before = db.read_bytes()
    result = runs(f"replay {keys[0]}")
    assert (result.exit_code, result.stdout, db.read_bytes()) == (0, "identical\n", before)
    query(db, "UPDATE metrics SET value = 0.125 WHERE split = 'test' AND name = 'accuracy'")
    query(db, "UPDATE curves SET value = NULL WHERE epoch = 1")
    result = runs(f"replay {keys[0]}")
    lines = result.stdout.splitlines()
    assert (result.exit_code, lines[1].split()) == (1, ["metrics", "stored", "new", "difference"])
    assert lines[3].startswith(" test accuracy in %  12.5 ")
    shown = ["array values  (4, 2), identical", "curve         largest difference inf", "environment: equal"]
    assert lines[-3:] == shown
    facts = json.loads(runs(f"replay {keys[0]} --json").stdout)
    assert not facts["identical"] and facts["curve_difference"] is None
    assert facts["metrics"]["test_accuracy"][0] == 0.125


def test_removing_asks_first_says_how_many_and_keeps_the_plan_of_the_sweep(runs, db, keys, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("idwbench.cli.runs._is_interactive", lambda: True)
        for answer, code, left in (("n\n", 1, 16), ("y\n", 0, 15)):
            result = CliRunner().invoke(app, ["runs", "rm", "--state", "failed"], input=answer)
            assert "remove 1 run from" in result.stderr and result.exit_code == code
            assert len(Results(db).find_runs()) == left
    result = runs("rm --yes --where", "method == 'idw' and prototypes == 4")
    assert result.stderr == "removed 3 runs, 3 of them planned again by their sweeps\n"
    status = Results(db).sweep_status("small")
    assert (status.total, status.planned, status.complete) == (15, 3, 12)
    facts = json.loads(runs(f"rm {keys[3]} -y --json").stdout)
    assert facts == {"removed": [], "planned": [keys[3]]}


def test_a_damaged_run_is_one_line_that_names_run_and_column(run, db, keys):
    query(db, "UPDATE runs SET versions = '[1]' WHERE run_key = ?", keys[0])
    for command in ("runs show KEY", "runs diff KEY KEY", "runs export -o a.csv", "explain KEY --x 0,0"):
        result = run(f"{command.replace('KEY', keys[0])} --db {db}")
        assert_one_line(result, 1, f"run {keys[0][:12]}: its versions cannot be read: ")


LONG = SweepProgress(
    name="long",
    status=SweepStatus(total=100, planned=50, running=8, stale=1, complete=40, diverged=0, failed=1),
    rate=0.5,
    seconds_left=118.0,
    processes=(TrainingProcess("node1", 17, 8, "mnist · idw · 20 prototypes", datetime.now(UTC)),),
    failures=(replace(stored_run(seed=3, state="failed"), error="ValueError: [red]no\x1b[2J"),),
)


def test_one_look_is_printed_and_watching_ends_by_ctrl_c_or_with_the_last_run(run, tmp_path, monkeypatch):
    planned = Results(tmp_path / "planned.db")
    planned.register_sweep("long", "", "", [run_config("two_moons", prototypes=n) for n in (1, 2, 3)])
    assert run("runs watch --once --db planned.db").stdout == "long: 0 of 3 runs complete\n"
    [facts] = json.loads(run("runs watch --json --db planned.db").stdout)["sweeps"]
    assert (facts["name"], facts["total"], facts["planned"], facts["ended"]) == ("long", 3, 3, 0)
    assert (facts["runs_per_minute"], facts["processes"], facts["failures"]) == (None, [], [])
    Results(tmp_path / "empty.db")
    assert run("runs watch --db empty.db").stdout == "no sweep is stored\n"
    # What Ctrl-C raises: the signal itself may be ignored where the tests run in the background.
    monkeypatch.setattr(time, "sleep", Mock(side_effect=KeyboardInterrupt))
    assert run("runs watch --db planned.db").exit_code == 130
    keys, looks = [one.run_key for one in planned.find_runs()], []

    def train_one(seconds):
        looks.append(seconds)
        key = keys.pop()
        planned.lease([key])
        planned.fail([key], "no")

    monkeypatch.setattr(time, "sleep", train_one)
    done = run("runs watch long --interval 7 --db planned.db")
    assert (done.exit_code, looks) == (0, [7.0] * 3)
    assert done.stdout.splitlines()[0] == "long: 0 of 3 runs complete"
    assert "3 failed" in done.stdout.splitlines()[-1]


def test_a_terminal_shows_states_pace_processes_and_failures_on_a_cleared_screen(monkeypatch, capsys):
    done = replace(LONG, status=SweepStatus(total=9, planned=0, running=0, stale=0, complete=8, diverged=0, failed=1))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("idwbench.cli.output.terminal_width", lambda *, err=False: 60)
    monkeypatch.setattr(time, "sleep", Mock())
    watch(Mock(**{"sweep_progress.side_effect": [LONG, done]}), ["long"], 2.0)
    nothing, *screens = capsys.readouterr().out.split("\x1b[2J\x1b[H")
    text = "".join(screens)
    assert (nothing, len(screens)) == ("", 2)  # and no other is cleared by a control character of an error
    assert text.count("  node1 process 17: 8 runs,") == 2 and "long: 8 of 9 runs complete, 1 failed" in text
    assert "[red]no\\x1b[2J" in text and max(map(len, text.splitlines())) <= 60
    first, process, failure = lines_of(LONG)
    assert first.startswith("long: 40 of 100 runs complete, 8 running, 1 stale (their process is gone), 1 failed (")
    assert first.endswith(" · 30 runs per minute, about 118 s left")
    assert process.startswith("  node1 process 17: 8 runs, mnist · idw · 20 prototypes, since ")
    assert failure.startswith("  failed: mnist · idw · 20 prototypes · p=2, ε=0.001 · seed 3: ")
