"""`idwbench runs watch`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import Result

from idwbench.cli import runs_watch
from idwbench.cli.runs_watch import plain_lines, time_left_label, view_of
from idwbench.results.progress import SweepProgress, TrainingProcess
from idwbench.results.records import FailedRun, SweepStatus
from idwbench.results.store import Results
from idwbench.runs.config import run_config

Run = Callable[..., Result]

LONG = SweepProgress(
    name="long",
    status=SweepStatus(total=100, planned=50, running=8, stale=1, complete=40, diverged=0, failed=1),
    rate=0.5,
    seconds_left=118.0,
    processes=(TrainingProcess("node1", 17, 8, "mnist · idw · 20 prototypes", datetime.now(UTC)),),
    failures=(FailedRun("ab", "mnist · idw", 3, "ValueError: [red]no\x1b[2J", None),),
)


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    path = tmp_path / "results.db"
    configs = [run_config("two_moons", prototypes=2, method="idw", seed=seed) for seed in range(3)]
    Results(path).register_sweep("long", "", "name: long", configs)
    return path


def test_one_look_prints_a_line_for_each_sweep(run: Run, planned: Path) -> None:
    assert run("runs", "watch", "--once", "--db", planned).stdout == "long: 0 of 3 runs ended, 3 planned\n"


def test_a_database_without_sweeps_is_said_so_at_once(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    Results(path)
    for arguments in ([], ["--once"]):
        assert run("runs", "watch", "--db", path, *arguments).stdout == "no sweep is stored\n"


def test_json_has_the_counts_the_rate_and_the_processes(run: Run, planned: Path) -> None:
    (found,) = json.loads(run("runs", "watch", "--json", "--db", planned).stdout)["sweeps"]
    assert (found["name"], found["total"], found["planned"], found["ended"]) == ("long", 3, 3, 0)
    assert (found["runs_per_minute"], found["seconds_left"]) == (None, None)
    assert (found["processes"], found["failures"]) == ([], [])


def test_watching_ends_by_itself_when_all_runs_have_ended(
    run: Run, planned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(planned)
    keys = [found.run_key for found in results.find_runs()]
    looks: list[float] = []

    def train_one(seconds: float) -> None:
        looks.append(seconds)
        key = keys.pop()
        results.lease([key])
        results.fail([key], "no")

    monkeypatch.setattr(runs_watch.time, "sleep", train_one)
    done = run("runs", "watch", "long", "--interval", "7", "--db", planned)
    assert done.exit_code == 0
    assert looks == [7.0] * 3
    assert done.stdout.splitlines()[0] == "long: 0 of 3 runs complete"
    assert "3 failed" in done.stdout.splitlines()[-1]


def test_watching_changes_nothing(run: Run, planned: Path) -> None:
    before = planned.read_bytes()
    run("runs", "watch", "--once", "--db", planned)
    run("runs", "watch", "--json", "--db", planned)
    assert planned.read_bytes() == before


def test_ctrl_c_ends_it(run: Run, planned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs_watch.time, "sleep", interrupt)
    assert run("runs", "watch", "--db", planned).exit_code == 130


def test_wrong_names_and_missing_databases_are_one_line(run: Run, planned: Path) -> None:
    for arguments, words in ((["lnog"], "no sweep 'lnog' is stored"), (["--db", "none.db"], "does not exist")):
        done = run("runs", "watch", "--once", "--db", planned, *arguments)
        assert done.exit_code == 1
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_live_view_shows_states_pace_processes_and_failures() -> None:
    screen = io.StringIO()
    Console(file=screen, width=100, force_terminal=True, color_system=None).print(view_of([LONG]))
    text = screen.getvalue()
    for words in ("41 of 100", "30 runs per minute, about 2 min left", "40 complete", "1 stale", "50 planned"):
        assert words in text
    assert "node1 process 17: 8 runs, mnist · idw · 20 prototypes" in text
    assert "seed 3: ValueError: [red]no" in text
    assert "\x1b[2J" not in text  # a control character of an error clears no screen


def test_plain_lines_have_the_same_facts() -> None:
    first, process, failure = plain_lines([LONG])
    assert first == (
        "long: 41 of 100 runs ended, 8 running, 1 stale, 50 planned, 1 failed · 30 runs per minute, about 2 min left"
    )
    assert process.startswith("  node1 process 17: 8 runs, ")
    assert failure.startswith("  failed: mnist · idw · seed 3: ")
    assert list(plain_lines([])) == ["no sweep is stored"]


@pytest.mark.parametrize(
    ("seconds", "label"),
    [
        (None, ""),
        (0.0, ""),
        (0.2, "about 1 s left"),
        (89.0, "about 89 s left"),
        (600.0, "about 10 min left"),
        (20_000.0, "about 5.6 h left"),
    ],
)
def test_the_time_left_is_rounded(seconds: float | None, label: str) -> None:
    assert time_left_label(seconds) == label
