import shutil
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine, event
from stored_runs import run_result

from idwbench import Results, run_config
from idwbench.runs.results import CurvePoint

ASSETS = Path(__file__).parents[1] / "assets" / "0.1.0"


def curve_point(epoch, rate, loss, accuracy):
    values = {("train", "learning_rate"): rate, ("train", "loss"): loss, ("test", "accuracy"): accuracy}
    return CurvePoint(epoch, values)


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
    return str(shutil.copy(ASSETS / "idwbench.db", tmp_path / "old.db"))


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
    def make(config, *, train=0.99, test=0.975, holdout=0.995, **changes):
        generator = np.random.default_rng(config.seed)
        metrics = {("train", "accuracy"): train, ("test", "accuracy"): test}
        if holdout is not None:
            metrics["holdout", "accuracy"] = holdout
        shape = (config.model.prototypes, 2)
        facts = {
            "curve": tuple(curve_point(epoch, 0.01 / epoch, 1 / epoch, 0.9) for epoch in range(1, 26)),
            "metrics": metrics,
            "arrays": {name: generator.normal(size=shape).astype(np.float32) for name in ("keys", "values")},
            "n_parameters": config.model.prototypes * 4,
        }
        return run_result(config, **(facts | changes))

    return make


@pytest.fixture
def make_diverged():
    def make(config):
        curve = (curve_point(1, 0.01, 0.7, 0.5), curve_point(2, 0.009, float("nan"), 0.5))
        return run_result(config, state="diverged", curve=curve)

    return make


@pytest.fixture
def as_other_process(monkeypatch):
    """Make the store take this process for another one."""

    def become(host, pid):
        for module in ("leases", "provenance"):
            monkeypatch.setattr(f"idwbench.results.{module}.this_process", lambda: (host, pid))

    yield become
