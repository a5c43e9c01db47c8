"""Files that a user names and that are read whole."""

from __future__ import annotations

import stat
from pathlib import Path

from idwbench.errors import IdwbenchError

__all__ = ["read_whole"]


def read_whole(path: Path, failure: type[IdwbenchError], option: str = "") -> bytes:
    """Return the content of a file.

    Args:
        path: The file.
        failure: The class of the error.
        option: What the error begins with, as in ``--x: ``.

    Raises:
        IdwbenchError: of class `failure`, if there is no such file, it is none, or it cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise failure(f"{option}{path}: is a folder, expected a file")
        if not stat.S_ISREG(mode):
            raise failure(f"{option}{path}: is a pipe or a device, expected a file")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise failure(f"{option}{path}: no such file") from None
    except OSError as error:
        raise failure(f"{option}{path}: cannot be read ({error.strerror or error})") from None
