"""Figures of explained answers, of attention by class, and of the history of keys."""

from dataclasses import replace

import numpy as np
import pytest
from made import assert_no_words_overlap, caption, draw, words
from recorded_mlp import load_made, recorded_config, store_recorded

import idwbench
from idwbench import Results, key_history, run_config
from idwbench.data.columns import Column, Columns
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.explanations.explanation import (
    AccuracyChange,
    Answer,
    Explanation,
    LayerAttention,
    MaskEffect,
    MemoryItem,
    Plane,
    Query,
)
from idwbench.figures.attention import first_wrong_row
from idwbench.figures.explanations import draw_explanation
from idwbench.figures.runs import Selection
from idwbench.figures.style import QUIET, class_colour
from idwbench.page.pictures import attention_part

DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
EFFECT = MaskEffect(
    ("task=fashion_mnist",),
    300,
    600,
    Answer.from_logits(np.arange(10.0)),
    (AccuracyChange("test mnist", 10, 0.45, 0.96), AccuracyChange("test fashion_mnist", 10, 0.85, 0.05)),
)


def layer(name, n_items, size=600, **facts):
    generator = np.random.default_rng(0)
    items = tuple(
        MemoryItem(f"mnist:train:{n}", 12345.678 / (n + 1), n % 10, generator.uniform(0, 255, 6), row=n, **facts)
        for n in range(n_items)
    )
    curves = tuple(np.linspace(40 + label, 2, size // 10) for label in range(10))
    return LayerAttention(name, size, items, np.linspace(2e4, 3e4, 10), curves)


def history(names=DIGITS, n_items=10, **changes):
    facts = {"visits": 8, "step": 17}
    layers = (layer("layer_0", n_items, **facts), layer("layer_1", n_items, contribution=0.0123, **facts))
    query = Query("sequence:test:17", np.zeros(6, np.float32), np.arange(6.0), label=3)
    answer = Answer.from_logits(np.arange(10.0)[::-1])
    made = Explanation("mlp · width 800", "history of training", query, answer, layers, names, (2, 3))
    return replace(made, **changes)


def titled(figure, title):
    return next(axes for axes in figure.axes if axes.get_title(loc="left").startswith(title))


def test_a_layer_has_its_samples_in_order_and_the_totals_and_largest_attentions_of_each_class():
    explained = history(n_items=3)
    figure = draw_explanation(explained)
    found = words(figure)
    assert "layer_0 · 600 slots" in found and "layer_1 · 600 slots" in found
    assert [word for word in found if word.endswith("(8×)")] == ["1.235e+04 (8×)", "6173 (8×)", "4115 (8×)"] * 2
    width, height = figure.get_size_inches()
    assert height <= width, "all layers are seen at once"
    assert found.count("adds +0.012") == 3  # in the last layer alone
    assert "answer 0 (probability 0.6321)" in found and "target 3" in found
    tiles = [axes for axes in figure.axes if len(axes.images) == 3]
    np.testing.assert_array_equal(tiles[0].images[1].get_array().ravel(), explained.layers[0].items[1].picture)
    bars, curves = titled(figure, "total attention"), titled(figure, "largest attentions")
    np.testing.assert_allclose([patch.get_height() for patch in bars.patches], explained.layers[0].totals)
    np.testing.assert_allclose(curves.lines[4].get_ydata(), explained.layers[0].curves[4])
    assert curves.lines[4].get_color() == class_colour(4)
    assert [label.get_weight() for label in bars.get_xticklabels()] == ["bold"] + ["normal"] * 9


def test_a_mask_draws_probabilities_before_and_after_and_says_what_it_changes():
    explained = history(CLOTHES, 12, effect=EFFECT)
    figure = draw_explanation(explained)
    heights = [patch.get_height() for patch in titled(figure, "probability: hollow before").patches]
    np.testing.assert_allclose(heights, [*explained.answer.probabilities, *EFFECT.answer.probabilities])
    found = words(figure)
    assert "without task=fashion_mnist: Ankle boot (probability 0.6321)" in found
    assert "test mnist: accuracy 45.0 → 96.0 %" in found
    assert_no_words_overlap(figure)


def test_prototypes_have_their_value_for_the_answer_and_a_patch_is_named_below_its_weight():
    prototypes = layer("prototypes", 4, size=10, value=np.linspace(1, -1, 10))
    patch = replace(prototypes.items[0], weight=0.25, source="prototype 10 (patch 2)")
    layers = (replace(prototypes, items=(*prototypes.items[1:], patch)), replace(prototypes, items=()))
    figure = draw_explanation(history(memory="prototypes", layers=layers))
    assert words(figure).count("value +1") == 4
    assert {"10 prototypes", "0.25 (patch 2)"} <= set(words(figure))
    assert_no_words_overlap(figure)


def test_inputs_that_are_no_images_are_numbers_and_a_regression_has_no_classes():
    item = MemoryItem("sine:train:3", 0.25, None, np.array([0.5]), value=np.array([1.5]), row=3)
    query = Query("sine:test:0", np.zeros(1, np.float32), np.array([0.75]), target=np.array([2.0]))
    layers = (LayerAttention("training_data", 1, (item,), np.zeros(0), ()),)
    answer = Answer(np.array([1.25]))
    figure = draw_explanation(Explanation("kernel", "training data", query, answer, layers, (), None))
    assert {"0.75", "0.5", "1.5", "0.25", "answer 1.25", "target 2"} <= set(words(figure))
    assert len(figure.axes) == 3
    assert_no_words_overlap(figure)


def test_attention_by_class_is_that_of_the_first_wrong_image_in_each_recorded_network(tmp_path, monkeypatch):
    data = load_made(recorded_config().dataset)

    def constant(inputs):
        return np.tile([[1.0, 0, 0]], (len(inputs), 1))

    assert first_wrong_row(data, constant) == 2  # row 1 is of the second part
    right = replace(data, test=replace(data.test, targets=np.zeros(12, np.int64)))
    assert first_wrong_row(right, constant) == 0

    monkeypatch.setattr("idwbench.figures.runs.load_dataset", load_made)
    store_recorded(tmp_path / "results.db")
    store_recorded(tmp_path / "results.db", recorded_config(width=4))
    other = store_recorded(tmp_path / "results.db", recorded_config(epochs=1))
    store = Results(tmp_path / "results.db")
    (store.recording_folder / other.run_key).rename(tmp_path / "elsewhere")
    figure, left_out = draw("attention_by_class", store.find_runs(), store)
    assert len(figure.axes) == 2 * (3 + 2 * 3)
    assert sum(word.startswith("layer_1 · ") for word in words(figure)) == 2
    assert words(figure).count("fashion_mnist") == words(figure).count("mnist") == 4  # below the bars of each layer
    bars = next(axes for axes in figure.axes if len(axes.patches) == 6)  # three classes of each of two parts
    assert len({patch.get_x() for patch in bars.patches}) == 6
    assert "sequence (mnist, fashion_mnist) · mlp · width 5, depth 1, recorded in float32" in words(figure)
    assert len(left_out) == 1 and "there is no recording" in left_out[0]
    with pytest.raises(ConfigError, match="there is no recording"):
        draw("attention_by_class", [store.find_run(other.run_key)], store)


NETWORK = {"kind": "mlp", "width": 4, "depth": 1, "record": True, "optimizer": "sgd", "epochs": 2, "batch_size": 128}


@pytest.mark.slow
def test_the_pictures_are_the_training_images_with_the_largest_shares_and_attention(tmp_path):
    settings = {"epochs": 2, "batch_size": 128, "prototypes": 2, "initialisation": "mean", "key_bounds": "none"}
    for method in ("neg_dist", "idw"):
        idwbench.train(run_config("digits", method=method, **settings), tmp_path / "results.db", engine="torch")
    idwbench.train(run_config("digits", **NETWORK), tmp_path / "results.db")
    results = Results(tmp_path / "results.db", read_only=True)
    runs = results.find_runs()
    figure, left_out = draw("key_history", runs, results)
    lines = ["not drawn: 1 run of kind 'mlp'", "not drawn: neg_dist"]
    assert [line.split(" · ")[0] for line in left_out] == lines
    idw = next(run for run in runs if run.config.model.method == "idw")
    dataset, history = load_dataset(idw.config.dataset), key_history(results, idw.run_key)
    train, invert = dataset.train, dataset.scaling.invert
    key = min(range(2), key=lambda key: (history.classes[key], key))
    query = dataset.test.inputs[np.linalg.norm(dataset.test.inputs - history.keys[key], axis=1).argmin()]
    # Each epoch visits each training image once: the total attention of the first layer is 2 (x_i · x + 1).
    attended = (train.inputs @ query).argmax()
    rows = [*history.top(key, 4), *history.top(key, 3, against=True)]
    # The groups are columns of tiles, between which the shares by epoch have an axes for each key.
    groups = [axes for axes in figure.axes if axes.images]
    pictures = [image.get_array().ravel() for axes in groups for image in axes.images[: len(axes.images) // 2]]
    expected = [history.initial[key], history.keys[key], *train.inputs[rows], query, train.inputs[attended]]
    np.testing.assert_allclose(pictures[:11], invert(np.stack(expected)))
    texts = [text.get_text() for text in groups[4].texts]
    attention = 2 * (train.inputs[attended] @ query + 1)
    assert texts[:2] == [dataset.class_names[train.labels[attended]], f"{attention:,.0f}"]
    shares = [axes for axes in figure.axes if not axes.images]
    own, others = history.own_class_shares()
    assert len(shares) == 2
    assert [line.get_ydata()[-1] for line in shares[0].lines[1:]] == [others[:, key].sum(), own[:, key].sum()]


def test_points_are_sized_by_their_shares_and_without_a_recording_the_figure_says_what_to_train(tmp_path, monkeypatch):
    idwbench.train(run_config("two_moons", prototypes=3, epochs=2), tmp_path / "results.db", engine="torch")
    idwbench.train(run_config("two_moons", **NETWORK), tmp_path / "results.db")
    results = Results(tmp_path / "results.db", read_only=True)
    runs = results.find_runs()
    figure = draw("key_history", runs, results).figure
    assert len(figure.axes) == 3 * 3
    history = key_history(results, runs[0].run_key)
    key = min(range(3), key=lambda key: (history.classes[key], key))
    [largest] = [dots for dots in figure.axes[0].collections if dots.get_sizes().max(initial=0) == pytest.approx(80)]
    place = largest.get_offsets()[largest.get_sizes().argmax()]
    inputs = load_dataset(runs[0].config.dataset).train.inputs
    np.testing.assert_allclose(place, inputs[np.abs(history.shares[:, key]).argmax()], rtol=1e-6)
    [arrow] = figure.axes[0].texts  # the key moves along it
    np.testing.assert_allclose([arrow.xyann, arrow.xy], [history.initial[key], history.keys[key]], rtol=1e-6)
    monkeypatch.setattr(Results, "find_runs", lambda self, **filters: [])
    figure = draw("key_history", runs, results).figure
    assert len(figure.axes) == 3
    line = "recorded memories are not drawn: the database has no run of kind 'mlp' with record: true on two_moons"
    assert line in caption(figure)
    with pytest.raises(ConfigError, match="two_moons: the figure needs images"):
        draw("attention_by_class", runs, results)
    part = attention_part(Selection(results, runs))
    assert part.tables and not part.blocks
    assert part.notes == ("No recorded training is drawn: two_moons: the figure needs images.",)


TREES = Columns((Column("width"), Column("kind", ("elm", "oak"), "oak")))


@pytest.mark.parametrize("names", [("low", "high"), ()])
def test_the_entries_of_a_table_are_lines_of_what_they_have_more_than_the_input(names):
    pictures = {0.6: [3.0, 0, 1], 0.3: [0.0, 0.75, 0.25]}
    items = [
        MemoryItem("prototype 0", weight, 1 if names else None, np.array(picture), np.array([1.0]))
        for weight, picture in pictures.items()
    ]
    totals, curves = (np.array([0.1, 0.9]), (np.array([0.1]), np.array([0.6, 0.3]))) if names else (np.zeros(0), ())
    query = Query("width=1,kind=oak", np.zeros(3, np.float32), np.array([1.0, 0, 1]))
    answer = Answer.from_logits(np.array([1.0, 2])) if names else Answer(np.array([0.5]))
    layers = (LayerAttention("prototypes", 9, tuple(items), totals, curves),)
    spreads = np.array([2.0, 1, 1])
    made = Explanation("idw", "prototypes", query, answer, layers, names, None, columns=TREES, spreads=spreads)
    figure = draw_explanation(made)
    axes = next(axes for axes in figure.axes if axes.get_ylabel() == "less the input, in sd")
    second, first, zero = axes.lines
    np.testing.assert_allclose([first.get_ydata(), second.get_ydata()], [[1, 0], [-0.5, 0.75]])
    assert first.get_linewidth() > second.get_linewidth() and set(zero.get_ydata()) == {0}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["width 1", "kind oak"]
    assert first.get_color() == (class_colour(1) if names else QUIET)
    assert_no_words_overlap(figure)


def test_an_answer_in_the_plane_is_drawn_on_the_map_of_all_answers():
    items = [MemoryItem(f"prototype {n}", 0.6 - 0.3 * n, n, np.array([n, 1.0]), np.array([1.0, 0])) for n in (0, 1)]
    layers = (LayerAttention("prototypes", 9, tuple(items), np.array([0.6, 0.3]), (np.array([0.6]), np.array([0.3]))),)
    query = Query("0.25,0.5", np.zeros(2, np.float32), np.array([0.25, 0.5]))
    certain = np.stack([np.tile([1.0, 0.5, 0.0], (3, 1)), np.tile([0.0, 0.5, 1.0], (3, 1))], axis=2)
    plane = Plane((0.0, 1.0, 0.0, 2.0), certain, np.array([[0.5, 0.5]]), np.array([1]))
    answer = Answer.from_logits(np.array([1.0, 0]))
    made = Explanation("idw", "prototypes", query, answer, layers, ("left", "right"), None, plane=plane)
    figure = draw_explanation(made)
    axes = next(axes for axes in figure.axes if axes.images)
    shades = np.asarray(axes.images[0].get_array())
    left, undecided, right = shades[0]
    assert left[2] > left[0] and right[0] > right[2] and undecided.tolist() == [1, 1, 1]  # blue, white, orange
    assert axes.lines[-1].get_xydata().tolist() == [[0.25, 0.5]]
    diamonds = [marks.get_offsets().tolist() for marks in axes.collections[1:]]
    assert diamonds == [[[1.0, 1.0]], [[0.0, 1.0]]]  # the largest last, above the others
    assert axes.collections[2].get_sizes()[0] > axes.collections[1].get_sizes()[0]
    assert_no_words_overlap(figure)
