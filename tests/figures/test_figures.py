import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from made import assert_no_words_overlap, made_dataset, words
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from idwbench.figures.keys import KeysPanel, draw_keys, key_order
from idwbench.figures.moons import Moons, MoonsPanel, draw_moons
from idwbench.figures.plane import PlanePicture, plane_data
from idwbench.figures.style import class_colour
from idwbench.report.statistics import Statistic

DIGITS = [str(digit) for digit in range(10)]


def keys_panel(prototypes: int = 20, title: str = "idw") -> KeysPanel:
    generator = np.random.default_rng(0)
    keys = np.arange(prototypes)[:, None] + np.zeros((prototypes, 12))
    return KeysPanel(title, keys, generator.normal(size=(prototypes, 10)))


def moons_panel(method: str = "idw", prototypes: int = 3, best: bool = False, **changes: object) -> MoonsPanel:
    keys = np.array([[0.0, 0.5], [1.0, -0.25], [99.0, 99.0]])[:prototypes]
    picture = PlanePicture(keys, np.eye(2)[[0, 1, 0]][:prototypes], np.tile(np.linspace(0, 1, 8), (6, 1)))
    accuracies = Statistic(1.0, None, {}), Statistic(0.975, None, {}, best=best)
    return replace(MoonsPanel(method, "p=2, ε=0.001", prototypes, *accuracies, 10, picture), **changes)  # type: ignore[arg-type]


def moons(*panels: MoonsPanel, is_tested: bool = False) -> Figure:
    """Draw panels over points around 0."""
    data = plane_data(made_dataset())
    points = replace(data.train, inputs=data.train.inputs - 10)
    data = replace(data, train=points, test=points, extent=(-2.0, 3.0, -1.5, 1.5))
    return draw_moons(Moons(panels, data, is_tested))


def test_keys_are_sorted_by_the_class_of_their_values_and_keep_their_order_within_it() -> None:
    values = np.eye(4)[[2, 0, 3, 0, 2, 2]]
    assert key_order(values).tolist() == [1, 3, 0, 4, 5, 2]
    assert key_order(np.zeros((3, 4))).tolist() == [0, 1, 2]


def test_the_key_grid_has_a_tile_and_a_label_for_each_key_in_that_order() -> None:
    panel = keys_panel()
    figure = draw_keys([panel], (4, 3), DIGITS)
    (axes,) = figure.axes
    order = key_order(panel.values)
    assert len(axes.images) == 20
    shown = [float(np.asarray(image.get_array())[0, 0]) for image in axes.images]
    assert shown == order.tolist()
    assert np.asarray(axes.images[0].get_array()).shape == (4, 3)
    labels = [text.get_text() for text in axes.texts][:20]
    assert labels == [str(label) for label in np.argmax(panel.values, axis=1)[order]]
    assert labels == sorted(labels)


def test_each_key_has_its_own_scale_symmetric_about_zero() -> None:
    generator = np.random.default_rng(0)
    keys = generator.normal(size=(3, 12)) * np.array([[1.0], [1000.0], [0.001]])
    values = np.eye(10)[:3]
    figure = draw_keys([KeysPanel("idw", keys, values)], (4, 3), DIGITS)
    for image, key in zip(figure.axes[0].images, keys, strict=True):
        low, high = image.get_clim()
        assert low == -high
        assert high == np.quantile(abs(key), 0.95)
    assert any("own scale" in text and "95th percentile" in text for text in words(figure))


@pytest.mark.slow
def test_several_models_stand_one_above_the_other_without_overlap() -> None:
    panels = [keys_panel(20, "first"), keys_panel(7, "second"), keys_panel(33, "third")]
    figure = draw_keys(panels, (4, 3), DIGITS)
    bounds = [axes.get_position() for axes in figure.axes]
    assert all(upper.y0 > lower.y1 for upper, lower in pairwise(bounds))
    assert {"first", "second", "third"} <= set(words(figure))


@pytest.mark.slow
@pytest.mark.parametrize("prototypes", [1, 2, 10, 11, 16, 100])
def test_any_number_of_keys_can_be_drawn(prototypes: int) -> None:
    figure = draw_keys([keys_panel(prototypes)], (4, 3), DIGITS)
    assert len(figure.axes[0].images) == prototypes


