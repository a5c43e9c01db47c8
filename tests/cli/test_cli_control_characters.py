"""Control characters in names and files reach no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from typed import SMALL_SWEEP

import idwbench.cli

NAME = "own\x1b]0;title\x07\u202e.csv"
SHOWN = r"own\x1b]0;title\x07\u202e.csv"
RED, LABEL = "\x1b[31mred\x9b", r"\x1b[31mred\u009b"


@pytest.fixture
def trained(run, tmp_path):
    rows = "".join(f"{i},{('y', RED)[i % 2]}\n" for i in range(12))
    (tmp_path / NAME).write_text(f"a,label\n{rows}", encoding="utf-8")
    result = run("train", "--dataset", NAME, "--epochs", 1, "--prototypes", 2, "-o", "model.pt", "--db", "own.db")
    assert result.exit_code == 0, result.output
    return run


@pytest.mark.slow
def test_labels_and_names_of_files_are_printed_with_escapes(trained):
    for arguments, shown in {
        ("report", "--db", "own.db"): SHOWN,
        ("report", "--db", "own.db", "--table", NAME): SHOWN,
        ("report", "--db", "own.db", "--table", NAME, "--format", "markdown"): "own",
        ("explain", "model.pt", "--x", "1"): LABEL,
        ("patch", "model.pt", "--x", "1", "--label", "y", "--dry-run"): "label ",
    }.items():
        result = trained(*arguments)
        assert result.exit_code == 0, result.output
        assert shown in result.stdout
        printed = result.stdout + result.stderr
        assert printed.replace("\n", "").isprintable(), arguments


def test_errors_name_a_file_with_escapes(run):
    result = run("train", "--dataset", NAME)
    assert result.stderr.strip().endswith(f"{SHOWN}: no such file")


def test_commands_print_by_the_function_that_escapes():
    folder = Path(idwbench.cli.__file__).parent
    others = {path.name for path in folder.glob("*.py") if "typer.echo(" in path.read_text(encoding="utf-8")}
    assert others == {"output.py"}


def test_a_sweep_is_named_with_escapes(run, tmp_path):
    (tmp_path / "own.yaml").write_text(SMALL_SWEEP.replace("name: small", 'name: "a\\e[31mb\\u202e"'))
    result = run("sweep", "own.yaml", "--dry-run")
    assert result.stderr == "a\\x1b[31mb\\u202e: 15 runs on two_moons: 15 missing\n"
