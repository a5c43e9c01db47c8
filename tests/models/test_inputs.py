from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from PIL import Image

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.errors import PatchError
from idwbench.models.inputs import find_input, find_label
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.saved_model import SavedModel
from idwbench.runs.config import run_config
from idwbench.runs.datasets import DatasetConfig


def model_of(dataset: object, scaling: Scaling, class_names: tuple[str, ...]) -> SavedModel:
    """A model of images of 3 x 2 pixels."""
    config = run_config(dataset, prototypes=4)
    network = PrototypeNetwork(METHODS["idw"], config.model.parameters, torch.zeros(4, 6), torch.zeros(4, 2))
    return SavedModel(network, config, scaling, (2, 3), class_names)


def images(config: DatasetConfig, pixels: np.ndarray, scaling: Scaling) -> Dataset:
    """Images of 3 x 2 pixels, scaled."""
    split = Split(scaling.apply(pixels), np.arange(len(pixels)))
    names = ("0", "1")[: len(pixels)]
    changes = {"config": config, "train": split, "test": split, "holdout": None, "scaling": scaling}
    return replace(make_dataset(), **changes, image_shape=(2, 3), class_names=names)


@pytest.fixture
def model() -> SavedModel:
    """Scaled by mean 10 and standard deviation 2."""
    return model_of("two_moons", Scaling(np.array(10.0), np.array(2.0)), ("a", "b"))


def test_a_label_is_a_name_or_else_a_number():
    assert [find_label(text, ("a", "b")) for text in ("b", "1", "01")] == [1, 1, 1]
    assert [find_label("3", ("3", "4")), find_label("1", ("x", "1")), find_label("-1", ("1", "-1"))] == [0, 1, 1]


@pytest.mark.parametrize(
    ("text", "names", "message"),
    [
        ("0", ("3", "4", "5"), r"no class is called '0' \(expected 3 to 5\)"),
        ("05", ("3", "4", "5"), r"\(expected 3 to 5\)"),
        ("2", ("10", "1", "3"), r"\(expected one of: 1, 3, 10\)"),
        ("x", tuple(str(2 * i) for i in range(50)), r"one of: 0, 2, .*, 38, \.\.\.\)"),
        ("2", ("a", "b"), "expected 0 to 1, got 2"),
        ("9" * 5000, ("a", "b"), "expected 0 to 1, got 999"),
        ("٠", ("a", "b"), "no class is called '٠'"),
        ("lowr", ("upper", "lower"), "did you mean 'lower'"),
    ],
)
def test_what_names_no_class_is_refused_with_what_would(text, names, message):
    with pytest.raises(PatchError, match=message):
        find_label(text, names)


def test_numbers_arrays_and_images_are_scaled_alike(model, tmp_path):
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    np.save(tmp_path / "x.npy", pixels)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    expected = (np.arange(6) - 10) / 2
    for text in ("0,1,2,3,4,5", str(tmp_path / "x.npy"), str(tmp_path / "x.png")):
        found = find_input(text, model.config, model)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected)


UNREADABLE = [
    *(
        (lambda path, content=content: path.write_bytes(content), "not an")
        for content in (b"", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'", b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    ),
    (lambda path: path.mkdir(), "is a folder"),
    (lambda path: path.symlink_to(path), "cannot be read .Too many levels of symbolic links"),
]


@pytest.mark.parametrize("name", ["x.npy", "x.png"])
@pytest.mark.parametrize(("write", "message"), UNREADABLE)
def test_files_that_cannot_be_read_and_numbers_too_large_are_refused(model, tmp_path, name, write, message):
    write(tmp_path / name)
    with pytest.raises(PatchError, match=f"x: .*{name}: {message}"):
        find_input(str(tmp_path / name), model.config, model)
    for text in ("1e300,0,0,0,0,0", "1e39,0,0,0,0,0"):
        with pytest.raises(PatchError, match="x: too large for float32"):
            find_input(text, model.config, model)


def test_an_image_that_claims_too_many_pixels_is_refused_by_its_header(model, tmp_path):
    header = b"IHDR" + struct.pack(">IIBBBBB", 16_000, 10_000, 8, 0, 0, 0, 0)
    checked = header + struct.pack(">I", zlib.crc32(header))
    # Without the compressed pixels, which are not read.
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\r" + checked + b"\0\0\0\0IDAT")
    with pytest.raises(PatchError, match=r"x.png: expected an image of 3x2 pixels, got 16000x10000"):
        find_input(str(tmp_path / "x.png"), model.config, model)


@pytest.mark.parametrize("index", ["40", "-1", "٣", "9" * 5000, ""])
def test_an_index_is_a_plain_number_within_the_split(model, index):
    with pytest.raises(PatchError, match="two_moons:test has inputs 0 to 39"):
        find_input(f"two_moons:test:{index}", model.config, model)


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
    found = find_input(
        "fashion_mnist:test:0", mnist.config, mnist, load=lambda config, folder: images(config, pixels, standard)
    )
    np.testing.assert_allclose(found, pixels[0] / 255, atol=1e-6)
