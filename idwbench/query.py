"""The query of a patch: a text that names an input, and a label by name or number."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idwbench.config import parse_dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, PatchError, did_you_mean
from idwbench.modelfile import SavedModel
from idwbench.reading import read_whole

__all__ = ["IMAGE_SUFFIXES", "find_label", "find_query"]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".tif", ".tiff", ".webp")
_REFERENCE = re.compile(r"(?P<dataset>[^:]+):(?P<split>[^:]+):(?P<index>[^:]*)")
# Of more digits Python refuses to make a number, and no class or input has so high a one.
_INDEX = re.compile(r"[0-9]{1,18}")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
# Beyond so many, names are not all told.
_NAMES_TOLD = 20


def find_label(text: str, class_names: Sequence[str]) -> int:
    """Return the label that `text` names: a class name, or else a number from 0.

    Where the names themselves are whole numbers, only names count, so that 3 is never the class called 4.

    Raises:
        PatchError: neither.
    """
    if text in class_names:
        return class_names.index(text)
    if all(_INTEGER.fullmatch(name) for name in class_names):
        raise PatchError(f"--label: no class is called '{text}' (expected {_told(class_names)})")
    if not re.fullmatch(r"-?[0-9]+", text):
        raise PatchError(f"--label: no class is called '{text}'" + did_you_mean(text, class_names))
    if not _INDEX.fullmatch(text) or int(text) >= len(class_names):
        raise PatchError(f"--label: expected 0 to {len(class_names) - 1}, got {text}")
    return int(text)


def _told(names: Sequence[str]) -> str:
    """Return '0 to 9' for names that are consecutive numbers, else the names, at most 20 of them."""
    numbers = sorted(map(int, names))
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 1 and set(names) == {str(number) for number in numbers} and last - first == len(numbers) - 1:
        return f"{first} to {last}"
    more = ", ..." if len(names) > _NAMES_TOLD else ""
    return f"one of: {', '.join(sorted(names, key=int)[:_NAMES_TOLD])}{more}"


def find_query(text: str, model: SavedModel, data_dir: Path | None = None) -> NDArray[np.float32]:
    """Return the input (features,) that `text` names, scaled as the model's inputs are.

    `text` is numbers with commas, the path of an ``.npy`` or image file (0 to 255 a pixel), or ``DATASET:SPLIT:INDEX``.

    Raises:
        PatchError: it names nothing, or the input does not fit the model.
        DatasetError: the data set it names is not there.
    """
    suffix = Path(text).suffix.lower()
    if suffix == ".npy":
        return _scaled(_read_npy(Path(text)), model)
    if suffix in IMAGE_SUFFIXES:
        return _scaled(_read_image(Path(text), model), model)
    reference = _REFERENCE.fullmatch(text)
    if reference:
        return _from_dataset(reference["dataset"], reference["split"], reference["index"], model, data_dir)
    return _scaled(_parse_numbers(text), model)


def _scaled(raw: NDArray[np.float64], model: SavedModel) -> NDArray[np.float32]:
    flat = raw.reshape(-1)
    if flat.size != model.n_features:
        raise PatchError(f"--x: expected {model.n_features} numbers, got {flat.size}")
    if not np.isfinite(flat).all():
        raise PatchError("--x: expected finite numbers")
    scaled = model.scaling.apply(flat)
    if not np.isfinite(scaled).all():
        raise PatchError("--x: too large for float32")
    return scaled


def _parse_numbers(text: str) -> NDArray[np.float64]:
    numbers = []
    for part in text.split(","):
        try:
            number = float(part)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise PatchError(
                f"--x: '{part.strip()}' is not a finite number (expected numbers with commas, an .npy or image file, "
                "or DATASET:SPLIT:INDEX)"
            )
        numbers.append(number)
    return np.array(numbers)


def _read_npy(path: Path) -> NDArray[np.float64]:
    content = read_whole(path, PatchError, "--x: ")
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # a foreign or damaged file fails in a way of its own choosing
        raise PatchError(f"--x: {path}: not an .npy file of numbers") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iufb":
        raise PatchError(f"--x: {path}: expected an array of real numbers")
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def _read_image(path: Path, model: SavedModel) -> NDArray[np.float64]:
    from PIL import Image

    if model.image_shape is None:
        raise PatchError(f"--x: {path}: this model was not trained on images")
    content = read_whole(path, PatchError, "--x: ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content)) as image:
                pixels = np.asarray(image.convert("L"), dtype=np.float64)
    except Exception:  # as above
        raise PatchError(f"--x: {path}: not an image that can be read") from None
    if pixels.shape != model.image_shape:
        expected, found = ("x".join(map(str, shape[::-1])) for shape in (model.image_shape, pixels.shape))
        raise PatchError(f"--x: {path}: expected an image of {expected} pixels, got {found}")
    return pixels


def _from_dataset(
    name: str, split_name: str, index: str, model: SavedModel, data_dir: Path | None
) -> NDArray[np.float32]:
    if name in (model.config.dataset.name, model.config.dataset_label):
        config = model.config.dataset
    else:
        try:
            config = parse_dataset(name)
        except ConfigError as error:
            raise PatchError(f"--x: {error}") from None
    dataset = load_dataset(config, data_dir)
    splits = {"train": dataset.train, "test": dataset.test}
    if dataset.holdout is not None:
        splits["holdout"] = dataset.holdout
    if split_name not in splits:
        raise PatchError(f"--x: no split is called '{split_name}'" + did_you_mean(split_name, splits))
    split = splits[split_name]
    if not _INDEX.fullmatch(index) or int(index) >= len(split):
        raise PatchError(f"--x: {name}:{split_name} has inputs 0 to {len(split) - 1}, got '{index}'")
    scaled = split.inputs[int(index)]
    if config == model.config.dataset:
        return np.array(scaled)
    return _scaled(dataset.scaling.invert(scaled), model)
