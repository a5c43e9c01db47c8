from __future__ import annotations

import numpy as np
import pytest
from made import assert_no_words_overlap, words

from idwbench.attention.kernels import KERNELS
from idwbench.errors import ConfigError
from idwbench.figures.collected.kernel_regression import estimates_figure, kernels_figure
from idwbench.figures.kernel_regression import Estimate, draw_estimates, draw_kernels
from idwbench.figures.style import save_figure

FORMULAS = {
    "gaussian": lambda d: np.exp(-(d**2) / 2),
    "boxcar": lambda d: d <= 1,
    "triangular": lambda d: np.maximum(0, 1 - d),
    "epanechnikov": lambda d: np.maximum(0, 1 - d**2),
    "shepard": lambda d: 1 / d**2,
}


def test_each_line_is_its_kernel() -> None:
    figure = kernels_figure().figure
    (axes,) = figure.axes
    for line, (name, formula) in zip(axes.get_lines(), FORMULAS.items(), strict=True):
        d = np.asarray(line.get_xdata())[1:]
        np.testing.assert_allclose(line.get_ydata()[1:], formula(d), rtol=1e-12, atol=1e-15)
        assert line.get_label() == f"{name}:  {KERNELS[name].formula}"
    assert_no_words_overlap(figure)


def test_the_estimates_are_the_weights_below_times_the_data() -> None:
    figure = estimates_figure().figure
    above, below = figure.axes[: len(KERNELS)], figure.axes[len(KERNELS) :]
    for name, top, bottom in zip(KERNELS, above, below, strict=True):
        assert top.get_title().startswith(name)
        data, truth, estimate = top.get_lines()
        weights = np.asarray(bottom.collections[0].get_array())
        np.testing.assert_allclose(weights.sum(0), 1, rtol=1e-12)
        np.testing.assert_allclose(data.get_ydata() @ weights, estimate.get_ydata(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(truth.get_ydata(), np.sin(2 * truth.get_xdata()))
    assert {"data", "truth", "estimate", "query", "key, in order"} <= set(words(figure))
    assert_no_words_overlap(figure)


def test_a_query_without_neighbours_leaves_a_gap(tmp_path) -> None:
    grid, keys = np.linspace(0, 1, 5), np.array([0.0, 1.0])
    weights = np.full((5, 2), np.nan)
    weights[0] = [1, 0]
    figure = draw_estimates(grid, grid, (keys, keys), [Estimate("boxcar", np.full(5, np.nan), weights)])
    assert figure.axes[1].collections[0].get_array().sum() == 1
    save_figure(figure, tmp_path / "gap.png", dpi=30)


def test_the_same_figure_has_the_same_bytes(tmp_path) -> None:
    for name in ("a.svg", "b.svg"):
        save_figure(kernels_figure().figure, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_figures_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one kernel"):
        draw_kernels(np.ones(2), [])
    with pytest.raises(ConfigError, match="at least one kernel"):
        draw_estimates(np.ones(2), np.ones(2), (np.ones(2), np.ones(2)), [])
