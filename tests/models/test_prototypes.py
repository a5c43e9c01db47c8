"""Prototypes: where they begin, their nearest inputs, and the metrics of their quality."""

from dataclasses import replace

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from scipy.spatial.distance import cdist

from idwbench import kernel_regression, run_config
from idwbench.data.dataset import Split, feature_moments
from idwbench.errors import ConfigError
from idwbench.models import neighbours
from idwbench.models.initialisation import initial_prototypes
from idwbench.models.neighbours import (
    PrototypeQuality,
    SquaredDistances,
    highest_correlations,
    nearest,
    several_nearest,
    squared_distances,
)
from idwbench.runs.metrics import METRICS, QUALITY_METRICS
from idwbench.runs.results import RunResult

# Initial keys and values


def begin(dataset, way, prototypes, **settings):
    model = run_config(dataset.config, method="idw", prototypes=prototypes, initialisation=way, **settings).model
    return initial_prototypes(model, dataset, feature_moments(dataset.train.inputs), np.random.default_rng(0))


def with_train(inputs, labels, n_classes):
    split = Split(inputs.astype(np.float32), labels)
    return replace(make_dataset(n_classes=n_classes), train=split, test=split, holdout=None)


@pytest.mark.parametrize("way", ["samples", "kmeans"])
def test_each_class_gives_as_many_prototypes_but_for_one_and_what_a_small_class_lacks_the_others_give(way):
    for prototypes in (1, 7):
        keys, values = begin(make_dataset(60, 3, 3), way, prototypes)
        assert (keys.shape, keys.dtype, values.dtype) == ((prototypes, 3), np.float32, np.float32)
        np.testing.assert_array_equal(np.sort(values, axis=1), np.tile([0, 0, 1], (prototypes, 1)))
        assert np.ptp(values.sum(0)) <= 1
    labels = np.repeat([0, 1, 2], [1, 20, 20])
    dataset = with_train(np.random.default_rng(0).normal(size=(41, 2)), labels, 4)
    np.testing.assert_array_equal(begin(dataset, way, 9)[1].sum(0), [1, 4, 4, 0])


@pytest.mark.parametrize("dataset", [make_dataset(30), make_regression(30)], ids=["classes", "numbers"])
def test_samples_are_different_training_inputs_with_their_labels_or_targets(dataset):
    keys, values = begin(dataset, "samples", 30)
    rows = [int(np.flatnonzero((dataset.train.inputs == key).all(1))[0]) for key in keys]
    assert sorted(rows) == list(range(30))
    expected = dataset.train.targets if dataset.task == "regression" else np.eye(3)[dataset.train.labels]
    np.testing.assert_array_equal(values, expected[rows])


@pytest.mark.parametrize("dataset", [make_dataset(60), make_regression(60)], ids=["classes", "numbers"])
def test_one_centre_of_k_means_is_the_mean_input_of_its_class_or_of_all_with_the_mean_target(dataset):
    classes = dataset.train.labels if dataset.task == "classification" else np.zeros(60, int)
    keys, values = begin(dataset, "kmeans", len(set(classes)))
    order = values.argmax(1).argsort() if len(keys) > 1 else [0]
    parts = [classes == number for number in range(len(keys))]
    # Sums of up to 60 numbers in float32, after a shift by the mean of all.
    bound = 64 * 2**-24 * np.abs(dataset.train.inputs).max()
    means = [dataset.train.inputs[part].mean(0, dtype=np.float64) for part in parts]
    np.testing.assert_allclose(keys[order], means, rtol=0, atol=bound)
    if dataset.task == "regression":
        np.testing.assert_allclose(values[0], dataset.train.targets.mean(0, dtype=np.float64), rtol=2**-23)


@pytest.mark.parametrize("dataset", [make_dataset(), make_regression()], ids=["classes", "numbers"])
@pytest.mark.parametrize("way", ["default", "samples", "kmeans", "kaiming"])
def test_initial_values_that_are_zero_or_random_leave_the_keys(dataset, way):
    (keys, values), (same, zeros), (again, random) = (
        begin(dataset, way, 6, initial_values=words) for words in ("default", "zero", "random")
    )
    np.testing.assert_array_equal([same, again], [keys, keys])
    assert zeros.shape == random.shape == values.shape and not zeros.any() and len(np.unique(random)) > 5
    assert 0 < np.abs(random).min() <= np.abs(random).max() <= (6 / random.shape[1]) ** 0.5


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_k_means_needs_distinct_inputs_that_it_can_separate():
    inputs = np.repeat([[0, 0], [0, 1], [2, 3], [4, 5], [6, 7], [8, 9]], [5, 1, 1, 1, 1, 1], axis=0)
    dataset = with_train(inputs, np.repeat([0, 1], 5), 2)
    np.testing.assert_array_equal(begin(dataset, "kmeans", 6)[1].sum(0), [1, 5])
    with pytest.raises(ConfigError, match="expected at most 6, the number of distinct training inputs, got 7"):
        begin(dataset, "kmeans", 7)
    dataset = make_dataset(60, 3, 3)
    rows = dataset.groups[1]
    dataset.train.inputs[rows] = 0.0
    dataset.train.inputs[rows[0]] = -0.0
    with pytest.raises(ConfigError, match="expected at most 1 of one class, the number of clusters that k-means can"):
        begin(dataset, "kmeans", 6)


