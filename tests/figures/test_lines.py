"""The rules by which lines over seeds are drawn, once for all figures."""

import math

import numpy as np
import pytest
from made import assert_no_words_overlap, words
from matplotlib.figure import Figure

from idwbench.figures.lines import Axis, Line, Panel, PanelRow, draw_rows

VALUES = np.array([[0.5, 0.8, 0.9], [0.7, 0.9, np.nan], [0.6, 0.7, np.nan]])


def line(label: str = "idw", values: np.ndarray = VALUES, **options) -> Line:
    return Line(label, "#000000", "-", np.arange(1, values.shape[1] + 1), values, **options)


def drawn(*lines: Line, y: Axis = Axis("accuracy in %", percent=True)) -> Figure:  # noqa: B008
    return draw_rows([PanelRow("", y, [Panel("2 prototypes", lines)])], Axis("epoch"), [])


def band_at(figure: Figure, band: int, x: float) -> tuple[float, float]:
    vertices = figure.axes[0].collections[band].get_paths()[0].vertices
    found = vertices[vertices[:, 0] == x, 1]
    return found.min(), found.max()


def test_a_line_is_the_mean_of_the_seeds_that_have_a_value() -> None:
    (mean,) = drawn(line()).axes[0].get_lines()
    np.testing.assert_allclose(mean.get_xydata(), [[1, 60], [2, 80], [3, 90]])


def test_a_band_is_the_sample_standard_deviation_within_the_range_where_there_are_several_seeds() -> None:
    figure = drawn(line())
    assert band_at(figure, 0, 1) == pytest.approx((50, 70))  # the range
    assert band_at(figure, 1, 2) == pytest.approx((70, 90))
    assert all(band.get_paths()[0].vertices[:, 0].max() == 2 for band in figure.axes[0].collections)
    skewed = drawn(line(values=np.array([[1.0, 1.0], [1.0, np.nan], [0.4, 0.2]])), y=Axis(""))
    assert band_at(skewed, 1, 1) == pytest.approx((0.8 - math.sqrt(0.12), 1.0))


def test_many_lines_have_no_range_and_one_seed_has_no_band() -> None:
    assert len(drawn(*(line(name) for name in "abcd")).axes[0].collections) == 4
    assert not drawn(line(values=VALUES[:1])).axes[0].collections


def test_bars_of_geometric_means_are_those_of_the_logarithms() -> None:
    figure = drawn(line(values=np.array([[1.0], [100.0]]), markers=True, geometric=True), y=Axis(""))
    (bars,) = figure.axes[0].containers
    np.testing.assert_allclose(bars[0].get_ydata(), [10])
    np.testing.assert_allclose(bars[2][0].get_segments()[0][:, 1], [1, 100])


def test_positive_values_have_a_logarithmic_axis() -> None:
    for low, scale in ((0.1, "log"), (0.0, "linear")):
        figure = drawn(line(values=np.array([[1.0, low]])), y=Axis("loss", base=10))
        assert figure.axes[0].get_yscale() == scale


def test_blocks_of_rows_and_rows_with_empty_places_are_drawn_without_overlap() -> None:
    panels = [Panel(f"{n} dimensions", [line(), line("another one")]) for n in range(5)]
    y = Axis("recall in %", percent=True)
    shared = draw_rows([PanelRow("", y, panels[:3]), PanelRow("", y, panels[3:])], Axis("load"), ["words"], shared=True)
    assert sum(axes.get_visible() for axes in shared.axes) == 5
    assert words(shared).count("load") == 3
    blocks = draw_rows([PanelRow("one", y, panels[:2]), PanelRow("two", Axis("loss"), panels[:2])], Axis("epoch"), [])
    assert {"one", "two", "loss"} <= set(words(blocks)) and words(blocks).count("epoch") == 4
    for figure in (shared, blocks):
        assert_no_words_overlap(figure)
