from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest
from matplotlib.figure import Figure
from typed import SMALL_SWEEP, assert_one_line, files
from typer.testing import CliRunner

from idwbench.attention.methods import METHODS
from idwbench.cli.app import app
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


def test_csv_and_json_hold_the_same_rows(swept):
    rows = list(csv.DictReader(io.StringIO(swept("report", "--table", "small", "--format", "csv").stdout)))
    records = json.loads(swept("report", "--table", "small", "--json").stdout)
    assert len(rows) == len(records) == 5
    assert [row["method"] for row in rows] == [record["method"] for record in records]


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--table", "smal"], "did you mean 'small'?"),
        (["--table", "small", "--method", "idv"], "did you mean 'idw'?"),
        (["--table", "small", "--prototypes", 99], "no runs"),
        (["--table", "small", "--figure", "keys"], "image"),
        (["--table", "small", "--figure", "moons", "-o", "a.jpg"], ".jpg"),
        (["--table", "small", "-o", "absent/table.md"], "does not exist"),
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
        (["--format", "csv"], "give --table NAME"),
        (["-o", "table.md"], "give --table NAME"),
        (["--table", "small", "--format", "csv", "--json"], "--json: --format is 'csv'"),
        (["--table", "small", "--figure", "moons", "--json"], "takes neither"),
    ],
)
def test_options_that_would_be_ignored_are_refused(swept, arguments, words):
    assert_one_line(swept("report", *arguments), 2, words)


def test_the_lowest_of_several_seeds_is_drawn(swept, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "idwbench.figures.stored.draw_moons", lambda panels, *points, **names: drawn.extend(panels) or Figure()
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
