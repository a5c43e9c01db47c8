"""Where data lies, and the checksum by which a user's own file is known."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from platformdirs import user_cache_path

from idwbench.config import CsvConfig, DatasetConfig, NpzConfig
from idwbench.errors import DatasetError

__all__ = ["DATA_VARIABLE", "data_folder", "file_sha256", "resolve_files"]

DATA_VARIABLE = "IDWBENCH_DATA"


def data_folder(data_dir: Path | None = None) -> Path:
    """Return the data folder: `data_dir`, else the variable IDWBENCH_DATA, else the platform's cache folder."""
    if data_dir is not None:
        return data_dir.expanduser().absolute()
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache_path("idwbench")


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal.

    Raises:
        DatasetError: there is no such file, or it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from None


def resolve_files(config: DatasetConfig, base: Path) -> DatasetConfig:
    """Return `config` with an absolute path and the checksum of the file it names; other data sets unchanged.

    Args:
        config: What was asked for.
        base: The folder that a relative path begins at.

    Raises:
        DatasetError: the file is missing, unreadable, or not the one that `sha256` tells of.
    """
    if not isinstance(config, NpzConfig | CsvConfig):
        return config
    path = Path(os.path.abspath(base / Path(config.path).expanduser()))
    found = file_sha256(path)
    if config.sha256 is not None and config.sha256.lower() != found:
        raise DatasetError(f"{path}: has changed: its SHA-256 begins with {found[:12]}, expected {config.sha256[:12]}")
    return config.model_copy(update={"path": str(path), "sha256": found})
