import numpy as np
import pytest
from made import SCALING, Store, assert_no_words_overlap, made_dataset, made_run, words
from matplotlib.patches import Rectangle

from idwbench.errors import ConfigError
from idwbench.figures import keys
from idwbench.figures.keys_nearest import NearestPanel, draw_keys_nearest, keys_nearest_figure
from idwbench.runs.config import run_config

NAMES = [str(digit) for digit in range(10)]


def panel(n: int = 3) -> NearestPanel:
    generator = np.random.default_rng(0)
    images, values = generator.normal(size=(n, 12)), np.eye(10)[[4, 1, 1]][:n]
    return NearestPanel("idw", images, values, images + 1, np.array([4, 1, 7])[:n], np.array([0.5, 12.25, 180.0])[:n])


def test_a_pair_is_a_key_above_its_image_with_both_labels_and_the_distance() -> None:
    figure = draw_keys_nearest([panel()], (4, 3), NAMES)
    (axes,) = figure.axes
    assert len(axes.images) == 6
    np.testing.assert_array_equal(axes.images[1].get_array(), axes.images[0].get_array() + 1)
    texts = [text.get_text() for text in axes.texts]
    assert texts[:8] == ["1 → 1", "12.2", "1 → 7", "180", "4 → 4", "0.500", "key", "nearest"]
    assert "mean distance 64.2, label agrees for 2 of 3 keys; 3 different images" in words(figure)


def test_only_the_pair_whose_labels_differ_is_marked() -> None:
    (axes,) = draw_keys_nearest([panel()], (4, 3), NAMES).axes
    weights = {text.get_text(): text.get_weight() for text in axes.texts if "→" in text.get_text()}
    assert weights == {"1 → 1": "normal", "1 → 7": "bold", "4 → 4": "normal"}
    widths = [patch.get_linewidth() for patch in axes.patches if isinstance(patch, Rectangle)]
    assert sorted(widths)[-1] > sorted(widths)[-2]


@pytest.mark.parametrize("names", [NAMES, ["T-shirt/top", "Ankle boot"] * 5])
def test_names_of_any_length_fit(names) -> None:
    assert_no_words_overlap(draw_keys_nearest([panel(), panel(2)], (4, 3), names, source="fashion_mnist"))


def test_methods_whose_keys_are_directions_are_left_out_and_named(monkeypatch) -> None:
    dataset = made_dataset(image_shape=(1, 2))
    monkeypatch.setattr(keys, "load_dataset", lambda config, data_dir: dataset)
    arrays = {"keys": dataset.train.inputs[[3, 5]] + np.float32(1e-3), "values": np.eye(2, dtype=np.float32)}
    runs = [made_run(run_config("two_moons", prototypes=2, method=method)) for method in ("fc_relu", "idw")]
    drawing = keys_nearest_figure(Store(default=arrays), runs)  # type: ignore[arg-type]
    assert drawing.left_out == ("not drawn: fc_relu, whose keys are directions, not points",)
    (axes,) = drawing.figure.axes
    np.testing.assert_allclose(axes.images[1].get_array().ravel(), SCALING.invert(dataset.train.inputs[3]))
    assert [text.get_text() for text in axes.texts][:3] == ["upper →", "lower", "0.00141"]
    with pytest.raises(ConfigError, match="the keys of fc_relu are directions"):
        keys_nearest_figure(Store(default=arrays), runs[:1])  # type: ignore[arg-type]
