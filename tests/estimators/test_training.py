"""The training of the estimators: that of the fused engine, with weights, warm starts and single epochs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from engine_runs import train_run
from sklearn.exceptions import NotFittedError
from tables import rows

from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor, Results
from idwbench.data.dataset import Split, feature_moments
from idwbench.data.loading import load_dataset
from idwbench.models.initialisation import initial_prototypes
from idwbench.runs.config import run_config
from idwbench.runs.datasets import parse_dataset
from idwbench.sweep.execution import train

SETTINGS = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01}
METHODS = ("idw", "inv_dist", "neg_dist", "gaussian", "cosine", "scaled_dot", "fc_relu")


def test_a_fit_on_digits_gives_the_keys_and_values_of_a_stored_run(tmp_path):
    run = train(run_config("digits", prototypes=12, seed=5, **SETTINGS), tmp_path / "results.db")
    arrays, data = Results(tmp_path / "results.db").load_arrays(run.run_key), load_dataset(parse_dataset("digits"))
    fitted = PrototypeClassifier(12, random_state=5, **SETTINGS).fit(data.train.inputs, data.train.labels)
    np.testing.assert_array_equal(fitted.prototypes_, arrays["keys"])
    np.testing.assert_array_equal(fitted.values_, arrays["values"])
    assert fitted.score(data.test.inputs, data.test.labels) == run.metric("accuracy")


CASES = [
    *(("two_moons", method) for method in METHODS),
    ("digits", "idw"),
    ("diabetes", "idw"),
    ("diabetes", "fc_relu"),
]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_fit_equals_a_run_of_the_engine_for_each_method(name, method):
    data = load_dataset(parse_dataset(name))
    chosen = np.arange(0, len(data.train), 2)[:90]
    small = replace(data, train=Split(data.train.inputs[chosen], data.train.targets[chosen]))
    result = train_run(run_config(name, method=method, prototypes=10, seed=3, **SETTINGS), small, engine="fused")
    is_regression = data.task == "regression"
    fitted = (PrototypeRegressor if is_regression else PrototypeClassifier)(10, random_state=3, **SETTINGS)
    fitted.set_params(method=method)
    if is_regression:  # the targets of the data set are scaled by all its rows
        vars(fitted).update(_mean=np.zeros(1), _scale=np.ones(1))
        fitted._training_targets = lambda rows, warm: rows.targets.astype(np.float32)
    fitted.fit(small.train.inputs, small.train.targets)
    np.testing.assert_array_equal(fitted.prototypes_, result.arrays["keys"])
    np.testing.assert_array_equal(fitted.values_, result.arrays["values"])
    metric = "rmse" if is_regression else "accuracy"
    metrics = data.metrics("test", fitted._outputs(data.test.inputs).astype(np.float32))
    assert metrics["test", metric] == pytest.approx(
        result.metrics["test", metric], rel=1e-4, abs=0.02 * (not is_regression)
    )


def test_targets_are_standardised_and_predictions_in_their_own_units():
    X, _ = rows()
    y = np.stack([1000 + 50 * X[:, 0], 1e-3 * X[:, 1]], axis=1)
    for method in ("idw", "fc_relu"):
        fitted = PrototypeRegressor(8, method=method, random_state=0).fit(X, y)
        assert fitted.score(X, y) > 0.7
        shifted = PrototypeRegressor(8, method=method, random_state=0).fit(X, 2 * y + 3)
        np.testing.assert_allclose(shifted.predict(X), 2 * fitted.predict(X) + 3, rtol=1e-3)
    assert fitted.intercept_[0] > 100  # the weights of relu do not sum to 1


@pytest.mark.parametrize(
    ("method", "initialisation"), [*((method, "mean") for method in METHODS), ("idw", "samples"), ("idw", "kmeans")]
)
def test_a_weight_is_so_many_copies_of_a_row_to_the_last_bit(method, initialisation):
    X, y = rows(30)
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    order = np.random.default_rng(1).permutation(weights.sum())
    settings = {"method": method, "initialisation": initialisation, "epochs": 5, "random_state": 0}
    weighted = PrototypeClassifier(6, **settings).fit(X, y, sample_weight=weights)
    repeated = PrototypeClassifier(6, **settings).fit(X.repeat(weights, 0)[order], y.repeat(weights)[order])
    scaled = PrototypeClassifier(6, **settings).fit(X, y, sample_weight=weights / 7)
    np.testing.assert_array_equal(weighted.prototypes_, repeated.prototypes_)
    np.testing.assert_array_equal(weighted.values_, repeated.values_)
    np.testing.assert_allclose(weighted.prototypes_, scaled.prototypes_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor])
@pytest.mark.parametrize("batch_size", ["auto", 7])
def test_equal_weights_are_none_rows_of_weight_0_are_left_out_and_only_ratios_matter(made, batch_size):
    X, words = rows()
    y, n, ratios = words if made is PrototypeClassifier else X[:, 0], len(X), 1.0 + np.arange(len(X)) % 3

    def arrays(first: int = 0, weights: np.ndarray | None = None) -> np.ndarray:
        model = made(4, batch_size=batch_size, epochs=2, random_state=0).fit(X[first:], y[first:], weights)
        return np.concatenate([model.prototypes_, model.values_], axis=1)

    np.testing.assert_array_equal(arrays()[:, :3], arrays(weights=np.full(n, 0.3))[:, :3])
    np.testing.assert_array_equal(arrays(5)[:, :3], arrays(weights=np.arange(n) >= 5)[:, :3])
    np.testing.assert_allclose(arrays(weights=ratios), arrays(weights=1e300 * ratios), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("n_features", [3, 20])
def test_a_step_with_weights_follows_the_gradient_of_the_weighted_mean_loss(task, n_features):
    generator = np.random.default_rng(2)
    inputs = generator.normal(size=(12, n_features)).astype(np.float32)
    is_classes = task == "classification"
    targets = generator.integers(0, 3, 12) if is_classes else generator.normal(size=(12, 2)).astype(np.float32)
    weights = generator.uniform(0.1, 3, 12)
    weights = (weights / weights.mean()).astype(np.float32)
    split = Split(inputs, targets, weights=weights)
    names = ("a", "b", "c") if is_classes else ()
    data = replace(make_dataset(), train=split, test=split, holdout=None, class_names=names)
    settings = {"optimizer": "sgd", "schedule": "constant", "learning_rate": 0.1, "epochs": 1, "batch_size": 12}
    config = run_config("two_moons", prototypes=4, initialisation="samples", **settings)
    result = train_run(config, data, engine="fused")

    start = initial_prototypes(config.network, data, data.moments, np.random.default_rng(0))
    keys, values = (torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in start)
    scores = -(torch.cdist(torch.tensor(inputs).double(), keys).square() + 1e-3).log()
    outputs = scores.softmax(1) @ values
    if is_classes:
        losses = torch.nn.functional.cross_entropy(outputs, torch.tensor(targets), reduction="none")
    else:
        losses = (outputs - torch.tensor(targets)).square().mean(1)
    loss = (losses * torch.tensor(weights)).mean()
    loss.backward()
    for array, before in (("keys", keys), ("values", values)):
        expected = (before - 0.1 * before.grad).detach().numpy()
        np.testing.assert_allclose(result.arrays[array], expected, rtol=1e-4, atol=2e-6)
    assert result.curve[0].values["train", "loss"] == pytest.approx(float(loss.detach()), rel=1e-5)


@pytest.mark.parametrize("shape", [(100, 1), (130, 65), (1, 64), (7, 784)])
def test_moments_are_those_of_the_rows_in_float64(shape):
    inputs = (np.random.default_rng(0).normal(size=shape) * 30 + 5).astype(np.float32)
    mean, std = feature_moments(inputs)
    exact = inputs.astype(np.longdouble)
    # A sum of n terms errs by at most n units in the last place of the sum of their sizes.
    bound = len(inputs) * np.finfo(np.float64).eps
    np.testing.assert_array_less(np.abs(mean - exact.mean(0)), bound * np.abs(exact).mean(0))
    np.testing.assert_allclose(std, exact.std(0, ddof=min(1, len(inputs) - 1)), rtol=4 * bound, atol=0)


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor])
@pytest.mark.parametrize("n_features", [3, 18])
def test_single_epochs_continue_the_optimizer(made, n_features):
    X, words = rows()
    X = np.tile(X, (1, n_features // 3))
    y = words if made is PrototypeClassifier else X[:, 0]
    first = {"classes": np.unique(words)} if made is PrototypeClassifier else {}
    # In one batch the order of rows hardly matters, so that epochs one by one are the epochs of a fit.
    fitted = made(4, schedule="constant", epochs=4, random_state=0).fit(X, y)
    single = made(4, schedule="constant", epochs=4, random_state=0).partial_fit(X, y, **first)
    for _ in range(3):
        single.partial_fit(X, y)
    np.testing.assert_allclose(single.prototypes_, fitted.prototypes_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(single.loss_curve_, fitted.loss_curve_, rtol=1e-4)
    assert single.n_iter_ == fitted.n_iter_ == 4


def test_a_warm_start_continues_from_the_last_prototypes():
    X, y = rows()
    model = PrototypeClassifier(4, warm_start=True, epochs=60, random_state=0)
    first = model.fit(X, y).loss_curve_
    second = model.fit(X, y).loss_curve_
    assert second[0] == pytest.approx(first[-1], rel=0.1) and first[-1] < first[0] / 2
    with pytest.raises(ValueError, match="warm_start: expected the classes so far"):
        model.fit(X, y == "top")
    with pytest.raises(ValueError, match="n_prototypes: expected 4, the number of prototypes so far, got 5"):
        model.set_params(n_prototypes=5).fit(X, y)


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor, KernelRegressor])
def test_an_estimator_that_is_not_fitted_or_whose_fit_failed_says_so(made):
    X, labels = rows()
    y = np.unique(labels, return_inverse=True)[1]
    model = (made() if made is KernelRegressor else made(4, epochs=2, random_state=0)).fit(X, y)
    answers, name = model.predict(X), "kernel" if made is KernelRegressor else "method"
    valid = getattr(model, name)
    with pytest.raises(ValueError, match=f"{name}: "):
        model.set_params(**{name: "none"}).fit(X[:, :2], y % 2)
    for unfitted in (made(), model):
        for answer in ("predict", "explain", *(() if made is KernelRegressor else ("transform",))):
            with pytest.raises(NotFittedError, match="is not fitted yet"):
                getattr(unfitted, answer)(X[:, :2])
    np.testing.assert_array_equal(model.set_params(**{name: valid}).fit(X, y).predict(X), answers)


def test_the_same_seed_gives_the_same_prototypes_and_no_seed_another_draw():
    X, y = rows()
    fits = [PrototypeClassifier(4, epochs=2, random_state=state).fit(X, y).prototypes_ for state in (7, 7, 8)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])
    states = [np.random.RandomState(3) for _ in range(2)]
    fits = [PrototypeClassifier(4, epochs=2, random_state=state).fit(X, y).prototypes_ for state in states]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_prototypes": 0}, "n_prototypes: input should be greater than or equal to 1, got 0"),
        ({"method": "idww"}, "method: unknown method 'idww' .did you mean 'idw'"),
        ({"method": "nearest"}, "method: unknown method 'nearest' .expected one of: cosine, fc_relu, gaussian, idw,"),
        ({"parameters": {"nope": 1}}, r"^nope: method 'idw' does not take 'nope' \(it takes epsilon, power\)$"),
        ({"parameters": {3: 1}, "method": "cosine"}, r"3: method 'cosine' does not take '3' \(it takes temperature\)"),
        ({"power": -1.0}, "power: must be > 0, got -1"),
        ({"power": 2.0, "parameters": {"power": 2.0}}, "power: also in `parameters`"),
        ({"parameters": {"scale": "features"}}, "scale: method 'idw' does not take 'scale'"),
        ({"parameters": {"epochs": 3}}, "parameters: 'epochs' is not a parameter of any method"),
        ({"parameters": 3}, "parameters: expected a dict or None, got 3"),
        ({"epochs": "many"}, "epochs: input should be a valid integer"),
        ({"batch_size": 0}, "batch_size: input should be greater than or equal to 1"),
        ({"learning_rate": 0}, "learning_rate: input should be greater than 0"),
        ({"momentum": 0.5}, "momentum: needs optimizer sgd"),
        ({"initialisation": "kmeans", "n_prototypes": 999}, "n_prototypes: expected at most 60"),
        ({"image_shape": (2, 2)}, r"image_shape: expected \(height, width\) of 3 pixels, got \(2, 2\)"),
        ({"learning_rate": 3e37, "optimizer": "sgd", "method": "fc_relu"}, "training diverged in epoch 2: .* smaller"),
    ],
)
def test_an_invalid_parameter_is_a_value_error_that_names_it(parameters, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        PrototypeClassifier(**{"epochs": 2, **parameters}).fit(X, y)


def test_a_first_partial_fit_needs_all_classes():
    X, y = rows()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        PrototypeClassifier().partial_fit(X, y)
    model = PrototypeClassifier(4, random_state=0).partial_fit(X[:1], y[:1], classes=np.unique(y))
    with pytest.raises(ValueError, match="'extra' is not among"):
        model.partial_fit(X[:1], ["extra"])
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, y, classes=["low", "top"])
    assert model.predict_proba(X).shape == (60, 3)
    drawn = PrototypeClassifier(4, initialisation="kmeans").partial_fit(X, y, classes=np.unique(y))
    assert drawn.partial_fit(X[:2], y[:2]).n_iter_ == 2  # fewer rows than prototypes


def test_fewer_prototypes_than_classes_are_warned_of_once():
    X, y = rows()
    with pytest.warns(UserWarning, match="n_prototypes=2 is less than the number of classes, 3"):
        PrototypeClassifier(2, epochs=1).fit(X, y)
    model = PrototypeClassifier(2, epochs=1)
    with pytest.warns(UserWarning, match="n_prototypes=2 is less"):
        model.partial_fit(X, y, classes=np.unique(y))
    model.partial_fit(X, y)


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor])
def test_what_float32_cannot_hold_is_an_error_without_a_warning(made):
    X, words = rows()
    y = words if made is PrototypeClassifier else X[:, 0]
    model = made(4, epochs=1).fit(X, y)
    huge = np.where(np.arange(len(X))[:, None] == 3, 1e39, X)
    message = r"infinity or a value too large for dtype\('float32'\)"
    for call in (lambda: made(4).fit(huge, y), lambda: model.predict(huge), lambda: model.explain(huge[3])):
        with pytest.raises(ValueError, match=message):
            call()
