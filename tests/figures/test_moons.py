"""Figures in the plane: predictions, points and keys of the paper's Figures 2 and 5, and heat maps."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from made import SCALING, assert_no_words_overlap, draw, made_dataset, made_run, use_dataset, words
from matplotlib.collections import PathCollection

from idwbench.figures.plane import GRID, plane_data, plane_picture
from idwbench.figures.stored import Drawing
from idwbench.figures.style import class_colour
from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config

KEYS = np.array([[-0.6, 0.1], [9.0, 9.0]], np.float32)
VALUES = np.eye(2, dtype=np.float32)
ARRAYS = {"keys": KEYS, "values": VALUES}


@pytest.fixture(autouse=True)
def _data(monkeypatch) -> None:
    use_dataset(monkeypatch, made_dataset())


def runs(seeds=(0, 1), **settings: object) -> list[StoredRun]:
    settings = {"prototypes": 2, **settings}
    return [made_run(run_config("two_moons", seed=seed, **settings), 0.8 + seed / 10) for seed in seeds]


def drawn(name: str, given: list[StoredRun]) -> Drawing:
    return draw(name, given, default=ARRAYS)


def test_a_picture_has_keys_in_the_datas_own_units_and_the_probability_at_the_middles_of_cells():
    data = plane_data(made_dataset())
    picture = plane_picture(run_config("two_moons", prototypes=2).model, KEYS, VALUES, data)
    np.testing.assert_allclose(picture.keys, SCALING.invert(KEYS), rtol=1e-6)
    left, right, bottom, top = data.extent
    middles = (np.arange(GRID) + 0.5) / GRID
    x, y = np.meshgrid(left + (right - left) * middles, bottom + (top - bottom) * middles)
    query = (np.stack([x, y], -1)[:, :, None] - SCALING.mean) / SCALING.std
    weight = 1 / (1e-3 + ((query - KEYS.astype(np.float64)) ** 2).sum(-1))
    logits = (weight / weight.sum(-1, keepdims=True)) @ VALUES
    expected = 1 / (1 + np.exp(logits[..., 0] - logits[..., 1]))
    np.testing.assert_allclose(picture.probability, expected, atol=2e-6)


def test_a_panel_shows_points_keys_regions_of_the_lowest_seed_and_means_over_seeds():
    given = runs(seeds=(3, 1, 2), method="gaussian")
    lowest = {given[1].run_key: ARRAYS}
    figure = draw("moons", given, arrays=lowest, default=None).figure
    (axes,) = figure.axes
    (region,) = axes.images
    assert (region.origin, tuple(region.get_extent())) == ("lower", plane_data(made_dataset()).extent)
    scatters = [collection for collection in axes.collections if type(collection) is PathCollection]
    assert [len(s.get_offsets()) for s in scatters] == [4, 4, 4, 4, 1]
    np.testing.assert_allclose(scatters[-1].get_offsets(), SCALING.invert(KEYS[:1]))
    assert [matplotlib.colors.to_hex(colour) for colour in scatters[-1].get_facecolor()] == [class_colour(0).lower()]
    found = set(words(figure))
    assert {"gaussian", "σ²=2", "train 100.0 ± 0.0", "test 100.0 ± 10.0", "1 key outside"} <= found
    assert {"class upper", "class lower"} <= found
    assert any("mean ± std over 3 seeds" in text for text in found)
    assert axes._right_title.get_weight() == "normal"  # type: ignore[attr-defined]  # nothing to compare with


def test_moons_stand_in_a_row_for_each_method_and_a_column_for_each_number_and_the_best_of_a_column_is_bold():
    given = [*runs(range(6)), *runs(range(6), method="inv_dist"), *runs(prototypes=3)]
    given += [replace(run, metrics={key: 0.5 for key in run.metrics}) for run in runs(range(6), method="scaled_dot")]
    figure = drawn("moons", given).figure
    texts = words(figure)
    assert {"2 prototypes", "3 prototypes", "p=2\nε=0.001", "1/√features", "no run"} <= set(texts)
    assert texts.index("scaled_dot") < texts.index("inv_dist") < texts.index("idw")
    assert len({round(axes.get_position().x0, 6) for axes in figure.axes}) == 2
    weights = [axes._right_title.get_weight() for axes in figure.axes if axes.images]  # type: ignore[attr-defined]
    assert weights == ["normal", "bold", "bold", "bold"]
    caption = " ".join(texts).replace("\n", " ")
    assert "bold: best test accuracy of a column" in caption and "not distinguishable from it (Wilcoxon)" in caption
    assert_no_words_overlap(figure)


def grid(epsilons=(0.0, 0.1), powers=(1, 2), **settings) -> list[StoredRun]:
    return [run for power in powers for epsilon in epsilons for run in runs(power=power, epsilon=epsilon, **settings)]


def with_metric(given: list[StoredRun], name: str, value: float, split: str = "train") -> list[StoredRun]:
    return [replace(run, metrics={**run.metrics, (split, name): value}) for run in given]


def test_rows_are_powers_and_columns_epsilons_with_accuracies_over_seeds_and_diverged_runs():
    stored = [*grid(), made_run(run_config("two_moons", prototypes=2, power=1, epsilon=1.0))]
    stored = [replace(run, state="diverged", metrics={}) if n < 3 else run for n, run in enumerate(stored)]
    figure = drawn("power_epsilon", stored).figure
    texts = words(figure)
    assert len(figure.axes) == 6
    assert [text for text in texts if text.startswith("ε = ")] == ["ε = 0", "ε = 0.1", "ε = 1"]
    assert [text for text in texts if text.startswith("p = ")] == ["p = 1", "p = 2"]
    assert texts.count("no run") == 1
    assert texts.count("85.0 ± 7.1") == 2 and "90.0" in texts
    assert {"2 diverged", "1 diverged, 1 outside", "1 outside"} <= set(texts)
    assert any("mean ± std over 2 seeds" in text for text in texts)
    assert any("idw · 2 prototypes · two_moons" in text for text in texts)
    assert_no_words_overlap(figure)


def test_each_cell_of_a_heat_map_has_mean_spread_and_number_or_why_it_has_none():
    given = with_metric(grid(powers=(1,)), "dead_keys", 2.0) + runs(power=2, epsilon=0.1)
    given += runs((0, 1, 2), power=2, epsilon=0.0)
    given = [replace(run, state="diverged", metrics={}) if n in (0, 2, 3) else run for n, run in enumerate(given)]
    figure, left_out = drawn("power_epsilon_heatmap", given + runs((0,), power=3, epsilon=0.1))
    first, second = ([text.get_text() for text in axes.texts] for axes in figure.axes)
    assert first[:3] == ["90.0", "n=1, 1 diverged", "2 diverged"]
    assert first[3:] == ["90.0 ± 10.0", "n=3", "85.0 ± 7.1", "n=2", "no run", "80.0", "n=1"]
    assert second == ["2.00", "n=1, 1 diverged", "2 diverged", "not measured", "not measured", "no run", "not measured"]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0", "0.1"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["test accuracy in %", "dead keys"]
    assert left_out == ("not drawn: relative_coverage, key_distance, which no run has",)
    assert_no_words_overlap(figure)


def test_the_best_cell_is_the_lightest_and_wide_ranges_are_logarithmic():
    given = [
        run
        for epsilon, value in ((0.0, 0.01), (0.1, 0.1), (1.0, 0.9))
        for run in with_metric(with_metric(runs(epsilon=epsilon), "accuracy", value, "holdout"), "key_distance", value)
    ]
    figure = drawn("power_epsilon_heatmap", given).figure
    figure.draw_without_rendering()
    titles, sides = ([axes.get_title(loc=side) for axes in figure.axes] for side in ("left", "right"))
    assert titles == ["holdout accuracy in %", "key distance"]
    assert sides == ["logarithmic colours", "lower is better, logarithmic colours"]
    accuracy, distance = (axes.collections[0].get_facecolor()[:, :3].sum(1).tolist() for axes in figure.axes)
    assert accuracy == sorted(accuracy) and distance == sorted(distance, reverse=True)


def test_the_model_with_the_most_places_is_drawn_and_others_are_counted():
    others = grid(method="inv_dist", powers=(1,)) + grid(prototypes=4, powers=(1,)) + runs((0,), method="neg_dist")
    left_out = drawn("power_epsilon_heatmap", grid() + others).left_out
    assert "not drawn: 9 runs of other models (drawn: idw · 2 prototypes)" in left_out
