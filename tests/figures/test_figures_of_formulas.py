"""The figures that need no runs, against their formulas."""

import numpy as np
import pytest
from made import assert_no_words_overlap, words

from idwbench.attention.kernels import KERNELS
from idwbench.figures.formulas import (
    EPSILON,
    kernel_regression_figure,
    kernels_figure,
    weights_figure,
    weights_p1_figure,
)
from idwbench.figures.style import save_figure

# In the order of the legend; the second key is at distance 1.
SQUARES = {
    "neg_dist:  −d²": lambda d: -(d**2),
    "gaussian:  exp(−d²/2)": lambda d: np.exp(-(d**2) / 2),
    "inv_dist:  1/(ε + d²)": lambda d: 1 / (EPSILON + d**2),
    "idw:  −log(ε + d²)": lambda d: -np.log(EPSILON + d**2),
}
DISTANCES = {
    "neg_dist:  −d²": lambda d: -(d**2),
    "gaussian:  exp(−d/2)": lambda d: np.exp(-d / 2),
    "inv_dist:  1/(ε + d)": lambda d: 1 / (EPSILON + d),
    "idw:  −log(ε + d)": lambda d: -np.log(EPSILON + d),
}
KERNEL_FORMULAS = {
    "gaussian": lambda d: np.exp(-(d**2) / 2),
    "boxcar": lambda d: d <= 1,
    "triangular": lambda d: np.maximum(0, 1 - d),
    "epanechnikov": lambda d: np.maximum(0, 1 - d**2),
    "shepard": lambda d: 1 / d**2,
}


@pytest.mark.parametrize(("drawn", "scores"), [(weights_figure, SQUARES), (weights_p1_figure, DISTANCES)])
def test_each_weight_is_the_softmax_of_two_scores(drawn, scores):
    figure = drawn()
    lines = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in lines] == [*scores]
    for line, score in zip(lines, scores.values(), strict=True):
        d = np.asarray(line.get_xdata(), np.float64)
        np.testing.assert_allclose([d[0], d[-1]], [0, 5])
        with np.errstate(over="ignore"):  # far from a tie the weight is 0 or 1
            expected = 1 / (1 + np.exp(score(np.ones_like(d)) - score(d)))
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=1e-12)
        assert line.get_ydata()[np.flatnonzero(d == 1.0)[0]] == pytest.approx(0.5, abs=1e-15)
    assert any("ε = 0.001" in text for text in words(figure))
    assert_no_words_overlap(figure)


def test_each_line_is_its_kernel():
    figure = kernels_figure()
    for line, (name, formula) in zip(figure.axes[0].get_lines(), KERNEL_FORMULAS.items(), strict=True):
        d = np.asarray(line.get_xdata())[1:]
        np.testing.assert_allclose(line.get_ydata()[1:], formula(d), rtol=1e-12, atol=1e-15)
        assert line.get_label() == f"{name}:  {KERNELS[name].formula}"
    assert_no_words_overlap(figure)


def test_the_estimates_are_the_weights_below_times_the_data(tmp_path):
    figure = kernel_regression_figure()
    above, below = figure.axes[: len(KERNELS)], figure.axes[len(KERNELS) :]
    for name, top, bottom in zip(KERNELS, above, below, strict=True):
        assert top.get_title().startswith(name)
        data, truth, estimate = top.get_lines()
        weights = np.asarray(bottom.collections[0].get_array())
        np.testing.assert_allclose(weights.sum(0), 1, rtol=1e-12)
        np.testing.assert_allclose(data.get_ydata() @ weights, estimate.get_ydata(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(truth.get_ydata(), np.sin(2 * truth.get_xdata()))
    assert {"data", "truth", "estimate", "query", "key, in order"} <= set(words(figure))
    save_figure(figure, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size < 1_000_000  # weights are an image, not a shape each
