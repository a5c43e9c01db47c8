"""Reading and writing of files: whole content, atomic replacement, checksums."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from idwbench.errors import IdwbenchError, OutputError, OutputExistsError

__all__ = ["atomic_write", "check_output", "file_sha256", "read_file", "write_file"]


def read_file(path: Path, failure: type[IdwbenchError]) -> bytes:
    """Return the content of a regular file.

    Raises:
        IdwbenchError: of class `failure`, if there is no such file, it is not a regular file, or it cannot be read.
    """
    try:
        _check_regular(path, failure)
        return path.read_bytes()
    except OSError as error:
        raise failure(_reason(error, "read"), file=path) from None


def file_sha256(path: Path, failure: type[IdwbenchError]) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal.

    Raises:
        IdwbenchError: as `read_file`.
    """
    try:
        _check_regular(path, failure)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise failure(_reason(error, "read"), file=path) from None


def check_output(path: Path, *, overwrite: bool) -> None:
    """Check before long work that `write_file` would accept `path`.

    Raises:
        OutputExistsError: `path` exists and may not be overwritten.
        OutputError: `path` is not a regular file, or its folder does not exist or is not writable.
    """
    try:
        _check_target(path, _target(path), overwrite)
    except OSError as error:
        raise OutputError(_reason(error, "written"), file=path) from None


def write_file(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write `content` to `path` atomically: the file is complete or unchanged.

    A symbolic link is followed. A replaced file keeps its permissions.

    Raises:
        OutputError: as `check_output`, or the system refuses.
    """
    check_output(path, overwrite=overwrite)
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise OutputError(_reason(error, "written"), file=path) from None


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` when the block ends; after an error `path` is unchanged.

    Raises:
        OSError: the system refuses.
    """
    target = _target(path)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".idwbench-", delete=False) as file:
        temporary = Path(file.name)
        try:
            yield file.file
            file.close()
            os.chmod(temporary, _permissions(target))
            os.replace(temporary, target)
        except BaseException:  # an interruption too must not leave a temporary file
            temporary.unlink(missing_ok=True)
            raise


def _check_regular(path: Path, failure: type[IdwbenchError]) -> None:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise failure("is a folder, expected a file", file=path)
    if not stat.S_ISREG(mode):
        raise failure("is a pipe or a device, expected a file", file=path)


def _reason(error: OSError, verb: str) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError) and verb == "read":
        return "no such file"
    return f"cannot be {verb} ({error.strerror or error})"


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _check_target(path: Path, target: Path, overwrite: bool) -> None:
    mode = _mode(target)
    if mode is not None:
        if stat.S_ISDIR(mode):
            raise OutputError("is a folder, expected the name of a file to write", file=path)
        if not stat.S_ISREG(mode):
            raise OutputError("is a pipe or a device, expected the name of a file to write", file=path)
        if not overwrite:
            raise OutputExistsError("exists already", file=path)
    elif not target.parent.is_dir():
        raise OutputError(f"the folder {target.parent} does not exist", file=path)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OutputError(f"the folder {target.parent} is not writable", file=path)


def _mode(path: Path) -> int | None:
    """Return type and permissions of a file; None if it does not exist."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _permissions(target: Path) -> int:
    mode = _mode(target)
    if mode is not None:
        return stat.S_IMODE(mode)
    # A temporary file is private; a new file follows the umask like any other.
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
