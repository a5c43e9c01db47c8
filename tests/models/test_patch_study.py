"""The closed form of a study of patches against networks to which the prototype was really added, in float64."""

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from scipy.special import softmax

from idwbench.attention.scores import get_method
from idwbench.data.loading import load_dataset
from idwbench.models.array_weights import ArrayNetwork, calibration_error
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patch_study import CRITERIA, SPECIAL_POINTS, special_cases, study_patches
from idwbench.runs.datasets import TwoMoonsConfig
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.metrics import METRICS

MOONS = TwoMoonsConfig(train_per_class=20, test_per_class=15, holdout_per_class=60)


def a_study(**settings):
    model = parse_model({"kind": "patch_study", "method": "idw", "prototypes": 6, "cases": "wrong", **settings})
    assert isinstance(model, PatchStudyConfig)
    return model


def prototypes(dataset, n=6, seed=0):
    """Keys near training inputs, some of them with the value of a wrong class."""
    generator = np.random.default_rng(seed)
    rows = generator.choice(len(dataset.train), n, replace=False)
    keys = dataset.train.inputs[rows] + 0.05 * generator.normal(size=(n, dataset.n_features))
    values = 2 * np.eye(dataset.n_outputs)[dataset.train.labels[rows]] + generator.normal(size=(n, dataset.n_outputs))
    keys[0] = dataset.train.inputs[rows[0]]  # a key that equals an input
    return keys.astype(np.float32), values.astype(np.float32)


class Network:
    """A float64 network with the parameters of `model`; `logits` are those of its forward pass."""

    def __init__(self, model, keys, values):
        self.model, self.keys, self.values = model, keys.astype(np.float64), values.astype(np.float64)
        arrays = torch.from_numpy(self.keys), torch.from_numpy(self.values)
        self.module = PrototypeNetwork(get_method("idw"), model.parameters, *arrays).requires_grad_(False)

    def logits(self, points):
        return self.module(torch.from_numpy(np.asarray(points, np.float64))).numpy()

    def answers(self, points):
        return self.logits(points).argmax(1)

    def with_prototype(self, key, label, eta):
        value = eta * np.eye(self.values.shape[1])[label]
        return Network(self.model, np.vstack([self.keys, key]), np.vstack([self.values, value]))

    def sums(self, points):
        """S, the sum of the weights at each point."""
        distances = np.linalg.norm(np.asarray(points, np.float64)[:, None] - self.keys, axis=2)
        return (1 / (self.model.parameters["epsilon"] + distances ** self.model.parameters["power"])).sum(1)

    def ratio(self, query):
        """ε·S."""
        return self.model.parameters["epsilon"] * self.sums(query[None])[0]

    def etas(self, query, label):
        """η of each criterion, from a tie: (r z_k + η [k = c]) / (1 + r) equal for c and the largest."""
        logits, ratio = self.logits(query[None])[0], self.ratio(query)
        tie = ratio * (logits.max() - logits[label])
        return tie * 1.001, tie + 1 + ratio, tie * (1 + 1 / ratio)


DATA = {
    "moons": load_dataset(MOONS),
    "moons without holdout": load_dataset(MOONS.model_copy(update={"holdout_per_class": 0})),
    "blobs": make_dataset(n_train=30, n_features=20, n_classes=4),
}
EXAMPLES = [
    ("moons", {"power": 8.0, "epsilon": 1e-6}),
    ("moons", {"cases": "special", "power": 4.0, "epsilon": 0.1}),
    ("moons without holdout", {}),
    ("blobs", {}),
]


def study_of(model, keys, values, dataset):
    cases = model.n_cases if model.cases == "wrong" else special_cases(dataset)
    return study_patches(ArrayNetwork(get_method("idw"), model.parameters, keys, values), dataset.splits, cases)


