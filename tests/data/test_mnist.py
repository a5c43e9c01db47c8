"""Images of the MNIST family: archives, scaling and validation rows."""

import dataclasses
import gzip
import hashlib

import numpy as np
import pytest

from idwbench.data import images
from idwbench.data.dataset import array_sha256
from idwbench.data.images import ARCHIVES, FILES
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.runs.datasets import ImageConfig

CONFIGS = {name: ImageConfig(name=name) for name in ("mnist", "fashion_mnist")}
CONSTANTS = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}
TRAIN_IMAGES = "train-images-idx3-ubyte.gz"


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A data folder with archives of 20 and 10 made-up images, and their checksums in place of the official."""
    random = np.random.default_rng(0)
    shapes = {"train_images": (20, 28, 28), "train_labels": (20,), "test_images": (10, 28, 28), "test_labels": (10,)}
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    arrays, checksums = {}, {}
    for part, shape in shapes.items():
        array = random.integers(0, 256 if len(shape) == 3 else 10, shape).astype(np.uint8)
        header = bytes((0, 0, 8, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)
        content = gzip.compress(header + array.tobytes(), mtime=0)
        (raw / FILES[part]).write_bytes(content)
        arrays[part], checksums[part] = array, hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(ARCHIVES, "mnist", dataclasses.replace(ARCHIVES["mnist"], checksums=checksums))
    return tmp_path / "data", arrays


def load(folder):
    return load_dataset(CONFIGS["mnist"], folder)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_every_byte_is_scaled_exactly_as_the_formula_in_float64(name):
    mean, std = CONSTANTS[name]
    found = ARCHIVES[name].scaling.apply(np.arange(256, dtype=np.uint8).reshape(1, 256))
    expected = ((np.arange(256) / 255 - mean) / std).astype(np.float32)
    np.testing.assert_array_equal(found[0], expected)


def test_archives_are_read_in_torchvisions_layout_and_scaled_by_the_constants(small):
    folder, arrays = small
    data, parts = load(folder), load_dataset(ImageConfig(name="mnist", validation=5, seed=2), folder)
    expected = ((arrays["train_images"].reshape(20, -1) / 255 - 0.1307) / 0.3081).astype(np.float32)
    np.testing.assert_array_equal(data.train.inputs, expected)
    np.testing.assert_array_equal(data.test.labels, arrays["test_labels"])
    assert data.image_shape == (28, 28) and data.class_names == tuple("0123456789")
    assert data.train.labels.dtype == np.int64 and data.train.inputs.flags.c_contiguous
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (15, 5, 10)
    together = np.concatenate([parts.train.inputs, parts.validation.inputs])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(expected, axis=0))
    assert parts.sha256 == data.sha256


def test_an_altered_archive_is_refused(small):
    folder, _ = small
    load(folder)
    path = folder / "MNIST" / "raw" / TRAIN_IMAGES
    content = path.read_bytes()
    for altered in (content[:-100], content[:50] + bytes([content[50] ^ 1]) + content[51:]):
        path.write_bytes(altered)
        with pytest.raises(DatasetError, match=f"{TRAIN_IMAGES}: truncated or altered: .* expected ") as caught:
            load(folder)
        assert hashlib.sha256(content).hexdigest()[:12] in str(caught.value)
        assert hashlib.sha256(altered).hexdigest()[:12] in str(caught.value)
        assert "delete it" in str(caught.value) and "\n" not in str(caught.value)


def test_with_neither_network_nor_files_one_line_says_what_to_do(tmp_path):
    with pytest.raises(DatasetError) as caught:
        load(tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    for file in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        assert f"{file}-ubyte.gz" in text
    assert str(tmp_path / "MNIST" / "raw") in text and "'digits' works offline" in text


def test_only_the_missing_archive_is_named_and_fetched(small, monkeypatch):
    folder, _ = small
    path = folder / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(DatasetError, match=r"mnist: missing t10k-labels-idx1-ubyte\.gz \(download failed"):
        load(folder)
    asked = []

    def fetch(mirrors, target, sha256):
        asked.append((mirrors, target.name))
        target.write_bytes(content)

    monkeypatch.setattr(images, "download", fetch)
    assert len(load(folder).test) == 10
    assert asked == [(ARCHIVES["mnist"].mirrors, path.name)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), [("mnist", [5, 0, 4, 1, 9]), ("fashion_mnist", [9, 0, 0, 3, 0])])
def test_the_real_archives_give_the_real_images_and_those_that_version_0_1_read(name, first, data_dir):
    data = load_dataset(CONFIGS[name], data_dir)
    assert data.train.inputs.shape == (60_000, 784) and data.test.inputs.shape == (10_000, 784)
    # The published constants are mean and standard deviation of these very images.
    images = data.train.inputs
    assert abs(images.mean(axis=1).mean(dtype=float)) < 1e-3
    assert abs(np.einsum("ij,ij->i", images, images).mean(dtype=float) / 784 - 1) < 1e-3
    assert data.train.labels[:5].tolist() == first
    assert data.n_outputs == 10 and len(data.sha256) == 64
    if name == "mnist":
        assert data.sha256 == "4f0b1b7e031471a2e6b7ff1eb267f86acbf9a397723b387b0000df8c8fcc9f59"
        arrays = (array for split in (data.train, data.test) for array in (split.inputs, split.targets))
        assert array_sha256(*arrays) == "25f8809792143246c18f74fe12121ceb0a0ab8d42d3297477e4639c3df347894"
