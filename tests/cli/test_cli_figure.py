from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from typed import assert_one_line, files

from idwbench.attention.scores import METHODS
from idwbench.figures.stored import FIGURES
from idwbench.figures.style import Drawing
from idwbench.results.store import Results


@pytest.mark.slow
def test_the_moons_figure_is_drawn_the_same_each_time(swept, tmp_path):
    result = swept("figure", "moons", "--table", "small")
    assert result.exit_code == 0, result.output
    assert result.stdout == "results/two_moons_moons.png\n"
    first = (tmp_path / "results/two_moons_moons.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert_one_line(swept("figure", "moons"), 2, "exists already (--force replaces it)")
    swept("figure", "moons", "--force")
    assert (tmp_path / "results/two_moons_moons.png").read_bytes() == first


@pytest.mark.slow
def test_the_keys_figure_is_drawn_for_images(run, tmp_path):
    run("train", "--dataset", "digits", "--prototypes", 10, "--epochs", 1)
    result = run("figure", "keys", "-o", "keys.svg")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "keys.svg").read_text().startswith("<?xml")


def test_the_figure_of_weights_needs_no_database(run, tmp_path):
    result = run("figure", "weights_p1", "-o", "weights.png")
    assert (result.exit_code, result.stdout) == (0, "weights.png\n")
    assert files(tmp_path) == {"weights.png"}
    assert_one_line(run("figure", "weights", "--method", "idw"), 2, "--method: the figure 'weights' shows")


def test_without_a_window_no_figure_is_shown(run, tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    shown = run("figure", "weights", "--show", "-o", "weights.png")
    assert_one_line(shown, 2, "--show: needs a window")
    assert files(tmp_path) == set()


def test_a_figure_is_shown_in_a_window_and_a_file_is_written_only_on_request(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("idwbench.figures.window.window_backend", lambda: "qtagg")
    monkeypatch.setattr("idwbench.figures.window.open_window", opened.append)
    result = run("figure", "weights", "--show")
    assert (result.exit_code, result.output) == (0, "")
    assert isinstance(opened[0], Figure)
    assert files(tmp_path) == set()
    written = run("figure", "weights", "--show", "-o", "weights.svg")
    assert (written.stdout, written.stderr) == ("", "weights.svg\n")


def test_what_a_figure_leaves_out_is_named_on_stderr(swept, monkeypatch):
    line = "not drawn: 2 runs of kind 'other'"
    monkeypatch.setitem(FIGURES, "moons", lambda store, runs, data_dir: Drawing(Figure(), (line,)))
    result = swept("figure", "moons", "--table", "small")
    assert (result.stdout, result.stderr) == ("results/two_moons_moons.png\n", f"{line}\n")


def test_the_lowest_of_several_seeds_is_drawn(swept, monkeypatch):
    drawn = []
    monkeypatch.setattr("idwbench.figures.moons.draw_moons", lambda moons: drawn.extend(moons.panels) or Figure())
    assert swept("figure", "moons", "--table", "small", "--method", "idw").exit_code == 0
    store = Results("results/idwbench.db", read_only=True)
    runs = store.find_runs(sweep="small", methods=["idw"])
    for panel in drawn:
        seeds = {run.config.seed: run for run in runs if run.config.model.prototypes == panel.prototypes}
        np.testing.assert_array_equal(panel.picture.values, store.load_arrays(seeds[0].run_key)["values"])
        assert panel.test.mean == pytest.approx(np.mean([run.metric("accuracy") for run in seeds.values()]))
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
    figure = ["figure", "moons", "--table", "two_moons"]
    assert_one_line(run(*figure), 2, "load the plugin")
    assert_one_line(run(*figure, "--plugin", "other.py"), 2, "another version")
    monkeypatch.delitem(METHODS, "mine")
    assert run(*figure, "--plugin", "mine.py").exit_code == 0


def test_the_figures_are_listed_without_a_database(run, tmp_path):
    result = run("figure", "--list")
    assert (result.exit_code, result.stdout.split()) == (0, sorted(FIGURES))
    assert json.loads(run("figure", "--list", "--json").stdout) == sorted(FIGURES)
    assert files(tmp_path) == set()


def test_what_was_drawn_is_json_on_request(swept):
    content = json.loads(swept("figure", "moons", "--table", "small", "-o", "moons.png", "--json").stdout)
    assert content == {"figure": "moons", "output": "moons.png", "left_out": []}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], f"unknown figure 'nope' (expected one of: {', '.join(sorted(FIGURES))})"),
        (["keys"], "image"),
        (["moons", "-o", "a.jpg"], ".jpg"),
        (["moons", "--table", "smal"], "--table: nothing is called 'smal' (did you mean 'small'?)"),
        (["moons", "--interval"], "No such option: --interval"),
        ([], "missing argument 'NAME': a figure, see --list"),
    ],
)
def test_impossible_figures_are_refused_in_one_line(swept, tmp_path, arguments, words):
    before = files(tmp_path)
    assert_one_line(swept("figure", *arguments), 2, words)
    assert files(tmp_path) == before
