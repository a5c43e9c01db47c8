"""Alignments of networks that write one sequence for another, and their accuracy by length."""

import numpy as np
import pytest
import torch
from made import draw, made_run

from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.models.modules import parameter_arrays
from idwbench.models.sequence_to_sequence import initial_sequence_network, sequence_model_from_arrays
from idwbench.runs.config import run_config

DATA = {"symbols": 3, "shortest": 2, "longest": 3, "longest_holdout": 4, "train_size": 8, "test_size": 6}
LENGTHS = np.array([2, 3, 4])


def stored(name="copying", method="idw", seed=0, **settings):
    """A run and its arrays: an untrained network, and values by length that depend on the seed."""
    data = {"name": name, **DATA, "holdout_size": 3}
    config = run_config(data, kind="sequence_to_sequence", method=method, seed=seed, width=4, **settings)
    network = initial_sequence_network(config.model, load_dataset(config.dataset), torch.Generator().manual_seed(seed))
    values = np.array([1.0, 0.5, 0.1 * seed])
    by_length = {"lengths": LENGTHS, "exact_match_by_length": values, "token_accuracy_by_length": values}
    return made_run(config), {**parameter_arrays(network), **by_length}


def drawn(figure, *pairs):
    return draw(figure, [run for run, _ in pairs], arrays={run.run_key: arrays for run, arrays in pairs})


def test_accuracy_by_length_is_the_mean_over_seeds_in_a_panel_for_each_data_set():
    pairs = [stored(seed=seed) for seed in range(3)] + [stored("reversing", "context_vector")]
    figure = drawn("accuracy_by_length", *pairs).figure
    (copying, reversing) = [axes for part in figure.subfigs for axes in part.subfigs[0].axes]
    assert copying.get_title() == "copying (2 to 3)"
    (line,) = copying.lines
    np.testing.assert_allclose(line.get_ydata(), [100, 50, 10])
    np.testing.assert_array_equal(line.get_xdata(), LENGTHS)
    assert reversing.lines[0].get_label() == "context_vector width 4"
    assert figure.get_supxlabel().startswith("line: mean over 1 to 3 seeds")


def test_an_alignment_is_the_weights_of_what_the_network_writes_for_one_source():
    pairs = [stored(seed=1), stored(weighting="straight_through"), stored("reversing", "cosine"), stored(seed=0)]
    drawing = drawn("alignment", *pairs, stored(method="context_vector"))
    maps = [axes for axes in drawing.figure.subfigs[0].axes if axes.images]
    soft, hard, _ = maps
    run, arrays = pairs[-1]  # the lowest seed
    text = "".join(label.get_text() for label in soft.get_xticklabels())
    written = sequence_model_from_arrays(run.config.model, run.config.dataset, arrays).write(text)
    np.testing.assert_allclose(soft.images[0].get_array(), written.weights)
    letters = [label.get_text() for label in soft.get_yticklabels()]
    assert letters == [*written.text, "end"][: len(written.weights)]
    assert {0, 1} == {*np.unique(hard.images[0].get_array())}
    assert [axes.get_title().split("\n")[0] for axes in maps] == [
        "idw softmax",
        "idw straight_through",
        "cosine softmax",
    ]


def test_models_beyond_four_are_named_as_left_out_and_a_context_vector_has_no_alignment():
    pairs = [stored(power=power) for power in (1, 2, 3, 4, 5, 6)]
    drawing = drawn("alignment", *pairs)
    assert drawing.left_out == ("not drawn: 2 other models",)
    assert drawn("accuracy_by_length", *pairs, *(stored(power=power) for power in range(7, 14))).left_out == (
        "not drawn: 3 other models",
    )
    with pytest.raises(ConfigError, match="one context vector has no alignment"):
        drawn("alignment", stored(method="context_vector"))
    with pytest.raises(ConfigError, match="no run of kind 'sequence_to_sequence' is complete"):
        draw("accuracy_by_length", [made_run(run_config("two_moons"))])
