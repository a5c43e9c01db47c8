from __future__ import annotations

from pathlib import Path

import pytest
from recorded_mlp import load_made, store_recorded

from idwbench.results.store import Results
from idwbench.runs.config import RunConfig


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, RunConfig]:
    """A database with a recorded run on two parts, and that run."""
    db: Path = tmp_path_factory.mktemp("recorded") / "results.db"
    config = store_recorded(db)
    return Results(db, read_only=True), config


@pytest.fixture
def _made_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load_made)
