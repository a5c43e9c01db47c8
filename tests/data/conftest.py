import os
from pathlib import Path

import pytest

from idwbench.data import image_archives, image_cache
from idwbench.errors import DatasetError

LAYOUT = ("MNIST", "FashionMNIST", "aesop", "wikitext-2")
# Read before any test changes it: the tests that need real data ask for `data_dir`, all others do without.
REAL_DATA = os.environ.get("IDWBENCH_DATA")


@pytest.fixture(autouse=True)
def _no_network_and_no_foreign_folders(monkeypatch, tmp_path):
    def offline(dataset_class, target, sha256):
        raise DatasetError("no network in tests")

    monkeypatch.delenv("IDWBENCH_DATA", raising=False)
    monkeypatch.setattr(image_archives, "fetch_archive", offline)
    monkeypatch.setattr(image_cache, "user_cache_path", lambda name: tmp_path / "user-cache" / name)


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    """A data folder with the real archives, where a cache may be written without touching the originals."""
    if not REAL_DATA:
        pytest.skip("IDWBENCH_DATA is not set: it names a folder with the MNIST archives")
    folder = tmp_path_factory.mktemp("data")
    for name in LAYOUT:
        (folder / name).symlink_to(Path(REAL_DATA).absolute() / name, target_is_directory=True)
    return folder
