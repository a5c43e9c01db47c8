"""Keys: as images, in feature space, over columns of a table, in the plane of two moons; heat maps of p and ε."""

from dataclasses import replace
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from made import ARRAYS as STORED
from made import SCALING, assert_no_words_overlap, draw, draw_pairs, made_dataset, made_run, use_dataset, words
from matplotlib.collections import PathCollection
from matplotlib.patches import Rectangle
from scipy.stats import f_oneway

from idwbench.data.columns import Column, Columns
from idwbench.errors import ConfigError
from idwbench.figures.keys import draw_keys
from idwbench.figures.plane import GRID, plane_extent, plane_picture
from idwbench.figures.runs import key_order
from idwbench.figures.style import class_colour
from idwbench.models.networks import initial_network
from idwbench.runs.config import run_config

DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def panel(prototypes=20, title="idw"):
    generator = np.random.default_rng(0)
    keys = np.arange(prototypes)[:, None] + generator.normal(size=(prototypes, 12)) / 10
    return (title, keys, generator.normal(size=(prototypes, 10)))


def texts(axes):
    return [text.get_text() for text in axes.texts if text.get_text()]


def test_keys_are_sorted_by_the_class_of_their_values_and_each_has_its_own_scale_symmetric_about_zero():
    assert key_order(np.eye(4)[[2, 0, 3, 0, 2, 2]]).tolist() == [1, 3, 0, 4, 5, 2]
    title, keys, values = panel()
    keys[:3] *= [[1000.0], [0.001], [0.0]]
    figure = draw_keys([(title, keys, values)], (4, 3), DIGITS)
    (axes,) = figure.axes
    order = key_order(values)
    np.testing.assert_array_equal([image.get_array() for image in axes.images], keys[order].reshape(20, 4, 3))
    assert texts(axes) == [str(label) for label in np.argmax(values, axis=1)[order]]
    for image, key in zip(axes.images, keys[order], strict=True):
        high = np.quantile(abs(key), 0.95) or 1
        assert image.get_clim() == (-high, high)
    assert any("own scale" in text and "95th percentile" in text for text in words(figure))


@pytest.mark.slow
def test_border_noise_does_not_set_the_scale_and_classes_without_a_key_are_named():
    keys, values = np.ones((4, 12)), np.eye(4)[[0, 0, 1, 1]]
    keys[:, :6] = 100.0  # background in all images
    figure = draw_keys([("idw", keys, values)], (4, 3), DIGITS[:4], active=np.arange(12) >= 6)
    assert {image.norm.vmax for image in figure.axes[0].images} == {1.0}
    assert f"classes without a key: {DIGITS[2]}, {DIGITS[3]}" in words(figure)
    assert any("not background" in text for text in words(figure))
    few = draw_keys([("idw", keys[:1], values[:1])], (4, 3), DIGITS[:4])
    assert not any("without a key" in text for text in words(few))


@pytest.mark.parametrize(("sizes", "shape", "names"), [((3, 20), (4, 3), DIGITS), ((1, 61), (3, 4), CLOTHES)])
def test_grids_stand_one_above_the_other_and_no_words_overlap_however_long_a_title_is(sizes, shape, names):
    titles = [f"{n} keys" + " · test accuracy 97.50 ± 1.18 %" * 4 for n in sizes]
    figure = draw_keys([panel(n, title) for n, title in zip(sizes, titles, strict=True)], shape, names)
    assert [len(axes.images) for axes in figure.axes] == list(sizes)
    bounds = [axes.get_position() for axes in figure.axes]
    assert all(upper.y0 > lower.y1 for upper, lower in pairwise(bounds))
    assert_no_words_overlap(figure)