@pytest.fixture(scope="module", params=EXAMPLES, ids=str)
def example(request):
    """The data set, its network, the inputs and labels of the cases, and the study of them."""
    name, settings = request.param
    dataset, model = DATA[name], a_study(**settings)
    keys, values = prototypes(dataset)
    network = Network(model, keys, values)
    wrong = network.answers(dataset.test.inputs) != dataset.test.labels
    cases = dataset.test.inputs[wrong].astype(np.float64), dataset.test.labels[wrong]
    if model.cases == "special":
        cases = np.repeat(np.array(SPECIAL_POINTS), 2, axis=0), np.array([0, 1, 0, 1, 0, 1])
    return dataset, network, *cases, *study_of(model, keys, values, dataset)


def test_each_eta_is_what_the_patched_network_needs_at_the_special_points_or_wrong_test_inputs(example):
    _, network, inputs, labels, metrics, arrays = example
    assert {name for _, name in metrics} <= METRICS.keys() and len(labels) > 0
    np.testing.assert_array_equal(arrays["inputs"], inputs.astype(np.float32))
    np.testing.assert_array_equal(arrays["labels"], labels)
    np.testing.assert_array_equal(arrays["labels_before"], network.answers(inputs))
    assert metrics["cases", "patched"] == (network.answers(inputs) != labels).sum() > 0
    assert metrics["cases", "smallest_eta"] == 1
    for case, (query, label) in enumerate(zip(inputs, labels, strict=True)):
        if arrays["labels_before"][case] == label:
            assert np.isnan(arrays["eta"][:, case]).all()
        else:
            assert arrays["eta"][:, case] == pytest.approx(network.etas(query, label), rel=1e-6)
            etas = arrays["eta"][:, case] / [1.001, 1, 1 + 1 / network.ratio(query)]
            for eta, lead in zip(etas, (0, 1, 0), strict=True):
                logits = network.with_prototype(query, label, eta).logits(query[None])[0]
                assert logits[label] - np.delete(logits, label).max() == pytest.approx(lead, abs=1e-6)


def test_changed_predictions_and_accuracies_are_those_of_the_patched_network(example):
    dataset, network, inputs, labels, metrics, arrays = example
    for name, split in dataset.splits.items():
        before = network.answers(split.inputs)
        assert metrics[name, "accuracy_before"] == pytest.approx((before == split.labels).mean())
        changed = np.full((3, len(labels)), -1)
        accuracy = np.full((3, len(labels)), (before == split.labels).mean())
        for criterion, case in np.argwhere(np.isfinite(arrays["eta"])):
            patched = network.with_prototype(inputs[case], labels[case], arrays["eta"][criterion, case])
            after = patched.answers(split.inputs)
            itself = (split.inputs == inputs[case]).all(1)
            changed[criterion, case] = ((after != before) & ~itself).sum()
            accuracy[criterion, case] = (after == split.labels).mean()
        np.testing.assert_array_equal(arrays[f"changed_{name}"], changed)
        np.testing.assert_allclose(arrays[f"accuracy_{name}"], accuracy, rtol=1e-12)
        for row, criterion in zip(changed, CRITERIA, strict=True):
            assert metrics[name, f"changed_{criterion}"] == pytest.approx(row[row >= 0].mean())


def test_the_influence_is_the_largest_change_of_a_probability_at_points_at_equal_steps_of_the_distance(example):
    dataset, network, inputs, labels, _, arrays = example
    edges, box = arrays["influence_edges"], (dataset.train.inputs.min(0), dataset.train.inputs.max(0))
    assert edges[0] == 0 and edges[2:] / edges[1:-1] == pytest.approx(np.sqrt(2))
    distances = np.sqrt(np.r_[edges[1] ** 2 / edges[2], edges[1:-1]] * edges[1:])
    expected, generator = np.full((3, len(distances)), np.nan), np.random.default_rng(0)
    for case in np.flatnonzero(np.isfinite(arrays["eta"][0])):
        query = inputs[case].astype(np.float32)
        low, high = np.minimum(box[0], query), np.maximum(box[1], query)
        for direction in generator.uniform(low, high, (32, len(query))) - query:
            points = query + distances[:, None] * direction / np.linalg.norm(direction)
            inside = np.flatnonzero(((points >= low) & (points <= high)).all(1))
            before = softmax(network.logits(points[inside]), 1)
            for criterion in range(3):
                patched = network.with_prototype(query, labels[case], arrays["eta"][criterion, case])
                changes = np.abs(softmax(patched.logits(points[inside]), 1) - before).max(1)
                expected[criterion, inside] = np.fmax(expected[criterion, inside], changes)
    np.testing.assert_allclose(arrays["influence"], expected, rtol=1e-6, atol=1e-9)
    is_known = np.isfinite(expected[0])
    assert is_known[: is_known.sum()].all(), "no distance within the range of the data is without points"


