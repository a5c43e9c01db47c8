"""The training of the estimators: that of the fused engine, with weights, warm starts and single epochs."""

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import train_run
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tables import GROUPS, WORDS, X

from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor
from idwbench.data.dataset import Split, feature_moments
from idwbench.data.loading import load_dataset
from idwbench.runs.config import run_config
from idwbench.runs.datasets import parse_dataset

SETTINGS = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01}
METHODS = ("idw", "inv_dist", "neg_dist", "gaussian", "cosine", "scaled_dot", "fc_relu")


@pytest.mark.parametrize(
    ("name", "method"),
    [*(("two_moons", method) for method in METHODS), ("digits", "idw"), ("diabetes", "idw"), ("diabetes", "fc_relu")],
)
def test_a_fit_equals_a_run_of_the_engine_for_each_method(name, method):
    data = load_dataset(parse_dataset(name))
    chosen = np.arange(0, len(data.train), 2)[:90]
    small = replace(data, train=Split(data.train.inputs[chosen], data.train.targets[chosen]))
    result = train_run(run_config(name, method=method, prototypes=10, seed=3, **SETTINGS), small, engine="fused")
    is_regression = data.task == "regression"
    estimator = PrototypeRegressor if is_regression else PrototypeClassifier
    fitted = estimator(10, method=method, random_state=3, **SETTINGS)
    if is_regression:  # the targets of the data set are scaled by all its rows
        vars(fitted).update(_mean=np.zeros(1), _scale=np.ones(1))
        fitted._training_targets = lambda rows, warm: rows.targets.astype(np.float32)
    fitted.fit(small.train.inputs, small.train.targets)
    np.testing.assert_array_equal(fitted.prototypes_, result.arrays["keys"])
    np.testing.assert_array_equal(fitted.values_, result.arrays["values"])
    metrics = data.metrics("test", fitted._outputs(data.test.inputs).astype(np.float32))
    key = ("test", "rmse" if is_regression else "accuracy")
    assert metrics[key] == pytest.approx(result.metrics[key], rel=1e-4, abs=0.0 if is_regression else 0.02)


@pytest.mark.parametrize("method", ["idw", "fc_relu"])
def test_targets_are_standardised_and_predictions_in_their_own_units(method):
    y = np.stack([1000 + 50 * X[:, 0], 1e-3 * X[:, 1]], axis=1)
    fitted, shifted = (
        PrototypeRegressor(8, method=method, random_state=0).fit(X, targets) for targets in (y, 2 * y + 3)
    )
    assert fitted.score(X, y) > 0.7
    np.testing.assert_allclose(shifted.predict(X), 2 * fitted.predict(X) + 3, rtol=1e-3)


@pytest.mark.parametrize(
    ("made", "method", "initialisation"),
    [
        *((PrototypeClassifier, method, "mean") for method in METHODS),
        *((PrototypeClassifier, "idw", initialisation) for initialisation in ("samples", "kmeans")),
        (PrototypeRegressor, "idw", "mean"),
    ],
)
def test_a_weight_is_so_many_copies_of_a_row_to_the_last_bit(made, method, initialisation):
    inputs, y = X[:30], WORDS[:30] if made is PrototypeClassifier else X[:30, :2]
    weights = np.random.default_rng(0).integers(0, 4, 30)
    repeated = np.random.default_rng(1).permutation(np.arange(30).repeat(weights))
    model = made(6, method=method, initialisation=initialisation, epochs=5, random_state=0)
    weighted = clone(model).fit(inputs, y, sample_weight=weights)
    copies = clone(model).fit(inputs[repeated], y[repeated])
    scaled = model.fit(inputs, y, sample_weight=weights / 7)
    np.testing.assert_array_equal(weighted.prototypes_, copies.prototypes_)
    np.testing.assert_array_equal(weighted.values_, copies.values_)
    np.testing.assert_allclose(weighted.loss_curve_, copies.loss_curve_)
    np.testing.assert_allclose(weighted.prototypes_, scaled.prototypes_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor])
