"""Help, the reference, completion by a shell, and what the program does around a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import idwbench
from idwbench.cli import main
from idwbench.cli.app import COMMANDS, RUNS
from idwbench.cli.completion import complete_dataset, complete_method, complete_sweep, complete_table
from idwbench.cli.reference import reference
from idwbench.results.store import Results
from idwbench.runs.config import run_config

ALL = [*COMMANDS, *(f"runs {name}" for name in RUNS)]
HEAVY = ["torch", "torchvision", "numba", "pandas", "matplotlib", "sklearn", "sqlalchemy", "numpy", "scipy"]
# One interpreter for all: after each command, which heavy modules and which commands are loaded.
PROGRAM = """
import json, sys
from idwbench.cli.app import app
heavy, lines = json.loads(sys.argv[1])
for line in lines:
    try:
        app([*line.split(), "--help"], prog_name="idwbench")
    except SystemExit as end:
        assert not end.code
    print(json.dumps([name for name in sys.modules if name in heavy or "idwbench.cli" in name]), file=sys.stderr)
"""


@pytest.mark.slow
def test_help_loads_nothing_heavy_and_a_command_no_other_command():
    lines = ["report", "", *ALL]
    program = [sys.executable, "-c", PROGRAM, json.dumps([HEAVY, lines])]
    result = subprocess.run(program, capture_output=True, text=True, check=True)
    after = [set(json.loads(line)) for line in result.stderr.splitlines()]
    assert result.stdout.count("Usage: idwbench") == len(lines)
    assert not after[-1] & set(HEAVY)
    assert not after[0] & {f"idwbench.cli.{name}" for name in ("train", "sweep", "explain", "patch")}


def test_help_has_panels_and_names_no_type_of_flags(run):
    for command in ALL:
        text = run(f"{command} --help").stdout
        assert "Usage: idwbench" in text and "<bool>" not in text and "--no-" not in text
        for option, panel in {
            "--data-dir ": "Storage",
            "--engine ": "Training",
            "--where ": "Selection of runs",
        }.items():
            assert (f"│ {option}" in text) <= (f"╭─ {panel} ─" in text), command


def test_the_command_line_reference_is_up_to_date_and_explains_every_option():
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    assert page.read_text(encoding="utf-8") == reference(), "run `make docs`"
    assert "| None |" not in reference() and "` |  |" not in reference()


def test_the_program_keeps_its_exit_code_and_spares_the_interpreter_the_search_for_garbage(monkeypatch):
    steps = []

    def run():
        steps.append("run")
        raise SystemExit(3)

    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "__all__")
    monkeypatch.setattr("idwbench.cli.app.run", run)
    monkeypatch.setattr("gc.disable", lambda: steps.append("disable"))
    monkeypatch.setattr("gc.freeze", lambda: steps.append("freeze"))
    with pytest.raises(SystemExit, match="3"):
        main()
    assert steps == ["disable", "run", "freeze"]


def test_a_bare_command_prints_its_help_and_no_error(run):
    result = run("")
    assert "Usage: idwbench" in result.stdout and (result.stderr, result.exit_code) == ("", 2)
    assert all(f"│ {name} " in result.stdout for name in COMMANDS)
    assert all(f"│ {name} " in run("runs").stdout for name in RUNS)
    assert run("--version").stdout == f"idwbench {idwbench.__version__}\n"


PROGRAM_OF_A_SHELL = f"""
import atexit, json, sys
atexit.register(lambda: print(json.dumps([name for name in {HEAVY} if name in sys.modules]), file=sys.stderr))
sys.argv = ["idwbench", *sys.argv[1:]]
from idwbench.cli import main
main()
"""


def shell(*words: str, **environment: str) -> list[str]:
    """Return what the program prints for a shell; it loads nothing heavy."""
    program = [sys.executable, "-c", PROGRAM_OF_A_SHELL, *words]
    environment["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    done = subprocess.run(program, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    assert json.loads(done.stderr) == []
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_completes_the_program(name):
    word = {"bash": "complete", "zsh": "#compdef", "fish": "--command"}[name]
    assert word in (script := shell("--show-completion", name))
    assert any("_IDWBENCH_COMPLETE" in part for part in script)


@pytest.mark.slow
def test_a_shell_is_offered_commands_options_and_names():
    for line, words in {
        "idwbench pat": ["patch"],
        "idwbench sweep --dr": ["--dry-run"],
        "idwbench sweep two_moons_": ["two_moons_power"],
        "idwbench train --dataset di": ["diabetes", "digits"],
        "idwbench train --method id": ["idw"],
    }.items():
        asked = {"_IDWBENCH_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        assert shell(**asked) == words


def test_sweeps_are_completed_by_shipped_names_files_and_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("two_mine.yaml").touch()
    Path("two_mine.txt").touch()
    Path("two_folder").mkdir()
    Path("two_folder/inside.yml").touch()
    for words, completed in {
        "two_": ["two_moons", "two_moons_power", "two_folder/", "two_mine.yaml"],
        "two_folder/": ["two_folder/inside.yml"],
        "absent/x": [],
        "./": ["./two_folder/", "./two_mine.yaml"],
        "two_folder/../two_m": ["two_folder/../two_mine.yaml"],
        f"{tmp_path}/two_m": [f"{tmp_path}/two_mine.yaml"],
    }.items():
        assert complete_sweep(words) == completed


def test_names_are_completed_from_declarations_and_the_database(tmp_path):
    assert complete_dataset("di") == ["diabetes", "digits"] and "csv" not in complete_dataset("")
    assert complete_method("id") == ["idw"]
    context = SimpleNamespace(params={"db": str(tmp_path / "results.db")})
    assert complete_table(context, "") == []
    Results(tmp_path / "results.db").register_sweep("moons_of_mine", "", "", [run_config("two_moons", prototypes=2)])
    assert complete_table(context, "mo") == ["moons_of_mine"]
    assert complete_table(context, "two") == ["two_moons"]
