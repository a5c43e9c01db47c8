import hashlib
import os
from pathlib import Path

import pytest

from idwbench.data import images
from idwbench.data import text as texts
from idwbench.errors import DatasetError

# Read before any test changes it: the tests that need real data ask for `data_dir`, all others do without.
REAL_DATA = os.environ.get("IDWBENCH_DATA")


@pytest.fixture(autouse=True)
def _no_network_and_no_foreign_folder(monkeypatch):
    def offline(mirrors, target, sha256):
        raise DatasetError("no network in tests")

    monkeypatch.delenv("IDWBENCH_DATA", raising=False)
    monkeypatch.setattr(images, "download", offline)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The data folder with the real files."""
    if not REAL_DATA:
        pytest.skip("IDWBENCH_DATA is not set: it names a folder with the MNIST archives")
    return Path(REAL_DATA).absolute()


@pytest.fixture
def wikitext(tmp_path, monkeypatch):
    """Return a function that writes the two files, with their checksums in place of the official."""

    def write(train: str, test: str) -> Path:
        contents = dict(zip(texts.WIKITEXT_2, (train, test), strict=True))
        for file, content in contents.items():
            path = tmp_path / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        checksums = {file: hashlib.sha256(content.encode()).hexdigest() for file, content in contents.items()}
        monkeypatch.setattr(texts, "WIKITEXT_2", checksums)
        return tmp_path

    return write
