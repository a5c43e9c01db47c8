"""Figures of sequences, of perceptrons on two parts, and of layers by step: what is drawn of which runs."""

import numpy as np
import torch
from made import draw_pairs, made_run

from idwbench.data.loading import load_dataset
from idwbench.models.modules import parameter_arrays
from idwbench.models.sequence_to_sequence import initial_sequence_network, sequence_model_from_arrays
from idwbench.runs.config import run_config
from idwbench.runs.metrics import LAYER_STATISTICS

# Alignments, and accuracy by length

DATA = {"symbols": 3, "shortest": 2, "longest": 3, "longest_holdout": 4, "train_size": 8, "test_size": 6}
LENGTHS = np.array([2, 3, 4])


def writer(name="copying", method="idw", seed=0, **settings):
    """A run and its arrays: an untrained network, and values by length that depend on the seed."""
    data = {"name": name, **DATA, "holdout_size": 3}
    config = run_config(data, kind="sequence_to_sequence", method=method, seed=seed, width=4, **settings)
    network = initial_sequence_network(config.model, load_dataset(config.dataset), torch.Generator().manual_seed(seed))
    values = np.array([1.0, 0.5, 0.1 * seed])
    by_length = {"lengths": LENGTHS, "exact_match_by_length": values, "token_accuracy_by_length": values}
    return made_run(config), {**parameter_arrays(network), **by_length}


def test_accuracy_by_length_is_the_mean_over_seeds_in_a_panel_for_each_data_set():
    pairs = [writer(seed=seed) for seed in range(3)] + [writer("reversing", "context_vector")]
    figure = draw_pairs("accuracy_by_length", *pairs).figure
    (copying, reversing) = [axes for part in figure.subfigs for axes in part.subfigs[0].axes]
    assert copying.get_title() == "copying (2 to 3)"
    (line,) = copying.lines
    np.testing.assert_allclose(line.get_ydata(), [100, 50, 10])
    np.testing.assert_array_equal(line.get_xdata(), LENGTHS)
    assert reversing.lines[0].get_label() == "context_vector"
    assert figure.get_supxlabel().startswith("line: mean over 1 to 3 seeds")


def test_an_alignment_is_the_weights_of_what_the_network_writes_for_one_source_and_few_models_are_drawn():
    pairs = [writer(seed=1), writer(weighting="straight_through"), writer("reversing", "cosine"), writer(seed=0)]
    drawing = draw_pairs("alignment", *pairs, writer(method="context_vector"))
    maps = [axes for axes in drawing.figure.subfigs[0].axes if axes.images]
    soft, hard, _ = maps
    run, arrays = pairs[-1]  # the lowest seed
    text = "".join(label.get_text() for label in soft.get_xticklabels())
    written = sequence_model_from_arrays(run.config.model, run.config.dataset, arrays).write(text)
    np.testing.assert_allclose(soft.images[0].get_array(), written.weights)
    letters = [label.get_text() for label in soft.get_yticklabels()]
    assert letters == [*written.text, "end"][: len(written.weights)]
    assert {0, 1} == {*np.unique(hard.images[0].get_array())}
    titles = [axes.get_title().split("\n")[0] for axes in maps]
    assert titles == ["idw softmax", "idw straight_through", "cosine"], "what tells models of one method apart"
    pairs = [writer(power=power) for power in range(1, 14)]
    for name, drawn, n in (("alignment", pairs[:6], 2), ("accuracy_by_length", pairs, 3)):
        assert draw_pairs(name, *drawn).left_out == (f"not drawn: {n} other models",)


# Classes that perceptrons attend to

OF = ["mnist", "fashion_mnist"]


def perceptron(name="joint", seed=0, width=6, **arrays):
    """A run, and counts that are functions of the seed: of right answers none of the last class has any."""
    counts = np.zeros((2, 2, 20, 20), np.int64)
    counts[0, :, np.arange(19), np.arange(19)] = 3 + seed
    counts[0, 1, np.arange(19), np.arange(1, 20)] = 1
    counts[1, :, :, 7] = 2
    data = {"name": name, "of": OF} if name in ("joint", "sequence") else name
    run = made_run(run_config(data, kind="mlp", width=width, depth=1, seed=seed))
    return run, {"attended_classes": counts, **arrays}


def maps(figure):
    return [
        axes for part in figure.subfigs[0].subfigs for axes in part.axes if axes.images and axes.get_title(loc="left")
    ]