def test_keys_that_are_all_zero_can_be_drawn() -> None:
    panel = replace(keys_panel(), keys=np.zeros((20, 12)))
    draw_keys([panel], (4, 3), DIGITS).draw_without_rendering()


def test_the_moons_stand_in_a_row_a_method_and_a_column_a_number_of_prototypes() -> None:
    panels = [moons_panel(method, count) for method in ("idw", "inv_dist") for count in (3, 1)]
    figure = moons(*panels[:3])
    assert len(figure.axes) == 4
    texts = words(figure)
    assert texts.index("idw") < texts.index("inv_dist")
    assert {"1 prototype", "3 prototypes", "p=2\nε=0.001", "no run"} <= set(texts)
    lefts = {round(axes.get_position().x0, 6) for axes in figure.axes}
    assert len(lefts) == 2


def test_a_panel_shows_points_keys_regions_and_accuracies() -> None:
    figure = moons(moons_panel())
    (axes,) = figure.axes
    (region,) = axes.images
    assert region.origin == "lower"
    assert list(region.get_extent()) == [-2.0, 3.0, -1.5, 1.5]
    scatters = [collection for collection in axes.collections if type(collection) is PathCollection]
    assert [len(s.get_offsets()) for s in scatters] == [4, 4, 4, 4, 2]
    colours = [matplotlib.colors.to_hex(colour) for colour in scatters[-1].get_facecolor()]
    assert colours == [class_colour(0).lower(), class_colour(1).lower()]
    assert {"train 100.0", "test 97.5", "1 key outside"} <= set(words(figure))
    assert any("mean ± std over 10 seeds" in text for text in words(figure))


def test_a_model_that_answers_the_same_everywhere_has_no_border() -> None:
    figure = moons(moons_panel(picture=PlanePicture(np.zeros((3, 2)), np.eye(2)[[0, 1, 0]], np.full((6, 8), 0.5))))
    figure.draw_without_rendering()
    assert not any("key outside" in text for text in words(moons(moons_panel(prototypes=2))))


def test_the_best_of_a_column_are_bold_and_a_single_method_is_not() -> None:
    panels = [moons_panel("idw", best=True), moons_panel("inv_dist", best=True), moons_panel("neg_dist")]
    weights = [axes._right_title.get_weight() for axes in moons(*panels, is_tested=True).axes]
    assert weights == ["bold", "bold", "normal"]
    (alone,) = moons(panels[0]).axes
    assert alone._right_title.get_weight() == "normal"


def test_the_line_below_the_moons_says_what_is_bold() -> None:
    panels = [moons_panel("idw", best=True), moons_panel("inv_dist")]
    by_mean, tested = (" ".join(words(moons(*panels, is_tested=t))) for t in (False, True))
    assert "bold: best test accuracy of a column" in by_mean
    assert "Wilcoxon" not in by_mean
    assert "not distinguishable from it (Wilcoxon test)" in tested


def test_the_legend_names_the_classes() -> None:
    figure = moons(moons_panel())
    assert {"class upper", "class lower"} <= set(words(figure))


def moons_figures() -> list[Figure]:
    long = [moons_panel(m, c) for m in ("scaled_dot", "a_method_with_a_long_name") for c in (1, 2, 3)]
    worded = [moons_panel("x", 1, setting="1/√prototypes"), moons_panel("y", 1)]
    return [moons(*panels, is_tested=True) for panels in ([moons_panel()], long, worded)]


def keys_figures() -> list[Figure]:
    names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
    panels = [keys_panel(count, "idw p=2, ε=0.001 · 97.50 %") for count in (3, 20, 128)]
    few = panels[:2]  # the long names are those that need room between many keys
    return [draw_keys(few, (4, 3), DIGITS), draw_keys(panels, (4, 3), names), draw_keys(few[:1], (3, 4), names)]


@pytest.mark.slow
@pytest.mark.parametrize("figures", [moons_figures, keys_figures])
def test_no_words_of_a_figure_overlap_or_leave_it(figures: Callable[[], list[Figure]]) -> None:
    for figure in figures():
        assert_no_words_overlap(figure)


@pytest.mark.slow
def test_drawing_loads_neither_torch_nor_pyplot() -> None:
    heavy = "torch matplotlib.pyplot scipy"
    imports = "import sys, idwbench.figures.keys, idwbench.figures.moons"
    program = f"{imports}; print(*[name for name in {heavy.split()} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []
