from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typed import assert_one_line, files

from idwbench.results.store import Results


@pytest.mark.parametrize("name", ["small", "two_moons"])
def test_a_table_is_named_by_its_sweep_or_its_data_set(swept, name):
    result = swept("report", "--table", name)
    assert result.exit_code == 0, result.output
    assert "idw" in result.stdout
    assert "±" in result.stdout


@pytest.mark.parametrize("form", ["markdown", "latex", "csv", "json", "rich"])
def test_every_format_can_be_printed_and_written(swept, tmp_path, form):
    printed = swept("report", "--table", "small", "--format", form)
    assert printed.exit_code == 0, printed.output
    written = swept("report", "--table", "small", "--format", form, "-o", "table.dat")
    assert written.stdout == "table.dat\n"
    if form != "rich":
        assert (tmp_path / "table.dat").read_text() == printed.stdout


@pytest.mark.parametrize(("ending", "form"), [("csv", "csv"), ("MD", "markdown"), ("tex", "latex"), ("json", "json")])
def test_the_ending_of_a_file_names_the_format_of_its_table(swept, tmp_path, ending, form):
    assert swept("report", "--table", "small", "-o", f"table.{ending}").exit_code == 0
    printed = swept("report", "--table", "small", "--format", form)
    assert (tmp_path / f"table.{ending}").read_text() == printed.stdout


def test_csv_and_json_hold_the_same_rows(swept):
    rows = list(csv.DictReader(io.StringIO(swept("report", "--table", "small", "--format", "csv").stdout)))
    records = json.loads(swept("report", "--table", "small", "--json").stdout)
    assert len(rows) == len(records) == 5
    assert [row["method"] for row in rows] == [record["method"] for record in records]


@pytest.mark.parametrize("form", ["markdown", "latex", "csv", "json", "rich"])
def test_a_leaderboard_can_be_printed_and_written_in_every_format(swept, tmp_path, form):
    arguments = ["report", "--leaderboard", "small", "--top", 3, "--split", "holdout", "--format", form]
    printed = swept(*arguments)
    assert printed.exit_code == 0, printed.output
    assert swept(*arguments, "-o", "board.dat").stdout == "board.dat\n"
    if form != "rich":
        assert (tmp_path / "board.dat").read_text() == printed.stdout


def test_a_leaderboard_is_sorted_and_names_what_varies(swept):
    records = json.loads(swept("report", "--leaderboard", "two_moons", "--json").stdout)
    means = [record["test_mean"] for record in records]
    assert means == sorted(means, reverse=True)
    assert len(records) == 5
    assert "| rank | method " in swept("report", "--leaderboard", "two_moons", "--format", "markdown").stdout


def test_a_table_of_another_metric_with_intervals_is_printed(swept):
    records = json.loads(swept("report", "--table", "small", "--metric", "accuracy", "--interval", "--json").stdout)
    assert all(record["test_low"] <= record["test_mean"] <= record["test_high"] for record in records)
    again = swept("report", "--table", "small", "--metric", "accuracy", "--interval", "--json").stdout
    assert json.loads(again) == records


def test_hyperparameters_are_chosen_by_the_validation_split(run, tmp_path):
    (tmp_path / "tuned.yaml").write_text(
        "name: tuned\ndataset: {name: two_moons, validation: 0.1}\nprotocol: {epochs: 1}\nseeds: 1\n"
        "grid: {method: idw, prototypes: [2, 4], learning_rate: [0.001, 0.1]}\n"
    )
    assert run("sweep", "tuned.yaml").exit_code == 0
    result = run("report", "--leaderboard", "tuned", "--best-over", "learning_rate, epsilon", "--json")
    assert result.exit_code == 0, result.output
    assert sorted(record["prototypes"] for record in json.loads(result.stdout)) == [2, 4]


def test_only_requested_methods_and_prototypes_are_shown(swept):
    shown = json.loads(swept("report", "--table", "small", "--method", "idw", "--prototypes", 8, "--json").stdout)
    assert [(row["method"], row["prototypes"]) for row in shown] == [("idw", 8)]


def test_without_a_name_the_contents_are_listed(swept):
    assert swept("report").stdout == "sweep small: 15 of 15 runs complete\ndata set two_moons\n"
    assert json.loads(swept("report", "--json").stdout)["sweeps"][0]["complete"] == 15


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--table", "smal"], "did you mean 'small'?"),
        (["--table", "small", "--method", "idv"], "did you mean 'idw'?"),
        (["--table", "small", "--prototypes", 99], "no runs"),
        (["--table", "small", "-o", "absent/table.md"], "does not exist"),
        (["--table", "small", "-o", "table.html"], "--output: the ending .html does not name a format"),
        (["--leaderboard", "small", "-o", "table"], "--output: a name without an ending does not name a format"),
        (["--leaderboard", "smal"], "--leaderboard: nothing is called 'smal' (did you mean 'small'?)"),
        (["--leaderboard", "small", "--metric", "acuracy"], "did you mean 'accuracy'?"),
        (["--table", "small", "--metric", "rmse"], "all 15 complete runs lack the metric 'rmse'"),
        (["--leaderboard", "small", "--split", "holdot"], "did you mean 'holdout'?"),
        (["--leaderboard", "small", "--best-over", "epsilo"], "did you mean 'epsilon'?"),
        (
            ["--leaderboard", "small", "--best-over", "epsilon"],
            "--best-over: 15 of 15 complete runs have no validation",
        ),
        (["--leaderboard", "small", "--top", 0], "--top"),
    ],
)
def test_impossible_reports_are_refused_in_one_line(swept, tmp_path, arguments, words):
    before = files(tmp_path)
    assert_one_line(swept("report", *arguments), 2, words)
    assert files(tmp_path) == before


