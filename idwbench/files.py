"""Files: reading, checksums and atomic writes."""

import errno
import hashlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from idwbench.errors import FullDiskError, IdwbenchError, ModelFileError, OutputError, OutputExistsError, near_word
from idwbench.machine import check_memory

__all__ = [
    "MODEL_SUFFIXES",
    "check_model_path",
    "check_output",
    "file_sha256",
    "full_disk_error",
    "is_full_disk",
    "make_folder",
    "read_file",
    "writable_folder",
    "write_file",
]


MODEL_SUFFIXES = (".pt", ".safetensors")
_ABSENT = "no such file"
# No space, the user's share is used up, or the file would exceed the size that the system allows.
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def read_file(path: Path, failure: type[IdwbenchError]) -> bytes:
    """Return the content of a regular file.

    Raises:
        IdwbenchError: of class `failure`, if the file does not exist, is not regular, is larger than the free memory,
            or cannot be read.
    """
    try:
        status = path.stat()
        _check_regular(status.st_mode, path, failure, "a file")
        check_memory(status.st_size, f"the file {path}", failure)
        return path.read_bytes()
    except OSError as error:
        problem = _reason(error, "read")
        raise failure(problem, file=path, hint=_similar_name(path) if problem == _ABSENT else "") from None
    except ValueError:  # a name with a null character or half of a surrogate pair, which no file has
        raise failure(_ABSENT, file=path) from None


def file_sha256(path: Path, failure: type[IdwbenchError]) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal; raises like `read_file`."""
    return hashlib.sha256(read_file(path, failure)).hexdigest()


def check_model_path(path: Path) -> None:
    """Raise `ModelFileError` unless `path` has the suffix of a model file."""
    if path.suffix.lower() not in MODEL_SUFFIXES:
        raise ModelFileError(f"expected a name ending in {' or '.join(MODEL_SUFFIXES)}", file=path)


def is_full_disk(error: BaseException) -> bool:
    """Return whether the system refused to write because there is no room for the file."""
    return isinstance(error, OSError) and error.errno in _FULL_DISK


def full_disk_error(error: BaseException | None) -> FullDiskError | None:
    """Return the error of a full disk that is `error`, or that caused it; None if it has another cause."""
    while error is not None:
        if isinstance(error, FullDiskError):
            return error
        if isinstance(error, OSError) and is_full_disk(error):
            name = error.filename if isinstance(error.filename, str) else "a file of the training"  # or a descriptor
            return FullDiskError(f"cannot be written: {error.strerror}", file=name)
        error = error.__cause__ or error.__context__
    return None


def make_folder(path: Path) -> None:
    """Create a folder and its parents, if it does not exist.

    Raises:
        OutputError: it cannot be created, or a file has its name.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError("is a file, expected a folder", file=path) from None
    except OSError as error:
        raise _output_error(error, path, "created") from None


def check_output(path: Path, *, overwrite: bool) -> None:
    """Check that `write_file` would accept `path`.

    Raises:
        OutputExistsError: `path` exists and may not be overwritten.
        OutputError: `path` is not a regular file, or its folder does not exist or is not writable.
    """
    try:
        _check_target(path, _target(path), overwrite)
    except OSError as error:
        raise _output_error(error, path) from None


def write_file(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write `content` to `path` atomically; symbolic links are followed, and a replaced file keeps its permissions.

    Raises:
        FullDiskError: there is no room for it.
        OutputError: as `check_output`, or the system refuses.
    """
    check_output(path, overwrite=overwrite)
    try:
        _replace(_target(path), content)
    except OSError as error:
        raise _output_error(error, path) from None


def writable_folder(folder: Path) -> bool:
    """Create a folder if needed, and return whether files can be written in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _replace(target: Path, content: bytes) -> None:
    """Write a temporary file that takes the place of `target` when it is complete; after an error that is unchanged."""
    temporary = target.with_name(f".idwbench-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        if (mode := _mode(target)) is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:  # an interruption too must not leave a temporary file
        temporary.unlink(missing_ok=True)
        raise


def _check_regular(mode: int, path: Path, failure: type[IdwbenchError], expected: str) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise failure(f"is {kind}, expected {expected}", file=path)


def _reason(error: OSError, verb: str) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError) and verb == "read":
        return _ABSENT
    return f"cannot be {verb} ({error.strerror or error})"


def _similar_name(path: Path) -> str:
    """Return a hint with the file of the same folder of which the name is nearest; empty if none is near."""
    try:
        return near_word(path.name, os.listdir(path.parent))
    except OSError:  # the folder is missing too
        return ""


def _output_error(error: OSError, path: Path, verb: str = "written") -> OutputError:
    kind = FullDiskError if is_full_disk(error) else OutputError
    return kind(_reason(error, verb), file=path)


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _check_target(path: Path, target: Path, overwrite: bool) -> None:
    mode = _mode(target)
    if mode is not None:
        _check_regular(mode, path, OutputError, "the name of a file to write")
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
