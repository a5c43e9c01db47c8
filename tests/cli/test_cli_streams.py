"""Whatever streams and locale a shell hands over."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typed import SMALL_SWEEP
from typer.testing import CliRunner

from idwbench.cli.app import app

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    (folder / "results").mkdir()
    (folder / "small.yaml").write_text(SMALL_SWEEP.replace("seeds: 3", "seeds: 1"))
    database = str(folder / "results/idwbench.db")
    assert CliRunner().invoke(app, ["sweep", str(folder / "small.yaml"), "--db", database]).exit_code == 0
    return folder


def shell(folder, words):
    command = f"{sys.executable} -m idwbench {words}"
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


# One interpreter for all commands.
PROGRAM = """
import shlex, sys
from idwbench.cli.app import run
for command in sys.argv[1:]:
    sys.argv = ["idwbench", *shlex.split(command)]
    try:
        run()
    except SystemExit as end:
        print(end.code, file=sys.stderr)
"""


def test_a_locale_without_greek_letters_gets_question_marks_not_a_traceback(folder):
    commands = ["train --help", "report --table small", "report --table small --format csv"]
    environment = {**os.environ, **ASCII}
    program = [sys.executable, "-c", PROGRAM, *commands]
    result = subprocess.run(program, cwd=folder, capture_output=True, text=True, env=environment, check=True)
    assert result.stderr.split() == ["0", "0", "0"]
    assert "?" in result.stdout


@pytest.mark.parametrize("redirection", [">&-", "2>&-"])
def test_closed_streams_are_survived(folder, redirection):
    result = shell(folder, f"report --table small {redirection}")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_full_disk_is_reported_in_one_line(folder):
    result = shell(folder, "report --table small --json > /dev/full")
    assert result.returncode == 1
    assert result.stderr.strip() == "idwbench: No space left on device"


def test_a_reader_that_leaves_early_is_no_error_of_ours(folder):
    assert shell(folder, "report --table small --json | head -1").stderr == ""
