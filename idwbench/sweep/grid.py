"""The axes of a sweep: its grid, blocks of axes whose cells are a run for each seed, and its data sets."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from idwbench.data.folder import resolve_files
from idwbench.errors import ConfigError, DatasetError, UnknownSettingError
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import parse_dataset
from idwbench.runs.kinds.models import ModelConfig, check_settings_known, parse_model
from idwbench.runs.protocol import Protocol, parse_protocol

__all__ = [
    "MAX_RUNS",
    "Block",
    "Cell",
    "DataProtocol",
    "Setting",
    "block_settings",
    "cells",
    "check_distinct",
    "read_blocks",
    "read_datasets",
    "read_grid",
    "within",
]

MAX_RUNS = 1_000_000
# The name of a data set, and its settings that are lists themselves.
_NO_AXES = ("name", "of", "drop")

Block = Mapping[str, tuple[Any, ...]]
Cell = dict[str, Any]
# A data set of a sweep and the protocol of its runs.
DataProtocol = tuple[DatasetConfig, Protocol]
# What a cell stands for: a model, and its protocol on each data set.
Setting = tuple[ModelConfig, tuple[Protocol, ...]]


@contextmanager
def within(*location: str | int) -> Iterator[None]:
    """Prepend `location` to that of a `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        raise error.at(*location) from None


def cells(block: Block) -> Iterator[Cell]:
    """Yield the cells in the order of scikit-learn's ``ParameterGrid``: sorted axes, the last varies fastest."""
    names = sorted(block)
    for values in product(*(block[name] for name in names)):
        yield dict(zip(names, values, strict=True))


def check_distinct(values: Iterable[Any], problem: str) -> None:
    """Raise a `ConfigError` at the first repeated value; `problem` is formatted with the value."""
    first: dict[Any, int] = {}
    for index, value in enumerate(values):
        if first.setdefault(value, index) < index:
            raise ConfigError(f"{problem.format(value)}, at [{first[value]}]", location=(index,))


def read_grid(content: Any, datasets: Sequence[DataProtocol], n_seeds: int) -> tuple[Setting, ...]:
    """Return the settings of a list of mappings, or of one mapping; a single value is an axis of length one.

    An axis is a setting of the model or of the protocol. Every combination is checked with every data set.

    Raises:
        ConfigError: an unknown setting, an empty axis, a value that is not valid or occurs twice, a model that does not
            support a data set, or more than `MAX_RUNS` runs; `location` is the index of the block, the axis and the
            index of the value.
    """
    grid = read_blocks(content)
    n_runs = n_seeds * len(datasets) * sum(math.prod(map(len, block.values())) for block in grid)
    if n_runs > MAX_RUNS:
        raise ConfigError(f"expected at most {MAX_RUNS:,} runs, got {n_runs:,}")
    settings: list[Setting] = []
    for index, block in enumerate(grid):
        with within(index):
            settings += block_settings(block, datasets)
    return tuple(settings)


def read_blocks(content: Any, *, ranges: bool = False) -> list[Block]:
    """Return the axes of a list of mappings, or of one mapping, with a single value as an axis of length one.

    Raises:
        ConfigError: an unknown setting, an empty axis, or unless `ranges` a range, which is a mapping.
    """
    blocks = content if isinstance(content, list) and content else [content]
    for index, block in enumerate(blocks):
        with within(index):
            _check_axes(block, ranges)
    return [
        {name: tuple(values) if isinstance(values, list) else (values,) for name, values in block.items()}
        for block in blocks
    ]


def _check_axes(content: Any, ranges: bool) -> None:
    if not isinstance(content, dict) or not content:
        raise ConfigError("expected a mapping of axes, such as {method: [idw], prototypes: [16]}")
    check_settings_known(content, Protocol.model_fields, "unknown key")
    for name, values in content.items():
        if values is None or values == []:
            raise ConfigError("the axis is empty, expected at least one value", location=(name,))
        if isinstance(values, dict) and not ranges:
            hint = "list the values, or add a sampler"
            raise ConfigError("a range needs a sampler", location=(name,), hint=hint)


def block_settings(block: Block, datasets: Sequence[DataProtocol]) -> list[Setting]:
    """Return the settings of a block in the order of `cells`.

    Raises:
        ConfigError: a combination is not valid for a data set; `location` is the axis and the index of the value.
    """
    supported, defaults = zip(*datasets, strict=True)
    settings: list[Setting] = []
    for cell in cells(block):
        protocol = {name: cell.pop(name) for name in block if name in Protocol.model_fields}
        with _at_axis(block, cell, lambda settings: parse_model(settings, *supported)):
            model = parse_model(cell, *supported)
        with _at_axis(block, protocol, lambda settings: parse_protocol(settings, defaults[0])):
            settings.append((model, tuple(parse_protocol(protocol, one) if protocol else one for one in defaults)))
    _check_axes_distinct(block)
    return settings


def _check_axes_distinct(block: Block) -> None:
    for name, values in block.items():
        with within(name):
            check_distinct(values, "{!r} is already in the axis")


@contextmanager
def _at_axis(block: Block, cell: Cell, parse: Callable[[Cell], object] | None = None) -> Iterator[None]:
    """Locate an error of a cell at the axis and the index of its value.

    The axis is that of the setting at fault or, if the cell does not have that setting, the one that contradicts it,
    found by parsing the axes alone.
    """
    try:
        yield
    except ConfigError as error:
        name = str(error.location[0]) if error.location else ""
        if name and name not in cell and parse is not None:
            name = next((axis for axis, value in cell.items() if _is_refused({axis: value}, parse)), max(cell))
        if name not in cell or (parse is None and isinstance(error, UnknownSettingError)):
            raise
        index = next(i for i, value in enumerate(block[name]) if value is cell[name])
        raise ConfigError(error.problem, location=(name, index), hint=error.hint) from None


def _is_refused(settings: Cell, parse: Callable[[Cell], object]) -> bool:
    try:
        parse(settings)
    except ConfigError:
        return True
    return False


def read_datasets(content: Any, folder: Path) -> tuple[DatasetConfig, ...]:
    """Return the data sets of a name or a mapping, or of a list of them, each once.

    In a mapping any setting but the name may be a list, an axis. A mapping stands for the product of its axes, in the
    order of `cells`. Relative paths of files start at `folder`.

    Raises:
        ConfigError: an empty list, unknown data set or key, a value that is not valid or occurs twice in an axis, or a
            file that cannot be read; `location` is the index of the data set, the key and the index of the value.
    """
    if content == []:
        raise ConfigError("the list is empty, expected at least one data set")
    datasets: list[DatasetConfig] = []
    for index, entry in enumerate(content if isinstance(content, list) else [content]):
        with within(index):
            datasets += _datasets(entry, folder)
    return tuple(dict.fromkeys(datasets))


def _datasets(entry: Any, folder: Path) -> list[DatasetConfig]:
    """Return the data sets of a name or of a mapping, in which a list is an axis, unless its setting is a list."""
    settings = entry if isinstance(entry, dict) else {}
    lists = {name: tuple(values) for name, values in settings.items() if isinstance(values, list)}
    axes = {name: values for name, values in lists.items() if name not in _NO_AXES}
    if empty := [name for name, values in axes.items() if not values]:
        raise ConfigError("the axis is empty, expected at least one value", location=(empty[0],))
    if math.prod(map(len, axes.values())) > MAX_RUNS:
        raise ConfigError(f"expected at most {MAX_RUNS:,} data sets")
    datasets = []
    for cell in cells(axes):
        with _at_axis(axes, cell):
            try:
                datasets.append(resolve_files(parse_dataset({**entry, **cell} if cell else entry), folder))
            except DatasetError as error:
                raise ConfigError(str(error), location=("path",)) from None
    _check_axes_distinct(axes)
    return datasets