def test_keys_are_in_the_datas_own_units_if_they_are_points(monkeypatch):
    use_dataset(monkeypatch)
    configs = [run_config("two_moons", prototypes=3, method=method) for method in ("idw", "fc_relu")]
    for kind, method in (("scikit_learn", "nearest_centroid"), ("scikit_learn", "knn"), ("baseline", "samples")):
        prototypes = {"prototypes": 3} if kind == "baseline" else {}
        configs.append(run_config("two_moons", kind=kind, method=method, **prototypes))
    runs = [made_run(config) for config in configs]
    networks, left_out = draw("keys", runs)
    assert left_out == ("not drawn: 1 run of kind 'baseline'", "not drawn: 2 runs of kind 'scikit_learn'")
    others, left_out = draw("keys", runs[2:])
    assert left_out == ("not drawn: 1 run of kind 'scikit_learn'",), "the keys of baselines, if there are no networks"
    directions, points = networks.axes
    assert directions.get_title(loc="left") == "fc_relu · 3 prototypes · seed 0 · test accuracy 90.00 %"
    assert points.get_title(loc="left") == "idw · p=2, ε=0.001 · 3 prototypes · seed 0 · test accuracy 90.00 %"
    titles = {axes.get_title(loc="left").split(" · seed")[0] for axes in others.axes}
    assert titles == {"nearest_centroid · 3 prototypes", "samples · 3 prototypes"}
    for axes in (points, *others.axes):
        for scaled, own in zip(directions.images, axes.images, strict=True):
            np.testing.assert_allclose(own.get_array(), 10 + 2 * np.asarray(scaled.get_array()), rtol=1e-6)


@pytest.mark.parametrize("names", [DIGITS[:2], CLOTHES[:2]])
def test_a_key_stands_above_its_nearest_image_with_both_labels_and_the_distance(monkeypatch, names):
    dataset = made_dataset(image_shape=(1, 2), class_names=names)
    use_dataset(monkeypatch, dataset)
    keys = dataset.train.inputs[[3, 5, 0]] + np.float32(1e-3)
    arrays = {"keys": keys, "values": np.eye(2, dtype=np.float32)[[1, 0, 0]]}
    runs = [made_run(run_config("two_moons", prototypes=3, method=method)) for method in ("fc_relu", "idw")]
    figure, left_out = draw("keys_nearest", runs, default=arrays)
    assert left_out == ("not drawn: fc_relu, whose keys are directions, not points",)
    (axes,) = figure.axes
    shown = [image.get_array().ravel() for image in axes.images]
    rows = [5, 0, 3]  # of the keys sorted by the class of their values
    np.testing.assert_allclose(shown[1::2], SCALING.invert(dataset.train.inputs[rows]))
    np.testing.assert_allclose(shown[::2], SCALING.invert(dataset.train.inputs[rows] + np.float32(1e-3)))
    short, one = names == DIGITS[:2], names[0]
    first = ([f"{one} → {names[1]}"] if short else [f"{one} →", names[1]]) + ["0.00141"]
    assert texts(axes)[: 2 + len(first)] == ["key", "nearest", *first]
    differs = {text.get_text() for text in axes.texts if text.get_weight() == "bold"}
    assert differs == set(first[:-1]), "only the pair whose labels differ is marked"
    widths = sorted(patch.get_linewidth() for patch in axes.patches if isinstance(patch, Rectangle))
    assert widths[-1] > widths[-2]
    assert "mean distance 0.00141, label agrees for 2 of 3 keys; 3 different images" in words(figure)
    with pytest.raises(ConfigError, match="the keys of fc_relu are directions"):
        draw("keys_nearest", runs[:1], default=arrays)


