"""`idwbench report`, `claims`, `figure` and `page`: what is made of stored runs."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from matplotlib.figure import Figure
from typed import assert_one_line, files

from idwbench.attention.scores import METHODS
from idwbench.figures.stored import FIGURES
from idwbench.report.render import TABLE_SUFFIXES
from idwbench.results.store import Results

LEADERBOARD = "report --leaderboard two_moons --top 3 --split holdout"


@pytest.mark.parametrize(
    ("command", "suffix"), [*(("report --table small", suffix) for suffix in TABLE_SUFFIXES), (LEADERBOARD, ".md")]
)
def test_a_table_can_be_printed_and_written_in_the_format_that_follows_from_the_suffix(
    swept, tmp_path, command, suffix
):
    printed = swept(f"{command} --format {TABLE_SUFFIXES[suffix]}")
    assert printed.exit_code == 0, printed.output
    written = swept(f"{command} -o table{suffix.upper()}")
    assert written.stdout == f"table{suffix.upper()}\n"
    text = (tmp_path / f"table{suffix.upper()}").read_text()
    assert text == printed.stdout if suffix != ".txt" else "idw" in text


def test_csv_and_json_hold_the_same_rows(swept):
    rows = list(csv.DictReader(io.StringIO(swept("report --table small --format csv").stdout)))
    records = json.loads(swept("report --table small --json").stdout)
    assert len(rows) == len(records) == 5
    assert [row["method"] for row in rows] == [record["method"] for record in records]
    chosen = json.loads(swept("report --table small --method idw --prototypes 8 --json").stdout)
    assert [(row["method"], row["prototypes"]) for row in chosen] == [("idw", 8)]


def test_a_leaderboard_is_sorted_and_intervals_are_the_same_each_time(swept):
    means = [record["test_mean"] for record in json.loads(swept("report --leaderboard small --json").stdout)]
    assert len(means) == 5 and means == sorted(means, reverse=True)
    words = "report --table small --metric accuracy --interval --json"
    records = json.loads(swept(words).stdout)
    assert all(record["test_low"] <= record["test_mean"] <= record["test_high"] for record in records)
    assert json.loads(swept(words).stdout) == records


def test_hyperparameters_are_chosen_by_the_validation_split(run, tmp_path):
    (tmp_path / "tuned.yaml").write_text(
        "name: tuned\ndataset: {name: two_moons, validation: 0.1}\nprotocol: {epochs: 1}\nseeds: 1\n"
        "grid: {method: idw, prototypes: [2, 4], learning_rate: [0.001, 0.1]}\n"
    )
    assert run("sweep tuned.yaml").exit_code == 0
    result = run("report --leaderboard tuned --json --best-over", "learning_rate, epsilon")
    assert sorted(record["prototypes"] for record in json.loads(result.stdout)) == [2, 4]


def test_data_sets_are_columns_of_one_table(run, tmp_path):
    (tmp_path / "two_sets.yaml").write_text(
        "name: two_sets\ndataset: [{name: iris, seed: [0, 1]}, {name: wine, seed: [0, 1]}]\nseeds: 1\n"
        "grid:\n  - {kind: scikit_learn, method: [knn, nearest_centroid]}\n"
    )
    assert run("sweep two_sets.yaml").exit_code == 0
    shown = run("report --table two_sets --by-dataset --format markdown").stdout
    assert "| method | parameters | iris | wine | mean rank |" in re.sub(" +", " ", shown)
    assert "on the split test, mean ± sample standard deviation over 2 seeds" in shown
    times = run("report --table two_sets --by-dataset --split train --metric fit_seconds").stdout
    assert "fit seconds (lower is better) on the split train" in times


def test_without_a_name_the_contents_are_listed(swept, tmp_path):
    assert swept("report").stdout == "sweep small: 15 of 15 runs complete\ndata set two_moons\n"
    assert json.loads(swept("report --json").stdout)["sweeps"][0]["complete"] == 15
    Results(tmp_path / "empty.db")
    result = swept("report --db empty.db")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing is stored\n")


def without_quality(tmp_path):
    with closing(sqlite3.connect(tmp_path / "results/idwbench.db")) as connection, connection:
        connection.execute("DELETE FROM metrics WHERE name <> 'accuracy'")


def test_measure_stores_what_is_missing_and_prints_the_table(swept, tmp_path):
    plain = swept("report --table small --format csv").stdout
    without_quality(tmp_path)
    result = swept("report --table small --method idw --measure --json")
    assert (result.stderr, len(json.loads(result.stdout))) == ("measured 6 of 6 runs\n", 2)
    for words in ("measured 9 of 9 runs\n", "all runs are measured already\n"):
        result = swept("report --table small --measure --format csv")
        assert (result.stderr, result.stdout) == (words, plain)


@pytest.mark.parametrize("option", ["--table", "--leaderboard"])
def test_a_metric_that_runs_of_an_older_version_lack_comes_with_advice_to_measure_them(swept, tmp_path, option):
    without_quality(tmp_path)
    words = f"report {option} small --metric"
    message = "--metric: all 15 complete runs lack the metric 'coverage' (--measure computes it"
    assert_one_line(swept(f"{words} coverage"), 2, message)
    assert_one_line(swept(f"{words} r2"), 2, "(they have: accuracy)")
    assert swept(f"{words} coverage --measure --method idw").exit_code == 0
    result = swept(f"{words} coverage")
    assert result.stderr.startswith("9 runs without the quality of prototypes: --measure computes it")
    assert "9 complete runs without the metric 'coverage'; not in the means." in result.stdout
    assert swept(f"{words} accuracy").stderr == ""


def test_a_table_and_json_have_a_verdict_on_each_claim(run, tmp_path):
    Results(tmp_path / "results/idwbench.db")
    records = json.loads(run("claims --json").stdout)
    assert [record["number"] for record in records] == list(range(1, 34))
    assert records[0]["verdict"] == "not enough runs"
    assert records[0]["sweeps"] == ["sweeps/paper/paper_two_moons.yaml"]
    assert (records[5]["verdict"], records[19]["verdict"]) == ("holds", "does not hold")
    assert run("claims -o claims.md").stdout == "claims.md\n"
    assert "not enough runs" in (tmp_path / "claims.md").read_text()


@pytest.mark.slow
def test_runs_without_the_quality_of_prototypes_are_counted_and_measured_on_request(run, tmp_path):
    assert run("train --dataset two_moons --method idw --prototypes 16").exit_code == 0
    without_quality(tmp_path)
    result = run("claims --json")
    assert result.stderr.startswith("1 run without the quality of prototypes: --measure computes it")
    assert "(1 run without coverage)" in result.stdout
    result = run("claims --json --measure")
    assert result.stderr == "measured 1 of 1 runs\n"
    assert "without coverage" not in result.stdout


def test_a_figure_is_drawn_the_same_each_time_and_replaced_only_by_force(swept, tmp_path):
    result = swept("figure moons --table small")
    assert (result.exit_code, result.stdout) == (0, "results/two_moons_moons.png\n"), result.output
    first = (tmp_path / "results/two_moons_moons.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert_one_line(swept("figure moons"), 2, "exists already (--force replaces it)")
    content = json.loads(swept("figure moons --table small --force --json").stdout)
    assert content == {"figure": "moons", "output": "results/two_moons_moons.png", "left_out": []}
    assert (tmp_path / "results/two_moons_moons.png").read_bytes() == first


def test_a_figure_of_formulas_and_the_list_need_no_database(run, tmp_path):
    result = run("figure --list")
    assert (result.exit_code, result.stdout.split()) == (0, sorted(FIGURES))
    assert json.loads(run("figure --list --json").stdout) == sorted(FIGURES)
    result = run("figure weights_p1 -o weights.png")
    assert (result.exit_code, result.stdout) == (0, "weights.png\n")
    assert files(tmp_path) == {"weights.png"}


def test_a_figure_is_shown_in_a_window_and_a_file_is_written_only_on_request(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("idwbench.figures.window.window_backend", lambda: "qtagg")
    monkeypatch.setattr("idwbench.figures.window.open_window", opened.append)
    result = run("figure weights --show")
    assert (result.exit_code, result.output, files(tmp_path)) == (0, "", set())
    assert isinstance(opened[0], Figure)
    written = run("figure weights --show -o weights.svg")
    assert (written.stdout, written.stderr) == ("", "weights.svg\n")


def test_what_a_figure_leaves_out_is_named_on_stderr(swept, monkeypatch):
    line = "not drawn: 2 runs of kind 'other'"
    monkeypatch.setitem(FIGURES, "moons", lambda selection: selection.left_out.append(line) or Figure())
    result = swept("figure moons --table small")
    assert (result.stdout, result.stderr) == ("results/two_moons_moons.png\n", f"{line}\n")


def test_the_lowest_of_several_seeds_is_drawn(swept, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        "idwbench.figures.moons.draw_plane_grid", lambda panels, *_, **__: drawn.update(panels) or Figure()
    )
    assert swept("figure moons --table small --method idw").exit_code == 0
    store = Results("results/idwbench.db", read_only=True)
    runs = store.find_runs(sweep="small", methods=["idw"])
    for (_, prototypes), (row, picture) in drawn.items():
        seeds = {run.config.seed: run for run in runs if run.config.model.prototypes == prototypes}
        np.testing.assert_array_equal(picture.values, store.load_arrays(seeds[0].run_key)["values"])
        assert row.statistics["test"].mean == pytest.approx(np.mean([run.metric("accuracy") for run in seeds.values()]))
    assert len(drawn) == 2


@pytest.mark.slow
def test_a_figure_needs_the_plugin_version_that_trained(run, tmp_path, monkeypatch):
    code = "from idwbench import register\n@register('mine')\ndef mine(inputs, keys):\n"
    code += "    return {}inputs @ keys.mT\n"
    (tmp_path / "mine.py").write_text(code.format(""))
    (tmp_path / "other.py").write_text(code.format("-"))
    run("train --dataset two_moons --method mine --epochs 1 --plugin mine.py")
    assert run("report --table two_moons --method mine").exit_code == 0
    monkeypatch.delitem(METHODS, "mine")
    assert_one_line(run("figure moons --table two_moons"), 2, "load the plugin")
    assert_one_line(run("figure moons --table two_moons --plugin other.py"), 2, "another version")
    monkeypatch.delitem(METHODS, "mine")
    assert run("figure moons --table two_moons --plugin mine.py").exit_code == 0


@pytest.mark.slow
def test_a_page_is_written_and_replaced_only_by_force(swept, tmp_path):
    (tmp_path / "page.html").write_text("mine")
    assert_one_line(swept("page page.html --table small"), 2, "exists already (--force replaces it)")
    done = swept("page page.html --table small --force")
    assert (done.exit_code, done.stdout) == (0, "page.html\n")
    assert "<h1 " in (tmp_path / "page.html").read_text()
