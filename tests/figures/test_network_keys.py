"""Keys of a network's head as their nearest training images."""

from __future__ import annotations

import numpy as np
import pytest
from made import SCALING, Store, assert_no_words_overlap, made_dataset, made_run, words
from matplotlib.patches import Rectangle

from idwbench.errors import ConfigError
from idwbench.figures import network_keys
from idwbench.figures.network_keys import FeaturePanel, draw_network_keys, network_keys_figure
from idwbench.models.networks import initial_network
from idwbench.runs.config import run_config

NAMES = [str(digit) for digit in range(10)]
IDW = {"encoder": "mlp", "width": 5, "head": "idw", "prototypes": 3}


def panel(n: int = 3) -> FeaturePanel:
    images = np.random.default_rng(0).normal(size=(n, 2, 12))
    labels = np.array([[4, 4], [1, 7], [1, 1]])[:n]
    return FeaturePanel("mlp+idw", np.eye(10)[[4, 1, 1]][:n], images, labels, np.array([0.5, 1.25, 12.0])[:n])


def test_a_column_has_the_class_of_the_key_above_its_images_and_marks_other_labels() -> None:
    figure = draw_network_keys([panel()], (4, 3), NAMES)
    (axes,) = figure.axes
    np.testing.assert_array_equal(axes.images[0].get_array().ravel(), panel().nearest[1, 0])  # sorted by class
    assert [text.get_text() for text in axes.texts][:6] == ["1", "1.2", "1", "12", "4", "0.5"]
    widths = [patch.get_linewidth() for patch in axes.patches if isinstance(patch, Rectangle)]
    assert sorted(widths) == [0.6] * 5 + [1.6] and widths[1] == 1.6
    assert "mean distance 4.58, label agrees for 3 of 3 keys; 3 different images are nearest" in words(figure)


@pytest.mark.parametrize("names", [NAMES, ["T-shirt/top", "Ankle boot"] * 5])
def test_no_words_overlap(names: list[str]) -> None:
    assert_no_words_overlap(draw_network_keys([panel(), panel(2)], (4, 3), names, source="digits"))


def test_images_are_the_training_rows_with_the_nearest_features(monkeypatch) -> None:
    dataset = made_dataset(image_shape=(1, 2))
    monkeypatch.setattr(network_keys, "load_dataset", lambda config, data_dir: dataset)
    configs = [run_config("two_moons", kind="network", **settings) for settings in (IDW, {"encoder": "mlp"})]
    network = initial_network(configs[0].model, dataset, np.random.default_rng(0))
    arrays = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    runs = [made_run(config) for config in configs]
    drawing = network_keys_figure(Store(default=arrays), runs)  # type: ignore[arg-type]
    assert drawing.left_out == ("not drawn: mlp+linear, whose heads have no keys that are points",)
    (axes,) = drawing.figure.axes
    features = network.features(dataset.train.inputs)
    order = np.argsort(arrays["head.values"].argmax(1), kind="stable")
    for place, key in enumerate(arrays["head.keys"][order]):
        rows = np.argsort(((features - key) ** 2).sum(1), kind="stable")[:3]
        found = [image.get_array().ravel() for image in axes.images[3 * place : 3 * place + 3]]
        np.testing.assert_allclose(found, SCALING.invert(dataset.train.inputs[rows]))
    with pytest.raises(ConfigError, match=r"the heads of mlp\+linear have no keys that are points"):
        network_keys_figure(Store(default=arrays), runs[1:])  # type: ignore[arg-type]


def test_what_cannot_be_drawn_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(network_keys, "load_dataset", lambda config, data_dir: made_dataset())
    with pytest.raises(ConfigError, match="the figure needs images of classes; two_moons has no such inputs"):
        network_keys_figure(Store(), [made_run(run_config("two_moons", kind="network", **IDW))])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no run of kind 'network' is complete"):
        network_keys_figure(Store(), [made_run(run_config("two_moons"))])  # type: ignore[arg-type]
