"""What a page contains, without a browser."""

import base64
import io
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import made_pages
import numpy as np
import pandas
import pytest
from case_tables import PENGUINS
from PIL import Image
from stored_runs import stored_run

from idwbench import Results, run_config, train
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, DatasetError, OutputExistsError
from idwbench.figures import runs
from idwbench.figures.moons import HeatMap
from idwbench.figures.runs import Selection
from idwbench.page import charts, groups, pictures, writing
from idwbench.page.charts import heat_map_chart
from idwbench.page.groups import choose_runs, find_groups, rank_settings
from idwbench.page.parts import image_picture, key_picture, size_of
from idwbench.page.writing import write_page
from idwbench.report.leaderboard import leaderboard

DOCS = (Path(__file__).parents[2] / "docs/reports.md").read_text(encoding="utf-8")
MOST = 5_000_000  # bytes


def sections(results, group=None, top=writing.TOP, **selection):
    return [*writing.with_sections(results, find_groups(results, group, **selection), top=top)]


def part(results, group, name, **selection):
    [(_, parts)] = sections(results, group, **selection)
    return next(found for found in parts if found.name == name)


def rows_of(spec):
    (rows,) = spec["datasets"].values()
    return rows


def unpacked(picture):
    file = base64.b64decode(picture.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


def test_the_page_is_one_file_below_five_megabytes_that_may_load_nothing(page_of):
    text = page_of("filled").read_text()
    assert len(text.encode()) < MOST
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy[1].startswith("default-src 'none'; script-src 'unsafe-inline';")
    assert "unsafe-eval" not in policy[1]
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.S)  # the libraries name their licences by address
    assert not re.search(r'(src|href)="(?!data:|#)', own)
    assert made_pages.EVIL not in text
    assert text.count("</script>") == 3  # data, libraries, own script


