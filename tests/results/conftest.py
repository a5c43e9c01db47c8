import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from postgresql import Server
from sqlalchemy import Engine, event
from stored_runs import run_result

from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.results import CurvePoint, RunResult

MakeConfig = Callable[..., RunConfig]
MakeResult = Callable[..., RunResult]
ASSETS = Path(__file__).parents[1] / "assets" / "0.1.0"


def curve_point(epoch: int, rate: float, loss: float, accuracy: float) -> CurvePoint:
    values = {("train", "learning_rate"): rate, ("train", "loss"): loss, ("test", "accuracy"): accuracy}
    return CurvePoint(epoch, values)


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    """The kind of database; a module whose tests concern only one kind overrides it."""
    return str(request.param)


@pytest.fixture
def db(backend: str, request: pytest.FixtureRequest) -> str:
    """A database that does not exist yet (SQLite) or has no tables (PostgreSQL), unless the test has a `store`."""
    if backend == "sqlite":
        return str(request.getfixturevalue("tmp_path") / "results" / "idwbench.db")
    if "store" in request.fixturenames:
        return str(request.getfixturevalue("emptied_database"))
    server = request.getfixturevalue("postgresql_server")
    return str(server.url(server.create()))


@pytest.fixture(scope="session")
def tables_on_postgresql(postgresql_server: Server) -> str:
    """The name of a database with the tables, which tests share one after the other."""
    name = postgresql_server.create()
    Results(postgresql_server.url(name))
    return name


@pytest.fixture
def emptied_database(postgresql_server: Server, tables_on_postgresql: str) -> str:
    """The URL of a database with empty tables; deleting rows is much faster than creating a database."""
    postgresql_server.execute("DELETE FROM runs", "DELETE FROM sweeps", database=tables_on_postgresql)
    return postgresql_server.url(tables_on_postgresql)


@pytest.fixture
def store(db: str) -> Results:
    return Results(db)


@pytest.fixture
def old_db(tmp_path: Path) -> str:
    """A copy of the database that version 0.1.0 wrote."""
    return str(shutil.copy(ASSETS / "idwbench.db", tmp_path / "old.db"))


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every SQL statement that the store executes from now on."""
    executed: list[str] = []
    event.listen(Engine, "before_cursor_execute", listener := lambda *args: executed.append(args[2]))
    yield executed
    event.remove(Engine, "before_cursor_execute", listener)


@pytest.fixture
def make_config() -> MakeConfig:
    def make(seed: int = 0, method: str = "idw", prototypes: int = 16, **settings: Any) -> RunConfig:
        return run_config("two_moons", seed=seed, method=method, prototypes=prototypes, **settings)

    return make


@pytest.fixture
def make_result() -> MakeResult:
    def make(config: RunConfig, *, train: float = 0.99, test: float = 0.975, holdout: float | None = 0.995, **changes):
        generator = np.random.default_rng(config.seed)
        metrics = {("train", "accuracy"): train, ("test", "accuracy"): test}
        if holdout is not None:
            metrics["holdout", "accuracy"] = holdout
        shape = (config.model.prototypes, 2)
        facts: dict[str, Any] = {
            "curve": tuple(curve_point(epoch, 0.01 / epoch, 1 / epoch, 0.9) for epoch in range(1, 26)),
            "metrics": metrics,
            "arrays": {name: generator.normal(size=shape).astype(np.float32) for name in ("keys", "values")},
            "n_parameters": config.model.prototypes * 4,
        }
        return run_result(config, **(facts | changes))

    return make


@pytest.fixture
def make_diverged() -> MakeResult:
    def make(config: RunConfig) -> RunResult:
        curve = (curve_point(1, 0.01, 0.7, 0.5), curve_point(2, 0.009, float("nan"), 0.5))
        return run_result(config, state="diverged", curve=curve)

    return make


@pytest.fixture
def as_other_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, int], None]]:
    """Make the store take this process for another one."""

    def become(host: str, pid: int) -> None:
        for module in ("leases", "provenance"):
            monkeypatch.setattr(f"idwbench.results.{module}.this_process", lambda: (host, pid))

    yield become
