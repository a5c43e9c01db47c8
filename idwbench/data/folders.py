"""The data folder, and the user's own files."""

import os
from pathlib import Path

from platformdirs import user_cache_path

from idwbench.errors import DatasetError
from idwbench.files import file_sha256
from idwbench.runs.datasets import DatasetConfig, FileConfig

__all__ = ["DATA_VARIABLE", "data_folder", "resolve_files"]

DATA_VARIABLE = "IDWBENCH_DATA"


def data_folder(data_dir: Path | None = None) -> Path:
    """Return the data folder: `data_dir`, else the variable IDWBENCH_DATA, else the platform's cache folder."""
    if data_dir is not None:
        return data_dir.expanduser().absolute()
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache_path("idwbench")


def resolve_files(config: DatasetConfig, base: Path) -> DatasetConfig:
    """Return the settings of a file with its absolute path and checksum; other data sets unchanged.

    A relative path starts at the folder `base`.

    Raises:
        DatasetError: the file does not exist, cannot be read, or has another checksum than in `config`.
    """
    if not isinstance(config, FileConfig):
        return config
    path = Path(os.path.abspath(base / os.path.expanduser(config.path)))
    found = file_sha256(path, DatasetError)
    if config.sha256 is not None and config.sha256.lower() != found:
        raise DatasetError(
            f"has changed: its SHA-256 begins with {found[:12]}, expected {config.sha256[:12]}", file=path
        )
    return config.model_copy(update={"path": str(path), "sha256": found})