def test_a_report_needs_a_database_and_makes_none(run, tmp_path):
    assert_one_line(run("report", "--table", "mnist"), 1, "results/idwbench.db")
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "csv"], "--format: only with --table or --leaderboard"),
        (["-o", "table.md"], "--output: only with --table"),
        (["--table", "small", "--format", "csv", "--json"], "--json: --format is 'csv'"),
        (["--leaderboard", "small", "--table", "small"], "--table: cannot be combined with --leaderboard"),
        (["--table", "small", "--top", 3], "--top: only with --leaderboard"),
        (["--table", "small", "--split", "train"], "--split: only with --leaderboard"),
        (["--table", "small", "--best-over", "epsilon"], "--best-over: only with --leaderboard"),
        (["--metric", "accuracy"], "--metric: only with --table or --leaderboard"),
        (["--figure", "moons"], "No such option: --figure. It is a command: idwbench figure NAME"),
        (["--table", "small", "--json", "-o", "t.json"], "--json: prints to stdout"),
        (["--table", "small", "--format", "csv", "-o", "t.md"], "--output: .md is not the suffix of the format csv"),
    ],
)
def test_options_that_would_be_ignored_are_refused(swept, arguments, words):
    assert_one_line(swept("report", *arguments), 2, words)


def without_quality(tmp_path):
    with closing(sqlite3.connect(tmp_path / "results/idwbench.db")) as connection, connection:
        connection.execute("DELETE FROM metrics WHERE name <> 'accuracy'")


def test_measure_stores_what_is_missing_and_prints_the_table(swept, tmp_path):
    plain = swept("report", "--table", "small", "--format", "csv").stdout
    without_quality(tmp_path)
    result = swept("report", "--table", "small", "--method", "idw", "--measure", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == "measured 6 of 6 runs\n"
    assert len(json.loads(result.stdout)) == 2
    result = swept("report", "--table", "small", "--measure", "--format", "csv")
    assert (result.stderr, result.stdout) == ("measured 9 of 9 runs\n", plain)
    result = swept("report", "--table", "small", "--measure", "--format", "csv")
    assert (result.stderr, result.stdout) == ("all runs are measured already\n", plain)
    runs = Results(tmp_path / "results/idwbench.db", read_only=True).find_runs()
    assert all(run.metric("coverage", "train") is not None for run in runs)


@pytest.mark.parametrize("option", ["--table", "--leaderboard"])
def test_a_metric_that_runs_of_an_older_version_lack_comes_with_advice_to_measure_them(swept, tmp_path, option):
    without_quality(tmp_path)
    arguments = ["report", option, "small", "--metric", "coverage"]
    message = "--metric: all 15 complete runs lack the metric 'coverage' (--measure computes it"
    assert_one_line(swept(*arguments), 2, message)
    assert_one_line(swept(*arguments[:-1], "r2"), 2, "(they have: accuracy)")
    assert swept(*arguments, "--measure", "--method", "idw").exit_code == 0
    result = swept(*arguments)
    assert result.stderr.startswith("9 runs without the quality of prototypes: --measure computes it")
    assert "9 complete runs without the metric 'coverage'; not in the means." in result.stdout
    assert swept(*arguments[:-1], "accuracy").stderr == ""


def test_measure_upgrades_an_older_database(run, tmp_path):
    shutil.copy(Path(__file__).parents[1] / "assets/0.1.0/idwbench.db", tmp_path / "old.db")
    result = run("report", "--table", "two_moons", "--measure", "--db", "old.db")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"measured (\d+) of \1 runs\n", result.stderr)
    assert list(tmp_path.glob("old.db.version-0001.*.bak"))


def test_measure_says_what_to_measure_and_creates_no_database(swept, run, tmp_path):
    assert_one_line(swept("report", "--measure"), 2, "--measure: only with --table or --leaderboard")
    assert_one_line(run("report", "--table", "small", "--measure", "--db", "none.db"), 1, "none.db")
    assert not (tmp_path / "none.db").exists()


def test_an_empty_database_is_said_to_be_empty(run, tmp_path):
    Results(tmp_path / "results/idwbench.db")
    result = run("report")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing is stored\n")
