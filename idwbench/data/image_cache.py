"""A cache of decoded images: decompressing MNIST takes longer than reading it."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from idwbench.errors import DatasetError
from idwbench.files import atomic_write, read_file

__all__ = ["CACHE_FOLDER", "cache_folders", "read_cache", "write_cache"]

CACHE_FOLDER = "idwbench-cache"

Shapes = Mapping[str, tuple[int, ...]]


def cache_folders(data_folder: Path) -> tuple[Path, ...]:
    """Return the possible folders of the cache: in the data folder, or in the user's cache if that is read-only."""
    return (data_folder / CACHE_FOLDER, user_cache_path("idwbench") / CACHE_FOLDER)


def read_cache(folders: tuple[Path, ...], name: str, shapes: Shapes) -> dict[str, NDArray[np.uint8]] | None:
    """Return the cached arrays, or None if no folder holds all of them in these shapes.

    The file is an uncompressed ``.npz`` with CRC-32 checksums; nothing is unpickled.
    """
    found = (_read(folder / name, shapes) for folder in folders)
    return next((arrays for arrays in found if arrays is not None), None)


def write_cache(folders: tuple[Path, ...], name: str, arrays: Mapping[str, NDArray[np.uint8]]) -> Path | None:
    """Write the arrays atomically into the first writable folder; return the file, or None if none is writable."""
    for folder in folders:
        try:
            if _marked_read_only(folder.parent):
                continue
            with atomic_write(folder / name, make_folder=True) as file:
                np.savez(file, allow_pickle=False, **arrays)
            return folder / name
        except OSError:
            continue
    return None


def _marked_read_only(folder: Path) -> bool:
    # A superuser can write anywhere; a folder without any write permission is nevertheless left unchanged.
    return folder.exists() and not folder.stat().st_mode & 0o222


def _read(path: Path, shapes: Shapes) -> dict[str, NDArray[np.uint8]] | None:
    try:
        with np.load(io.BytesIO(read_file(path, DatasetError)), allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in shapes}
    except (DatasetError, OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error):
        return None
    fits = all(a.dtype == np.uint8 and a.shape == shapes[key] for key, a in arrays.items())
    return arrays if fits else None
