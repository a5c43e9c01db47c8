"""The data sets of a sweep: one, or several, of which any setting may be an axis."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idwbench.data.folder import resolve_files
from idwbench.errors import ConfigError, DatasetError, UnknownSettingError
from idwbench.runs.datasets import DATASETS, DatasetConfig, PartsConfig, parse_dataset
from idwbench.sweep.grid import MAX_RUNS, Block, cells, check_distinct, within

__all__ = ["read_datasets"]


def read_datasets(content: Any, folder: Path) -> tuple[DatasetConfig, ...]:
    """Return the data sets of a name or a mapping, or of a list of them, each once.

    In a mapping any setting but the name may be a list, an axis. A mapping stands for the product of its axes, in the
    order of `idwbench.sweep.grid.cells`. Relative paths of files start at `folder`.

    Raises:
        ConfigError: an empty list, unknown data set or key, a value that is not valid or occurs twice in an axis, or a
            file that cannot be read; `location` is the index of the data set, the key and the index of the value.
    """
    if not isinstance(content, list):
        return _product(content, folder)
    if not content:
        raise ConfigError("the list is empty, expected at least one data set")
    found: list[DatasetConfig] = []
    for index, entry in enumerate(content):
        with within(index):
            found += _product(entry, folder)
    return tuple(dict.fromkeys(found))


def _product(entry: Any, folder: Path) -> tuple[DatasetConfig, ...]:
    axes = _axes(entry)
    if not axes:
        return (_read(entry, folder),)
    if math.prod(map(len, axes.values())) > MAX_RUNS:
        raise ConfigError(f"expected at most {MAX_RUNS:,} data sets")
    found = [_read_cell(entry, axes, cell, folder) for cell in cells(axes)]
    for name, values in axes.items():
        with within(name):
            check_distinct(values, "{!r} is already in the axis")
    return tuple(found)


def _axes(entry: Any) -> Block:
    """Return the settings of a mapping that are lists, and not of a kind that is a list itself."""
    if not isinstance(entry, dict):
        return {}
    no_axes = ("name", "of") if DATASETS.get(str(entry.get("name"))) is PartsConfig else ("name",)
    axes = {name: tuple(values) for name, values in entry.items() if isinstance(values, list) and name not in no_axes}
    for name, values in axes.items():
        if not values:
            raise ConfigError("the axis is empty, expected at least one value", location=(name,))
    return axes


def _read_cell(entry: Mapping[str, Any], axes: Block, cell: Mapping[str, Any], folder: Path) -> DatasetConfig:
    try:
        return _read({**entry, **cell}, folder)
    except ConfigError as error:
        name = error.location[0] if error.location else None
        if name not in cell or isinstance(error, UnknownSettingError):
            raise
        index = next(i for i, value in enumerate(axes[str(name)]) if value is cell[str(name)])
        raise ConfigError(error.problem, location=(str(name), index), hint=error.hint) from None


def _read(content: Any, folder: Path) -> DatasetConfig:
    try:
        return resolve_files(parse_dataset(content), folder)
    except DatasetError as error:
        raise ConfigError(str(error), location=("path",)) from None
