from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typed import assert_one_line

import idwbench
from idwbench.cli.reference import reference

COMMANDS = [[], ["train"], ["sweep"], ["report"], ["patch"]]
HEAVY = {"torch", "torchvision", "numba", "pandas", "matplotlib", "sklearn", "sqlalchemy", "numpy"}
PROGRAM = """
import json, sys
from idwbench.cli.app import main
sys.argv = ["idwbench", *json.loads(sys.argv[1]), "--help"]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def processor_time() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words) or "idwbench")
def test_help_is_quick_and_loads_nothing_heavy(command):
    seconds = []
    for _ in range(3):
        # Processor time: what the wall clock shows on a machine that does nothing else.
        started = processor_time()
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(command)], capture_output=True, text=True, check=True
        )
        seconds.append(processor_time() - started)
    loaded = set(json.loads(result.stderr.splitlines()[-1]))
    assert "Usage: idwbench" in result.stdout
    assert not loaded & HEAVY
    assert min(seconds) < 0.4


def test_the_command_line_reference_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    assert page.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_the_version_is_printed(run):
    assert run("--version").stdout == f"idwbench {idwbench.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "trian"),
        (["sweep"], "file"),
        (["sweep", "a.yaml", "--retry", "some"], "some"),
        (["train"], "--dataset"),
        (["train", "--dataset", "two_moons", "--protypes", "3"], "--prototypes"),
        (["report", "--format", "wrod"], "wrod"),
    ],
)
def test_usage_errors_are_one_line_and_exit_code_2(run, arguments, words):
    assert_one_line(run(*arguments), 2, words)
