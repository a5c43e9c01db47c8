"""The estimators: their training is that of the fused engine; predictions, explanations, patches and drawings."""

from dataclasses import replace

import numpy as np
import pytest
from case_tables import case_table
from engine_runs import train_run
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import GROUPS, WORDS, X

from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor, kernel_regression, run_config
from idwbench.attention.scores import METHODS
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import Split, feature_moments
from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import parse_dataset

SETTINGS = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01}
NAMES_OF_METHODS = ("idw", "inv_dist", "neg_dist", "gaussian", "cosine", "scaled_dot", "fc_relu")


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *(("two_moons", method) for method in NAMES_OF_METHODS),
        ("digits", "idw"),
        ("diabetes", "idw"),
        ("diabetes", "fc_relu"),
        ("digits", "idw with slopes"),
        ("diabetes", "idw with slopes"),
    ],
)
def test_a_fit_equals_a_run_of_the_engine_for_each_method(name, method):
    method, _, slopes = method.partition(" ")
    ranks = {"slope_rank": 2} if slopes else {}
    data = load_dataset(parse_dataset(name))
    chosen = np.arange(0, len(data.train), 2)[:90]
    small = replace(data, train=Split(data.train.inputs[chosen], data.train.targets[chosen]))
    of_points = {"initialisation": "samples", "key_bounds": "data"} if METHODS[method].has_points else {}
    config = run_config(name, method=method, prototypes=10, seed=3, **of_points, **ranks, **SETTINGS)
    result = train_run(config, small, engine="fused")
    is_regression = data.task == "regression"
    estimator = PrototypeRegressor if is_regression else PrototypeClassifier
    fitted = estimator(10, method=method, random_state=3, **ranks, **SETTINGS)
    if is_regression:  # the targets of the data set are scaled by all its rows
        vars(fitted).update(_mean=np.zeros(1), _scale=np.ones(1))
        fitted._training_targets = lambda rows, warm: rows.targets.astype(np.float32)
    fitted.fit(small.train.inputs, small.train.targets)
    np.testing.assert_array_equal(fitted.prototypes_, result.arrays["keys"])
    np.testing.assert_array_equal(fitted.values_, result.arrays["values"])
    for slope in SLOPE_ARRAYS if slopes else ():
        np.testing.assert_array_equal(fitted.slopes_[slope], result.arrays[slope])
    metrics = data.metrics("test", fitted._outputs(data.test.inputs).astype(np.float32))
    key = ("test", "rmse" if is_regression else "accuracy")
    assert metrics[key] == pytest.approx(result.metrics[key], rel=1e-4, abs=0.0 if is_regression else 0.02)


def test_values_with_a_slope_are_explained_kept_by_a_warm_start_and_given():
    y = X @ np.array([1.0, -2.0, 0.5])
    plain, sloped = (PrototypeRegressor(3, slope_rank=rank, random_state=0).fit(X, y) for rank in (0, 1))
    assert 1 - sloped.score(X, y) < 0.1 * (1 - plain.score(X, y))
    terms = sloped.explain(X[4])
    np.testing.assert_allclose(terms.weights @ terms.values, sloped.predict(X[4:5]), rtol=1e-9)
    again = clone(sloped).set_params(warm_start=True, epochs=1, learning_rate=1e-30)
    again.__dict__.update({name: part for name, part in vars(sloped).items() if name.endswith("_") or name[0] == "_"})
    np.testing.assert_allclose(again.fit(X, y).predict(X), sloped.predict(X), rtol=1e-5)
    with pytest.raises(ValueError, match="slope_rank: expected 1, the rank of slopes so far, got 2"):
        again.set_params(slope_rank=2).fit(X, y)
    given = PrototypeRegressor.from_prototypes(sloped.prototypes_, sloped.values_, slopes=sloped.slopes_)
    np.testing.assert_allclose(given.predict(X)[:, 0], sloped.predict(X), rtol=1e-9)
    assert given.slope_rank == 1
    one, other = (sloped.slopes_[name] for name in SLOPE_ARRAYS)
    wrongs = ({"slope_inputs": one}, {"slope_outputs": other}, one, {**sloped.slopes_, "slope_inputs": 3.0})
    for wrong in (*wrongs, {**sloped.slopes_, "slope_outputs": other[:, :2]}):
        with pytest.raises(ValueError, match="slopes: "):
            PrototypeRegressor.from_prototypes(sloped.prototypes_, sloped.values_, slopes=wrong)
    words = PrototypeClassifier(4, slope_rank=2, random_state=0).fit(X, WORDS)
    patched = words.patch(X[0], next(word for word in words.classes_ if word != words.predict(X[:1])[0]), radius=0.1)
    assert patched.predict(X[:1])[0] != words.predict(X[:1])[0]
    np.testing.assert_allclose(
        patched.explain(X[1]).weights @ patched.explain(X[1]).values, patched._outputs(X[1:2])[0]
    )


@pytest.mark.parametrize("method", ["idw", "fc_relu"])
def test_targets_are_standardised_and_predictions_in_their_own_units(method):
    y = np.stack([1000 + 50 * X[:, 0], 1e-3 * X[:, 1]], axis=1)
    model = PrototypeRegressor(8, method=method, random_state=0)
    fitted, shifted = (clone(model).fit(X, targets) for targets in (y, 2 * y + 3))
    assert fitted.score(X, y) > 0.7
    np.testing.assert_allclose(shifted.predict(X), 2 * fitted.predict(X) + 3, rtol=1e-3)


