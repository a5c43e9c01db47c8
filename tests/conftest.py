import builtins
import gc
import os
import sys
from pathlib import Path

import jaxtyping
import pytest

# Read when a library is loaded: the suite's processes share the cores, and on tiny arrays threads only wait.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

# Only tests check the shapes in signatures; the package imports no checker, so that its modules lack the name.
builtins.Float = jaxtyping.Float  # type: ignore[attr-defined]

sys.path.append(str(Path(__file__).parents[1]))  # the tests of the benchmarks import them

from blob_data import make_dataset
from postgresql import missing_program, running_server

from idwbench.attention.scores import METHODS


def pytest_configure():
    """Imports leave no garbage worth looking for; `pytest_collection_finish` turns the collector on again."""
    gc.disable()


def pytest_collection_finish():
    """Spare the garbage collector what was imported: it would scan all of it again and again."""
    gc.freeze()
    gc.set_threshold(10_000, 50, 1_000)
    gc.enable()


@pytest.fixture(autouse=True)
def _no_method_outlives_its_test():
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.fixture
def blobs():
    return make_dataset()


@pytest.fixture(scope="session")
def data_dir():
    folder = os.environ.get("IDWBENCH_DATA")
    if not folder:
        pytest.skip("IDWBENCH_DATA does not name a folder with the MNIST archives")
    return Path(folder)


@pytest.fixture(scope="session")
def postgresql_server():
    """A server for the tests of this process; CI fails where its programs are missing."""
    if (missing := missing_program()) is not None:
        pytest.skip(f"needs PostgreSQL: the program '{missing}' is not installed")
    with running_server() as server:
        yield server
