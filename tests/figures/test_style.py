"""Which runs a figure shows and what it refuses, files of figures, and the rules of lines over seeds."""

import math
import os
import subprocess
import sys
import warnings
from dataclasses import replace

import matplotlib
import numpy as np
import pandas
import pytest
from case_tables import case_table
from made import Store, assert_no_words_overlap, draw, made_dataset, made_run, use_dataset, words
from matplotlib.figure import Figure
from matplotlib.text import Text

from idwbench import figures, run_config
from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Look, draw_lines
from idwbench.figures.stored import collect_figures, draw_stored
from idwbench.figures.style import clean_text, new_page, save_figure, titled_parts

RUN = made_run(run_config("two_moons", prototypes=3))
STORED = {
    "prototypes": RUN,
    "diverged": replace(RUN, state="diverged", metrics={}),
    "network": made_run(run_config("two_moons", kind="network", encoder="mlp")),
    "knn": made_run(run_config("two_moons", kind="scikit_learn", method="knn")),
    "study": made_run(run_config("two_moons", kind="patch_study", prototypes=3)),
    "perceptron": made_run(run_config("two_moons", kind="mlp")),
    "context_vector": made_run(run_config("copying", kind="sequence_to_sequence", method="context_vector")),
}


def test_the_first_section_is_drawn_and_the_others_are_named(monkeypatch):
    use_dataset(monkeypatch)
    runs = [made_run(run_config("two_moons", prototypes=3, epochs=epochs)) for epochs in (2, 3, 25)]
    for name in ("moons", "keys"):
        (line,) = draw(name, runs).left_out
        assert line.startswith("not drawn: other data sets or protocols (two_moons · epochs 2 ")
        assert "; two_moons · epochs 3 " in line


@pytest.mark.parametrize(("name", "stored", "problem", "hint"), case_table("wrong_inputs")["figures"])
def test_what_cannot_be_drawn_is_refused(monkeypatch, name, stored, problem, hint):
    use_dataset(monkeypatch, made_dataset(3))
    with pytest.raises(ConfigError, match=problem) as caught:
        draw(name, [STORED[stored]] if stored else [])
    assert caught.value.location == ("figure",)
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(("name", "problem"), [("method", "not registered"), ("plugin_sha256", "another version")])
def test_a_method_must_be_registered_as_it_was_trained(monkeypatch, name, problem):
    use_dataset(monkeypatch)
    with pytest.raises(ConfigError, match=problem) as caught:
        changed = RUN.config.model.model_copy(update={name: "a" * 64})
        draw_stored("moons", Store(), [replace(RUN, config=RUN.config.model_copy(update={"model": changed}))])
    assert caught.value.location == ("plugin",)


def test_a_figure_is_one_file_of_the_folder(tmp_path, monkeypatch):
    code = "from __future__ import annotations\nfrom matplotlib.figure import Figure\n"
    code += "def mine_figure() -> Figure:\n    return Figure()\n"
    (tmp_path / "mine_for_a_test.py").write_text(code)
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(tmp_path)])
    try:
        figure = collect_figures()["mine"]()
    finally:
        sys.modules.pop("idwbench.figures.mine_for_a_test", None)
    assert not words(figure)


VALUES = np.array([[0.5, 0.8, 0.9], [0.7, 0.9, np.nan], [0.6, 0.7, np.nan]])
PERCENT = Axis("accuracy in %", percent=True)


def figure(text="words"):
    page, body = new_page(3, 2, ["a sentence"])
    axes = body.subplots()
    axes.set_title(text)
    axes.set_xticks([0], [text])
    return page


def test_a_title_is_broken_where_it_would_leave_the_page():
    page, body = new_page(5, 2)
    titles = ["idw · p=2, ε=0.001, initialisation samples, key bounds data · 12 prototypes · accuracy 97.00 %", "short"]
    for part in titled_parts(body, titles):
        part.subplots()
    page.draw_without_rendering()
    (shown,) = (text for text in page.findobj(Text) if text.get_text().replace("\n", " ") == titles[0])
    assert shown.get_window_extent().x1 < page.bbox.x1 and "short" in words(page)


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix, magic):
    before = dict(matplotlib.rcParams)
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        save_figure(figure(), path, dpi=40)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(magic)
    assert {path.name for path in tmp_path.iterdir()} == {first.name, second.name}
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(("name", "problem", "hint"), case_table("wrong_inputs")["figure_files"])
def test_another_suffix_or_none_is_refused_and_nothing_is_written(tmp_path, name, problem, hint):
    with pytest.raises(ConfigError) as caught:
        save_figure(Figure(), tmp_path / name)
    assert (caught.value.problem, caught.value.file, caught.value.hint) == (problem, str(tmp_path / name), hint)
    assert not list(tmp_path.iterdir())


