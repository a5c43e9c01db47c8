from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from typed import SMALL_SWEEP, assert_one_line, files
from typer.testing import CliRunner

from idwbench.attention.scores import METHODS
from idwbench.cli.app import app
from idwbench.figures.stored import FIGURES
from idwbench.figures.style import Drawing
from idwbench.results.store import Results


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A small sweep, trained once for all reports."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "small.yaml").write_text(SMALL_SWEEP)
    result = CliRunner().invoke(app, ["sweep", str(folder / "small.yaml"), "--db", str(folder / "idwbench.db")])
    assert result.exit_code == 0, result.output
    return folder / "idwbench.db"


@pytest.fixture
def swept(run, database, tmp_path):
    (tmp_path / "results").mkdir()
    shutil.copy(database, tmp_path / "results/idwbench.db")
    return run


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
    written = swept("report", "--table", "small", "--format", form, "-o", "table.txt")
    assert written.stdout == "table.txt\n"
    if form != "rich":
        assert (tmp_path / "table.txt").read_text() == printed.stdout


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
    assert swept(*arguments, "-o", "board.txt").stdout == "board.txt\n"
    if form != "rich":
        assert (tmp_path / "board.txt").read_text() == printed.stdout


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


@pytest.mark.slow
def test_the_moons_figure_is_drawn_the_same_each_time(swept, tmp_path):
    result = swept("report", "--figure", "moons", "--table", "small")
    assert result.exit_code == 0, result.output
    assert result.stdout == "results/two_moons_moons.png\n"
    first = (tmp_path / "results/two_moons_moons.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert_one_line(swept("report", "--figure", "moons"), 2, "exists already (--force replaces it)")
    swept("report", "--figure", "moons", "--force")
    assert (tmp_path / "results/two_moons_moons.png").read_bytes() == first


@pytest.mark.slow
def test_the_keys_figure_is_drawn_for_images(run, tmp_path):
    run("train", "--dataset", "digits", "--prototypes", 10, "--epochs", 1)
    result = run("report", "--figure", "keys", "-o", "keys.svg")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "keys.svg").read_text().startswith("<?xml")


def test_the_figure_of_weights_needs_no_database(run, tmp_path):
    result = run("report", "--figure", "weights_p1", "-o", "weights.png")
    assert (result.exit_code, result.stdout) == (0, "weights.png\n")
    assert files(tmp_path) == {"weights.png"}
    assert_one_line(run("report", "--figure", "weights", "--method", "idw"), 2, "--method: the figure 'weights' shows")


