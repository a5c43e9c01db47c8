"""`idwbench page`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from idwbench.results.store import Results
from idwbench.runs.config import run_config

Run = Callable[..., Result]


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    path = tmp_path / "results.db"
    configs = [run_config("two_moons", prototypes=2, method="idw", seed=seed) for seed in range(3)]
    Results(path).register_sweep("long", "Three runs", "name: long", configs)
    return path


def test_the_page_of_a_sweep_is_written_and_its_name_printed(run: Run, planned: Path, tmp_path: Path) -> None:
    done = run("page", "page.html", "--table", "long", "--db", planned)
    assert (done.exit_code, done.stdout) == (0, "page.html\n")
    assert "<h1 " in (tmp_path / "page.html").read_text()


def test_a_page_is_not_overwritten_without_force(run: Run, planned: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("mine")
    done = run("page", "page.html", "--db", planned)
    assert (done.exit_code, (tmp_path / "page.html").read_text()) == (2, "mine")
    assert "exists already" in done.stderr
    assert run("page", "page.html", "--db", planned, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--table", "lnog"], "nothing is called 'lnog'"),
        (["--leaderboard", "long"], "No such option"),
        (["--json"], "No such option"),
        (["-o", "x.html"], "No such option"),
        (["--table", "long", "--method", "iwd"], "no run of long has the method 'iwd'"),
    ],
)
def test_wrong_options_are_one_line_and_write_nothing(
    run: Run, planned: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = run("page", "page.html", "--db", planned, *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()