def test_the_same_runs_give_the_same_bytes_and_a_file_is_replaced_only_if_asked_for(filled, page_of, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(OutputExistsError):
        write_page(filled, path)
    assert path.read_text() == "mine"
    assert write_page(filled, path, overwrite=True).read_bytes() == page_of("filled").read_bytes()


def test_the_leaderboard_of_the_page_is_that_of_the_report(filled):
    (short,) = part(filled, "moons", "leaderboard", top=3).tables
    board = leaderboard(filled.find_runs(sweep="moons"), top=3)
    assert replace(short, records=board.records) == board
    assert len(short.groups) == 3
    assert "The first 3 of 8 rows." in short.notes


def test_a_selection_leaves_out_the_other_runs(filled):
    [(group, _)] = sections(filled, methods=["idw"], prototypes=[4])
    assert (group.title, group.counts) == ("moons", {"complete": 8})
    with pytest.raises(ConfigError, match="no runs have that method and number of prototypes"):
        find_groups(filled, methods=["idw"], prototypes=[77])


def test_a_heat_map_has_a_cell_for_each_power_and_epsilon_which_says_why_it_has_no_number(filled):
    (panels,) = part(filled, "moons", "heat-maps").blocks
    (chart,) = panels.charts
    cells = rows_of(chart.spec)
    assert [cell["n"] for cell in cells] == [2, 2, 2, 2]
    assert {cell["p"] for cell in cells} == {"2", "8"}
    assert [float(cell["t"]) for cell in cells] == pytest.approx([98.35, 96.35, 94.35, 92.35], abs=0.06)
    mean, std = [0.95, None, None, None], [0.05, None, None, None]
    facts = {"mean": mean, "std": std, "n": [2, 0, 0, 0], "note": ["n=2", "not measured", "2 diverged", "no run"]}
    cells = pandas.DataFrame(facts, pandas.MultiIndex.from_product([(2.0, 8.0), (0.0, 0.1)]))
    rows = rows_of(heat_map_chart(HeatMap("accuracy in %", "accuracy", cells)))
    assert [row["t"] for row in rows] == ["95.0", "not measured", "2 diverged", "no run"]
    assert [row["b"] for row in rows[1:]] == [None] * 3


def test_a_search_has_its_history_by_validation_the_importance_of_its_settings_and_its_trials_on_parallel_axes(
    filled, tmp_path, monkeypatch
):
    results = made_pages.searched(tmp_path / "found.db")
    found = part(results, "found", "search")
    (above, below), (_, order) = found.blocks, found.notes[0].split("R² of ")
    history, importance = above.charts
    assert history.title == "History: validation accuracy in %"
    trials = rows_of(history.spec)
    assert [row["trial"] for row in trials] == [*range(1, 25)]
    assert trials[-1]["best"] == max(row["value"] for row in trials)
    bars = rows_of(importance.spec)
    assert [bar["n"] for bar in bars] == ["power", "learning rate", "random numbers"]
    assert bars[0]["l"] <= bars[0]["v"] <= bars[0]["h"] and 0 < float(order.rstrip(".")) < 1
    lines, ticks = below.charts[0].spec["datasets"].values()
    assert len(lines) == 24 and {tuple(row["axis"]) for row in lines} == {
        ("power", "learning rate", "validation accuracy in %")
    }
    assert [row["place"][-1] for row in lines] == sorted(row["place"][-1] for row in lines)  # the best are on top
    assert {tick["axis"] for tick in ticks} == {*lines[0]["axis"]}
    assert "search" not in [one.name for _, parts in sections(filled, "moons") for one in parts]
    monkeypatch.setattr(charts, "_TRIALS", 5)
    few = part(results, "found", "search", prototypes=[4])
    assert len(next(iter(few.blocks[1].charts[0].spec["datasets"].values()))) == 5
    assert few.notes[-1] == "Not drawn below: all but the best 5 of 24 trials."
    short = part(made_pages.searched(tmp_path / "short.db", 3), "found", "search")
    assert [chart.title for chart in short.blocks[0].charts] == ["History: validation accuracy in %"]
    assert short.notes == ("The importance of settings needs at least 20 trials with a value, got 3.",)


def test_curves_are_means_over_seeds_with_a_band(filled):
    accuracy = part(filled, "moons", "curves").blocks[0]
    four = next(chart for chart in accuracy.charts if chart.title == "4 prototypes")
    best = next(row for row in rows_of(four.spec) if row["c"] == "idw p=2, ε=0.001")
    assert best["e"] == [1, 2, 3]
    # The seeds of the first setting have accuracies 0.99 and 0.977 after the last epoch.
    assert (best["m"][-1], best["n"][-1]) == (pytest.approx(98.35), 2)
    assert (best["l"][-1], best["h"][-1], best["s"][-1]) == (97.7, 99.0, pytest.approx(0.92, abs=0.005))


def test_the_nearest_training_images_are_those_of_brute_force_and_keys_are_drawn_without_them(filled, monkeypatch):
    name = f"a{made_pages.EVIL}"
    grids = part(filled, name, "prototypes").blocks
    grid = next(grid for grid in grids if grid.title.startswith("idw"))
    run = next(run for run in filled.find_runs(sweep=name) if run.config.model.method == "idw")
    keys = np.asarray(filled.load_arrays(run.run_key)["keys"], np.float64)
    train = load_dataset(run.config.dataset).train.inputs.astype(np.float64)
    assert grid.keys is not None
    for tile in grid.keys["keys"]:
        distances = np.sqrt(((train - keys[tile["number"]]) ** 2).sum(1))
        found = [near["row"] for near in tile["nearest"]]
        assert sorted(distances[found]) == pytest.approx(sorted(distances)[:5])
        assert [near["distance"] for near in tile["nearest"]] == pytest.approx(distances[found], rel=5e-3)
        assert {*found} <= {*grid.keys["images"]}
    monkeypatch.setattr(runs, "load_dataset", Mock(side_effect=DatasetError("no such folder")))
    found = part(filled, f"a{made_pages.EVIL}", "prototypes")
    assert all(grid.keys is not None and not grid.keys["images"] for grid in found.blocks)
    assert "Without training images, since digits is not available: no such folder." in found.notes


def test_the_prototypes_of_a_table_are_rows_of_its_columns_beside_their_nearest_training_rows(tmp_path):
    settings = {"prototypes": 5, "epochs": 3, "initialisation": "samples", "learning_rate": 1e-30}
    run = train(run_config({"name": str(PENGUINS), "label": "species"}, **settings), tmp_path / "birds.db")
    results = Results(tmp_path / "birds.db")
    (grid,) = part(results, None, "prototypes").blocks
    columns = {column.name: column.texts for column in grid.table.columns}
    assert [*columns] == ["prototype", "class", *pandas.read_csv(PENGUINS).columns[1:], "nearest row", "distance"]
    data = load_dataset(run.config.dataset)
    for place, near in enumerate(columns["nearest row"]):  # keys are training rows, of which hardly anything changed
        row, name = int(near.split()[0]), columns["class"][place]
        expected = data.columns.texts(data.scaling.invert(data.train.inputs[row]))
        assert [columns[column][place] for column in data.columns.names] == expected
        assert near.endswith(f"({name})") and data.class_names[data.train.labels[row]] == name
    assert set(columns["distance"]) == {"0.000"} and run.state == "complete"
    assert train(run_config("iris", method="cosine", prototypes=4, epochs=1), tmp_path / "iris.db").run_key
    assert not [
        one for _, parts in sections(Results(tmp_path / "iris.db")) for one in parts if one.name == "prototypes"
    ]


def test_pictures_of_keys_are_white_at_zero_and_those_of_images_at_the_lowest_value():
    key = np.array([[0.0, 1.0], [-1.0, 0.0]])
    picture = unpacked(key_picture(key))
    assert picture.shape == (2, 2, 3)
    assert picture[0, 0].tolist() == picture[1, 1].tolist() == [255, 255, 255]
    assert picture[0, 1].tolist() == [17, 20, 24]
    assert picture[1, 0, 2] > picture[1, 0, 0]  # negative is blue
    image = unpacked(image_picture(np.array([[3.0, 5.0], [4.0, 3.0]])))
    assert image[..., 0].tolist() == [[255, 0], [image[1, 0, 0], 255]]
    assert 100 < image[1, 0, 0] < 150


def test_charts_show_few_settings_and_groups_beyond_the_budget_the_head_of_their_leaderboard(filled, monkeypatch):
    ranked = rank_settings(filled.run_table(sweep="moons"))
    means = [setting.statistics["test"].mean for setting in ranked]
    assert means == sorted(means, reverse=True)
    one_method = [setting for setting in ranked if setting.config.model.method == "idw"] * 20
    run_keys, left_out = choose_runs(one_method)
    assert len(run_keys) == 10 * 2
    assert left_out == ["10 of 80 settings: the best of each method and number of prototypes"]

    def names(group=None):
        return [[part.name for part in parts] for _, parts in sections(filled, group)]

    (first, parts), _ = sections(filled)
    whole, head = ["leaderboard", "curves", "prototypes"], ["leaderboard", "more"]
    monkeypatch.setattr(writing, "_BUDGET", sum(map(size_of, parts)) + 1)
    assert names() == [whole, head]
    monkeypatch.setattr(writing, "_BUDGET", 10)
    assert names() == [head, head]
    assert names(first.title) == [whole]


def test_the_limits_in_the_documentation_are_those_of_the_page():
    for limit in (
        f"{writing.TOP}, or `--top`",
        f"{groups._OF_A_METHOD}; {groups._OF_ONE_METHOD} if it is the only method",
        f"numbers of prototypes with curves | {groups._COUNTS} |",
        f"{charts._POINTS}, evenly spaced",
        f"{pictures._NETWORKS}, the best setting of each method; {pictures._KEYS} keys of each",
        f"cases of patches | {pictures._CASES} |",
        f"trials on parallel axes | {charts._TRIALS}, the best",
        f"at most {writing._MOST_RUNS_FOR_CLAIMS:,} runs",
        f"{writing._BUDGET / 1e6:.1f} MB; later sweeps have the first {writing._HEAD} rows",
    ):
        assert limit in DOCS


def test_a_page_without_charts_has_no_libraries(page_of):
    text = page_of("empty").read_text()
    assert len(text.encode()) < 60_000
    assert "The database has no runs yet." in text
    assert "idwbench sweep" not in text  # the library does not know the command line


def test_comparisons_of_patches_have_no_section():
    run = stored_run(None, kind="patch_study", cases="wrong", compare=True, prototypes=20)
    with pytest.raises(ConfigError, match="no study of patches can be drawn"):
        pictures.patches_part(Selection(None, [run]))  # type: ignore[arg-type]