# Nearest neighbours and quality, against the distances of SciPy


def prototypes(dataset, n, seed=0):
    generator = np.random.default_rng(seed)
    keys = generator.normal(size=(n, dataset.n_features)).astype(np.float32) * 2
    return keys, generator.normal(size=(n, dataset.n_outputs)).astype(np.float32)


def distances(points, others, *, to_others=False):
    """In float64, if wanted without that of each point to itself."""
    apart = cdist(points.astype(np.float64), others.astype(np.float64))
    if to_others:
        np.fill_diagonal(apart, np.inf)
    return apart


def by_definition(dataset, keys, values):
    """The definitions of docs/methods.md."""
    train, labels = dataset.train, values.argmax(1)
    low, high = train.inputs.min(0), train.inputs.max(0)
    between, inside = distances(train.inputs, keys), distances(train.inputs, train.inputs, to_others=True)
    coverage, key_distance = between.min(1).mean(), between.min(0).mean()
    metrics = {
        ("train", "coverage"): coverage,
        ("train", "key_distance"): key_distance,
        ("train", "chamfer"): coverage + key_distance,
        ("train", "dead_keys"): len(keys) - len(set(between.argmin(1))),
        ("train", "outside_features"): ((keys < low) | (keys > high)).mean(),
        ("train", "relative_coverage"): coverage / inside.min(1).mean(),
    }
    if len(keys) > 1:
        metrics["train", "key_spacing"] = distances(keys, keys, to_others=True).min(1).mean()
    if dataset.task == "classification":
        metrics["train", "key_agreement"] = (labels == train.labels[between.argmin(0)]).mean()
        for name, split in dataset.splits.items():
            is_right = labels[distances(split.inputs, keys).argmin(1)] == split.labels
            metrics[name, "nearest_key_accuracy"] = is_right.mean()
        images = train.inputs.astype(np.float64)
        active = (images > images.min()).mean(0) >= 0.05
        correlations = np.corrcoef(keys[:, active].astype(np.float64), images[:, active])[: len(keys), len(keys) :]
        metrics["train", "key_correlation"] = correlations.max(1).mean()
    return metrics


DATA = {"classes": make_dataset(), "numbers": make_regression()}
DATA["validation"] = make_dataset(validation=True, n_features=40)


@pytest.mark.parametrize("dataset", DATA.values(), ids=DATA)
@pytest.mark.parametrize("n", [1, 2, 9])
def test_the_metrics_are_their_definitions_for_results_of_runs_too(dataset, n):
    quality = PrototypeQuality(dataset.splits, are_images=dataset.task == "classification")
    runs = [prototypes(dataset, n, seed) for seed in range(3)]
    runs.append((np.repeat(dataset.train.inputs[:1], n, axis=0), runs[0][1]))  # equal keys, on a training point
    expected = [pytest.approx(by_definition(dataset, *run), rel=1e-12) for run in runs]
    assert [quality.metrics(*run) for run in runs] == expected
    config = run_config("two_moons", prototypes=1)
    stored = [{"keys": keys, "values": values} for keys, values in runs]
    about = None, None, 1, "fused", "cpu", 1
    results = [RunResult(config, "complete", (), {}, arrays, *about) for arrays in [*stored, {}]]
    assert [quality.run_metrics(result) for result in results] == [*expected, {}]
    names = {name for _, name in quality.metrics(*runs[0])}
    assert names <= METRICS.keys() and (n == 1 or dataset is not DATA["classes"] or names == {*QUALITY_METRICS})


