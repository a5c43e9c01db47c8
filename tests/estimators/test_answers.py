"""Predictions, explanations, patches and drawings of the estimators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from tables import rows

from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor, kernel_regression
from idwbench.attention.scores import METHODS
from idwbench.models.criteria import Criterion
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patching import apply_patch, make_patch

FAST = {"n_prototypes": 5, "epochs": 40, "random_state": 0}


def test_given_prototypes_predict_by_the_formula():
    keys, values = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 2.0]])
    model = PrototypeClassifier.from_prototypes(keys, values, ["no", "yes"], feature_names=["a", "b"], epsilon=0.5)
    weights = np.array([1 / 1.5, 1 / (0.5 + 20)])  # d² = 1 and 20 at (1, 0)
    weights /= weights.sum()
    found = model.explain([1, 0])
    np.testing.assert_allclose(found.weights, weights, rtol=1e-12)
    np.testing.assert_allclose(found.outputs, weights * [1, 2], rtol=1e-12)
    assert found.prediction == "no" and found.labels.tolist() == ["no", "yes"]
    assert model.n_features_in_ == 2 and model.feature_names_in_.tolist() == ["a", "b"]
    assert (model.get_params()["n_prototypes"], model.n_iter_, len(model.loss_curve_)) == (2, 0, 0)
    regressor = PrototypeRegressor.from_prototypes(keys, [10.0, 20.0], epsilon=0.5)
    np.testing.assert_allclose(regressor.predict([[1, 0]]), weights @ [10, 20])
    moved = PrototypeRegressor.from_prototypes(keys, [[1.0], [2.0]], intercept=[5.0], method="fc_relu")
    np.testing.assert_allclose(moved.predict([[1, 1]]), [[7 * 2 + 5]])
    np.testing.assert_allclose(moved.intercept_, 5)
    with pytest.raises(ValueError, match="intercept: expected a finite number or 1 of them"):
        PrototypeRegressor.from_prototypes(keys, [1.0, 2.0], intercept=[1.0, 2.0])
    assert regressor.partial_fit([[1.0, 0.0]] * 9, [12.0] * 9).n_iter_ == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prototypes": [[0.0, 1.0]]}, "values: expected 1 rows"),
        ({"prototypes": [[0.0, np.nan], [1.0, 2.0]]}, "Input prototypes contains NaN"),
        ({"classes": [1, 1]}, "classes: expected 2 different labels in ascending order"),
        ({"classes": [1, 2, 3]}, "classes: expected 2 different labels"),
        ({"feature_names": ["a"]}, "feature_names: expected 2 names"),
        ({"power": -1}, "power: must be > 0"),
    ],
)
def test_prototypes_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrototypeClassifier.from_prototypes(**{"prototypes": np.eye(2), "values": np.eye(2), **arguments})


@pytest.mark.parametrize("made", [PrototypeClassifier, PrototypeRegressor, KernelRegressor])
def test_the_terms_of_an_explanation_add_up_to_the_prediction(made):
    X, words = rows()
    y = words if made is PrototypeClassifier else X[:, :2]
    model = (made() if made is KernelRegressor else made(**FAST)).fit(X, y)
    found = model.explain(X[7], top=None)
    assert (np.diff(found.weights) <= 0).all() and found.weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(found.keys, model.prototypes_[found.prototypes])
    np.testing.assert_allclose(found.weights @ found.values, found.outputs)
    if made is PrototypeClassifier:
        assert found.prediction == model.predict(X[7:8])[0]
        assert "prediction: middle" in str(found)
    else:
        np.testing.assert_allclose(found.prediction, model.predict(X[7:8])[0])
    assert len(model.explain(X[7], top=2).weights) == 2
    for wrong, message in ((X[:2], "expected 3 features of one input, got 6"), ([np.nan] * 3, "contains NaN")):
        with pytest.raises(ValueError, match=message):
            model.explain(wrong)
    with pytest.raises(ValueError, match="top: expected a number above 0"):
        model.explain(X[0], top=0)


@pytest.mark.parametrize("criterion", [{}, {"margin": 1e-8}, {"logit_margin": 0.5}, {"confidence": 0.9}], ids=str)
@pytest.mark.parametrize("keep_logits", [False, True])
@pytest.mark.parametrize("epsilon", [1e-3, 0.0])
def test_a_patch_is_that_of_the_model_on_torch(criterion, keep_logits, epsilon):
    X, y = rows()
    model = PrototypeClassifier(**FAST, epsilon=epsilon).fit(X, y)
    query = X[2].astype(np.float32)
    wanted = next(label for label in model.classes_ if label != model.predict([query])[0])
    patched = model.patch(X[2], wanted, keep_logits=keep_logits, **criterion)
    assert patched.predict(X[2:3]) == wanted and model.predict(X[2:3]) != wanted
    assert patched.n_prototypes == len(patched.prototypes_) == 6 and len(model.prototypes_) == 5
    np.testing.assert_array_equal(patched.prototypes_[5], query)
    tensors = torch.from_numpy(model.prototypes_), torch.from_numpy(model.values_)
    network = PrototypeNetwork(METHODS["idw"], {"power": 2.0, "epsilon": epsilon}, *tensors)
    patch = make_patch(
        network, query, [*model.classes_].index(wanted), Criterion.of(**criterion), keep_logits=keep_logits
    )
    # float32 predictions need a larger margin than those in float64.
    tolerance = 1e-2 if "margin" in criterion else 1e-5
    expected = apply_patch(network, patch).values.detach().numpy()
    np.testing.assert_allclose(patched.values_, expected, rtol=tolerance, atol=1e-6)


def test_a_patch_that_is_not_needed_is_a_copy_and_a_broken_one_an_error():
    X, y = rows()
    model = PrototypeClassifier(**FAST).fit(X, y)
    same = model.patch(X[0], model.predict(X[:1])[0])
    assert same is not model and len(same.prototypes_) == 5
    first = model.patch(X[0], "top")
    with pytest.raises(ValueError, match="the patch would change the answer at that of prototype 5"):
        first.patch(X[0] + 1e-6, "middle", confidence=0.99)
    second = first.patch(X[1], "low")
    assert second.predict(X[:2]).tolist() == ["top", "low"]
    assert not hasattr(second.partial_fit(X, y), "patches_")
    for change, message in (({"label": "new"}, "label: expected one of"), ({"x": [1.0]}, "x: expected 3 features")):
        with pytest.raises(ValueError, match=message):
            model.patch(**{"x": X[0], "label": "top", **change})
    with pytest.raises(ValueError, match="logit_margin: cannot be combined with margin"):
        model.patch(X[0], "top", margin=0.1, logit_margin=1.0)
    with pytest.raises(ValueError, match="only classifiers with method 'idw'"):
        PrototypeClassifier(**FAST, method="gaussian").fit(X, y).patch(X[0], "top")


def test_notebooks_show_the_prototypes_once_there_are_some():
    X, y = (part[:300] for part in load_digits(return_X_y=True))
    images = PrototypeClassifier(10, epochs=1, image_shape=(8, 8), random_state=0)
    assert "data:image/png" not in images._repr_html_()
    models = {
        "10 prototypes": images.fit(X, y),
        "12 prototypes": PrototypeClassifier(12, epochs=1).fit(X[:, 20:22], y),
        "150 prototypes, the first 100": PrototypeRegressor(150, epochs=1).fit(X, y),
        "90 prototypes": KernelRegressor().fit(X[:90, 20:21], y[:90]),
    }
    for title, model in models.items():
        assert f'<img alt="{title}" style="max-width: 100%" src="data:image/png;base64,' in model._repr_html_()
        assert set(model._repr_mimebundle_()) == {"text/plain", "text/html"}


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "shepard"])
@pytest.mark.parametrize("rule", [1.5, "scott", "loo"])
def test_kernel_regression_equals_the_function_and_a_weight_is_so_many_copies(kernel, rule):
    X, _ = rows(30)
    y = np.stack([X[:, 0], X[:, 1] ** 2], axis=1)
    settings = {"power": 2.0 if rule == "scott" else rule} if kernel == "shepard" else {"bandwidth": rule}

    def answers(weights: np.ndarray | None = None, X: np.ndarray = X, y: np.ndarray = y) -> np.ndarray:
        return KernelRegressor(kernel, **settings).fit(X, y, sample_weight=weights).predict(rows(30)[0].astype(X.dtype))

    tolerance = 0.02 if rule == "loo" else 1e-9  # the search depends on the order of rows
    expected = kernel_regression(X, X, y, kernel, **settings)
    np.testing.assert_allclose(answers(), expected, rtol=tolerance, atol=tolerance)
    assert (answers().dtype, answers(X=X.astype(np.float32)).dtype) == (np.float64, np.float32)
    copies = np.random.default_rng(0).integers(0, 4, 30)
    order = np.random.default_rng(1).permutation(copies.sum())
    np.testing.assert_allclose(answers(copies), answers(None, X.repeat(copies, 0)[order], y.repeat(copies, 0)[order]))
    assert np.isfinite(answers(copies / 3)).all()
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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "gausian"}, "kernel: unknown kernel 'gausian' .did you mean 'gaussian'"),
        ({"bandwidth": "lo"}, "bandwidth: 'lo' is neither a number nor a rule"),
        ({"bandwidth": 0.0}, "bandwidth: must be >= 1e-12"),
        ({"fallback": "none"}, "fallback: expected one of nearest, mean, nan, got 'none'"),
    ],
)
def test_an_invalid_parameter_of_kernel_regression_is_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelRegressor(**parameters).fit([[0.0], [1.0]], [0.0, 1.0])