def test_slopes_stand_below_their_keys_one_for_each_class_with_a_mean_of_zero(monkeypatch):
    dataset = made_dataset(image_shape=(1, 2), class_names=DIGITS[:3])
    use_dataset(monkeypatch, dataset)
    generator = np.random.default_rng(0)
    shapes = {"keys": (4, 2), "values": (4, 3), "slope_inputs": (2, 4, 2), "slope_outputs": (2, 4, 3)}
    arrays = {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    plain, sloped, other = (made_run(run_config("two_moons", prototypes=4, slope_rank=rank)) for rank in (0, 2, 3))
    without = {name: arrays[name] for name in ("keys", "values")}
    figure, left_out = draw_pairs(
        "slopes", (plain, without), (sloped, arrays), (other, {**arrays, "keys": -arrays["keys"]})
    )
    assert left_out[0] == "not drawn: models whose values have no slope" and "other ranks, powers" in left_out[1]
    (axes,) = figure.axes
    shown = np.array([image.get_array().ravel() for image in axes.images]).reshape(4, 4, 2)  # key, and three classes
    order = key_order(arrays["values"])
    slopes = np.einsum("rpo,rpf->pof", arrays["slope_outputs"], arrays["slope_inputs"])
    np.testing.assert_allclose(shown[:, 0], SCALING.invert(arrays["keys"][order]), rtol=1e-6)
    np.testing.assert_allclose(shown[:, 1:], (slopes - slopes.mean(1, keepdims=True))[order], atol=1e-6)
    names = [DIGITS[label] for label in arrays["values"][order].argmax(1)]
    assert texts(axes) == ["key", *DIGITS[:3], *names]
    with pytest.raises(ConfigError, match="the values of no model have a slope"):
        draw_pairs("slopes", (plain, without))


def network_run(dataset, head="idw", learning_rate=0.01, validation=0.5, seed=0):
    """A stored network, and its arrays, in which keys and values are those of its seed."""
    settings = {"width": 5, "head": head, **({} if head == "linear" else {"prototypes": 3})}
    config = run_config("two_moons", kind="network", encoder="mlp", learning_rate=learning_rate, **settings)
    network = initial_network(config.model, dataset, np.random.default_rng(seed))
    arrays = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    run = made_run(config)
    return replace(run, metrics=run.metrics | {("validation", "accuracy"): validation}), arrays, network


def test_keys_of_a_network_are_the_training_images_with_the_nearest_features_at_the_best_learning_rate(monkeypatch):
    dataset = use_dataset(monkeypatch)
    run, arrays, network = network_run(dataset)
    worse, other, _ = network_run(dataset, learning_rate=0.001, validation=0.4, seed=1)
    linear = network_run(dataset, "linear")[0]
    figure, left_out = draw("network_keys", [worse, run, linear], arrays={run.run_key: arrays, worse.run_key: other})
    assert left_out == ("not drawn: mlp+linear, whose heads have no keys that are points or directions",)
    (axes,) = figure.axes
    features, classes = network.features(dataset.train.inputs), arrays["head.values"].argmax(1)
    frames = [patch.get_linewidth() for patch in axes.patches if isinstance(patch, Rectangle)]
    agree = 0
    for place, key in enumerate(np.argsort(classes, kind="stable")):
        rows = np.argsort(((features - arrays["head.keys"][key]) ** 2).sum(1), kind="stable")[:3]
        shown = [image.get_array().ravel() for image in axes.images[3 * place : 3 * place + 3]]
        np.testing.assert_allclose(shown, SCALING.invert(dataset.train.inputs[rows]))
        assert texts(axes)[2 * place] == dataset.class_names[classes[key]]
        differs = dataset.train.labels[rows] != classes[key]
        assert frames[3 * place : 3 * place + 3] == np.where(differs, 1.6, 0.6).tolist()
        agree += not differs[0]
    assert any(f"label agrees for {agree} of 3 keys" in text for text in words(figure))
    with pytest.raises(ConfigError, match=r"the heads of mlp\+linear have no keys that are points"):
        draw("network_keys", [linear])


def test_keys_of_dot_products_have_the_images_with_the_largest_products_and_many_heads_two_columns(monkeypatch):
    dataset = use_dataset(monkeypatch, made_dataset(image_shape=(1, 2), class_names=("0", "1")))
    made = [network_run(dataset, head) for head in ("scaled_dot", "cosine", "idw", "neg_dist")]
    figure = draw("network_keys", [run for run, *_ in made], arrays={run.run_key: one for run, one, _ in made}).figure
    columns = [round(axes.get_position().x0, 2) for axes in figure.axes]
    assert columns[0] == columns[2] < columns[1] == columns[3]
    by_name = {axes.get_title(loc="left").split(" · ")[0].removeprefix("mlp+"): axes for axes in figure.axes}
    for head, (_, arrays, network) in zip(("scaled_dot", "cosine"), made, strict=False):
        features, classes = network.features(dataset.train.inputs), arrays["head.values"].argmax(1)
        key = np.argsort(classes, kind="stable")[0]
        products = features @ arrays["head.keys"][key]
        cosines = products / np.linalg.norm(features, axis=1) / np.linalg.norm(arrays["head.keys"][key])
        best = int(np.argmax(products if head == "scaled_dot" else cosines))
        shown = by_name[head].images[0].get_array().ravel()
        np.testing.assert_allclose(shown, SCALING.invert(dataset.train.inputs[best]))
        assert float(texts(by_name[head])[1]) == pytest.approx(cosines[best], abs=6e-3)
    assert any("mean cosine" in text for text in words(figure))


TREES = Columns((Column("height"), Column("width")))


def test_prototypes_are_lines_over_the_columns_and_points_among_the_rows_if_two_are_numbers(monkeypatch):
    dataset = use_dataset(monkeypatch, replace(made_dataset(), columns=TREES))
    made = [made_run(run_config("two_moons", prototypes=3, method=method)) for method in ("idw", "cosine")]
    figure, left_out = draw("columns", made)
    assert left_out == ("not drawn: cosine, whose keys are directions, not points",)
    lines, points = figure.axes
    np.testing.assert_allclose([line.get_ydata() for line in lines.lines], STORED["keys"])
    assert [line.get_color() for line in lines.lines] == [class_colour(label) for label in (0, 1, 1)]
    assert [label.get_text() for label in lines.get_xticklabels()] == ["height", "width"]
    inputs, labels = dataset.train.inputs, dataset.train.labels
    order = np.argsort(-f_oneway(inputs[labels == 0], inputs[labels == 1]).statistic)
    rows, keys = (marks.get_offsets() for marks in points.collections)
    np.testing.assert_allclose(rows, dataset.scaling.invert(dataset.train.inputs)[:, order])
    np.testing.assert_allclose(keys, dataset.scaling.invert(STORED["keys"])[:, order])
    assert (points.get_xlabel(), points.get_ylabel()) == tuple(TREES.names[place] for place in order)
    with pytest.raises(ConfigError, match="the keys of cosine are directions"):
        draw("columns", made[1:])
    use_dataset(monkeypatch, replace(made_dataset(), columns=Columns((Column("kind", ("elm", "oak")),))))
    lines, points = draw("columns", made[:1]).figure.axes
    assert [label.get_text() for label in lines.get_xticklabels()] == ["kind=elm", "kind=oak"]
    assert not points.axison and not points.collections


KEYS = np.array([[-0.6, 0.1], [9.0, 9.0]], np.float32)
VALUES = np.eye(2, dtype=np.float32)
ARRAYS = {"keys": KEYS, "values": VALUES}


@pytest.fixture(autouse=True)
def _data(monkeypatch):
    use_dataset(monkeypatch, made_dataset())


def runs(seeds=(0, 1), dataset="two_moons", **settings):
    settings = {"prototypes": 2, **settings}
    return [made_run(run_config(dataset, seed=seed, **settings), 0.8 + seed / 10) for seed in seeds]


def drawn(name, given):
    return draw(name, given, default=ARRAYS)


def test_a_picture_has_keys_in_the_datas_own_units_and_the_probability_at_the_middles_of_cells():
    data = made_dataset()
    picture = plane_picture(run_config("two_moons", prototypes=2).model, {"keys": KEYS, "values": VALUES}, data)
    np.testing.assert_allclose(picture.keys, SCALING.invert(KEYS), rtol=1e-6)
    left, right, bottom, top = plane_extent(data)
    middles = (np.arange(GRID) + 0.5) / GRID
    x, y = np.meshgrid(left + (right - left) * middles, bottom + (top - bottom) * middles)
    query = (np.stack([x, y], -1)[:, :, None] - SCALING.mean) / SCALING.std
    weight = 1 / (1e-3 + ((query - KEYS.astype(np.float64)) ** 2).sum(-1))
    logits = (weight / weight.sum(-1, keepdims=True)) @ VALUES
    expected = 1 / (1 + np.exp(logits[..., 0] - logits[..., 1]))
    np.testing.assert_allclose(picture.probability, expected, atol=2e-6)


def test_a_panel_shows_points_keys_regions_of_the_lowest_seed_and_means_over_seeds():
    given = runs(seeds=(3, 1, 2), method="gaussian")
    lowest = {given[1].run_key: ARRAYS}
    figure = draw("moons", given, arrays=lowest, default=None).figure
    (axes,) = figure.axes
    (region,) = axes.images
    assert (region.origin, tuple(region.get_extent())) == ("lower", plane_extent(made_dataset()))
    scatters = [collection for collection in axes.collections if type(collection) is PathCollection]
    assert [len(s.get_offsets()) for s in scatters] == [4, 4, 4, 4, 1]
    np.testing.assert_allclose(scatters[-1].get_offsets(), SCALING.invert(KEYS[:1]))
    assert [matplotlib.colors.to_hex(colour) for colour in scatters[-1].get_facecolor()] == [class_colour(0).lower()]
    found = set(words(figure))
    assert {"gaussian", "σ²=2", "train 100.0 ± 0.0", "test 100.0 ± 10.0", "1 key outside"} <= found
    assert {"class upper", "class lower"} <= found
    assert any("mean ± std over 3 seeds" in text for text in found)
    assert axes._right_title.get_weight() == "normal"  # type: ignore[attr-defined]  # nothing to compare with


def test_moons_stand_in_a_row_for_each_method_and_a_column_for_each_number_and_the_best_of_a_column_is_bold():
    given = [*runs(range(6)), *runs(range(6), method="inv_dist"), *runs(prototypes=3)]
    given += [replace(run, metrics={key: 0.5 for key in run.metrics}) for run in runs(range(6), method="scaled_dot")]
    figure = drawn("moons", given).figure
    texts = words(figure)
    assert {"2 prototypes", "3 prototypes", "p=2\nε=0.001", "1/√features", "no run"} <= set(texts)
    assert texts.index("scaled_dot") < texts.index("inv_dist") < texts.index("idw")
    assert len({round(axes.get_position().x0, 6) for axes in figure.axes}) == 2
    weights = [axes._right_title.get_weight() for axes in figure.axes if axes.images]  # type: ignore[attr-defined]
    assert weights == ["normal", "bold", "bold", "bold"]
    caption = " ".join(texts).replace("\n", " ")
    assert "bold: best test accuracy of a column" in caption and "not distinguishable from it (Wilcoxon)" in caption


def grid(powers=(1, 2), **settings):
    return [run for power in powers for epsilon in (0.0, 0.1) for run in runs(power=power, epsilon=epsilon, **settings)]


def with_metric(given, name, value, split="train"):
    return [replace(run, metrics={**run.metrics, (split, name): value}) for run in given]


def test_rows_are_powers_and_columns_epsilons_with_accuracies_over_seeds_and_diverged_runs():
    stored = [*grid(), made_run(run_config("two_moons", prototypes=2, power=1, epsilon=1.0))]
    stored = [replace(run, state="diverged", metrics={}) if n < 3 else run for n, run in enumerate(stored)]
    figure = drawn("power_epsilon", stored).figure
    texts = words(figure)
    assert len(figure.axes) == 6
    assert [text for text in texts if text.startswith("ε = ")] == ["ε = 0", "ε = 0.1", "ε = 1"]
    assert [text for text in texts if text.startswith("p = ")] == ["p = 1", "p = 2"]
    assert texts.count("no run") == 1
    assert texts.count("85.0 ± 7.1") == 2 and "90.0" in texts
    assert {"2 diverged", "1 diverged, 1 outside", "1 outside"} <= set(texts)
    assert any("mean ± std over 1 to 2 seeds" in text for text in texts)
    assert any("idw · 2 prototypes · two_moons" in text for text in texts)


def test_each_cell_of_a_heat_map_has_mean_spread_and_number_or_why_it_has_none():
    given = with_metric(grid(powers=(1,)), "dead_keys", 2.0) + runs(power=2, epsilon=0.1)
    given += runs((0, 1, 2), power=2, epsilon=0.0)
    given = [replace(run, state="diverged", metrics={}) if n in (0, 2, 3) else run for n, run in enumerate(given)]
    figure, left_out = drawn("power_epsilon_heatmap", given + runs((0,), power=3, epsilon=0.1))
    first, second = ([text.get_text() for text in axes.texts] for axes in figure.axes)
    assert first[:3] == ["90.0", "n=1, 1 diverged", "2 diverged"]
    assert first[3:] == ["90.0", "±\u202f10.0, n=3", "85.0", "±\u202f7.1, n=2", "no run", "80.0", "n=1"]
    assert second == ["2", "n=1, 1 diverged", "2 diverged", "not measured", "not measured", "no run", "not measured"]
    same = drawn("power_epsilon_heatmap", grid()).figure
    assert not any("n=" in text for text in words(same)) and any("over 2 seeds" in text for text in words(same))
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0", "0.1"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["test accuracy in %", "dead keys"]
    assert left_out == ("not drawn: relative_coverage, key_distance, which no run has",)


def test_several_data_sets_have_one_heat_map_each_of_the_headline_metric():
    others = [run for noise in (0.2, 0.3) for run in grid(dataset={"name": "two_moons", "noise": noise})]
    given = with_metric(grid() + others, "dead_keys", 2.0)
    figure, left_out = drawn("power_epsilon_heatmap", given)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == [f"two_moons · noise {noise}" for noise in (0.1, 0.2, 0.3)]
    assert any("rate 0.01 · test accuracy in %" in " ".join(text.split()) for text in words(figure)) and left_out == ()


def test_the_best_cell_is_the_lightest_wide_ranges_are_logarithmic_and_other_models_are_counted():
    given = [
        run
        for epsilon, value in zip((0.0, 0.1, 1.0), (0.01, 0.1, 0.9), strict=True)
        for run in with_metric(with_metric(runs(epsilon=epsilon), "accuracy", value, "holdout"), "key_distance", value)
    ]
    others = grid(method="inv_dist", powers=(1,)) + grid(prototypes=4, powers=(1,)) + runs((0,), method="neg_dist")
    figure, left_out = drawn("power_epsilon_heatmap", given + others)
    assert "not drawn: 9 runs of other models (drawn: idw · 2 prototypes)" in left_out, "the model with the most places"
    titles, sides = ([axes.get_title(loc=side) for axes in figure.axes] for side in ("left", "right"))
    assert titles == ["holdout accuracy in %", "key distance"]
    assert sides == ["logarithmic colours", "lower is better\nlogarithmic colours"]
    accuracy, distance = (axes.collections[0].get_facecolor()[:, :3].sum(1).tolist() for axes in figure.axes)
    assert accuracy == sorted(accuracy) and distance == sorted(distance, reverse=True)
