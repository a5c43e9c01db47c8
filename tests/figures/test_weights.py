import numpy as np
import pytest
from made import assert_no_words_overlap, words

from idwbench.errors import ConfigError
from idwbench.figures.collected.weights import EPSILON, weights_figure, weights_p1_figure
from idwbench.figures.style import save_figure
from idwbench.figures.weights import WeightCurve, draw_weights

# In the order of the legend; the second key is at distance 1.
SQUARES = [
    lambda d: -(d**2),
    lambda d: np.exp(-(d**2) / 2),
    lambda d: 1 / (EPSILON + d**2),
    lambda d: -np.log(EPSILON + d**2),
]
DISTANCES = [
    lambda d: -(d**2),
    lambda d: np.exp(-d / 2),
    lambda d: 1 / (EPSILON + d),
    lambda d: -np.log(EPSILON + d),
]


@pytest.mark.parametrize(("figure", "scores"), [(weights_figure, SQUARES), (weights_p1_figure, DISTANCES)])
def test_each_line_is_the_softmax_of_two_scores(figure, scores) -> None:
    (axes,) = figure().figure.axes
    lines = [line for line in axes.get_lines() if len(line.get_xdata()) > 2]
    assert len(lines) == 4
    for line, score in zip(lines, scores, strict=True):
        d = np.asarray(line.get_xdata(), np.float64)
        np.testing.assert_allclose([d[0], d[-1]], [0, 5])
        with np.errstate(over="ignore"):  # far from a tie the weight is 0 or 1
            expected = 1 / (1 + np.exp(score(np.ones_like(d)) - score(d)))
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=1e-12)
        assert line.get_ydata()[np.flatnonzero(d == 1.0)[0]] == pytest.approx(0.5, abs=1e-15)


def test_the_legend_has_the_formulas_and_nothing_overlaps() -> None:
    figure = weights_p1_figure().figure
    assert {"neg_dist:  −d²", "gaussian:  exp(−d/2)", "inv_dist:  1/(ε + d)", "idw:  −log(ε + d)"} <= set(words(figure))
    assert any("ε = 0.001" in text for text in words(figure))
    assert_no_words_overlap(figure)


def test_the_same_figure_gives_the_same_bytes(tmp_path) -> None:
    for name in ("a.svg", "b.svg"):
        save_figure(weights_figure().figure, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_weights_of_another_length_are_refused() -> None:
    distance = np.linspace(0, 5, 4)
    with pytest.raises(ConfigError, match=r"weights of 'idw': expected shape \(4,\), got \(3,\)"):
        draw_weights(distance, [WeightCurve("idw", "", np.ones(3))])
    with pytest.raises(ConfigError, match="at least one"):
        draw_weights(distance, [])
