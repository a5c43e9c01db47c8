from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typed import assert_one_line

import idwbench
from idwbench.cli import main
from idwbench.cli.app import COMMANDS as COMMAND_NAMES
from idwbench.cli.reference import reference

COMMANDS = [
    ["report"],
    [],
    ["runs"],
    ["runs", "list"],
    ["runs", "export"],
    ["train"],
    ["sweep"],
    ["explain"],
    ["patch"],
]
HEAVY = {"torch", "torchvision", "numba", "pandas", "matplotlib", "sklearn", "sqlalchemy", "numpy", "scipy"}
# One interpreter for all commands: after each, what it and those before it have loaded.
PROGRAM = """
import json, sys
from idwbench.cli.app import app
for words in json.loads(sys.argv[1]):
    try:
        app([*words, "--help"], prog_name="idwbench")
    except SystemExit as end:
        assert not end.code
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.mark.slow
def test_help_loads_nothing_heavy_and_a_command_no_other_command():
    program = [sys.executable, "-c", PROGRAM, json.dumps(COMMANDS)]
    result = subprocess.run(program, capture_output=True, text=True, check=True)
    after = [set(json.loads(line)) for line in result.stderr.splitlines()]
    assert result.stdout.count("Usage: idwbench") == len(COMMANDS)
    assert not after[-1] & HEAVY
    others = {f"idwbench.cli.{name}" for name in ("train", "sweep", "explain", "patch")}
    assert not after[0] & others


def test_the_command_line_reference_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    assert page.read_text(encoding="utf-8") == reference(), "run `make docs`"


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
    result = run()
    assert "Usage: idwbench" in result.stdout and result.stderr == ""
    assert all(f"│ {name} " in result.stdout for name in COMMAND_NAMES)
    assert result.exit_code == 2


def test_the_version_is_printed(run):
    assert run("--version").stdout == f"idwbench {idwbench.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "'train'"),
        (["TRAIN"], "No such command 'TRAIN'. Did you mean 'train'?"),
        (["frobnicate"], "No such command 'frobnicate'. Expected one of: card, claims,"),
        (["runs", "frobnicate"], "No such command 'frobnicate'. Expected one of: diff, export, list,"),
        (["train", "--dataset", "two_moons", "--engine", "FUSED"], "'torch'. Did you mean 'fused'?"),
        (["sweep"], "file"),
        (["sweep", "a.yaml", "--retry", "some"], "some"),
        (["train"], "--dataset"),
        (["train", "--dataset", "two_moons", "--protypes", "3"], "--prototypes"),
        (["report", "--format", "wrod"], "wrod"),
    ],
)
def test_usage_errors_are_one_line_and_exit_code_2(run, arguments, words):
    assert_one_line(run(*arguments), 2, words)