def test_without_a_window_no_figure_is_shown(run, tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    shown = run("report", "--figure", "weights", "--show", "-o", "weights.png")
    assert_one_line(shown, 2, "--show: needs a window")
    assert files(tmp_path) == set()


def test_a_figure_is_shown_in_a_window_and_a_file_is_written_only_on_request(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("idwbench.figures.window.window_backend", lambda: "qtagg")
    monkeypatch.setattr("idwbench.figures.window.open_window", opened.append)
    result = run("report", "--figure", "weights", "--show")
    assert (result.exit_code, result.output) == (0, "")
    assert isinstance(opened[0], Figure)
    assert files(tmp_path) == set()
    written = run("report", "--figure", "weights", "--show", "-o", "weights.svg")
    assert (written.stdout, written.stderr) == ("", "weights.svg\n")


def test_what_a_figure_leaves_out_is_named_on_stderr(swept, monkeypatch):
    line = "not drawn: 2 runs of kind 'other'"
    monkeypatch.setitem(FIGURES, "moons", lambda store, runs, data_dir: Drawing(Figure(), (line,)))
    result = swept("report", "--figure", "moons", "--table", "small")
    assert (result.stdout, result.stderr) == ("results/two_moons_moons.png\n", f"{line}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--table", "smal"], "did you mean 'small'?"),
        (["--table", "small", "--method", "idv"], "did you mean 'idw'?"),
        (["--table", "small", "--prototypes", 99], "no runs"),
        (["--table", "small", "--figure", "keys"], "image"),
        (["--table", "small", "--figure", "moons", "-o", "a.jpg"], ".jpg"),
        (["--table", "small", "-o", "absent/table.md"], "does not exist"),
        (["--table", "small", "-o", "table.html"], "--output: the ending .html stands for no format"),
        (["--leaderboard", "small", "-o", "table"], "--output: a name without an ending stands for no format"),
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
        (["--format", "csv"], "--format: only with --table or --leaderboard or --claims"),
        (["-o", "table.md"], "--output: only with --table"),
        (["--table", "small", "--format", "csv", "--json"], "--json: --format is 'csv'"),
        (["--table", "small", "--figure", "moons", "--json"], "--json: only with --table"),
        (["--leaderboard", "small", "--table", "small"], "--table: cannot be combined with --leaderboard"),
        (["--leaderboard", "small", "--figure", "moons"], "--figure: cannot be combined with --leaderboard"),
        (["--table", "small", "--top", 3], "--top: only with --leaderboard"),
        (["--table", "small", "--split", "train"], "--split: only with --leaderboard"),
        (["--table", "small", "--best-over", "epsilon"], "--best-over: only with --leaderboard"),
        (["--figure", "moons", "--interval"], "--interval: only with --table or --leaderboard"),
        (["--metric", "accuracy"], "--metric: only with --table or --leaderboard"),
        (["--claims", "--table", "small"], "--table: cannot be combined with --claims"),
        (["--claims", "--method", "idw"], "--method: only with"),
        (["--paper"], "--paper: give -o FOLDER too"),
        (["--paper", "-o", "folder", "--claims"], "--paper: cannot be combined with --claims"),
        (["--table", "small", "--show"], "--show: only with --figure"),
    ],
)
def test_options_that_would_be_ignored_are_refused(swept, arguments, words):
    assert_one_line(swept("report", *arguments), 2, words)


def test_the_lowest_of_several_seeds_is_drawn(swept, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "idwbench.figures.collected.moons.draw_moons", lambda panels, *points, **names: drawn.extend(panels) or Figure()
    )
    assert swept("report", "--table", "small", "--figure", "moons", "--method", "idw").exit_code == 0
    store = Results("results/idwbench.db", read_only=True)
    runs = store.find_runs(sweep="small", methods=["idw"])
    for panel in drawn:
        seeds = {run.config.seed: run for run in runs if run.config.model.prototypes == panel.prototypes}
        np.testing.assert_array_equal(panel.values, store.load_arrays(seeds[0].run_key)["values"])
        assert panel.test_accuracy == pytest.approx(np.mean([run.metric("accuracy") for run in seeds.values()]))
    assert len(drawn) == 2


@pytest.mark.slow
def test_a_figure_needs_the_plugin_version_that_trained(run, tmp_path, monkeypatch):
    code = "from idwbench import register\n@register('mine')\ndef mine(inputs, keys):\n"
    code += "    return {}inputs @ keys.mT\n"
    (tmp_path / "mine.py").write_text(code.format(""))
    (tmp_path / "other.py").write_text(code.format("-"))
    run("train", "--dataset", "two_moons", "--method", "mine", "--epochs", 1, "--plugin", "mine.py")
    assert run("report", "--table", "two_moons", "--method", "mine").exit_code == 0
    monkeypatch.delitem(METHODS, "mine")
    figure = ["report", "--table", "two_moons", "--figure", "moons"]
    assert_one_line(run(*figure), 2, "load the plugin")
    assert_one_line(run(*figure, "--plugin", "other.py"), 2, "another version")
    monkeypatch.delitem(METHODS, "mine")
    assert run(*figure, "--plugin", "mine.py").exit_code == 0


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


def test_the_figure_list_names_all_figures(swept):
    from idwbench.figures.stored import FIGURES

    result = swept("report", "--figure", "list", "--table", "small")
    assert_one_line(result, 2, f"--figure: unknown figure 'list' (expected one of: {', '.join(sorted(FIGURES))})")


def test_an_empty_database_is_said_to_be_empty(run, tmp_path):
    Results(tmp_path / "results/idwbench.db")
    result = run("report")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing is stored\n")