@pytest.mark.parametrize("batch_size", ["auto", 7])
def test_equal_weights_are_none_rows_of_weight_0_are_left_out_and_only_ratios_matter(made, batch_size):
    y, n, ratios = WORDS if made is PrototypeClassifier else X[:, 0], len(X), 1.0 + np.arange(len(X)) % 3

    def arrays(first: int = 0, weights: np.ndarray | None = None) -> np.ndarray:
        model = made(4, batch_size=batch_size, epochs=2, random_state=0).fit(X[first:], y[first:], weights)
        return np.concatenate([model.prototypes_, model.values_], axis=1)

    np.testing.assert_array_equal(arrays()[:, :3], arrays(weights=np.full(n, 0.3))[:, :3])
    np.testing.assert_array_equal(arrays(5)[:, :3], arrays(weights=np.arange(n) >= 5)[:, :3])
    np.testing.assert_allclose(arrays(weights=ratios), arrays(weights=1e300 * ratios), rtol=1e-4, atol=1e-5)


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
    inputs, is_classifier = np.tile(X, (1, n_features // 3)), made is PrototypeClassifier
    y, classes = (WORDS, {"classes": np.unique(WORDS)}) if is_classifier else (X[:, 0], {})
    # In one batch the order of rows hardly matters, so that epochs one by one are the epochs of a fit.
    fitted = made(4, schedule="constant", epochs=4, random_state=0).fit(inputs, y)
    single = made(4, schedule="constant", epochs=4, random_state=0).partial_fit(inputs, y, **classes)
    for _ in range(3):
        single.partial_fit(inputs, y)
    np.testing.assert_allclose(single.prototypes_, fitted.prototypes_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(single.loss_curve_, fitted.loss_curve_, rtol=1e-4)
    assert single.n_iter_ == fitted.n_iter_ == 4


def test_a_warm_start_continues_from_the_last_prototypes():
    model = PrototypeClassifier(4, warm_start=True, epochs=60, random_state=0)
    first, second = (model.fit(X, WORDS).loss_curve_ for _ in range(2))
    assert second[0] == pytest.approx(first[-1], rel=0.1) and first[-1] < first[0] / 2
    with pytest.raises(ValueError, match="warm_start: expected the classes so far"):
        model.fit(X, WORDS == "top")
    with pytest.raises(ValueError, match="n_prototypes: expected 4, the number of prototypes so far, got 5"):
        model.set_params(n_prototypes=5).fit(X, WORDS)


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor, KernelRegressor])
def test_an_estimator_that_is_not_fitted_or_whose_fit_failed_says_so(made):
    is_kernel = made is KernelRegressor
    model = (made() if is_kernel else made(4, epochs=2, random_state=0)).fit(X, GROUPS)
    answers, name = model.predict(X), "kernel" if is_kernel else "method"
    valid = getattr(model, name)
    with pytest.raises(ValueError, match=f"{name}: "):
        model.set_params(**{name: "none"}).fit(X[:, :2], GROUPS % 2)
    for unfitted in (made(), model):
        for answer in ("predict", "explain", *(() if is_kernel else ("transform",))):
            with pytest.raises(NotFittedError, match="is not fitted yet"):
                getattr(unfitted, answer)(X[:, :2])
    np.testing.assert_array_equal(model.set_params(**{name: valid}).fit(X, GROUPS).predict(X), answers)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_prototypes": 0}, "n_prototypes: input should be greater than or equal to 1, got 0"),
        ({"method": "idww"}, "method: unknown method 'idww' .did you mean 'idw'"),
        ({"parameters": {"nope": 1}}, r"^nope: method 'idw' does not take 'nope' \(it takes epsilon, power\)$"),
        ({"parameters": {3: 1}, "method": "cosine"}, r"3: method 'cosine' does not take '3' \(it takes temperature\)"),
        ({"power": -1.0}, "power: must be > 0, got -1"),
        ({"power": 2.0, "parameters": {"power": 2.0}}, "power: also in `parameters`"),
        ({"parameters": {"scale": "features"}}, "scale: method 'idw' does not take 'scale'"),
        ({"parameters": {"epochs": 3}}, "parameters: 'epochs' is not a parameter of any method"),
        ({"parameters": 3}, "parameters: expected a dict or None, got 3"),
        ({"epochs": "many"}, "epochs: input should be a valid integer"),
        ({"kernel": "gausian"}, "kernel: unknown kernel 'gausian' .did you mean 'gaussian'"),
        ({"bandwidth": "lo"}, "bandwidth: 'lo' is neither a number nor a rule"),
        ({"bandwidth": 0.0}, "bandwidth: must be >= 1e-12"),
        ({"fallback": "none"}, "fallback: expected one of nearest, mean, nan, got 'none'"),
        ({"momentum": 0.5}, "momentum: needs optimizer sgd"),
        ({"initialisation": "kmeans", "n_prototypes": 999}, "n_prototypes: expected at most 60"),
        ({"image_shape": (2, 2)}, r"image_shape: expected \(height, width\) of 3 pixels, got \(2, 2\)"),
        ({"learning_rate": 3e37, "optimizer": "sgd", "method": "fc_relu"}, "training diverged in epoch 2: .* smaller"),
    ],
)
def test_an_invalid_parameter_is_a_value_error_that_names_it(parameters, message):
    estimator = (
        KernelRegressor() if parameters.keys() & {"kernel", "bandwidth", "fallback"} else PrototypeClassifier(epochs=2)
    )
    estimator.set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, GROUPS)


def test_a_first_partial_fit_needs_all_classes():
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        PrototypeClassifier().partial_fit(X, WORDS)
    classes = np.unique(WORDS)
    model = PrototypeClassifier(4, random_state=0).partial_fit(X[:1], WORDS[:1], classes=classes)
    with pytest.raises(ValueError, match="'extra' is not among"):
        model.partial_fit(X[:1], ["extra"])
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, WORDS, classes=["low", "top"])
    assert model.predict_proba(X).shape == (60, 3)
    drawn = PrototypeClassifier(4, initialisation="kmeans").partial_fit(X, WORDS, classes=classes)
    assert drawn.partial_fit(X[:2], WORDS[:2]).n_iter_ == 2  # fewer rows than prototypes
    few = PrototypeClassifier(2, epochs=1)
    with pytest.warns(UserWarning, match="n_prototypes=2 is less than the number of classes, 3"):
        few.partial_fit(X, WORDS, classes=classes)
    few.partial_fit(X, WORDS)  # warned of once


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor])
def test_what_float32_cannot_hold_is_an_error_without_a_warning(made):
    y = WORDS if made is PrototypeClassifier else X[:, 0]
    model = made(4, epochs=1).fit(X, y)
    huge = np.where(np.arange(len(X))[:, None] == 3, 1e39, X)
    for call in (lambda: made(4).fit(huge, y), lambda: model.predict(huge), lambda: model.explain(huge[3])):
        with pytest.raises(ValueError, match=r"infinity or a value too large for dtype\('float32'\)"):
            call()
