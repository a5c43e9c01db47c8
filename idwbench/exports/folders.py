"""Folders that are written as a whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from idwbench.errors import OutputError, OutputExistsError
from idwbench.files import writable_folder

__all__ = ["check_folder", "written_folder"]


def check_folder(target: Path, *, overwrite: bool) -> None:
    """Check that `written_folder` would accept `target`.

    Raises:
        OutputExistsError: it exists, is not empty, and may not be overwritten.
        OutputError: it is a file, or its parent is not a folder.
    """
    if not target.exists():
        if not target.absolute().parent.is_dir():
            raise OutputError(f"the folder {target.parent} does not exist", file=target)
    elif not target.is_dir():
        raise OutputError("is a file, expected a folder", file=target)
    elif not overwrite and any(target.iterdir()):
        raise OutputExistsError("exists already and is not empty", file=target)


@contextmanager
def written_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Open a temporary folder whose files and folders are moved to `target` when the block ends.

    After an error nothing is written. In a folder that exists, only files and folders of the same names are replaced.

    Raises:
        OutputError: as `check_folder`, or the system refuses.
    """
    check_folder(target, overwrite=overwrite)
    parent = target.absolute().parent
    if not writable_folder(parent):
        raise OutputError(f"the folder {parent} is not writable", file=target)
    temporary = Path(tempfile.mkdtemp(dir=parent, prefix=".idwbench-"))
    try:
        yield temporary
        target.mkdir(exist_ok=True)
        for path in sorted(temporary.iterdir()):
            _move(path, target / path.name, temporary)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror or error})", file=target) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move(path: Path, place: Path, temporary: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        os.replace(place, temporary / f"{place.name}.replaced")
    os.replace(path, place)
