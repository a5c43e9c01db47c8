"""The figure of the classes that the layers of perceptrons attend to most."""

import numpy as np
import pytest
from made import draw, made_run

from idwbench.errors import ConfigError
from idwbench.runs.config import run_config

OF = ["mnist", "fashion_mnist"]


def stored(name="joint", seed=0, width=6, **arrays):
    """A run, and counts that are functions of the seed: of right answers none of the last class has any."""
    counts = np.zeros((2, 2, 20, 20), np.int64)
    counts[0, :, np.arange(19), np.arange(19)] = 3 + seed
    counts[0, 1, np.arange(19), np.arange(1, 20)] = 1
    counts[1, :, :, 7] = 2
    data = {"name": name, "of": OF} if name in ("joint", "sequence") else name
    run = made_run(run_config(data, kind="mlp", width=width, depth=1, seed=seed))
    return run, {"attended_classes": counts, **arrays}


def drawn(*pairs):
    return draw("attended_classes", [run for run, _ in pairs], arrays={run.run_key: arrays for run, arrays in pairs})


def maps(figure):
    return [
        axes for part in figure.subfigs[0].subfigs for axes in part.axes if axes.images and axes.get_title(loc="left")
    ]


def test_shares_are_those_of_all_seeds_with_right_answers_above_wrong_ones_for_each_layer():
    drawing = drawn(stored(seed=0), stored(seed=2))
    found = maps(drawing.figure)
    titles = [
        "layer_0 · right answers",
        "layer_1 · right answers",
        "layer_0 · wrong answers",
        "layer_1 · wrong answers",
    ]
    assert [axes.get_title(loc="left") for axes in found] == titles and not drawing.left_out
    first, second, wrong, _ = (axes.images[0].get_array() for axes in found)
    np.testing.assert_array_equal(first[:19, :19], np.eye(19))
    np.testing.assert_allclose(second[4, 3:7], [0, 0.8, 0.2, 0])  # (3 + 5)/(4 + 6) of two seeds together
    assert first.mask[19].all() and not first.mask[:19].any()
    np.testing.assert_array_equal(wrong[:, 7], 1)
    assert {text.get_text() for text in found[0].texts} == {*OF}
    assert "2 seeds together" in drawing.figure.get_supxlabel()


def test_two_settings_are_drawn_and_others_are_named():
    mnist, old = stored("mnist"), (stored("sequence", width=9)[0], {})
    drawing = drawn(stored(), stored("sequence"), stored("sequence", width=7), mnist, old)
    assert len(maps(drawing.figure)) == 8
    assert drawing.left_out == (
        "not drawn: 2 settings without several parts or without the array attended_classes",
        "not drawn: 1 other setting",
    )


def test_runs_without_these_numbers_are_refused_with_what_to_run():
    with pytest.raises(ConfigError, match="no complete run on data of several parts") as caught:
        drawn(stored("mnist"))
    assert caught.value.hint is not None and caught.value.hint.startswith("run the sweep dual_parts")
