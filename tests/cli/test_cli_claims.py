from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from typed import assert_one_line, files

from idwbench.report.render import TABLE_SUFFIXES
from idwbench.results.store import Results


@pytest.fixture
def empty(run, tmp_path):
    """Type a command beside a database without runs."""
    Results(tmp_path / "results" / "idwbench.db")
    return run


@pytest.mark.slow
def test_every_format_can_be_printed_and_written(empty, tmp_path):
    for suffix, form in TABLE_SUFFIXES.items():
        printed = empty("claims", "--format", form)
        assert printed.exit_code == 0, printed.output
        written = empty("claims", "--format", form, "-o", f"claims{suffix}")
        assert written.stdout == f"claims{suffix}\n"
        text = (tmp_path / f"claims{suffix}").read_text()
        assert [line.rstrip() for line in printed.stdout.splitlines()] == text.splitlines()


def test_json_has_a_verdict_on_each_claim(empty):
    result = empty("claims", "--json")
    assert result.exit_code == 0, result.output
    records = json.loads(result.stdout)
    assert [record["number"] for record in records] == list(range(1, 34))
    assert records[0]["verdict"] == "not enough runs"
    assert records[0]["sweeps"] == ["sweeps/paper/paper_two_moons.yaml"]
    assert (records[5]["verdict"], records[19]["verdict"]) == ("holds", "does not hold")


@pytest.mark.parametrize(
    "arguments", [["claims"], pytest.param(["publish", "paper", "-o", "out"], marks=pytest.mark.slow)]
)
def test_each_data_set_is_read_once(empty, monkeypatch, arguments):
    read, find_runs = [], Results.find_runs
    monkeypatch.setattr(
        Results, "find_runs", lambda self, **chosen: read.append(chosen["dataset"]) or find_runs(self, **chosen)
    )
    assert empty(*arguments).exit_code == 0
    assert {"two_moons", "mnist"} <= set(read)
    assert len(read) == len(set(read))


@pytest.mark.slow
def test_runs_without_the_quality_of_prototypes_are_counted_and_measured_on_request(empty, tmp_path):
    assert empty("train", "--dataset", "two_moons", "--method", "idw", "--prototypes", 16).exit_code == 0
    with closing(sqlite3.connect(tmp_path / "results/idwbench.db")) as connection, connection:
        connection.execute("DELETE FROM metrics WHERE name <> 'accuracy'")
    result = empty("claims", "--json")
    assert result.stderr.startswith("1 run without the quality of prototypes: --measure computes it")
    assert "(1 run without coverage)" in result.stdout
    result = empty("claims", "--json", "--measure")
    assert result.stderr == "measured 1 of 1 runs\n"
    assert "without coverage" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--table", "mnist"], "No such option: --table"),
        (["--format", "csv", "--json"], "--json: --format is 'csv'"),
        (["--json", "-o", "claims.txt"], "--json: prints to stdout (--format json writes it to the file)"),
        (["--format", "csv", "-o", "claims.md"], "--output: .md is not the suffix of the format csv (expected .csv)"),
        (["-o", "absent/claims.md"], "does not exist"),
    ],
)
def test_options_that_would_be_ignored_are_refused(empty, tmp_path, arguments, words):
    before = files(tmp_path)
    assert_one_line(empty("claims", *arguments), 2, words)
    assert files(tmp_path) == before


def test_a_file_is_replaced_only_by_force(empty, tmp_path):
    (tmp_path / "claims.md").write_text("mine")
    assert_one_line(empty("claims", "-o", "claims.md"), 2, "exists already (--force replaces it)")
    assert (tmp_path / "claims.md").read_text() == "mine"


def test_the_claims_need_a_database_and_make_none(run, tmp_path):
    assert_one_line(run("claims"), 1, "results/idwbench.db")
    assert files(tmp_path) == set()
