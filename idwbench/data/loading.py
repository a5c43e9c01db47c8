"""The one door to data: a configuration in, a `Dataset` out."""

from __future__ import annotations

from pathlib import Path

from idwbench.config import (
    CsvConfig,
    DatasetConfig,
    DigitsConfig,
    NpzConfig,
    TwoMoonsConfig,
)
from idwbench.data.dataset import Dataset
from idwbench.data.digits import load_digits
from idwbench.data.files import data_folder, resolve_files
from idwbench.data.mnist import load_mnist
from idwbench.data.npz import load_npz
from idwbench.data.table import load_csv
from idwbench.data.two_moons import load_two_moons

__all__ = ["data_folder", "load_dataset", "resolve_files"]


def load_dataset(config: DatasetConfig, data_dir: Path | None = None) -> Dataset:
    """Return the data set that `config` describes; every call reads or draws it anew.

    Args:
        config: What to load; a relative path begins at the working directory.
        data_dir: Where archives lie; see `data_folder` for the default.

    Raises:
        DatasetError: data is missing, altered, or not of the expected form; one line.
    """
    resolved = resolve_files(config, Path.cwd())
    match resolved:
        case TwoMoonsConfig():
            return load_two_moons(resolved)
        case DigitsConfig():
            return load_digits(resolved)
        case NpzConfig():
            return load_npz(resolved)
        case CsvConfig():
            return load_csv(resolved)
        case _:
            return load_mnist(resolved, data_folder(data_dir))
