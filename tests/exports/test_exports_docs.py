"""The examples of docs/exports.md run in order; that of skops is in `test_skops`."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from idwbench.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs/exports.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", PAGE, flags=re.DOTALL)


def run_commands(text: str) -> None:
    for line in text.splitlines():
        words = shlex.split(line)[1:]
        result = CliRunner().invoke(app, [*words, *(["--epochs", "2"] if words[0] == "train" else [])])
        assert result.exit_code == 0, f"{words}: {result.output}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("moons_model", None)


@pytest.mark.slow
def test_the_examples_of_the_page_of_exports_run_in_order(folder, capsys):
    assert len(BLOCKS) >= 8
    for language, text in BLOCKS:
        if language == "sh":
            run_commands(text)
        elif "skops" not in text:
            exec(compile(text, "docs/exports.md", "exec"), {})
    assert {"model.onnx", "moons_model.py", "patched.onnx", "centroids.pt"} <= {path.name for path in folder.iterdir()}
    printed = capsys.readouterr().out
    assert "idw · 12 prototypes · p=4, ε=0.001" in printed
    assert '"card": 1' in printed
