from __future__ import annotations

import os
from pathlib import Path

import pytest
from blob_data import make_dataset

from idwbench.attention.methods import METHODS
from idwbench.data.dataset import Dataset


@pytest.fixture(autouse=True)
def _no_method_outlives_its_test():
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.fixture
def blobs() -> Dataset:
    return make_dataset()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = os.environ.get("IDWBENCH_DATA")
    if not folder:
        pytest.skip("IDWBENCH_DATA does not name a folder with the MNIST archives")
    return Path(folder)