@pytest.mark.parametrize(
    ("made", "settings"),
    [
        *((PrototypeClassifier, {"method": method}) for method in NAMES_OF_METHODS),
        *((PrototypeClassifier, {"initialisation": way}) for way in ("samples", "kmeans")),
        (PrototypeRegressor, {}),
    ],
)
def test_a_weight_is_so_many_copies_of_a_row_to_the_last_bit_and_only_ratios_matter(made, settings):
    inputs, y = X[:30], WORDS[:30] if made is PrototypeClassifier else X[:30, :2]
    weights = np.random.default_rng(0).integers(0, 4, 30)
    repeated = np.random.default_rng(1).permutation(np.arange(30).repeat(weights))
    model = made(6, epochs=5, random_state=0, **settings)
    weighted = clone(model).fit(inputs, y, sample_weight=weights)
    copies = clone(model).fit(inputs[repeated], y[repeated])
    scaled = clone(model).fit(inputs, y, sample_weight=1e300 / 7 * weights)
    np.testing.assert_array_equal(weighted.prototypes_, copies.prototypes_)
    np.testing.assert_array_equal(weighted.values_, copies.values_)
    np.testing.assert_allclose(weighted.loss_curve_, copies.loss_curve_)
    np.testing.assert_allclose(weighted.prototypes_, scaled.prototypes_, rtol=1e-3, atol=1e-4)
    model.set_params(batch_size=7)
    equal, none = (model.fit(inputs, y, given).prototypes_ for given in (np.full(30, 0.3), None))
    np.testing.assert_array_equal(equal, none)


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


@pytest.mark.parametrize(("parameters", "message"), case_table("wrong_parameters"))
def test_an_invalid_parameter_is_a_value_error_that_names_it(parameters, message):
    is_kernel = parameters.keys() & {"kernel", "bandwidth", "fallback"}
    estimator = KernelRegressor() if is_kernel else PrototypeClassifier(epochs=2)
    estimator.set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, GROUPS)


def test_bounded_prototypes_stay_in_the_range_of_all_rows_so_far():
    model = PrototypeClassifier(4, key_bounds="data", learning_rate=1.0, random_state=0)
    few = X[np.abs(X[:, 0]).argsort()[:3]]
    for rows in (X[X[:, 0] < 0], X[X[:, 0] >= 0], few):
        labels = (rows[:, 1] > 0).astype(int)
        model.partial_fit(rows, labels, classes=[0, 1])
        seen = (rows if model.n_iter_ == 1 else X).astype(np.float32)
        assert ((model.prototypes_ >= seen.min(0)) & (model.prototypes_ <= seen.max(0))).all()
    assert np.ptp(model.prototypes_[:, 0]) > np.ptp(few[:, 0])


def test_a_penalty_draws_prototypes_to_rows():
    free, drawn = (PrototypeClassifier(6, key_bounds="none", key_penalty=p, random_state=0) for p in (0.0, 1.0))
    distances = [np.linalg.norm(e.fit(X, GROUPS).prototypes_[:, None] - X, axis=2).min(1) for e in (free, drawn)]
    assert distances[1].mean() < 0.5 * distances[0].mean()


def test_a_first_partial_fit_needs_all_classes_but_not_as_many_rows_as_prototypes():
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
    many = PrototypeClassifier(80, epochs=2).fit(X, WORDS)  # of 60 rows: they begin elsewhere
    assert many.prototypes_.shape == (80, 3) and many.get_params()["initialisation"] == "auto"
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


@pytest.mark.parametrize(("arguments", "message"), case_table("wrong_inputs")["given_prototypes"])
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
    models = {"plain": model, "patched": first}
    models |= {name: PrototypeClassifier(**FAST, method=name).fit(X, WORDS) for name in ("gaussian", "fc_relu")}
    with_data = [
        ("patched", {"radius": None, "X": X, "y": WORDS[:3]}, "inconsistent numbers of samples"),
        ("plain", {"X": X}, "y: training inputs and labels are given together"),
        ("plain", {"y": WORDS}, "X: training inputs and labels are given together"),
    ]
    for name, change, message in [*case_table("wrong_inputs")["estimator_patches"], *with_data]:
        with pytest.raises(ValueError, match=message):
            models[name].patch(**{"x": X[0], "label": "top", "radius": 1e-3, **change})


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
        for diagram in (model, make_pipeline(StandardScaler(), model)):
            html = diagram._repr_mimebundle_()["text/html"]
            assert html.count(f'<img alt="{title}" style="max-width: 100%" src="data:image/png;base64,') == 1


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "shepard"])
@pytest.mark.parametrize("rule", [1.5, "scott", "loo"])
def test_kernel_regression_equals_the_function_and_a_weight_is_so_many_copies(kernel, rule):
    inputs, targets = X[:30], np.stack([X[:30, 0], X[:30, 1] ** 2], axis=1)
    settings = {"power": 2.0 if rule == "scott" else rule} if kernel == "shepard" else {"bandwidth": rule}

    def answers(weights=None, rows=slice(None)):
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
