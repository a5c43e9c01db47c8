import math
import shutil

import pytest
from case_tables import VERSION_0_1_0
from sqlalchemy import Engine, event
from stored_runs import run_result, trained_result

from idwbench import Results, run_config
from idwbench.runs.results import CurvePoint


@pytest.fixture
def backend():
    return "sqlite"


def pytest_generate_tests(metafunc):
    """Plans, leases and results are written to both kinds of database."""
    is_written = metafunc.module.__name__ in ("test_results_planning", "test_results_recording")
    if is_written and "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", ["sqlite", "postgresql"])


@pytest.fixture
def db(backend, request):
    """A database that does not exist yet (SQLite) or has no tables (PostgreSQL), unless the test has a `store`."""
    if backend == "sqlite":
        return str(request.getfixturevalue("tmp_path") / "results" / "idwbench.db")
    if "store" in request.fixturenames:
        return str(request.getfixturevalue("emptied_database"))
    server = request.getfixturevalue("postgresql_server")
    return str(server.url(server.create()))


@pytest.fixture(scope="session")
def tables_on_postgresql(postgresql_server):
    """The name of a database with the tables, which tests share one after the other."""
    name = postgresql_server.create()
    Results(postgresql_server.url(name))
    return name


@pytest.fixture
def emptied_database(postgresql_server, tables_on_postgresql):
    """The URL of a database with empty tables; deleting rows is much faster than creating a database."""
    postgresql_server.execute("DELETE FROM runs", "DELETE FROM sweeps", database=tables_on_postgresql)
    return postgresql_server.url(tables_on_postgresql)


@pytest.fixture
def store(db):
    return Results(db)


@pytest.fixture
def old_db(tmp_path):
    """A copy of the database that version 0.1.0 wrote."""
    return str(shutil.copy(VERSION_0_1_0 / "idwbench.db", tmp_path / "old.db"))


@pytest.fixture
def statements():
    """Every SQL statement that the store executes from now on."""
    executed = []
    event.listen(Engine, "before_cursor_execute", listener := lambda *args: executed.append(args[2]))
    yield executed
    event.remove(Engine, "before_cursor_execute", listener)


@pytest.fixture
def make_config():
    def make(seed=0, method="idw", prototypes=16, **settings):
        return run_config("two_moons", seed=seed, method=method, prototypes=prototypes, **settings)

    return make


@pytest.fixture
def make_result():
    return trained_result


@pytest.fixture
def make_diverged():
    def make(config):
        curve = [CurvePoint(epoch, {("train", "loss"): loss}) for epoch, loss in ((1, 0.7), (2, math.nan))]
        return run_result(config, state="diverged", curve=curve)

    return make


@pytest.fixture
def as_other_process(monkeypatch):
    """Make the store take this process for another one."""

    def become(host, pid):
        for module in ("leases", "provenance"):
            monkeypatch.setattr(f"idwbench.results.{module}.this_process", lambda: (host, pid))

    yield become