def test_the_calibration_error_follows_the_patches_one_by_one(example):
    dataset, network, _, _, metrics, arrays = example
    split = dataset.holdout or dataset.test
    wrong = np.flatnonzero(network.answers(split.inputs) != split.labels)[:100]
    counts = [n for n in (0, 1, 5, 20, 100) if n <= len(wrong)]
    assert arrays["calibration_patches"].tolist() == counts
    for criterion in range(3):
        current, done = network, 0
        for place, count in enumerate(counts):
            for row in wrong[done:count]:
                query, label = split.inputs[row].astype(np.float64), int(split.labels[row])
                if current.answers(query[None])[0] != label:
                    current = current.with_prototype(query, label, current.etas(query, label)[criterion])
            done = count
            held = (current.answers(split.inputs[wrong[:count]]) == split.labels[wrong[:count]]).sum()
            assert arrays["patches_held"][criterion, place] == held
            error = calibration_error(current.logits(split.inputs), split.labels)
            assert arrays["calibration_error"][criterion, place] == pytest.approx(error, abs=1e-7)
    name = "holdout" if dataset.holdout else "test"
    stored = {metric: value for metric, value in metrics.items() if metric[1].startswith("calibration")}
    expected = {(name, f"calibration_error_{n}"): arrays["calibration_error"][0, i] for i, n in enumerate(counts)}
    assert stored == expected


def test_the_calibration_error_is_that_of_a_plain_loop():
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet([1, 1, 1], size=200)
    labels = generator.integers(0, 3, 200)
    expected = 0.0
    for index in range(15):
        rows = [row for row in range(200) if index <= 15 * probabilities[row].max() < index + 1]
        if rows:
            accuracy = sum(probabilities[row].argmax() == labels[row] for row in rows) / len(rows)
            confidence = sum(probabilities[row].max() for row in rows) / len(rows)
            expected += len(rows) / 200 * abs(accuracy - confidence)
    assert calibration_error(np.log(probabilities), labels) == pytest.approx(expected, rel=1e-12)


def test_a_network_without_errors_has_no_patch():
    dataset = DATA["moons"]
    model = a_study(power=2.0, epsilon=1e-6)
    keys = np.concatenate([dataset.train.inputs, dataset.test.inputs, dataset.holdout.inputs])
    values = np.eye(2)[np.concatenate([dataset.train.labels, dataset.test.labels, dataset.holdout.labels])]
    metrics, arrays = study_of(model, keys, 9 * values, dataset)
    assert metrics["cases", "patched"] == 0
    assert arrays["eta"].shape == arrays["changed_test"].shape == (3, 0)
    assert arrays["calibration_patches"].tolist() == [0]
    assert np.isnan(arrays["influence"]).all()
    assert {name for _, name in metrics} == {"patched", "accuracy_before", "calibration_error_0"}


def test_at_most_n_cases_are_studied_and_extreme_powers_warn_of_nothing_and_stay_finite():
    dataset = DATA["moons"]
    _, few = study_of(a_study(n_cases=2), *prototypes(dataset), dataset)
    _, every = study_of(a_study(), *prototypes(dataset), dataset)
    assert len(every["labels"]) > len(few["labels"]) == 2
    np.testing.assert_array_equal(few["eta"], every["eta"][:, :2])
    for power in (0.01, 1000.0):
        metrics, arrays = study_of(a_study(power=power, epsilon=1e-3), *prototypes(dataset), dataset)
        assert np.isfinite([*metrics.values()]).all() and np.isfinite(arrays["eta"]).all()
