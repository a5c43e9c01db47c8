"""Keys as images: alone, beside their nearest training images, and in feature space."""

from itertools import pairwise

import numpy as np
import pytest
from made import SCALING, assert_no_words_overlap, draw, made_dataset, made_run, use_dataset, words
from matplotlib.patches import Rectangle

from idwbench.errors import ConfigError
from idwbench.figures.keys import KeysPanel, draw_keys, key_order
from idwbench.models.networks import initial_network
from idwbench.runs.config import run_config

DIGITS = [str(digit) for digit in range(10)]
CLOTHES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def panel(prototypes: int = 20, title: str = "idw") -> KeysPanel:
    generator = np.random.default_rng(0)
    keys = np.arange(prototypes)[:, None] + generator.normal(size=(prototypes, 12)) / 10
    return KeysPanel(title, keys, generator.normal(size=(prototypes, 10)))


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


def test_keys_are_sorted_by_the_class_of_their_values_and_each_has_its_own_scale_symmetric_about_zero():
    assert key_order(np.eye(4)[[2, 0, 3, 0, 2, 2]]).tolist() == [1, 3, 0, 4, 5, 2]
    drawn = panel()
    drawn.keys[:3] *= [[1000.0], [0.001], [0.0]]
    figure = draw_keys([drawn], (4, 3), DIGITS)
    (axes,) = figure.axes
    order = key_order(drawn.values)
    np.testing.assert_array_equal([image.get_array() for image in axes.images], drawn.keys[order].reshape(20, 4, 3))
    assert texts(axes) == [str(label) for label in np.argmax(drawn.values, axis=1)[order]]
    for image, key in zip(axes.images, drawn.keys[order], strict=True):
        high = np.quantile(abs(key), 0.95) or 1
        assert image.get_clim() == (-high, high)
    assert any("own scale" in text and "95th percentile" in text for text in words(figure))


@pytest.mark.slow
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
    dataset = made_dataset(image_shape=(1, 2), class_names=tuple(names))
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
    assert_no_words_overlap(figure)
    with pytest.raises(ConfigError, match="the keys of fc_relu are directions"):
        draw("keys_nearest", runs[:1], default=arrays)


def test_keys_of_a_network_are_the_training_images_with_the_nearest_features(monkeypatch):
    dataset = use_dataset(monkeypatch)
    idw = {"width": 5, "head": "idw", "prototypes": 3}
    configs = [run_config("two_moons", kind="network", encoder="mlp", **settings) for settings in (idw, {})]
    network = initial_network(configs[0].model, dataset, np.random.default_rng(0))
    arrays = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    runs = [made_run(config) for config in configs]
    figure, left_out = draw("network_keys", runs, default=arrays)
    assert left_out == ("not drawn: mlp+linear, whose heads have no keys that are points",)
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
    assert_no_words_overlap(figure)
    with pytest.raises(ConfigError, match=r"the heads of mlp\+linear have no keys that are points"):
        draw("network_keys", runs[1:], default=arrays)
