"""Two data sets of images as one: rows, labels, parts, scaling, validation rows and checksum."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from idwbench.data import images
from idwbench.data.dataset import Dataset, Scaling
from idwbench.data.images import UNIT_SCALING
from idwbench.data.loading import LOADERS, load_dataset
from idwbench.data.preparation import RawData, RawSplit
from idwbench.errors import DatasetError
from idwbench.runs.datasets import ImageConfig, PartsConfig, parse_dataset

OF = ["mnist", "fashion_mnist"]


def raw(seed: int, n_train: int, n_test: int) -> RawData:
    """Return made-up images of 2 x 3 pixels, of four classes."""
    random = np.random.default_rng(seed)

    def split(n: int) -> RawSplit:
        return RawSplit(random.integers(0, 256, (n, 6)).astype(np.uint8), (np.arange(n) % 4).astype(np.uint8))

    names = tuple("abcd") if seed else tuple("0123")
    sha256 = f"{seed}" * 64
    return RawData(split(n_train), split(n_test), None, names, (2, 3), UNIT_SCALING, sha256)


@pytest.fixture
def parts(monkeypatch) -> dict[str, RawData]:
    made = {"mnist": raw(0, 20, 8), "fashion_mnist": raw(1, 28, 12)}

    def load_images(config, folder):
        return made[config.name]

    monkeypatch.setattr(images, "load_images", load_images)
    for name in made:
        monkeypatch.setitem(LOADERS, name, load_images)
    return made


def load(**settings) -> Dataset:
    return load_dataset(parse_dataset({"name": "joint", "of": OF, **settings}))


@pytest.mark.parametrize("of", [OF, OF[::-1]])
def test_rows_of_the_parts_follow_each_other_with_their_labels_and_pixels_from_0_to_1(parts, of):
    found = load(of=of)
    for name, split in (("train", found.train), ("test", found.test)):
        expected = [getattr(parts[part], name) for part in of]
        inputs = np.concatenate([part.inputs for part in expected])
        np.testing.assert_array_equal(split.inputs, (inputs / 255).astype(np.float32))
        np.testing.assert_array_equal(split.labels, np.concatenate([part.targets for part in expected]))
        np.testing.assert_array_equal(split.tasks, np.repeat([0, 1], [len(part.inputs) for part in expected]))
    assert found.class_names == ("0", "1", "2", "3") and found.image_shape == (2, 3) and found.validation is None
    assert float(found.train.inputs.min()) == 0 and float(found.train.inputs.max()) == 1
    assert found.task == "classification" and found.n_outputs == 4


def test_a_sequence_has_the_same_rows(parts):
    joint, sequence = load(validation=8), load(name="sequence", validation=8)
    for name, split in joint.splits.items():
        for field in ("inputs", "targets", "tasks"):
            np.testing.assert_array_equal(getattr(split, field), getattr(sequence.splits[name], field))
    assert joint.sha256 == sequence.sha256 and joint.config != sequence.config


def test_standard_scaling_is_by_mean_and_standard_deviation_of_the_pixels_of_both_parts(parts):
    for name, part in parts.items():  # each part has the constants of its own pixels
        train = part.train.rows(np.arange(20))
        pixels = train.inputs.astype(np.float64)
        parts[name] = replace(part, train=train, scaling=Scaling(pixels.mean(), pixels.std()))
    data = load(scaling="standard")
    assert float(data.train.inputs.mean()) == pytest.approx(0, abs=1e-6)
    assert float(data.train.inputs.std()) == pytest.approx(1)
    expected = np.concatenate([part.train.inputs for part in parts.values()])
    np.testing.assert_allclose(data.scaling.invert(data.train.inputs), expected, atol=1e-4)


@pytest.mark.parametrize(("validation", "apart"), [(8, (8, 8)), (0.25, (4, 8))])
def test_validation_rows_are_those_of_each_part_alone(parts, validation, apart):
    found = load(validation=validation, seed=3)
    assert found.validation is not None and np.bincount(found.validation.tasks).tolist() == list(apart)
    for number, name in enumerate(("mnist", "fashion_mnist")):
        alone = load_dataset(ImageConfig(name=name, scaling="unit", validation=validation, seed=3))
        for name, split in alone.splits.items():
            of_part = found.splits[name].tasks == number
            np.testing.assert_array_equal(found.splits[name].inputs[of_part], split.inputs)
            np.testing.assert_array_equal(found.splits[name].labels[of_part], split.labels)


def test_parts_that_do_not_fit_or_lack_rows_for_validation_are_refused(parts):
    expected = hashlib.sha256(f"{'0' * 64}\n{'1' * 64}".encode()).hexdigest()
    assert load().sha256 == expected != load(of=OF[::-1]).sha256
    with pytest.raises(DatasetError, match="validation: expected at most 16 rows"):
        load(validation=17)
    fitting, message = (
        parts["fashion_mnist"],
        "of: mnist and fashion_mnist have images of other shapes or other numbers",
    )
    for change in ({"image_shape": (3, 2)}, {"class_names": tuple("abc")}):
        parts["fashion_mnist"] = replace(fitting, **change)
        with pytest.raises(DatasetError, match=message):
            load()


def test_settings_are_frozen_and_those_of_the_parts():
    config = parse_dataset({"name": "joint", "of": OF, "validation": 5})
    assert isinstance(config, PartsConfig) and len({config, parse_dataset(config.model_dump(mode="json"))}) == 1
    assert config.parts == tuple(ImageConfig(name=name, scaling="unit", validation=5) for name in OF)
