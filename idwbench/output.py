"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from idwbench.errors import OutputError

__all__ = ["check_output", "write_whole"]


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse early what `write_whole` would refuse late.

    Raises:
        OutputError: `path` exists and may not be overwritten, is a folder or no file, or its folder does not exist or
            cannot be written to.
    """
    try:
        _check(path, _target(path), overwrite)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None


def write_whole(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write `content` to a temporary file beside `path`, then rename it.

    A symbolic link stays, and what it points to is written. A file that is replaced keeps its permissions.

    Raises:
        OutputError: as `check_output`, or the system refuses.
    """
    check_output(path, overwrite=overwrite)
    temporary: Path | None = None
    try:
        target = _target(path)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".idwbench-", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
        os.chmod(temporary, _permissions(target))
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _check(path: Path, target: Path, overwrite: bool) -> None:
    mode = _mode(target)
    if mode is not None:
        if stat.S_ISDIR(mode):
            raise OutputError(f"{path}: is a folder, expected the name of a file to write")
        if not stat.S_ISREG(mode):
            raise OutputError(f"{path}: is a pipe or a device, expected the name of a file to write")
        if not overwrite:
            raise OutputError(f"{path}: exists already; give --force to replace it")
    elif not target.parent.is_dir():
        raise OutputError(f"{path}: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {target.parent} cannot be written to")


def _mode(path: Path) -> int | None:
    """Return what kind of file it is and who may use it; None if there is none."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _permissions(target: Path) -> int:
    mode = _mode(target)
    if mode is not None:
        return stat.S_IMODE(mode)
    # A temporary file is private; what a user asked for follows the umask like any other file.
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
