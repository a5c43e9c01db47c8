"""A cache of decoded images: unpacking MNIST takes longer than reading it."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

__all__ = ["CACHE_FOLDER", "cache_folders", "read_cache", "write_cache"]

CACHE_FOLDER = "idwbench-cache"

Shapes = Mapping[str, tuple[int, ...]]


def cache_folders(data_folder: Path) -> tuple[Path, ...]:
    """Return where a cache may lie: within the data folder, or in the user's cache if that is read-only."""
    return (data_folder / CACHE_FOLDER, user_cache_path("idwbench") / CACHE_FOLDER)


def read_cache(folders: tuple[Path, ...], name: str, shapes: Shapes) -> dict[str, NDArray[np.uint8]] | None:
    """Return the cached arrays, or None if no folder holds them whole and in these shapes.

    The file is uncompressed ``.npz``; its CRC-32s catch damage, and nothing in it is unpickled.
    """
    for folder in folders:
        arrays = _read(folder / name, shapes)
        if arrays is not None:
            return arrays
    return None


def write_cache(folders: tuple[Path, ...], name: str, arrays: Mapping[str, NDArray[np.uint8]]) -> Path | None:
    """Write the arrays into the first folder that takes them, whole or not at all; return the file, or None.

    A cache only saves time: where nothing can be written, the work goes on without one.
    """
    for folder in folders:
        try:
            if _marked_read_only(folder.parent):
                continue
            folder.mkdir(parents=True, exist_ok=True)
            return _write(folder / name, arrays)
        except OSError:
            continue
    return None


def _marked_read_only(folder: Path) -> bool:
    # A superuser may write anywhere; a folder without any write permission is left as it is all the same.
    return folder.exists() and not folder.stat().st_mode & 0o222


def _read(path: Path, shapes: Shapes) -> dict[str, NDArray[np.uint8]] | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in shapes}
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error):
        return None
    fits = all(a.dtype == np.uint8 and a.shape == shapes[key] for key, a in arrays.items())
    return arrays if fits else None


def _write(path: Path, arrays: Mapping[str, NDArray[np.uint8]]) -> Path:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.chmod(temporary, 0o644)  # a temporary file is private; others may share the data folder
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too must leave no half file
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
