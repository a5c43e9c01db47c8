"""Help, the reference, completion by a shell, and what the program does around a command."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.cli
from typer.testing import CliRunner

import idwbench
from idwbench.cli import main
from idwbench.cli.app import COMMANDS, RUNS, app
from idwbench.results.store import Results
from idwbench.runs.config import run_config

ALL = [*COMMANDS, *(f"runs {name}" for name in RUNS)]
HEAVY = ["torch", "torchvision", "numba", "pandas", "matplotlib", "sklearn", "sqlalchemy", "numpy", "scipy"]
# One interpreter for all: after each command line, which heavy modules and which commands are loaded.
PROGRAM = """
import json, sys
from idwbench.cli.app import app
heavy, lines = json.loads(sys.argv[1])
for line in lines:
    try:
        app(line.split(), prog_name="idwbench")
    except SystemExit as end:
        assert not end.code
    print(json.dumps([name for name in sys.modules if name in heavy or "idwbench.cli" in name]), file=sys.stderr)
"""


@pytest.mark.slow
def test_help_and_completion_load_nothing_heavy_and_a_command_no_other_command():
    lines = ["report --help", "--show-completion bash", "--help", *(f"{name} --help" for name in ALL)]
    program = [sys.executable, "-c", PROGRAM, json.dumps([HEAVY, lines])]
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    result = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    after = [set(json.loads(line)) for line in result.stderr.splitlines()]
    assert result.stdout.count("Usage: idwbench") == len(lines) - 1 and "_IDWBENCH_COMPLETE" in result.stdout
    assert not after[-1] & set(HEAVY)
    assert not after[0] & {f"idwbench.cli.{name}" for name in ("train", "sweep", "explain", "patch")}


def test_help_has_panels_and_names_no_type_of_flags(run):
    panels = {"--data-dir ": "Storage", "--engine ": "Training", "--where ": "Selection of runs"}
    for command in ALL:
        text = run(f"{command} --help").stdout
        assert "Usage: idwbench" in text and "<bool>" not in text and "--no-" not in text
        for option, panel in panels.items():
            assert (f"│ {option}" in text) <= (f"╭─ {panel} ─" in text), command


def test_the_command_line_reference_is_up_to_date_and_explains_every_option():
    words = ["idwbench.cli.app", "utils", "docs", "--name", "idwbench", "--title", "Command line"]
    reference = CliRunner().invoke(typer.cli.app, words).stdout.rstrip()
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
    assert page.startswith(f"{reference}\n\n## Output and exit codes\n"), "run `make docs`"
    assert [line for line in reference.splitlines() if line.startswith("* `") and "`: " not in line] == []


class Interrupted:
    """A module during whose import Ctrl-C is pressed."""

    @property
    def run(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("module", "code", "words"),
    [(SimpleNamespace(run=lambda: sys.exit(3)), 3, ""), (Interrupted(), 130, "interrupted\n")],
)
def test_the_program_keeps_its_exit_code_and_spares_the_interpreter_the_search_for_garbage(
    monkeypatch, capfd, module, code, words
):
    steps = []
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "__all__")
    monkeypatch.setitem(sys.modules, "idwbench.cli.app", module)
    for step in ("disable", "freeze"):
        monkeypatch.setattr(f"gc.{step}", functools.partial(steps.append, step))
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capfd.readouterr().err, steps) == (code, words, ["disable", "freeze"])


def test_a_bare_command_prints_its_help_and_no_error(run):
    result = run("")
    assert "Usage: idwbench" in result.stdout and (result.stderr, result.exit_code) == ("", 2)
    assert all(f"│ {name} " in result.stdout for name in COMMANDS)
    assert all(f"│ {name} " in run("runs").stdout for name in RUNS)
    assert run("--version").stdout == f"idwbench {idwbench.__version__}\n"


def test_a_shell_is_offered_commands_options_names_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("two_mine.yaml", "two_mine.txt", "two_folder/inside.yml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    moons = run_config("two_moons", prototypes=2)
    Results(tmp_path / "results.db").register_sweep("moons_of_mine", "", "", [moons])
    for line, words in {
        "pat": ["patch"],
        "sweep --dr": ["--dry-run"],
        "sweep two_": ["two_moons", "two_moons_power", "two_folder/", "two_mine.yaml"],
        "sweep two_folder/": ["two_folder/inside.yml"],
        "sweep absent/x": [],
        "sweep two_folder/../two_m": ["two_folder/../two_mine.yaml"],
        f"sweep {tmp_path}/two_m": [f"{tmp_path}/two_mine.yaml"],
        "train --dataset di": ["diabetes", "digits"],
        "train --dataset csv": [],
        "train --method id": ["idw"],
        "figure key": ["key_history", "keys", "keys_nearest"],
        "report --db results.db --table mo": ["moons_of_mine"],
        "report --db results.db --table two": ["two_moons"],
        "report --db absent.db --table two": [],
    }.items():
        typed = {"COMP_WORDS": f"idwbench {line}", "COMP_CWORD": str(1 + line.count(" "))}
        done = CliRunner().invoke(app, [], env={"_IDWBENCH_COMPLETE": "complete_bash", **typed})
        assert done.output.split() == words, line
