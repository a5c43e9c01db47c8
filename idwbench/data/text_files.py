"""Text files in the data folder, checked at every read."""

import hashlib
from pathlib import Path

from idwbench.data.text import decode
from idwbench.errors import DatasetError
from idwbench.files import read_file

__all__ = ["read_text"]


def read_text(folder: Path, file: str, sha256: str, *, source: str) -> str:
    """Return the text of a file of the data folder.

    Args:
        folder: The data folder.
        file: Path of the file in it.
        sha256: Checksum of its content.
        source: Where the file comes from, for the message if it is missing.

    Raises:
        DatasetError: the file is missing, cannot be read, or has another checksum.
    """
    path = folder / file
    if not path.exists():
        raise DatasetError(
            "no such file", file=path, hint=f"copy it there: {source}; any text works with {{name: text, path: …}}"
        )
    content = read_file(path, DatasetError)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        problem = f"truncated or altered: its SHA-256 begins with {found[:12]}, expected {sha256[:12]}"
        raise DatasetError(problem, file=path, hint=f"replace it: {source}")
    return decode(content)
