"""Inputs, labels and targets as a user gives them: numbers, files, or rows of a data set; and a model's own data.

Files of inputs to patch are CSV with a column ``x``, and ``label`` or ``target``.
"""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idwbench.data.columns import named_values
from idwbench.data.dataset import Dataset, Split
from idwbench.data.files import column_separator
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, DatasetError, IdwbenchError, PatchError, did_you_mean
from idwbench.files import read_file
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import PartsConfig, parse_dataset

if TYPE_CHECKING:
    from idwbench.models.saved_model import SavedModel

__all__ = [
    "IMAGE_SUFFIXES",
    "LoadDataset",
    "PatchLine",
    "Reference",
    "data_difference",
    "find_input",
    "find_label",
    "find_reference",
    "find_target",
    "missing_columns",
    "own_data",
    "read_patch_file",
    "scaled_input",
]

LoadDataset = Callable[[DatasetConfig, Path | None], Dataset]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".tif", ".tiff", ".webp")
_REFERENCE = re.compile(r"(?P<dataset>[^:]+):(?P<split>[^:]+):(?P<index>[^:]*)")
# Python refuses to convert very long integers.
_INDEX = re.compile(r"[0-9]{1,18}")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_LISTED_NAMES = 20


@dataclass(frozen=True)
class Reference:
    """A row of a split of a data set."""

    dataset: Dataset
    split: Split
    index: int


def scaled_input(x: Any, data: Dataset | SavedModel) -> NDArray[np.float32]:
    """Return one input (in the data's own units, of any shape) scaled and flattened, (features,).

    Args:
        x: Numbers; of data with named columns also what `Columns.row` takes: a mapping, or a row of a data frame.
        data: What it must fit: a model, or the data that it was trained on.

    Raises:
        PatchError: wrong size, or a value that is not finite or too large for float32; or a wrong value of a column.
    """
    if data.columns is not None:
        try:
            x = data.columns.row(x)
        except DatasetError as error:
            column = f"column '{error.location[0]}': " if error.location else ""
            raise PatchError(f"{column}{error.problem}", location=("x",), hint=error.hint) from None
    flat = np.asarray(x, dtype=np.float64).reshape(-1)
    if flat.size != data.n_features:
        raise PatchError(f"expected {data.n_features} numbers, got {flat.size}", location=("x",))
    if not np.isfinite(flat).all():
        raise PatchError("expected finite numbers", location=("x",))
    scaled = data.scaling.apply(flat)
    if not np.isfinite(scaled).all():
        raise PatchError("too large for float32", location=("x",))
    return scaled


def find_label(text: str, class_names: Sequence[str]) -> int:
    """Return the label for a class name or, if the names are not integers, for a number from 0.

    Raises:
        PatchError: no such class; `location` is ``("label",)``.
    """
    if text in class_names:
        return class_names.index(text)
    problem, hint = f"no class is called '{text}'", ""
    if all(_INTEGER.fullmatch(name) for name in class_names):
        hint = f"expected {_summary(class_names)}"
    elif not re.fullmatch(r"-?[0-9]+", text):
        hint = did_you_mean(text, class_names)
    elif not _INDEX.fullmatch(text) or int(text) >= len(class_names):
        problem = f"expected 0 to {len(class_names) - 1}, got {text}"
    else:
        return int(text)
    raise PatchError(problem, location=("label",), hint=hint)


def _summary(names: Sequence[str]) -> str:
    """Return '0 to 9' for names that are consecutive integers, else at most 20 of the names."""
    numbers = sorted(map(int, names))
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 1 and set(names) == {str(number) for number in numbers} and last - first == len(numbers) - 1:
        return f"{first} to {last}"
    more = ", ..." if len(names) > _LISTED_NAMES else ""
    return f"one of: {', '.join(sorted(names, key=int)[:_LISTED_NAMES])}{more}"


