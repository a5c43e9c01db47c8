import io
import pickle
import zipfile

import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.runs.datasets import NpzConfig


class Bomb:
    def __reduce__(self):
        return (print, ("unpickled",))


def arrays(**changes):
    random = np.random.default_rng(0)
    whole = {
        "X_train": random.normal(5, 3, (8, 3)),
        "y_train": np.array([3, 10, 3, 10, -1, 3, 10, -1]),
        "X_test": random.normal(5, 3, (4, 3)),
        "y_test": np.array([10, 3, -1, 3]),
    }
    return {key: array for key, array in (whole | changes).items() if array is not None}


@pytest.fixture
def load(tmp_path):
    def load(scaling="standard", task="classification", **changes):
        path = tmp_path / "own.npz"
        np.savez(path, **arrays(**changes))
        return load_dataset(NpzConfig(path=str(path), scaling=scaling, task=task))

    return load


@pytest.mark.parametrize(("mean", "std"), [(0, 1), (1e-3, 1e-3), (1e6, 1), (-3e4, 7e5)])
def test_standard_scaling_is_numpys_formula_to_the_last_bit(mean, std, load):
    train = np.random.default_rng(3).normal(mean, std, (8, 3))
    expected = (train - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_array_equal(load(X_train=train).train.inputs, expected.astype(np.float32))


def test_without_scaling_the_values_stay(load):
    np.testing.assert_array_equal(load("none").test.inputs, arrays()["X_test"].astype(np.float32))


def test_integer_labels_become_classes_in_the_order_of_numbers(load):
    found = load()
    assert found.class_names == ("-1", "3", "10")
    assert found.train.labels.tolist() == [1, 2, 1, 2, 0, 1, 2, 0]
    assert found.test.labels.tolist() == [2, 1, 0, 1] and found.test.labels.dtype == np.int64


def test_text_labels_become_classes_in_alphabetical_order(load):
    found = load(y_train=np.array(list("babacbab")), y_test=np.array(list("ccab")))
    assert found.class_names == ("a", "b", "c") and found.test.labels.tolist() == [2, 2, 0, 1]


def test_images_keep_their_shape_and_are_scaled_by_two_numbers(load):
    random = np.random.default_rng(1)
    train = random.integers(0, 256, (8, 4, 5)).astype(np.uint8)
    found = load(X_train=train, X_test=train[:4])
    assert found.image_shape == (4, 5) and found.scaling.mean.shape == ()
    expected = (train.reshape(8, -1) - train.mean()) / train.std()
    np.testing.assert_allclose(found.train.inputs, expected, rtol=1e-5, atol=1e-6)


def test_a_constant_feature_is_only_shifted(load):
    train = arrays()["X_train"]
    train[:, 1] = 0.1
    test = arrays()["X_test"]
    test[0, 1] = 2.1
    found = load(X_train=train, X_test=test)
    assert found.scaling.std[1] == 1
    assert np.abs(found.train.inputs[:, 1]).max() < 1e-6 and found.test.inputs[0, 1] == pytest.approx(2.0)


def test_the_config_of_the_data_set_knows_the_file_by_its_content(load):
    assert len(load().config.sha256) == 64
    assert load().sha256 == load().sha256 != load("none").sha256


def nan_at(shape, index, value=np.nan):
    array = np.zeros(shape)
    array[index] = value
    return array


NUMBERS = {"task": "regression"}
REFUSED = {
    "missing key": ({"X_test": None}, r"'X_test' is missing \(did you mean "),
    "near miss": ({"y_test": None, "Y_test": np.zeros(4, int)}, r"'y_test' is missing \(did you mean 'Y_test'\?\)"),
    "rows and labels": ({"y_train": np.array([0, 1])}, r"X_train has 8 rows, y_train has shape \(2,\)"),
    "features": ({"X_test": np.zeros((4, 2))}, r"a row of X_test has shape \(2,\), one of X_train \(3,\)"),
    "image and row": ({"X_test": np.zeros((4, 3, 1))}, r"a row of X_test has shape \(3, 1\)"),
    "nan": ({"X_train": nan_at((8, 3), (6, 2))}, r"X_train\[6, 2\] is nan; expected finite"),
    "inf": ({"X_test": nan_at((4, 3), (1, 0), -np.inf)}, r"X_test\[1, 0\] is -inf"),
    "nan in an image": ({"X_train": nan_at((8, 2, 2), (3, 1, 0))}, r"X_train\[3, 1, 0\] is nan"),
    "beyond float32": ({"X_train": nan_at((8, 3), (0, 1), 1e300)}, r"X_train\[0, 1\] is 1e\+300"),
    "empty": ({"X_train": np.zeros((0, 3)), "y_train": np.zeros(0, int)}, r"X_train is empty: .* \(0, 3\)"),
    "no features": ({"X_train": np.zeros((8, 0))}, r"X_train is empty"),
    "one axis": ({"X_train": np.zeros(8)}, r"X_train has shape \(8,\); expected \(n, features\) or"),
    "text inputs": ({"X_train": np.array([["a"]] * 8)}, r"X_train is of type <U1; expected numbers"),
    "complex inputs": ({"X_train": np.zeros((8, 3), complex)}, r"X_train is of type complex128"),
    "float labels": (
        {"y_train": np.zeros(8)},
        r"y_train is of type float64; .* \(set task: regression\)",
    ),
    "one-hot labels": ({"y_train": np.zeros((8, 3), int)}, r"y_train has shape \(8, 3\); expected \(8,\)"),
    "unseen label": ({"y_test": np.array([3, 3, 4, 3])}, r"y_test\[2\] is 4, a label that no training row has"),
    "one class": ({"y_train": np.full(8, 3)}, r"every label is 3: at least two classes are needed"),
    "two label types": ({"y_test": np.array(list("3333"))}, r"y_train and y_test differ in type"),
    "objects": (
        {"y_train": np.array([Bomb()] * 8, dtype=object)},
        r"y_train holds Python objects",
    ),
    "text targets": (NUMBERS | {"y_train": np.array(list("abababab"))}, r"y_train is of type <U1; expected numbers"),
    "nan target": (NUMBERS | {"y_test": nan_at(4, 2)}, r"y_test\[2\] is nan; expected finite"),
    "outputs": (NUMBERS | {"y_train": np.zeros((8, 2))}, r"y_train has shape \(8, 2\), y_test \(4,\)"),
    "three axes": (NUMBERS | {"y_train": np.zeros((8, 2, 2))}, r"y_train has .*; expected \(n,\) or \(n, outputs\)"),
    "no axis": (NUMBERS | {"y_train": np.zeros(())}, r"X_train has 8 rows, y_train has shape \(\)"),
}


@pytest.mark.parametrize("outputs", [(), (1,), (2,)])
def test_targets_of_a_regression_are_numbers_with_one_or_more_outputs(outputs, load):
    random = np.random.default_rng(2)
    train, test = random.normal(7, 2, (8, *outputs)), random.normal(7, 2, (4, *outputs))
    found = load(task="regression", y_train=train, y_test=test)
    assert found.task == "regression" and found.n_outputs == (outputs or (1,))[0]
    for split, expected in ((found.train, train), (found.test, test)):
        own = found.target_scaling.invert(split.targets)
        np.testing.assert_allclose(own, expected.reshape(len(expected), -1), rtol=1e-6)
    np.testing.assert_allclose(found.train.targets.mean(axis=0), 0, atol=1e-6)


def test_integers_may_be_targets_of_a_regression(load):
    assert load(task="regression").n_outputs == 1


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_that_do_not_fit_are_refused_in_one_line(case, load, capsys):
    changes, message = REFUSED[case]
    with pytest.raises(DatasetError, match=r"own\.npz: " + message) as caught:
        load(**changes)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""  # nothing was unpickled


def test_values_too_large_once_scaled_are_refused(load):
    train = np.zeros((8, 3))
    train[:, 0] = np.arange(8) * 1e-30
    with pytest.raises(DatasetError, match=r"own\.npz: test: row 2, feature 0 is too large for float32"):
        load(X_train=train, X_test=nan_at((4, 3), (2, 0), 1e20))


def savez(compressed=False):
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays())
    return buffer.getvalue()


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"X_train,y_train\n1,2\n",
        pickle.dumps(Bomb()),
        savez()[:-200],
        savez().replace(b"\x93NUMPY", b"\x93NUMPX", 1),
        savez()[:300] + b"\xff\x00" + savez()[302:],
        savez(compressed=True)[:300] + b"\xff\x00" + savez(compressed=True)[302:],
        zipped(**dict.fromkeys(arrays(), b"text")),
        zipped(**{f"{key}.npy": b"\x93NUMPY\x01\x00" for key in arrays()}),
    ],
)
def test_a_file_that_is_not_a_whole_npz_is_refused_in_one_line(content, tmp_path, capsys):
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"own\.npz: ") as caught:
        load_dataset(NpzConfig(path=str(path)))
    assert "\n" not in str(caught.value) and capsys.readouterr().out == ""
