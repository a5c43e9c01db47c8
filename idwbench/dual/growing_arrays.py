"""Arrays on disk that grow by rows: files in NumPy's format, which `numpy.load` opens once they are finished."""

from __future__ import annotations

import io
import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from idwbench.errors import FullDiskError, OutputError, RecordingError
from idwbench.files import is_full_disk

__all__ = ["GrowingArray", "mapped_array", "release_pages", "replace_folder", "save_array"]


# Small writes cost more than their bytes, and larger blocks do not stay in the cache of a processor.
_BLOCK_BYTES = 2**20


class GrowingArray:
    """An array (rows, columns) on disk; rows are appended, and at most one block of them is kept in memory.

    The header is written with 0 rows and corrected by `finish`. Every method raises `OutputError` if the system
    refuses, and `FullDiskError` if there is no room.

    Args:
        path: The file; an existing one is continued.
        columns: Length of a row, or None for an array (rows,).
        dtype: Type of its numbers.
    """

    def __init__(self, path: Path, columns: int | None, dtype: DTypeLike) -> None:
        self.path, self.columns, self.dtype = path, columns, np.dtype(dtype)
        self._block = self._new_block(_BLOCK_BYTES // self.row_bytes)
        self._kept = 0  # rows of the block
        with _output(path):
            self._file: IO[bytes] = path.open("r+b" if path.exists() else "w+b")
            try:
                if self._file.seek(0, os.SEEK_END) == 0:
                    self._file.write(self._header(0))
            except OSError:
                self.close()
                raise

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one row."""
        return self.dtype.itemsize * (1 if self.columns is None else self.columns)

    def append(self, rows: NDArray[np.generic]) -> None:
        """Append rows (n, columns) or (n,)."""
        self.new_rows(len(rows))[...] = rows

    def new_rows(self, n: int) -> NDArray[Any]:
        """Append n rows and return them (n, columns) or (n,), to be filled before the next call of a method."""
        if self._kept + n > len(self._block):
            self._write_block()
        if n > len(self._block):
            self._block = self._new_block(n)
        self._kept += n
        return self._block[self._kept - n : self._kept]

    def truncate(self, rows: int) -> bool:
        """Keep the first rows, and return False if there are fewer."""
        with _output(self.path):
            length = len(self._header(0)) + rows * self.row_bytes
            if self._file.seek(0, os.SEEK_END) < length:
                return False
            self._file.truncate(length)
            self._file.seek(length)
            return True

    def flush(self) -> None:
        """Hand everything to the system."""
        self._write_block()
        with _output(self.path):
            self._file.flush()

    def finish(self, rows: int) -> None:
        """Write the header, with the number of rows, and close the file."""
        self._write_block()
        with _output(self.path):
            self._file.seek(0)
            self._file.write(self._header(rows))
            self._file.close()

    def close(self) -> None:
        """Close the file without finishing it; what was appended after `flush` may be lost."""
        self._kept = 0
        try:
            self._file.close()
        except OSError:
            self._file.close()  # the second call does not write

    def _write_block(self) -> None:
        with _output(self.path):
            self._file.write(self._block[: self._kept].data)
        self._kept = 0

    def _new_block(self, rows: int) -> NDArray[Any]:
        return np.empty(rows if self.columns is None else (rows, self.columns), self.dtype)

    def _header(self, rows: int) -> bytes:
        # NumPy leaves room for any number of rows: the length of a header does not depend on it.
        shape = (rows,) if self.columns is None else (rows, self.columns)
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        )
        return header.getvalue()


def save_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write an array in NumPy's format.

    Raises:
        FullDiskError: there is no room for it.
        OutputError: the file cannot be written.
    """
    with _output(path), path.open("wb") as file:
        np.save(_Writer(file.write), array, allow_pickle=False)


@dataclass(frozen=True)
class _Writer:
    """A file that NumPy must write through Python: its own writing gives an error without the system's reason."""

    write: Callable[[bytes], int]


def replace_folder(source: Path, target: Path) -> None:
    """Rename a folder, and delete another that has its new name.

    Raises:
        OutputError: the system refuses.
    """
    with _output(target):
        shutil.rmtree(target, ignore_errors=True)
        source.rename(target)


def mapped_array(path: Path, shape: tuple[int, ...], kind: Literal["f", "i"] = "f") -> NDArray[np.generic]:
    """Return the array in a file, memory-mapped; changes of it stay in memory.

    Args:
        path: The file.
        shape: The shape of the array.
        kind: That of its numbers, as `numpy.dtype.kind`: floating-point numbers or integers.

    Raises:
        RecordingError: the file is missing, cut, or does not hold an array of that shape and kind.
    """
    try:
        array = np.load(path, mmap_mode="c" if 0 not in shape else None, allow_pickle=False)
    except FileNotFoundError:
        raise RecordingError("is missing in the recording", file=path) from None
    except (OSError, ValueError):
        raise RecordingError("is cut or damaged", file=path) from None
    if array.shape != shape:
        raise RecordingError(f"has the shape {array.shape}, expected {shape}", file=path)
    if array.dtype.kind != kind:
        expected = {"f": "floating-point numbers", "i": "integers"}[kind]
        raise RecordingError(f"has the type {array.dtype}, expected {expected}", file=path)
    found: NDArray[np.generic] = array
    return found


def release_pages(array: NDArray[np.generic]) -> None:
    """Take the pages of a memory-mapped array out of the process; the system reads or keeps them as before."""
    mapping = getattr(array, "_mmap", None)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        mapping.madvise(mmap.MADV_DONTNEED)


@contextmanager
def _output(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = FullDiskError if is_full_disk(error) else OutputError
        raise kind(f"the recording cannot be written: {error.strerror or error}", file=path) from None
