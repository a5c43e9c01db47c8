from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typed import SMALL_SWEEP
from typer.testing import CliRunner, Result

from idwbench.cli.app import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Type a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IDWBENCH_DB", raising=False)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def small_sweep(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL_SWEEP)
    return path
