"""Regression data: scikit-learn's own numbers, standardised by the training rows, measured in the data's own units."""

import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import DiabetesConfig, Friedman1Config, SineConfig


def own_targets(dataset, split):
    return dataset.target_scaling.invert(dataset.splits[split].targets)


def test_friedman1_is_scikit_learns_train_and_test_from_one_generator():
    from sklearn import datasets

    found = load_dataset(Friedman1Config(train_size=60, test_size=30, noise=0.5, seed=4))
    random = np.random.RandomState(4)
    for split, size in (("train", 60), ("test", 30)):
        inputs, targets = datasets.make_friedman1(size, noise=0.5, random_state=random)
        np.testing.assert_allclose(found.scaling.invert(found.splits[split].inputs), inputs, atol=1e-6)
        np.testing.assert_allclose(own_targets(found, split)[:, 0], targets, atol=1e-5)


def test_the_holdout_of_friedman1_is_the_function_without_noise():
    found = load_dataset(Friedman1Config(holdout_size=50))
    x = found.scaling.invert(found.holdout.inputs)
    expected = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    np.testing.assert_allclose(own_targets(found, "holdout")[:, 0], expected, atol=1e-4)


def test_sine_is_a_noisy_sine_with_a_holdout_on_the_curve():
    found = load_dataset(SineConfig(train_size=4000, noise=0.3))
    x = found.train.inputs.astype(float)
    assert x.shape == (4000, 1) and np.abs(x).max() <= np.pi
    residuals = own_targets(found, "train") - np.sin(x)
    # The standard error of a standard deviation of n numbers is 1/√(2n) of it: 0.0034; of their mean 0.0047.
    assert residuals.std() == pytest.approx(0.3, abs=5 * 0.0034)
    assert residuals.mean() == pytest.approx(0, abs=5 * 0.0047)
    np.testing.assert_allclose(own_targets(found, "holdout"), np.sin(found.holdout.inputs.astype(float)), atol=1e-6)


def test_diabetes_holds_every_patient_once_in_the_units_of_the_study():
    from sklearn import datasets

    found = load_dataset(DiabetesConfig(test_fraction=0.25, seed=2))
    assert (len(found.train), len(found.test)) == (332, 110)
    own = [np.column_stack([found.scaling.invert(s.inputs), own_targets(found, n)]) for n, s in found.splits.items()]
    rows = np.concatenate(own).round(2)
    expected = datasets.load_diabetes(scaled=False)
    wanted = np.column_stack([expected.data, expected.target]).round(2)
    np.testing.assert_allclose(rows[np.lexsort(rows.T)], wanted[np.lexsort(wanted.T)], atol=0.02)


@pytest.mark.parametrize("config", [Friedman1Config(), DiabetesConfig(), SineConfig()], ids=lambda config: config.name)
def test_inputs_and_targets_are_standardised_by_the_training_rows(config):
    from sklearn.preprocessing import StandardScaler

    found = load_dataset(config)
    for split in found.splits:
        raw = own_targets(found, split)
        expected = StandardScaler().fit(own_targets(found, "train")).transform(raw)
        np.testing.assert_allclose(found.splits[split].targets, expected, atol=1e-5)
    if config.name != "sine":
        np.testing.assert_allclose(found.train.inputs.mean(axis=0, dtype=float), 0, atol=1e-6)
        np.testing.assert_allclose(found.train.inputs.std(axis=0, dtype=float), 1, atol=1e-6)


@pytest.mark.parametrize("config", [Friedman1Config(), DiabetesConfig(), SineConfig()], ids=lambda config: config.name)
def test_metrics_are_in_the_units_of_the_data(config):
    from sklearn.metrics import r2_score, root_mean_squared_error

    found = load_dataset(config)
    assert found.task == "regression" and found.n_outputs == 1 and found.class_names == ()
    outputs = np.random.default_rng(0).normal(size=found.test.targets.shape).astype(np.float32)
    truth, guess = own_targets(found, "test"), found.target_scaling.invert(outputs)
    assert found.metrics("test", outputs) == pytest.approx(
        {("test", "rmse"): root_mean_squared_error(truth, guess), ("test", "r2"): r2_score(truth, guess)}
    )
