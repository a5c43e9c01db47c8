"""Prototypes of a table over its named columns."""

from dataclasses import replace

import numpy as np
import pytest
from made import ARRAYS, assert_no_words_overlap, draw, made_dataset, made_run
from scipy.stats import f_oneway

from idwbench.data.columns import Column, Columns
from idwbench.errors import ConfigError
from idwbench.figures import runs
from idwbench.figures.style import class_colour
from idwbench.runs.config import run_config

TREES = Columns((Column("height"), Column("width")))


def use_table(monkeypatch, columns=TREES):
    dataset = replace(made_dataset(), columns=columns)
    monkeypatch.setattr(runs, "load_dataset", lambda config, data_dir: dataset)
    return dataset


def test_prototypes_are_lines_over_the_columns_and_points_among_the_rows(monkeypatch):
    dataset = use_table(monkeypatch)
    made = [made_run(run_config("two_moons", prototypes=3, method=method)) for method in ("idw", "cosine")]
    figure, left_out = draw("columns", made)
    assert left_out == ("not drawn: cosine, whose keys are directions, not points",)
    lines, points = figure.axes
    np.testing.assert_allclose([line.get_ydata() for line in lines.lines], ARRAYS["keys"])
    assert [line.get_color() for line in lines.lines] == [class_colour(label) for label in (0, 1, 1)]
    assert [label.get_text() for label in lines.get_xticklabels()] == ["height", "width"]
    inputs, labels = dataset.train.inputs, dataset.train.labels
    order = np.argsort(-f_oneway(inputs[labels == 0], inputs[labels == 1]).statistic)
    rows, keys = (marks.get_offsets() for marks in points.collections)
    np.testing.assert_allclose(rows, dataset.scaling.invert(dataset.train.inputs)[:, order])
    np.testing.assert_allclose(keys, dataset.scaling.invert(ARRAYS["keys"])[:, order])
    assert (points.get_xlabel(), points.get_ylabel()) == tuple(TREES.names[place] for place in order)
    assert_no_words_overlap(figure)
    with pytest.raises(ConfigError, match="the keys of cosine are directions"):
        draw("columns", made[1:])


def test_a_table_without_two_columns_of_numbers_has_lines_alone(monkeypatch):
    use_table(monkeypatch, Columns((Column("kind", ("elm", "oak")),)))
    figure, _ = draw("columns", [made_run(run_config("two_moons", prototypes=3))])
    lines, points = figure.axes
    assert [label.get_text() for label in lines.get_xticklabels()] == ["kind=elm", "kind=oak"]
    assert not points.axison and not points.collections