def test_shares_are_those_of_all_seeds_with_right_answers_above_wrong_ones_for_each_layer():
    drawing = draw_pairs("attended_classes", perceptron(seed=0), perceptron(seed=2))
    found = maps(drawing.figure)
    titles = [f"layer_{layer} · {answers} answers" for answers in ("right", "wrong") for layer in (0, 1)]
    assert [axes.get_title(loc="left") for axes in found] == titles and not drawing.left_out
    first, second, wrong, _ = (axes.images[0].get_array() for axes in found)
    np.testing.assert_array_equal(first[:19, :19], np.eye(19))
    np.testing.assert_allclose(second[4, 3:7], [0, 0.8, 0.2, 0])  # (3 + 5)/(4 + 6) of two seeds together
    assert first.mask[19].all() and not first.mask[:19].any()
    np.testing.assert_array_equal(wrong[:, 7], 1)
    assert [text.get_text() for text in found[0].get_yticklabels(minor=True)] == OF
    assert "2 seeds together" in drawing.figure.get_supxlabel()


def test_two_settings_are_drawn_and_others_are_named():
    mnist, old = perceptron("mnist"), (perceptron("sequence", width=9)[0], {})
    drawing = draw_pairs(
        "attended_classes", perceptron(), perceptron("sequence"), perceptron("sequence", width=7), mnist, old
    )
    assert len(maps(drawing.figure)) == 8
    assert drawing.left_out == (
        "not drawn: 2 settings without several parts or without the array attended_classes",
        "not drawn: 1 other setting",
    )


# Statistics of layers

STEPS = np.array([0, 1, 10])


def measured(seed=0, layers=("embedding", "block 1", "block 2", "head"), scored=(1, 2), **settings):
    """A run, and statistics that are 2 to the power of step number and seed times the number of the layer."""
    given = {"encoder": "vit_tiny", "depth": 2, "statistics": True, **settings}
    given |= {"attention": "idw"} if given["encoder"] == "vit_tiny" and "attention" not in settings else {}
    run = made_run(run_config("digits", kind="network", seed=seed, **given))
    values = 2.0 ** (np.arange(3)[:, None] + seed) * (1 + np.arange(len(layers)))
    of_scores = np.where(np.isin(np.arange(len(layers)), scored), values, np.nan)
    names = np.frombuffer("\n".join(layers).encode(), np.uint8)
    tables = {f"statistics.{name}": values if name == "gradient_norm" else of_scores for name in LAYER_STATISTICS}
    return run, {"statistics.steps": STEPS, "statistics.layers": names, **tables}


def panels(drawing):
    return [axes for part in drawing.figure.subfigs for own in part.subfigs for axes in own.axes]


def test_each_statistic_has_a_row_and_each_layer_with_scores_a_panel_with_means_over_seeds():
    pairs = [measured(seed) for seed in range(3)] + [measured(attention="scaled_dot")]
    axes = panels(draw_pairs("layer_statistics", *pairs))
    assert len(axes) == 2 * len(LAYER_STATISTICS)
    assert [one.get_title() for one in axes[:2]] == ["block 1", "block 2"]
    first, second = axes[0].lines
    np.testing.assert_array_equal(first.get_xdata(), STEPS)
    by_method = {line.get_label().split(" ")[0]: line.get_ydata() for line in (first, second)}
    np.testing.assert_allclose(by_method["vit_tiny(idw)+linear"], [4, 8, 16])  # the geometric mean of 2, 4 and 8, …
    np.testing.assert_allclose(by_method["vit_tiny(scaled_dot)+linear"], [2, 4, 8])
    entropy = next(one for one in axes if one.get_ylabel().startswith("entropy"))
    np.testing.assert_allclose(entropy.lines[0].get_ydata(), np.array([14, 28, 56]) / 3)


def test_networks_without_scores_show_the_gradients_of_all_layers_and_more_models_are_named():
    axes = panels(
        draw_pairs("layer_statistics", measured(layers=("layer 1", "head"), scored=(), encoder="mlp", depth=1))
    )
    assert [one.get_title() for one in axes] == ["layer 1", "head"]
    pairs = [measured(attention_power=power) for power in range(1, 13)]
    assert draw_pairs("layer_statistics", *pairs).left_out == ("not drawn: 2 other models",)
    deep = draw_pairs(
        "layer_statistics", measured(layers=tuple(f"block {n}" for n in range(1, 8)), scored=range(7), depth=7)
    )
    assert deep.left_out == ("not drawn: layers block 6, block 7",)
