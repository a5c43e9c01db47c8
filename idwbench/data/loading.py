"""Loading of data sets: ``idwbench.data.name.load_name(config, data_folder)`` loads the data set ``name``."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from idwbench.data.dataset import Dataset
from idwbench.data.folders import data_folder, resolve_files
from idwbench.data.preparation import RawData, prepare
from idwbench.errors import DatasetError
from idwbench.machine import check_memory
from idwbench.runs.datasets import DatasetConfig, FileConfig, dataset_label

__all__ = ["check_size", "load_dataset"]

# A number is drawn in float64, and kept while it is scaled and stored in float32.
_BYTES_OF_A_NUMBER = 16


def check_size(config: DatasetConfig) -> None:
    """Check that a data set that is drawn fits into memory; raises `DatasetError` at the setting that needs most."""
    numbers = config.drawn_numbers
    if numbers:
        needed = _BYTES_OF_A_NUMBER * sum(numbers.values())
        setting = max(numbers, key=lambda name: numbers[name])
        check_memory(needed, f"the data set {config.name}", DatasetError, (setting,))


def load_dataset(config: DatasetConfig, data_dir: Path | None = None) -> Dataset:
    """Return a data set; it is read or drawn at each call.

    Args:
        config: Its settings; a relative path starts at the working directory.
        data_dir: Folder of the archives; see `data_folder` for the default.

    Raises:
        DatasetError: data is missing, altered, not of the expected form, or does not fit into memory.
    """
    resolved = resolve_files(config, Path.cwd())
    check_size(resolved)
    module = import_module(f"idwbench.data.{resolved.name}")
    load: Callable[[Any, Path], RawData] = getattr(module, f"load_{resolved.name}")
    try:
        return prepare(resolved, load(resolved, data_folder(data_dir)))
    except MemoryError:
        raise DatasetError(f"the data set {dataset_label(resolved)} does not fit into memory") from None
    except DatasetError as error:
        if not isinstance(resolved, FileConfig) or error.file is not None:
            raise
        raise DatasetError(error.problem, location=error.location, hint=error.hint, file=resolved.path) from None
