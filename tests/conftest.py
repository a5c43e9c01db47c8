from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Read when a library is loaded: the suite's processes share the cores, and on tiny arrays threads only wait.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from blob_data import make_dataset
from postgresql import Server, missing_program, running_server

from idwbench.attention.methods import METHODS
from idwbench.data.dataset import Dataset

if TYPE_CHECKING:
    from sqlalchemy import Connection

# The SQL that makes a new database, as the first real migration of this process left it.
_new_database: list[str] = []


def pytest_configure() -> None:
    """Imports leave no garbage worth looking for; `pytest_collection_finish` turns the collector on again."""
    gc.disable()


def pytest_collection_finish() -> None:
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


@pytest.fixture(autouse=True)
def _migrations_run_once() -> Iterator[None]:
    """Make new SQLite databases by the statements that the first needed: Alembic takes far longer.

    Tests of migrations override this fixture in their file.
    """
    schema = sys.modules.get("idwbench.results.schema")
    if schema is None:
        yield
        return
    migrate = schema._run_migrations

    def run_migrations(connection: Connection) -> None:
        is_new = connection.dialect.name == "sqlite" and schema.stored_revision(connection) is None
        if not is_new or not _new_database:
            migrate(connection)
        else:
            for statement in _new_database:
                connection.exec_driver_sql(statement)
        if is_new and not _new_database:
            # The first and last statements are BEGIN and COMMIT.
            _new_database[:] = [*connection.connection.driver_connection.iterdump()][1:-1]

    # Not by the fixture `monkeypatch`: used here, it would undo what a test patched only after all other fixtures.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema, "_run_migrations", run_migrations)
        yield


@pytest.fixture
def blobs() -> Dataset:
    return make_dataset()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = os.environ.get("IDWBENCH_DATA")
    if not folder:
        pytest.skip("IDWBENCH_DATA does not name a folder with the MNIST archives")
    return Path(folder)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    """A server for the tests of this process; CI fails where its programs are missing."""
    if (missing := missing_program()) is not None:
        pytest.skip(f"needs PostgreSQL: the program '{missing}' is not installed")
    with running_server() as server:
        yield server
