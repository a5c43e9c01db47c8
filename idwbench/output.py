"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from idwbench.errors import OutputError

__all__ = ["check_output", "write_whole"]


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse early what `write_whole` would refuse late.

    Raises:
        OutputError: `path` exists and may not be overwritten, is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a folder, expected the name of a file to write")
    if path.exists() and not overwrite:
        raise OutputError(f"{path}: exists already; give --force to replace it")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist")


def write_whole(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write `content` to a temporary file beside `path`, then rename it.

    Raises:
        OutputError: as `check_output`, or the folder cannot be written to.
    """
    check_output(path, overwrite=overwrite)
    temporary: str | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(content)
        # A temporary file is private; what a user asked for follows the umask like any other file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written ({error.strerror})") from None
