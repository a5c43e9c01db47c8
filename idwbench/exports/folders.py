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

__all__ = ["written_folder"]


@contextmanager
def written_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Open a temporary folder whose files and folders are moved to `target` when the block ends.

    After an error nothing is written. In a folder that exists, only files and folders of the same names are replaced.

    Raises:
        OutputExistsError: `target` exists, is not empty, and may not be overwritten.
        OutputError: it is a file, its parent is not a folder, or the system refuses.
    """
    if not target.exists():
        if not target.absolute().parent.is_dir():
            raise OutputError(f"the folder {target.parent} does not exist", file=target)
    elif not target.is_dir():
        raise OutputError("is a file, expected a folder", file=target)
    elif not overwrite and any(target.iterdir()):
        raise OutputExistsError("exists already and is not empty", file=target)
    parent = target.absolute().parent
    if not writable_folder(parent):
        raise OutputError(f"the folder {parent} is not writable", file=target)
    temporary = Path(tempfile.mkdtemp(dir=parent, prefix=".idwbench-"))
    try:
        yield temporary
        target.mkdir(exist_ok=True)
        for path in sorted(temporary.iterdir()):
            place = target / path.name
            if place.is_dir() and not place.is_symlink():
                os.replace(place, temporary / f"{place.name}.replaced")
            os.replace(path, place)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror or error})", file=target) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
