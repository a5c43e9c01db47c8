"""Loading of data sets: ``idwbench.data.name.load_name(config, data_folder)`` loads the data set ``name``."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from idwbench.data.dataset import Dataset
from idwbench.data.folders import data_folder, resolve_files
from idwbench.data.preparation import RawData, prepare
from idwbench.errors import DatasetError
from idwbench.runs.datasets import DatasetConfig, FileConfig

__all__ = ["load_dataset"]


def load_dataset(config: DatasetConfig, data_dir: Path | None = None) -> Dataset:
    """Return a data set; it is read or drawn at each call.

    Args:
        config: Its settings; a relative path starts at the working directory.
        data_dir: Folder of the archives; see `data_folder` for the default.

    Raises:
        DatasetError: data is missing, altered, or not of the expected form.
    """
    resolved = resolve_files(config, Path.cwd())
    module = import_module(f"idwbench.data.{resolved.name}")
    load: Callable[[Any, Path], RawData] = getattr(module, f"load_{resolved.name}")
    try:
        return prepare(resolved, load(resolved, data_folder(data_dir)))
    except DatasetError as error:
        if not isinstance(resolved, FileConfig) or error.file is not None:
            raise
        raise DatasetError(error.problem, location=error.location, hint=error.hint, file=resolved.path) from None
