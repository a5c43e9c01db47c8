import os
from pathlib import Path

import pytest

from idwbench.data import images
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
