"""Files of the data folder, which are known by their checksums: reading, and download from one of several mirrors."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from idwbench.errors import DatasetError, IdwbenchError
from idwbench.files import make_folder, read_file, write_file

__all__ = ["download", "read_checked"]

TIMEOUT_SECONDS = 10.0
_CHUNK = 2**18


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