def test_names_with_control_characters_dollars_and_letters_without_a_glyph_are_drawn_in_silence(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save_figure(figure("bell \x07, \x1b[31m, \u202e, \udcff, $x_{, $y$, 数, \U0001f600"), tmp_path / "a.svg")
    assert not caught
    assert b"\x07" not in (tmp_path / "a.svg").read_bytes()
    assert clean_text("a\x07\x1b\u202e\udcff\nb, 数") == "a\ufffd\ufffd\ufffd\ufffd\nb, 数"


def test_a_wrong_time_of_the_build_and_a_wrong_backend_are_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH: expected a whole number of seconds, got 'today'"):
        save_figure(figure(), tmp_path / "a.pdf")
    program = [sys.executable, "-m", "idwbench", "figure", "weights"]
    result = subprocess.run(program, env={**os.environ, "MPLBACKEND": "nope"}, capture_output=True, text=True)
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert "MPLBACKEND: Key backend: 'nope' is not a valid value" in result.stderr


def line(label="idw", values=VALUES, **options):
    table = pandas.DataFrame(values, columns=np.arange(1, values.shape[1] + 1)).rename_axis("seed")
    return table.melt(var_name="x", ignore_index=False).reset_index().assign(label=label, **options)


def drawn(*lines, y=PERCENT, marker=""):
    """The axes of a panel."""
    looks = {label: Look("#000000", marker=marker) for label in (*"abcd", "idw")}
    return draw_lines(pandas.concat(lines), looks, Axis("epoch"), y).axes[0]


def band_at(axes, band, x):
    vertices = axes.collections[band].get_paths()[0].vertices
    heights = vertices[vertices[:, 0] == x, 1]
    return heights.min(), heights.max()


def test_a_line_is_the_mean_of_the_seeds_with_a_band_within_their_range_where_there_are_several():
    axes = drawn(line())
    (mean,) = axes.get_lines()
    np.testing.assert_allclose(mean.get_xydata(), [[1, 60], [2, 80], [3, 90]])
    assert band_at(axes, 0, 1) == pytest.approx((50, 70))  # the range
    assert band_at(axes, 1, 2) == pytest.approx((70, 90))
    assert all(band.get_paths()[0].vertices[:, 0].max() == 2 for band in axes.collections)
    skewed = drawn(line(values=np.array([[1.0, 1.0], [1.0, np.nan], [0.4, 0.2]])), y=Axis(""))
    assert band_at(skewed, 1, 1) == pytest.approx((0.8 - math.sqrt(0.12), 1.0))
    assert len(drawn(*(line(name) for name in "abcd")).collections) == 4  # many lines have no range
    assert not drawn(line(values=VALUES[:1])).collections


def test_a_median_is_drawn_where_half_of_the_seeds_have_a_value_and_a_lone_one_has_its_quartiles():
    y, nan = Axis("", centre="median"), np.nan
    axes = drawn(line(values=np.array([[0.2, nan, nan], [0.4, 0.1, nan], [0.3, nan, 0.1], [0.3, 0.3, nan]])), y=y)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.3, 0.2, nan])
    alone = drawn(line(values=np.array([[0.1, nan], [0.2, nan], [0.4, nan]])), y=y)
    np.testing.assert_allclose([bar[:, 1] for bar in alone.collections[1].get_segments()], [[0.15, 0.3]])


def test_bars_of_geometric_means_are_those_of_the_logarithms_and_positive_values_have_a_logarithmic_axis():
    y = Axis("", centre="geometric mean")
    (bars,) = drawn(line(values=np.array([[1.0], [100.0]])), y=y, marker="o").containers
    np.testing.assert_allclose(bars[0].get_ydata(), [10])
    np.testing.assert_allclose(bars[2][0].get_segments()[0][:, 1], [1, 100])
    for low, scale in ((0.1, "log"), (0.0, "linear")):
        assert drawn(line(values=np.array([[1.0, low]])), y=Axis("loss", base=10)).get_yscale() == scale


def test_blocks_of_rows_and_rows_with_empty_places_are_drawn_without_overlap():
    looks = {"idw": Look("#000000"), "another one": Look("#0072B2")}
    lines = pandas.concat([line(), line("another one")])
    panels = pandas.concat(lines.assign(panel=f"{n} dimensions") for n in range(3))
    shared = draw_lines(panels, looks, Axis("load"), PERCENT, ["words"], columns=2)
    assert len(shared.axes) == 3
    assert words(shared).count("load") == 2
    blocks = pandas.concat([lines.assign(block="one", measure="accuracy"), lines.assign(block="two", measure="loss")])
    figure = draw_lines(blocks, looks, Axis("epoch"), {"accuracy": PERCENT, "loss": Axis("loss")})
    assert {"one", "two", "loss"} <= set(words(figure)) and words(figure).count("epoch") == 2
    assert_no_words_overlap(shared)
    assert_no_words_overlap(figure)