def test_keys_are_compared_with_images_where_these_are_not_background(monkeypatch):
    """A key that is an image, whatever its scale and its border; a constant one; and noise of a small norm."""
    generator = np.random.default_rng(0)
    images = np.zeros((60, 16), np.float32)
    images[:, :6] = generator.uniform(0, 1, (60, 6))
    images[0, 8] = 1.0  # in less than 5 % of the images
    keys = np.stack([3 * images[7] + 2, np.full(16, 0.5), 0.01 * generator.normal(size=16)]).astype(np.float32)
    keys[0, 6:] = generator.normal(size=10)
    expected = np.corrcoef(keys[2, :6].astype(np.float64), images[:, :6].astype(np.float64))[0, 1:].max()
    for numbers in (neighbours._QUERY_NUMBERS, 12):
        monkeypatch.setattr(neighbours, "_QUERY_NUMBERS", numbers)
        # Float32 pixels of the first key are rounded after scaling.
        assert highest_correlations(keys, images) == pytest.approx([1.0, 0.0, expected], abs=1e-6)


def test_the_size_of_the_blocks_does_not_matter(monkeypatch):
    dataset = make_dataset(n_features=20)
    keys, values = prototypes(dataset, 6)

    def answers():
        metrics = PrototypeQuality(dataset.splits).metrics(keys, values)
        regression = kernel_regression(keys + 1, keys, values, "shepard")
        return [np.array([*metrics.values()]), squared_distances(dataset.train.inputs, keys), regression]

    whole = answers()
    for name in ("_QUERY_NUMBERS", "_KEY_NUMBERS", "_PART_NUMBERS", "_PRODUCT_NUMBERS"):
        monkeypatch.setattr(neighbours, name, 100)
    for part, expected, rtol in zip(answers(), whole, (0, 1e-12, 1e-6), strict=True):
        np.testing.assert_allclose(part, expected, rtol=rtol)


@pytest.mark.parametrize("n_features", [3, 20])
@pytest.mark.parametrize(("offset", "scale"), [(0, 1), (1e3, 1), (1e6, 1), (5e-6, 1e-6)])
def test_distances_of_near_points_are_exact_far_from_the_origin_too(offset, scale, n_features):
    generator = np.random.default_rng(1)
    points, others = (scale * generator.normal(size=(n, n_features)) + offset for n in (50, 40))
    points, others = points.astype(np.float32), np.concatenate([others, points[:5], points[5:9] * (1 + 1e-6)])
    exact = ((points.astype(np.float64)[:, None] - others) ** 2).sum(2)
    np.testing.assert_allclose(squared_distances(points, others), exact, rtol=1e-6)
    _, distance = nearest(points, others.astype(np.float32))
    assert (distance[:5] == 0).all()
    near = others.astype(np.float32)
    exact = ((points.astype(np.float64)[:, None] - near) ** 2).sum(2)
    assert distance == pytest.approx(np.sqrt(exact.min(1)), rel=1e-12)
    parts = np.concatenate([part.copy() for _, part in SquaredDistances(near).blocks(points)])
    np.testing.assert_allclose(parts, exact, rtol=1e-4)
    assert not parts[range(5), range(40, 45)].any()


def test_the_nearest_are_in_the_order_of_their_distances_and_of_equally_near_points_the_first_counts():
    generator = np.random.default_rng(3)
    points, queries = generator.normal(size=(60, 12)).astype(np.float32), generator.normal(size=(4, 12))
    exact = distances(queries, points)
    rows, nearest_distances = several_nearest(queries, points, 5)
    np.testing.assert_array_equal(rows, exact.argsort(1)[:, :5])
    np.testing.assert_allclose(nearest_distances, np.sort(exact)[:, :5], rtol=1e-12)
    assert nearest(points[:1], points[:1], np.array([0]))[1].tolist() == [np.inf]
    many = generator.normal(size=(500, 12)).astype(np.float32) * 3
    index, _ = nearest(many, np.concatenate([points, points[::-1]]))  # however the product rounds
    np.testing.assert_array_equal(index, distances(many, points).argmin(1))


def test_training_points_are_500_of_them_and_may_have_no_distance():
    inputs = np.random.default_rng(0).normal(size=(2500, 2)).astype(np.float32)
    keys, values = np.zeros((1, 2), np.float32), np.eye(1, 2, dtype=np.float32)

    def quality(points):
        split = Split(np.ascontiguousarray(points), np.zeros(len(points), np.int64))
        return PrototypeQuality({"train": split, "test": split})

    rows = np.linspace(0, 2499, 500).astype(int)
    apart = distances(inputs[rows], inputs)
    apart[np.arange(500), rows] = np.inf
    assert quality(inputs).neighbour_distance == pytest.approx(apart.min(1).mean(), rel=1e-12)
    for points in (inputs[:1], np.repeat(inputs[:1], 5, axis=0)):
        metrics = quality(points).metrics(keys, values)
        assert metrics["train", "coverage"] == pytest.approx(np.linalg.norm(points[0].astype(float)), rel=1e-12)
        assert ("train", "relative_coverage") not in metrics
