from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer.testing
from typed import SMALL_SWEEP
from typer.testing import CliRunner, Result

from idwbench.cli.app import app


@pytest.fixture(scope="session", autouse=True)
def _the_command_is_built_once() -> Iterator[None]:
    """Building it from the signatures takes Typer longer than most commands take to run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typer.testing, "_get_command", functools.cache(typer.testing._get_command))
        yield


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


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small sweep, trained once for all tests."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "small.yaml").write_text(SMALL_SWEEP)
    result = CliRunner().invoke(app, ["sweep", str(folder / "small.yaml"), "--db", str(folder / "idwbench.db")])
    assert result.exit_code == 0, result.output
    return folder / "idwbench.db"


@pytest.fixture
def swept(run: Callable[..., Result], database: Path, tmp_path: Path) -> Callable[..., Result]:
    """Type a command beside the database of the small sweep."""
    (tmp_path / "results").mkdir()
    shutil.copy(database, tmp_path / "results/idwbench.db")
    return run
