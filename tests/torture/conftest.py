from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from torture_drivers import start_warm_server, stop_server


@pytest.fixture(scope="session")
def _stopped_at_the_end() -> Iterator[None]:
    yield
    stop_server()


@pytest.fixture(scope="module", autouse=True)
def _warm(_stopped_at_the_end: None) -> None:
    """Other tests have servers of their own, which may have replaced that of these tests."""
    start_warm_server()


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return tmp_path / "torture.yaml"
