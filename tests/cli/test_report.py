"""`idwbench report`, `claims`, `figure` and `page`: what is made of stored runs."""

import json
import shutil

from case_tables import VERSION_0_1_0
from matplotlib.figure import Figure
from stored_runs import query
from typed import assert_one_line, files

from idwbench.figures.stored import FIGURES
from idwbench.report.render import TABLE_SUFFIXES
from idwbench.results.store import Results


def test_a_table_can_be_printed_and_written_in_the_format_that_follows_from_the_suffix(swept, tmp_path):
    for suffix, name in TABLE_SUFFIXES.items():
        printed = swept(f"report --table small --format {name}")
        assert printed.exit_code == 0, printed.output
        assert swept(f"report --table small -o table{suffix.upper()}").stdout == f"table{suffix.upper()}\n"
        text = (tmp_path / f"table{suffix.upper()}").read_text()
        assert text == printed.stdout if suffix != ".txt" else "idw" in text


def test_rows_are_selected_and_sorted_data_sets_are_columns_and_intervals_the_same_each_time(swept):
    records = json.loads(swept("report --leaderboard small --json").stdout)
    means = [record["test_mean"] for record in records]
    assert len(means) == 5 and means == sorted(means, reverse=True)
    assert len(json.loads(swept("report --leaderboard small --top 3 --split holdout --json").stdout)) == 3
    words = "report --table small --method idw --prototypes 8 --metric accuracy --interval --json"
    [record] = json.loads(swept(words).stdout)
    assert (record["method"], record["prototypes"]) == ("idw", 8)
    assert record["test_low"] <= record["test_mean"] <= record["test_high"]
    assert json.loads(swept(words).stdout) == [record]
    shown = swept("report --table small --by-dataset --split train --format markdown").stdout
    [header] = [line for line in shown.splitlines() if line.startswith("| method ")]
    assert header.endswith(" two_moons |") and "on the split train" in shown


def test_without_a_name_the_contents_are_listed(swept, tmp_path):
    assert swept("report").stdout == "sweep small: 15 of 15 runs complete\ndata set two_moons\n"
    assert json.loads(swept("report --json").stdout)["sweeps"][0]["complete"] == 15
    Results(tmp_path / "empty.db")
    result = swept("report --db empty.db")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing is stored\n")


def test_runs_of_an_older_version_that_lack_a_metric_are_measured_on_request(swept, tmp_path):
    plain = swept("report --table small --metric coverage --format csv").stdout
    query(tmp_path / "results/idwbench.db", "DELETE FROM metrics WHERE name <> 'accuracy'")
    for option in ("--table", "--leaderboard"):
        lacking = "--metric: all 15 complete runs lack the metric 'coverage' (they have: accuracy; "
        assert_one_line(swept(f"report {option} small --metric coverage"), 2, f"{lacking}'idwbench runs measure'")
    assert swept("runs measure --where method=='idw'").stderr == "measured 6 of 6 runs\n"
    assert "9 complete runs without the metric 'coverage'" in swept("report --table small --metric coverage").stdout
    for words in ("measured 9 of 9 runs\n", "all runs are measured already\n"):
        assert swept("runs measure --sweep small").stderr == words
    assert swept("report --table small --metric coverage --format csv").stdout == plain


def test_runs_of_a_database_of_an_older_version_are_measured(run, tmp_path):
    shutil.copy(VERSION_0_1_0 / "idwbench.db", tmp_path / "old.db")
    accuracies = "run_key, train_accuracy, test_accuracy, holdout_accuracy FROM runs"
    before = query("old.db", f"SELECT {accuracies} WHERE state = 'complete'")
    assert run("runs measure --db old.db").stderr == "measured 11 of 11 runs\n"
    assert query("old.db", f"SELECT {accuracies}_wide WHERE state = 'complete'") == before
    measured = Results("old.db").to_frame(states=["complete"])
    assert (measured.train_coverage > 0).all() and measured.test_nearest_key_accuracy.between(0, 1).all()


def test_a_figure_of_stored_runs_is_the_same_each_time_and_one_of_formulas_needs_no_database(swept, tmp_path, run):
    result = swept("figure moons --table small")
    assert (result.exit_code, result.stdout) == (0, "results/two_moons_moons.png\n"), result.output
    first = (tmp_path / "results/two_moons_moons.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert_one_line(swept("figure moons"), 2, "exists already (--force replaces it)")
    content = json.loads(swept("figure moons --table small --force --json").stdout)
    assert content == {"figure": "moons", "output": "results/two_moons_moons.png", "left_out": []}
    assert (tmp_path / "results/two_moons_moons.png").read_bytes() == first
    result = run("figure --list")
    assert (result.exit_code, result.stdout.split()) == (0, sorted(FIGURES))
    assert json.loads(run("figure --list --json").stdout) == sorted(FIGURES)
    result = run("figure weights_p1 -o weights.png")
    assert (result.exit_code, result.stdout) == (0, "weights.png\n")
    assert "weights.png" in files(tmp_path)


def test_a_figure_is_shown_in_a_window_and_what_it_leaves_out_is_named(swept, tmp_path, monkeypatch):
    opened, line, before = [], "not drawn: 2 runs of kind 'other'", files(tmp_path)
    monkeypatch.setattr("idwbench.figures.style.window_backend", lambda: "qtagg")
    monkeypatch.setattr("idwbench.figures.style.open_window", opened.append)
    monkeypatch.setitem(FIGURES, "moons", lambda selection: selection.left_out.append(line) or Figure())
    result = swept("figure moons --table small --show")
    assert (result.stdout, result.stderr, files(tmp_path)) == ("", f"{line}\n", before)
    assert isinstance(opened[0], Figure)
    written = swept("figure moons --table small --show -o moons.svg")
    assert (written.stdout, written.stderr) == ("", f"{line}\nmoons.svg\n")
