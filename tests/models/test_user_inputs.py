"""What users bring to a model: inputs as texts and files, labels, and the prototypes of other libraries."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from case_tables import case_table
from PIL import Image
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestCentroid

import idwbench
from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor, import_prototypes, load_model, run_config
from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Scaling, Split
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, ModelFileError, PatchError
from idwbench.models.inputs import find_input, find_label, own_data
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.neighbours import nearest
from idwbench.models.saved_model import SavedModel
from idwbench.runs.datasets import parse_dataset

# Inputs and labels


def model_of(dataset, scaling, class_names):
    """A model of images of 3 x 2 pixels."""
    config = run_config(dataset, prototypes=4)
    network = PrototypeNetwork(METHODS["idw"], config.model.parameters, torch.zeros(4, 6), torch.zeros(4, 2))
    return SavedModel(network, config, scaling, (2, 3), class_names)


def images(config, pixels, scaling):
    """Images of 3 x 2 pixels, scaled."""
    split = Split(scaling.apply(pixels), np.arange(len(pixels)))
    names = ("0", "1")[: len(pixels)]
    changes = {"config": config, "train": split, "test": split, "holdout": None, "scaling": scaling}
    return replace(make_dataset(), **changes, image_shape=(2, 3), class_names=names)


@pytest.fixture
def model():
    """Scaled by mean 10 and standard deviation 2."""
    return model_of("two_moons", Scaling(np.array(10.0), np.array(2.0)), ("a", "b"))


def test_a_label_is_a_name_or_else_a_number_and_an_index_a_number_within_the_split(model):
    assert [find_label(text, ("a", "b")) for text in ("b", "1", "01")] == [1, 1, 1]
    assert [find_label("3", ("3", "4")), find_label("1", ("x", "1")), find_label("-1", ("1", "-1"))] == [0, 1, 1]
    for index in ("40", "-1", "٣", "9" * 5000, ""):
        with pytest.raises(PatchError, match="two_moons:test has inputs 0 to 39"):
            find_input(f"two_moons:test:{index}", model.config, model)


LONG = [
    ("x", tuple(str(2 * i) for i in range(50)), r"one of: 0, 2, .*, 38, \.\.\.\)"),
    ("9" * 5000, ("a", "b"), "expected 0 to 1, got 999"),
]


@pytest.mark.parametrize(("text", "names", "message"), [*case_table("wrong_inputs")["labels"], *LONG])
def test_what_names_no_class_is_refused_with_what_would(text, names, message):
    with pytest.raises(PatchError, match=message):
        find_label(text, names)


def test_numbers_arrays_and_images_are_scaled_alike_and_too_many_pixels_refused_by_their_header(model, tmp_path):
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    np.save(tmp_path / "x.npy", pixels)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    expected = (np.arange(6) - 10) / 2
    for text in ("0,1,2,3,4,5", str(tmp_path / "x.npy"), str(tmp_path / "x.png")):
        found = find_input(text, model.config, model)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected)
    Image.new("1", (16_000, 10_000)).save(tmp_path / "x.png")
    os.truncate(tmp_path / "x.png", 41)  # without the compressed pixels, which are not read
    with pytest.raises(PatchError, match=r"x.png: expected an image of 3x2 pixels, got 16000x10000"):
        find_input(str(tmp_path / "x.png"), model.config, model)


@pytest.mark.parametrize("name", ["x.npy", "x.png"])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_files_that_cannot_be_read_and_numbers_too_large_are_refused(model, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PatchError, match=f"x: .*{name}: not an"):
        find_input(str(tmp_path / name), model.config, model)
    (tmp_path / f"folder.{name}").mkdir()
    with pytest.raises(PatchError, match="is a folder"):
        find_input(str(tmp_path / f"folder.{name}"), model.config, model)
    for text in ("1e300,0,0,0,0,0", "1e39,0,0,0,0,0"):
        with pytest.raises(PatchError, match="x: too large for float32"):
            find_input(text, model.config, model)


@pytest.mark.parametrize("choice", ["unit", "standard"])
def test_an_input_of_a_part_or_of_other_data_is_scaled_as_the_model_s_own(choice):
    unit, standard = Scaling(np.zeros(()), np.array(255.0)), Scaling(*np.array([33.3, 78.6]))
    own, of_parts = (unit, unit) if choice == "unit" else (Scaling(*np.array([53.0, 88.3])), standard)
    settings = {"name": "joint", "of": ["mnist", "fashion_mnist"], "validation": 3, "scaling": choice}
    model = model_of(settings, own, ("0", "1"))
    pixels, loaded = np.arange(12, dtype=np.uint8).reshape(2, 6) + 200, []

    def load(config, data_dir):
        loaded.append((config.name, config.scaling, config.validation))
        return images(config, pixels, own if config.name == "joint" else of_parts)

    for name in ("fashion_mnist", "mnist", "joint"):
        found = find_input(f"{name}:test:1", model.config, model, load=load)
        np.testing.assert_array_equal(found, own.apply(pixels)[1])
    assert loaded == [(name, choice, 3) for name in ("fashion_mnist", "mnist", "joint")]
    mnist = model_of({"name": "mnist", "scaling": "unit"}, unit, ("0", "1"))
    of_other_scaling = {"load": lambda config, folder: images(config, pixels, standard)}
    found = find_input("fashion_mnist:test:0", mnist.config, mnist, **of_other_scaling)
    np.testing.assert_allclose(found, pixels[0] / 255, atol=1e-6)


# Prototypes of arrays, files and other libraries


MOONS = {"name": "two_moons", "train_per_class": 30, "test_per_class": 10, "holdout_per_class": 10}
KEYS = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, -0.5]])


@pytest.fixture(scope="module")
def moons():
    return load_dataset(parse_dataset(dict(MOONS)))


def test_the_centres_of_k_means_get_the_class_frequencies_of_their_training_inputs(moons):
    raw = moons.scaling.invert(moons.train.inputs)
    clusters = KMeans(4, n_init=1, random_state=0).fit(raw)
    model = import_prototypes(clusters, dataset=MOONS)
    keys = model.scaling.invert(model.network.keys.detach().numpy())
    np.testing.assert_allclose(keys, clusters.cluster_centers_, rtol=1e-6)
    labels = clusters.predict(raw)
    expected = [np.eye(2)[moons.train.labels[labels == cluster]].mean(0) for cluster in range(4)]
    np.testing.assert_allclose(model.network.values.detach().numpy(), expected, rtol=1e-6)
    accuracy = (model.network.predict(moons.test.inputs) == moons.test.labels).mean()
    assert model.metrics["test"] == {"accuracy": accuracy}
    assert model.metrics.keys() == {"train", "test", "holdout"}
    assert model.provenance["imported_from"] == "KMeans"
    assert model.provenance["data_sha256"] == moons.sha256
    assert "run_key" not in model.provenance
    # A prototype that is nearest to no input takes the targets of the nearest.
    far = np.array([[0.0, 0.0], [50.0, 50.0]])
    rows, _ = nearest(moons.scaling.apply(far[1:]), moons.train.inputs)
    values = import_prototypes(far, dataset=MOONS).network.values.detach().numpy()
    np.testing.assert_array_equal(values[1], np.eye(2)[moons.train.labels[rows[0]]])


def test_class_names_in_another_order_than_those_of_the_data_tell_which_column_is_which(moons):
    raw, names = moons.scaling.invert(moons.train.inputs), moons.class_names[::-1]
    values = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    expected = import_prototypes(KEYS, values, dataset=MOONS)
    model = import_prototypes(KEYS, values[:, ::-1], class_names=names, dataset=MOONS)
    assert (model.class_names, model.metrics) == (moons.class_names, expected.metrics)
    np.testing.assert_array_equal(model.predict(raw), expected.predict(raw))
    for given, labels in (({}, ["lower", "upper", "lower"]), ({"class_names": names}, ["upper", "lower", "upper"])):
        labelled = import_prototypes(KEYS, labels=[1, 0, 1], dataset=MOONS, **given)  # numbers of the classes, from 0
        np.testing.assert_array_equal(labelled.predict(KEYS), labels)
    centroids = NearestCentroid().fit(raw, np.array(moons.class_names)[moons.train.labels])
    alone = import_prototypes(centroids)
    assert alone.class_names == ("lower", "upper") and idwbench.model_card(alone)["dataset"] is None
    np.testing.assert_array_equal(alone.predict(raw), centroids.predict(raw))


def test_prototypes_may_be_in_scaled_units_images_or_with_targets_in_their_own_units(moons):
    scaled = import_prototypes(moons.train.inputs[:3], labels=["upper"] * 3, dataset=MOONS, scaled=True)
    np.testing.assert_array_equal(scaled.network.keys.detach().numpy(), moons.train.inputs[:3])
    model = import_prototypes(np.zeros((2, 4, 5)), labels=["a", "b"])
    assert (model.image_shape, model.n_features) == ((4, 5), 20)
    model = import_prototypes(KEYS, [10.0, 20.0, 30.0], power=3, epsilon=0)
    assert model.class_names == ()
    np.testing.assert_allclose(model.predict(KEYS), [[10], [20], [30]])
    np.testing.assert_allclose(import_prototypes(REGRESSOR).predict(KEYS)[:, 0], REGRESSOR.predict(KEYS), rtol=1e-6)
    sine = {"name": "sine", "train_size": 40, "test_size": 20, "holdout_size": 20}
    data = load_dataset(parse_dataset(dict(sine)))
    keys = np.linspace(-3, 3, 15)[:, None]
    model = import_prototypes(keys, np.sin(keys), dataset=sine, power=4)
    errors = model.predict(data.scaling.invert(data.test.inputs)) - data.target_scaling.invert(data.test.targets)
    assert model.metrics["test"]["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-6)
    assert import_prototypes(keys, dataset=sine).metrics["test"]["rmse"] < 1


def test_an_imported_model_is_saved_read_and_patched(tmp_path):
    np.savez(tmp_path / "three.npz", keys=KEYS, labels=np.array([0, 1, 1]), class_names=np.array(["0", "1", "2"]))
    model = import_prototypes(tmp_path / "three.npz")
    model.save(tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert (again.provenance, again.config) == (model.provenance, model.config)
    patched = again.patch([5.0, 5.0], "2", radius=1.0)
    assert patched.predict([[5, 5], [0, 0.1]]).tolist() == ["2", "0"]
    reason = "the data set of the prototypes is not known"
    assert own_data(again, None) == (None, reason)


@pytest.mark.parametrize(
    "settings", [{"method": "cosine", "parameters": {"temperature": 0.1}}, {"method": "fc_relu"}, {"slope_rank": 1}]
)
def test_an_estimator_of_the_library_keeps_its_method_and_parameters(settings, moons):
    raw = moons.scaling.invert(moons.train.inputs)
    labels = np.array(moons.class_names)[moons.train.labels]  # upper, lower: not in ascending order
    fitted = PrototypeClassifier(4, random_state=0, epochs=5, **settings).fit(raw, labels)
    model, with_data = import_prototypes(fitted), import_prototypes(fitted, dataset=MOONS, scaled=True)
    outputs = model.network.outputs(raw.astype(np.float32))
    np.testing.assert_allclose(outputs, fitted._outputs(raw), rtol=1e-4, atol=1e-5)
    assert import_prototypes(fitted, method=fitted.method_, **fitted.parameters_).config == model.config
    expected = fitted.predict(moons.test.inputs) == np.array(moons.class_names)[moons.test.labels]
    assert (with_data.class_names, with_data.metrics["test"]["accuracy"]) == (moons.class_names, expected.mean())


def test_an_estimator_keeps_the_slopes_of_its_values_in_the_units_of_the_data():
    generator = np.random.default_rng(0)
    names, x = ["virginica", "versicolor", "setosa"], generator.normal(size=4)
    slopes = {"slope_inputs": generator.normal(size=(2, 3, 4)), "slope_outputs": generator.normal(size=(2, 3, 3))}
    fitted = PrototypeClassifier.from_prototypes(np.eye(3, 4), np.eye(3), sorted(names), slopes=slopes)
    model = import_prototypes(fitted, dataset="iris")
    columns = [fitted.classes_.tolist().index(name) for name in model.class_names]
    expected = fitted.explain(x)
    values = expected.values[np.argsort(expected.prototypes)][:, columns]
    np.testing.assert_allclose(model.values_at(model.scale(x)), values, rtol=1e-5)
    assert model.config.model.slope_rank == 2 and (model.scaling.std != 1).any()


def test_an_estimator_keeps_its_patches(moons, tmp_path):
    inputs, labels = moons.train.inputs, np.array(moons.class_names)[moons.train.labels]
    fitted = PrototypeClassifier(4, random_state=0, epochs=2).fit(inputs, labels)
    wrong = np.flatnonzero(fitted.predict(inputs) != labels)[:2]
    patched = fitted
    for row in wrong:
        patched = patched.patch(inputs[row], labels[row], X=inputs, y=labels)
    alone, with_data = import_prototypes(patched), import_prototypes(patched, dataset=MOONS, scaled=True)
    assert with_data.class_names == moons.class_names == tuple(patched.classes_[::-1])
    for model in (alone, with_data):
        model.save(tmp_path / "model.pt", overwrite=True)
        again = load_model(tmp_path / "model.pt")
        columns = [again.class_names.index(name) for name in patched.classes_]
        np.testing.assert_allclose(again.outputs(inputs)[:, columns], patched._outputs(inputs), rtol=1e-12, atol=1e-12)
        wanted = [again.class_names.index(name) for name in labels[wrong]]
        assert (again.outputs(inputs[wrong]).argmax(1) == wanted).all()
    with pytest.raises(ModelFileError, match="values: cannot be replaced in a patched PrototypeClassifier"):
        import_prototypes(patched, np.zeros((4, 2)))
    flowers = PrototypeClassifier.from_prototypes(np.eye(3, 4), np.eye(3), ["setosa", "versicolor", "virginica"])
    with pytest.raises(ModelFileError, match="radii of patches in the data's own units cannot be scaled"):
        import_prototypes(flowers.patch(np.ones(4), "versicolor", radius=1.0), dataset="iris")


REGRESSOR = PrototypeRegressor.from_prototypes(KEYS, [1.0, 2.0, 3.0], power=4)
SLOPES = {"slope_inputs": np.ones((1, 3, 2)), "slope_outputs": np.ones((1, 3, 1))}
SLOPED = PrototypeRegressor.from_prototypes(KEYS, [1.0, 2.0, 3.0], slopes=SLOPES)
WITH_INTERCEPT = PrototypeRegressor.from_prototypes(KEYS, [1.0, 2.0, 3.0], method="fc_relu", intercept=1.0)


LABELS = {"labels": [0, 1, 1]}
TEXTS = "a text has a NUL or a lone surrogate$"
NO_CODE_POINTS = np.array([0x110000, 97, 98], np.uint32).view("<U1")
FLOWERS, TWO_OF_THREE = np.ones((2, 4)), {"class_names": ["setosa", "versicolor"], "dataset": "iris"}
REFUSED = [
    *((KEYS, arguments, message) for arguments, message in case_table("wrong_inputs")["imported_prototypes"]),
    (KEYS, {"labels": ["\ud800", "a", "b"]}, f"labels: {TEXTS}"),
    (KEYS, {"labels": NO_CODE_POINTS}, "labels: a text is not valid Unicode$"),
    (FLOWERS, {"values": np.eye(2, 3), **TWO_OF_THREE}, "class_names: .* data set, of which 'virginica' is missing"),
    (FLOWERS, {"values": np.eye(2), **TWO_OF_THREE}, "values: expected 3 columns, the classes, got 2"),
    (REGRESSOR, {"method": "neg_dist"}, "method: expected 'idw', that of the PrototypeRegressor, got 'neg_dist'"),
    (REGRESSOR, {"power": 2}, "power: expected 4.0, that of the PrototypeRegressor, got 2"),
    (SLOPED, {"values": [1.0, 2.0, 3.0]}, "values: cannot be replaced in values with a slope"),
    (WITH_INTERCEPT, {}, "PrototypeRegressor adds intercept_ to its sums, which a model of prototypes cannot"),
    (KernelRegressor().fit(KEYS, KEYS[:, 0]), {}, "KernelRegressor has prototypes_ but no method_ and parameters_"),
    (KEYS[0], LABELS, r"prototypes has shape \(2,\); expected \(prototypes, features\) or"),
    (np.where(KEYS > 1, np.inf, KEYS), LABELS, r"prototypes\[2, 0\] is inf; expected finite numbers"),
    ([[1, 2], [3]], LABELS, r"prototypes: expected an array \(prototypes, features\)"),
    (KMeans(2), LABELS, r"KMeans is not fitted, or has no prototypes \(one of prototypes_, cluster_centers_"),
]


@pytest.mark.parametrize(("prototypes", "arguments", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_does_not_fit_is_refused_in_one_line(prototypes, arguments, message):
    with pytest.raises((ModelFileError, ConfigError), match=f"^{message}"):
        import_prototypes(prototypes, **arguments)


def test_a_file_without_prototypes_or_with_wrong_names_is_refused_with_its_name(tmp_path):
    path = tmp_path / "centres.npz"
    names = {"keys": KEYS, "class_names": np.array(["a\0b", "c"]), **LABELS}
    missing = r"'prototypes' is missing \(an array \(prototypes, features\)\)$"
    pickled = {"keys": np.array([{"a": print}]), "labels": [1]}, "keys holds Python objects"
    for arrays, message in (({"centres": KEYS}, missing), (names, f"class_names: {TEXTS}"), pickled):
        np.savez(path, **arrays)
        with pytest.raises(ModelFileError, match=message) as caught:
            import_prototypes(str(path))
        assert caught.value.file == str(path)
