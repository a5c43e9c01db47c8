from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

# Read when a library is loaded: the suite's processes share the cores, and on tiny arrays threads only wait.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from blob_data import make_dataset

from idwbench.attention.methods import METHODS
from idwbench.data.dataset import Dataset


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported: it would scan all of it again and again."""
    gc.collect()
    gc.freeze()


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
