from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idwbench.config import Protocol, RunConfig, TwoMoonsConfig, default_protocol, parse_run
from idwbench.engine.base import EpochMetrics, RunResult
from idwbench.results.store import ResultsStore

MakeConfig = Callable[..., RunConfig]
MakeResult = Callable[..., RunResult]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "results" / "idwbench.db")


@pytest.fixture(scope="session")
def new_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as it is made; copying it is much faster than migrating."""
    path = tmp_path_factory.mktemp("new") / "idwbench.db"
    ResultsStore.open(str(path))
    return path


@pytest.fixture
def store(db: str, new_database: Path) -> ResultsStore:
    Path(db).parent.mkdir()
    shutil.copy(new_database, db)
    return ResultsStore.open(db)


@pytest.fixture
def make_config() -> MakeConfig:
    def make(
        seed: int = 0,
        method: str = "idw",
        prototypes: int = 16,
        protocol: Protocol | None = None,
        **parameters: Any,
    ) -> RunConfig:
        protocol = protocol or default_protocol("two_moons")
        return parse_run(TwoMoonsConfig(), method, prototypes, protocol, seed, parameters)

    return make


@pytest.fixture
def make_result() -> MakeResult:
    def make(config: RunConfig, **changes: Any) -> RunResult:
        generator = np.random.default_rng(config.seed)
        values: dict[str, Any] = {
            "config": config,
            "state": "complete",
            "keys": generator.normal(size=(config.prototypes, 2)).astype(np.float32),
            "values": generator.normal(size=(config.prototypes, 2)).astype(np.float32),
            "curve": tuple(EpochMetrics(epoch, 0.01 / epoch, 1 / epoch, 0.9) for epoch in range(1, 26)),
            "train_accuracy": 0.99,
            "test_accuracy": 0.975,
            "holdout_accuracy": 0.995,
            "diverged_epoch": None,
            "seconds": 0.5,
            "engine": "torch",
            "device": "cpu",
            "threads": 1,
        }
        return RunResult(**(values | changes))

    return make


@pytest.fixture
def make_diverged(make_result: MakeResult) -> MakeResult:
    def make(config: RunConfig) -> RunResult:
        curve = (EpochMetrics(1, 0.01, 0.7, 0.5), EpochMetrics(2, 0.009, float("nan"), 0.5))
        return make_result(
            config,
            state="diverged",
            keys=None,
            values=None,
            curve=curve,
            train_accuracy=None,
            test_accuracy=None,
            holdout_accuracy=None,
            diverged_epoch=2,
        )

    return make


@pytest.fixture
def as_other_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, int], None]]:
    """Let the store believe that it runs in another process."""
    from idwbench.results.ownership import Owner

    def become(host: str, pid: int) -> None:
        monkeypatch.setattr(Owner, "current", classmethod(lambda cls: cls(host, pid)))

    yield become
