import pytest

from idwbench.data import images
from idwbench.errors import DatasetError


@pytest.fixture(autouse=True)
def _no_network_and_no_foreign_folder(monkeypatch):
    def offline(mirrors, target, sha256):
        raise DatasetError("no network in tests")

    monkeypatch.delenv("IDWBENCH_DATA", raising=False)
    monkeypatch.setattr(images, "download", offline)
