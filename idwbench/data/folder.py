"""The data folder, and files that are known by their checksums: the user's own, and those that are downloaded.

Planning a sweep needs this module, so it does without NumPy.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path

from idwbench.errors import DatasetError, IdwbenchError
from idwbench.files import file_sha256, make_folder, read_file, write_file
from idwbench.runs.dataset_base import DatasetConfig, FileConfig

__all__ = ["DATA_VARIABLE", "data_folder", "download", "read_checked", "resolve_files"]

DATA_VARIABLE = "IDWBENCH_DATA"

TIMEOUT_SECONDS = 10.0
_CHUNK = 2**18


def data_folder(data_dir: Path | None = None) -> Path:
    """Return the data folder: `data_dir`, else the variable IDWBENCH_DATA, else the platform's cache folder."""
    if data_dir is not None:
        return data_dir.expanduser().absolute()
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache_path("idwbench")


def resolve_files(config: DatasetConfig, base: Path) -> DatasetConfig:
    """Return the settings of a file with its absolute path and checksum; other data sets unchanged.

    A relative path starts at the folder `base`.

    Raises:
        DatasetError: the file does not exist, cannot be read, or has another checksum than in `config`.
    """
    if not isinstance(config, FileConfig):
        return config
    path = Path(os.path.abspath(base / os.path.expanduser(config.path)))
    sha256 = file_sha256(path, DatasetError)
    if config.sha256 is not None and config.sha256.lower() != sha256:
        raise DatasetError(
            f"has changed: its SHA-256 begins with {sha256[:12]}, expected {config.sha256[:12]}", file=path
        )
    return config.model_copy(update={"path": str(path), "sha256": sha256})


def read_checked(path: Path, sha256: str, hint: str) -> bytes:
    """Return the content of a file.

    Raises:
        DatasetError: the file cannot be read, or has another checksum, which `hint` helps against.
    """
    content = read_file(path, DatasetError)
    stored = hashlib.sha256(content).hexdigest()
    if stored != sha256:
        problem = f"truncated or altered: its SHA-256 begins with {stored[:12]}, expected {sha256[:12]}"
        raise DatasetError(problem, hint=hint, file=path)
    return content


def download(mirrors: Sequence[str], target: Path, sha256: str) -> None:
    """Download a file from the first mirror that has it, check it and write it atomically.

    Args:
        mirrors: Addresses of folders, to be tried in order.
        target: The file to write, with the name that it has at the mirrors.
        sha256: Expected checksum.

    Raises:
        DatasetError: no mirror has the file, or it cannot be written; one line with each reason.
    """
    from http.client import HTTPException

    reasons = []
    for mirror in mirrors:
        try:
            content = _fetch(mirror + target.name)
            received = hashlib.sha256(content).hexdigest()
            if received != sha256:
                raise DatasetError(f"sent a file whose SHA-256 begins with {received[:12]}, expected {sha256[:12]}")
            make_folder(target.parent)
            write_file(target, content, overwrite=True)
            return
        except (OSError, HTTPException, IdwbenchError) as error:  # time-outs and URLError are OSErrors
            reasons.append(f"{mirror}: {' '.join(str(error).split()) or type(error).__name__}")
    raise DatasetError("; ".join(reasons))


def _fetch(url: str) -> bytes:
    """Return the content at an address; the progress is printed on standard error."""
    from urllib.request import Request, urlopen  # takes 40 ms

    content = bytearray()
    with urlopen(Request(url, headers={"User-Agent": "idwbench"}), timeout=TIMEOUT_SECONDS) as response:
        print(f"downloading {url}", file=sys.stderr)
        while chunk := response.read(_CHUNK):
            content += chunk
            if response.length is not None and sys.stderr.isatty():  # what is left
                share = len(content) / max(1, len(content) + response.length)
                print(f"\r{share:4.0%}", end="" if response.length else "\n", file=sys.stderr, flush=True)
    return bytes(content)