def find_target(target: Any, model: SavedModel) -> list[float]:
    """Return the wanted outputs of a regression, numbers or their text with commas, as scaled targets.

    Raises:
        PatchError: not as many finite numbers as the model has outputs; `location` is ``("target",)``.
    """
    try:
        numbers = np.array(target.split(",") if isinstance(target, str) else target, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise PatchError(f"expected numbers, got {target!r}", location=("target",)) from None
    if len(numbers) != model.n_outputs:
        problem = f"expected {model.n_outputs} number{'s' if model.n_outputs > 1 else ''}, got {len(numbers)}"
        raise PatchError(problem, location=("target",))
    if not np.isfinite(numbers).all():
        got = ",".join(f"{one:g}" for one in numbers)
        raise PatchError(f"expected finite numbers, got {got}", location=("target",))
    scaled: list[float] = ((numbers - model.target_scaling.mean) / model.target_scaling.std).tolist()
    return scaled


def find_input(
    text: str,
    config: RunConfig,
    data: Dataset | SavedModel,
    data_dir: Path | None = None,
    load: LoadDataset = load_dataset,
) -> NDArray[np.float32]:
    """Return the scaled input (features,) for a text.

    `text` is numbers separated by commas, an ``.npy`` or image file (pixels 0 to 255), or ``DATASET:SPLIT:INDEX``; of
    data with named columns also their values, ``width=1.5,kind=oak``, in which columns may be left out as missing.
    `config` is the run of the model; for `data` see `scaled_input`. `load` loads data sets; for many inputs one that
    remembers them saves time.

    Raises:
        PatchError: the text is not valid, or the input does not fit the model; `location` is ``("x",)``.
        DatasetError: the data set cannot be loaded.
    """
    suffix = Path(text).suffix.lower()
    try:
        if suffix == ".npy":
            return scaled_input(_read_npy(Path(text)), data)
        if suffix in IMAGE_SUFFIXES:
            return scaled_input(_read_image(Path(text), data), data)
        reference = find_reference(text, config, data_dir, load)
        if reference is None:
            return scaled_input(_parse_values(text, data), data)
        scaled = reference.split.inputs[reference.index]
        if reference.dataset.config == config.dataset:
            return np.array(scaled)
        raw = reference.dataset.scaling.invert(scaled)
        is_part = reference.dataset.config in _parts(config.dataset)
        return scaled_input(np.rint(raw) if is_part else raw, data)  # the same bytes: pixels of parts are whole numbers
    except PatchError as error:
        raise error if error.location else error.at("x") from None


def find_reference(
    text: str, config: RunConfig, data_dir: Path | None = None, load: LoadDataset = load_dataset
) -> Reference | None:
    """Return the row that ``DATASET:SPLIT:INDEX`` names, or None if `text` is a file or has another form.

    The name of the run's own data set, or of one of its parts, means that with its settings, and the name of another
    one that with default settings.

    Raises:
        PatchError: no such data set, split or row.
        DatasetError: the data set cannot be loaded.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or Path(text).suffix.lower() in (".npy", *IMAGE_SUFFIXES):
        return None
    name, split_name, index = match["dataset"], match["split"], match["index"]
    dataset = load(_dataset_named(name, config), data_dir)
    if split_name not in dataset.splits:
        raise PatchError(f"no split is called '{split_name}'", hint=did_you_mean(split_name, dataset.splits))
    split = dataset.splits[split_name]
    if not _INDEX.fullmatch(index) or int(index) >= len(split):
        raise PatchError(f"{name}:{split_name} has inputs 0 to {len(split) - 1}, got '{index}'")
    return Reference(dataset, split, int(index))


def _dataset_named(name: str, config: RunConfig) -> DatasetConfig:
    if name in (config.dataset.name, config.dataset_label):
        return config.dataset
    for part in _parts(config.dataset):
        if part.name == name:
            return part
    try:
        return parse_dataset(name)
    except ConfigError as error:
        raise PatchError(error.problem, hint=error.hint) from None


def _parts(dataset: DatasetConfig) -> tuple[DatasetConfig, ...]:
    """Return the data sets that a data set consists of, with its validation rows; none for others."""
    return dataset.parts if isinstance(dataset, PartsConfig) else ()


def _parse_values(text: str, data: Dataset | SavedModel) -> Any:
    """Return numbers, or the values of columns by name or in their order."""
    if data.columns is None:
        return _parse_numbers(text)
    if "=" not in text:
        return text.split(",") if data.columns.is_category.any() else _parse_numbers(text)
    try:
        return named_values(text, data.columns)
    except DatasetError as error:
        raise PatchError(error.problem, hint=error.hint) from None


def missing_columns(x: Any, data: Dataset | SavedModel) -> tuple[str, ...]:
    """Return the columns of a table that a valid input `x`, a text or the values of columns, has no value of."""
    if data.columns is None or (isinstance(x, str) and Path(x).suffix.lower() == ".npy"):
        return ()
    return data.columns.missing(_parse_values(x, data) if isinstance(x, str) else x)


def _parse_numbers(text: str) -> NDArray[np.float64]:
    numbers = []
    for part in text.split(","):
        try:
            numbers.append(float(part))
        except ValueError:
            numbers.append(math.nan)
        if not math.isfinite(numbers[-1]):
            hint = "expected numbers with commas, an .npy or image file, or DATASET:SPLIT:INDEX"
            raise PatchError(f"'{part.strip()}' is not a finite number", hint=hint)
    return np.array(numbers)


def _read_npy(path: Path) -> NDArray[np.float64]:
    content = read_file(path, PatchError)
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # the reader can raise any exception
        raise PatchError("not an .npy file of numbers", file=path) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iufb":
        raise PatchError("expected an array of real numbers", file=path)
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def _read_image(path: Path, data: Dataset | SavedModel) -> NDArray[np.float64]:
    from PIL import Image

    if data.image_shape is None:
        raise PatchError("this model was not trained on images", file=path)
    content = read_file(path, PatchError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content)) as image:
                shape = (image.height, image.width)
                if shape == data.image_shape:  # a file of few bytes may claim any number of pixels
                    return np.asarray(image.convert("L"), dtype=np.float64)
    except Exception:  # as above
        raise PatchError("not an image that can be read", file=path) from None
    expected, given = ("x".join(map(str, sizes[::-1])) for sizes in (data.image_shape, shape))
    raise PatchError(f"expected an image of {expected} pixels, got {given}", file=path)


def own_data(
    model: SavedModel, data_dir: Path | None = None, load: LoadDataset = load_dataset
) -> tuple[Dataset | None, str]:
    """Return the data that the model was trained on, by the SHA-256 in its provenance, or why there is none."""
    try:
        dataset = load(model.config.dataset, data_dir)
    except DatasetError as error:
        return None, str(error)
    problem = data_difference(model, dataset)
    return (None, problem) if problem else (dataset, "")


def data_difference(model: SavedModel, dataset: Dataset) -> str:
    """Return how the data differs from what the model was trained on, or an empty text."""
    name = model.config.dataset_label
    expected, actual = model.provenance.get("data_sha256"), dataset.sha256
    if not isinstance(expected, str):
        return f"the model file has no checksum of its data, {name}"
    if expected != actual:
        return (
            f"the data {name} is not what the model was trained on "
            f"(its SHA-256 starts with {actual[:12]}, that of the training data with {expected[:12]})"
        )
    if (dataset.n_features, dataset.n_outputs) != (model.n_features, model.n_outputs):
        return f"the data {name} does not fit the model"
    return ""


@dataclass(frozen=True)
class PatchLine:
    """An input and what is wanted of it, as a user gives them.

    Attributes:
        x: A text, see `idwbench.models.inputs.find_input`, or numbers in the data's own units.
        label: The name or number of the wanted class.
        target: The wanted outputs of a regression in the targets' own units, or their text with commas.
        file: The file that it is in, or None.
        row: Its line in the file, from 1, or its row among several inputs, from 0; None of a single input.
    """

    x: str | ArrayLike
    label: str | int | None = None
    target: str | ArrayLike | None = None
    file: Path | None = None
    row: int | None = None

    @property
    def name(self) -> str:
        """What messages call its input."""
        return "this input" if self.row is None else f"{'input' if self.file is None else 'line'} {self.row}"

    def located(self, error: IdwbenchError) -> IdwbenchError:
        """Return the error with the place of the line."""
        if self.row is None:
            return error
        return (
            error.at(self.row) if self.file is None else type(error)(str(error), file=self.file, position=(self.row,))
        )


def read_patch_file(path: Path, columns: tuple[str, ...] = ("x", "label")) -> list[PatchLine]:
    """Return the rows of a CSV file with a header and the given columns in any order.

    Numbers in ``x`` must be quoted, since they are separated by commas: ``"0.0,1.0",upper``; not so in a file whose
    columns are separated by semicolons or tabs. Empty lines are ignored.

    Raises:
        PatchError: no such file, not CSV, or a wrong header or row; the message has the line.
    """
    expected = f"the column{'s' if len(columns) > 1 else ''} {' and '.join(columns)}"
    header: list[str] = []
    rows = []
    for line, cells in _rows(path):
        if not header:
            header = cells
            if sorted(header) != sorted(columns):
                raise PatchError(f"expected {expected}, got {', '.join(header)}", file=path, position=(line,))
            continue
        if len(cells) != len(header):
            hint = 'numbers need quotes: "0.0,1.0",label' if len(cells) > len(header) else ""
            problem = f"expected {len(header)} column{'s' if len(header) > 1 else ''}, got {len(cells)}"
            raise PatchError(problem, file=path, position=(line,), hint=hint)
        if missing := [name for name, cell in zip(header, cells, strict=True) if not cell]:
            raise PatchError(f"{missing[0]} is missing", file=path, position=(line,))
        rows.append(PatchLine(**dict(zip(header, cells, strict=True)), file=path, row=line))
    if not rows:
        raise PatchError("has a header but no rows" if header else f"is empty, expected {expected}", file=path)
    return rows


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the line and the cells of each row that is not empty."""
    rows, line = [], 1
    try:
        text = read_file(path, PatchError).decode("utf-8-sig")
        stream = io.StringIO(text, newline="")
        reader = csv.reader(stream, delimiter=column_separator(text), strict=True, skipinitialspace=True)
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((line, cells))
            line = reader.line_num + 1
    except UnicodeDecodeError:
        raise PatchError("not a text file in UTF-8", file=path) from None
    except csv.Error as error:
        raise PatchError(f"not comma-separated values ({error})", file=path, position=(line,)) from None
    return rows
