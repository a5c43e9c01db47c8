"""Shell completion: scripts for three shells, and the words that they ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from idwbench.cli.completion import complete_dataset, complete_method, complete_sweep, complete_table
from idwbench.results.store import Results
from idwbench.runs.config import run_config

PROGRAM = "import sys; sys.argv = ['idwbench', *sys.argv[1:]]; from idwbench.cli import main; main()"


def completed(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the program answers to bash, which completes the last word of the line."""
    asked = {"_IDWBENCH_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    program = [sys.executable, "-c", PROGRAM]
    return subprocess.run(
        program, env={**os.environ, **asked, **environment}, capture_output=True, text=True, check=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete --command")]
)
def test_the_script_of_a_shell_completes_the_program(shell, word):
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    program = [sys.executable, "-c", PROGRAM, "--show-completion", shell]
    script = subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout
    assert word in script and "idwbench" in script and "_IDWBENCH_COMPLETE" in script


@pytest.mark.slow
def test_a_shell_is_offered_commands_options_and_names():
    assert completed("idwbench pat").stdout.split() == ["patch"]
    assert "--dry-run" in completed("idwbench sweep --dr").stdout
    result = completed("idwbench sweep two_moons_")
    assert result.stdout.split() == ["two_moons_power"] and result.stderr == ""


@pytest.mark.slow
def test_completion_of_a_name_loads_nothing_heavy():
    """The modules are printed at the end of the process that answers the shell."""
    heavy = ["torch", "numba", "pandas", "matplotlib", "sklearn", "scipy", "numpy", "sqlalchemy"]
    print_loaded = f"print(json.dumps([name for name in {heavy} if name in sys.modules]), file=sys.stderr)"
    program = f"import atexit, json, sys; atexit.register(lambda: {print_loaded}); {PROGRAM}"
    for line in ("idwbench sweep two", "idwbench train --dataset di", "idwbench train --method id"):
        asked = {"_IDWBENCH_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        result = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True, check=True
        )
        assert result.stdout.split() and json.loads(result.stderr) == []


def test_sweeps_are_completed_by_shipped_names_files_and_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("two_mine.yaml").touch()
    Path("two_mine.txt").touch()
    Path("two_folder").mkdir()
    Path("two_folder/inside.yml").touch()
    assert complete_sweep("two_") == ["two_moons", "two_moons_power", "two_folder/", "two_mine.yaml"]
    assert complete_sweep("two_folder/") == ["two_folder/inside.yml"]
    assert complete_sweep("absent/x") == []
    assert complete_sweep("./two_") == ["./two_folder/", "./two_mine.yaml"]
    assert complete_sweep("./") == ["./two_folder/", "./two_mine.yaml"]
    assert complete_sweep("two_folder/../two_m") == ["two_folder/../two_mine.yaml"]
    assert complete_sweep(f"{tmp_path}/two_m") == [f"{tmp_path}/two_mine.yaml"]


def test_data_sets_and_methods_are_completed_by_their_names():
    assert complete_dataset("di") == ["diabetes", "digits"]
    assert "csv" not in complete_dataset("")
    assert complete_method("id") == ["idw"]


def test_tables_are_completed_by_the_sweeps_of_the_database_and_by_nothing_without_one(tmp_path):
    context = SimpleNamespace(params={"db": str(tmp_path / "results.db")})
    assert complete_table(context, "") == []
    Results(tmp_path / "results.db").register_sweep("moons_of_mine", "", "", [run_config("two_moons", prototypes=2)])
    assert complete_table(context, "mo") == ["moons_of_mine"]
    assert complete_table(context, "two") == ["two_moons"]
