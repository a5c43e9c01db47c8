"""Where prototypes lie in the training data, and the answers in the plane, against NumPy and the model itself."""

from dataclasses import replace

import numpy as np
import pytest
from array_models import saved_array_model

from idwbench import run_config
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.explanations.explain import explain_memory
from idwbench.explanations.memory import Request
from idwbench.explanations.prototypes import prototype_memory
from idwbench.explanations.training_data import kernel_memory


def made(name, method="idw", seed=0):
    """Return a data set and a model of it with keys within and outside the range of its training rows."""
    config = run_config(name, method=method, prototypes=6)
    dataset = load_dataset(config.dataset)
    generator = np.random.default_rng(seed)
    keys = generator.normal(0, 1.5, (6, dataset.n_features)).astype(np.float32)
    keys[0] = dataset.train.inputs[7]
    arrays = {"keys": keys, "values": generator.normal(size=(6, dataset.n_outputs)).astype(np.float32)}
    saved = replace(saved_array_model(config, dataset, arrays), columns=dataset.columns)
    return dataset, saved, keys


@pytest.mark.parametrize("name", ["iris", "two_moons", "diabetes"])
def test_each_prototype_has_its_nearest_training_row_and_the_features_beyond_the_range_of_the_data(name):
    dataset, saved, keys = made(name)
    explained = explain_memory(prototype_memory(saved), Request(f"{name}:test:1", load=lambda *_: dataset))
    inputs = dataset.train.inputs.astype(np.float64)
    for item in explained.layers[0].items:
        key = keys[int(item.source.split()[1])].astype(np.float64)
        distances = np.sqrt(((inputs - key) ** 2).sum(1))
        row = int(distances.argmin())
        assert (item.nearest.source, item.nearest.row) == (f"{name}:train:{row}", row)
        assert item.nearest.distance == pytest.approx(distances[row], abs=1e-4)
        assert item.nearest.label == (dataset.train.labels[row] if dataset.class_names else None)
        beyond = (key < inputs.min(0) - 1e-3) | (key > inputs.max(0) + 1e-3)
        assert item.outside.tolist() == np.flatnonzero(beyond).tolist()
        names = explained.feature_names(item.outside)
        assert names == [dataset.columns.features[n] if dataset.columns else str(n) for n in item.outside]


def test_directions_and_models_without_their_data_have_no_surroundings():
    def gone(config, data_dir):
        raise DatasetError("gone")

    for method, load in (("cosine", None), ("idw", gone), ("idw", lambda *_: load_dataset(run_config("wine").dataset))):
        dataset, saved, _ = made("iris", method)
        x = dataset.scaling.invert(dataset.test.inputs[0])
        request = Request(x, load=load or (lambda config, data_dir: load_dataset(config)))
        explained = explain_memory(prototype_memory(saved), request)
        assert all(item.nearest is None and item.outside is None for item in explained.layers[0].items)
        assert explained.plane is None


def test_the_plane_has_the_answers_of_the_model_around_its_data_and_the_input():
    dataset, saved, _ = made("two_moons")
    far = np.array([3.0, -2.0])
    plane = explain_memory(prototype_memory(saved), Request(far, load=lambda *_: dataset)).plane
    left, right, bottom, top = plane.extent
    assert left < plane.points[:, 0].min() and right > 3 and bottom < -2 and top > plane.points[:, 1].max()
    n = len(plane.probabilities)
    for row, column in ((0, 0), (5, 70), (n - 1, n - 2)):
        point = np.array([left + (right - left) * (column + 0.5) / n, bottom + (top - bottom) * (row + 0.5) / n])
        logits = saved.outputs(saved.scale(point)[None])[0]
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(plane.probabilities[row, column], expected, atol=1e-5)
    np.testing.assert_array_equal(plane.labels, dataset.train.labels)


def test_the_plane_of_kernel_regression_has_its_class_frequencies():
    config = run_config("two_moons", kind="kernel_regression", kernel="gaussian", bandwidth=0.3)
    dataset = load_dataset(config.dataset)
    plane = explain_memory(kernel_memory(config, {}, dataset), Request([0.0, 1.0])).plane
    np.testing.assert_allclose(plane.probabilities.sum(2), 1, atol=1e-6)
    assert plane.probabilities.min() >= 0 and plane.probabilities.shape == (120, 120, 2)
