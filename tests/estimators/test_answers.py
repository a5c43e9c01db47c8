"""Predictions, explanations, patches and drawings of the estimators."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tables import WORDS, X

from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor, kernel_regression

FAST = {"n_prototypes": 5, "epochs": 40, "random_state": 0}


def test_given_prototypes_predict_by_the_formula():
    keys, values = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 2.0]])
    model = PrototypeClassifier.from_prototypes(keys, values, ["no", "yes"], feature_names=["a", "b"], epsilon=0.5)
    weights = np.array([1 / 1.5, 1 / (0.5 + 20)])  # d² = 1 and 20 at (1, 0)
    weights /= weights.sum()
    answer = model.explain([1, 0])
    np.testing.assert_allclose(answer.weights, weights, rtol=1e-12)
    np.testing.assert_allclose(answer.outputs, weights * [1, 2], rtol=1e-12)
    assert answer.prediction == "no" and answer.labels.tolist() == ["no", "yes"]
    assert model.n_features_in_ == 2 and model.feature_names_in_.tolist() == ["a", "b"]
    assert (model.get_params()["n_prototypes"], model.n_iter_, len(model.loss_curve_)) == (2, 0, 0)
    regressor = PrototypeRegressor.from_prototypes(keys, [10.0, 20.0], epsilon=0.5)
    np.testing.assert_allclose(regressor.predict([[1, 0]]), weights @ [10, 20])
    assert regressor.partial_fit([[1.0, 0.0]] * 9, [12.0] * 9).n_iter_ == 1
    moved = PrototypeRegressor.from_prototypes(keys, [[1.0], [2.0]], intercept=[5.0], method="fc_relu")
    np.testing.assert_allclose(moved.predict([[1, 1]]), [[7 * 2 + 5]])
    with pytest.raises(ValueError, match="intercept: expected a finite number or 1 of them"):
        PrototypeRegressor.from_prototypes(keys, [1.0, 2.0], intercept=[1.0, 2.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prototypes": [[0.0, 1.0]]}, "values: expected 1 rows"),
        ({"prototypes": [[0.0, np.nan], [1.0, 2.0]]}, "Input prototypes contains NaN"),
        ({"classes": [1, 1]}, "classes: expected 2 different labels in ascending order"),
        ({"feature_names": ["a"]}, "feature_names: expected 2 names"),
        ({"power": -1}, "power: must be > 0"),
    ],
)
def test_prototypes_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrototypeClassifier.from_prototypes(**{"prototypes": np.eye(2), "values": np.eye(2), **arguments})


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor, KernelRegressor])
def test_the_terms_of_an_explanation_add_up_to_the_prediction(made):
    is_classifier = made is PrototypeClassifier
    model = (made() if made is KernelRegressor else made(**FAST)).fit(X, WORDS if is_classifier else X[:, :2])
    answer = model.explain(X[7], top=None)
    assert (np.diff(answer.weights) <= 0).all() and answer.weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(answer.keys, model.prototypes_[answer.prototypes])
    np.testing.assert_allclose(answer.weights @ answer.values, answer.outputs)
    if is_classifier:
        assert answer.prediction == model.predict(X[7:8])[0] and "prediction: middle" in str(answer)
    else:
        np.testing.assert_allclose(answer.prediction, model.predict(X[7:8])[0])
    assert len(model.explain(X[7], top=2).weights) == 2
    for wrong, top, message in (
        (X[:2], 1, "expected 3 features of one input, got 6"),
        ([np.nan] * 3, 1, "contains NaN"),
        (X[0], 0, "top: expected a number above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            model.explain(wrong, top=top)


@pytest.mark.parametrize("method", ["idw", "neg_dist", "gaussian", "inv_dist", "cosine", "scaled_dot"])
def test_a_patch_gives_the_label_and_changes_no_right_prediction(method):
    model = PrototypeClassifier(**FAST, method=method).fit(X, WORDS)
    wanted = next(label for label in model.classes_ if label != model.predict(X[2:3])[0])
    labels = WORDS.copy()
    labels[2] = wanted
    patched = model.patch(X[2], wanted, X=X, y=labels)
    assert patched.predict(X[2:3]) == wanted
    right = model.predict(X) == labels
    assert (patched.predict(X) == labels)[right].all()
    assert len(patched.prototypes_) == len(model.prototypes_) == 5
    assert patched.transform(X[:3]).shape == (3, 6)
    answer = patched.explain(X[2])
    np.testing.assert_allclose(answer.keys[0], X[2].astype(np.float32))
    np.testing.assert_allclose(answer.weights @ answer.values, answer.outputs)
    assert (answer.patches[0], answer.patches.sum()) == (1, 1)
    assert str(answer).splitlines()[2].endswith(f"{wanted} (patch 1)")


def test_a_patch_that_is_not_needed_is_a_copy_and_a_wrong_one_an_error():
    model = PrototypeClassifier(**FAST).fit(X, WORDS)
    same = model.patch(X[0], model.predict(X[:1])[0], margin=1e-6)
    assert same is not model and not hasattr(same, "patches_")
    first = model.patch(X[0], "top", radius=1e-3)
    second = first.patch(X[1], "low", radius=1e-3)
    assert second.predict(X[:2]).tolist() == ["top", "low"]
    assert not hasattr(second.partial_fit(X, WORDS), "patches_")
    gaussian = PrototypeClassifier(**FAST, method="gaussian").fit(X, WORDS)
    relu = PrototypeClassifier(**FAST, method="fc_relu").fit(X, WORDS)
    for patched, change, message in (
        (first, {"label": "middle"}, "different labels for"),
        (model, {"label": "new"}, "label: expected one of"),
        (model, {"x": [1.0]}, "x: expected 3 features"),
        (model, {"radius": None}, "radius: the largest radius needs the training data"),
        (model, {"margin": 0.1, "confidence": 0.9}, "confidence: cannot be combined with margin"),
        (gaussian, {"kind": "exact", "radius": None}, "only 'idw' models have an exact patch"),
        (model, {"radius": "a"}, "radius: expected a number or auto, got 'a'"),
        (model, {"kind": "exact"}, "radius: an exact patch has its own"),
        (relu, {}, "a network with method 'fc_relu' cannot be patched"),
        (first, {"kind": "keep"}, "kind: expected local"),
        (first, {"label": None}, "label: expected one of"),
        (first, {"radius": None, "X": X, "y": WORDS[:3]}, "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=message):
            patched.patch(**{"x": X[0], "label": "top", "radius": 1e-3, **change})


def test_notebooks_show_the_prototypes_once_there_are_some():
    images, labels = (part[:160] for part in load_digits(return_X_y=True))
    model = PrototypeClassifier(10, epochs=1, image_shape=(8, 8), random_state=0)
    assert "data:image/png" not in model._repr_html_()
    models = {
        "10 prototypes": model.fit(images, labels),
        "12 prototypes": PrototypeClassifier(12, epochs=1).fit(images[:, 20:22], labels),
        "150 prototypes, the first 100": PrototypeRegressor(150, epochs=1).fit(images, labels),
        "90 prototypes": KernelRegressor().fit(images[:90, 20:21], labels[:90]),
    }
    for title, model in models.items():
        assert f'<img alt="{title}" style="max-width: 100%" src="data:image/png;base64,' in model._repr_html_()
        assert set(model._repr_mimebundle_()) == {"text/plain", "text/html"}


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "shepard"])
@pytest.mark.parametrize("rule", [1.5, "scott", "loo"])
def test_kernel_regression_equals_the_function_and_a_weight_is_so_many_copies(kernel, rule):
    inputs, targets = X[:30], np.stack([X[:30, 0], X[:30, 1] ** 2], axis=1)
    settings = {"power": 2.0 if rule == "scott" else rule} if kernel == "shepard" else {"bandwidth": rule}

    def answers(weights: np.ndarray | None = None, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        fitted = KernelRegressor(kernel, **settings).fit(inputs[rows], targets[rows], sample_weight=weights)
        return fitted.predict(inputs)

    tolerance = 0.02 if rule == "loo" else 1e-9  # the search depends on the order of rows
    expected = kernel_regression(inputs, inputs, targets, kernel, **settings)
    np.testing.assert_allclose(answers(), expected, rtol=tolerance, atol=tolerance)
    single = KernelRegressor(kernel, **settings).fit(inputs.astype(np.float32), targets)
    assert (answers().dtype, single.predict(inputs.astype(np.float32)).dtype) == (np.float64, np.float32)
    copies = np.random.default_rng(0).integers(0, 4, 30)
    repeated = np.random.default_rng(1).permutation(np.arange(30).repeat(copies))
    np.testing.assert_allclose(answers(copies), answers(rows=repeated))
    huge = np.where(np.arange(30) % 2, 1e300, 2e300)  # only ratios matter
    np.testing.assert_allclose(answers(huge), answers(huge / 1.5e300), rtol=1e-4)


@pytest.mark.parametrize(("fallback", "expected"), [("nearest", 3.0), ("mean", 2.5), ("nan", np.nan)])
def test_an_input_without_neighbours_gets_the_fallback(fallback, expected):
    model = KernelRegressor("boxcar", bandwidth=0.1, fallback=fallback)
    model.fit([[0.0], [1.0]], [1.0, 3.0], sample_weight=[1, 3])
    np.testing.assert_array_equal(model.predict([[9.0], [0.0]]), [expected, 1.0])
    if fallback == "nearest":
        assert model.explain([9.0]).prediction == 3
    else:
        with pytest.raises(ValueError, match="no training input has a weight"):
            model.explain([9.0])
