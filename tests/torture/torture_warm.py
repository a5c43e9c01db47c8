"""Loaded once by the server of processes: after one sweep all imports are done and the kernels are compiled."""

import tempfile
from pathlib import Path

from torture_drivers import sweep_text
from typer.testing import CliRunner

import idwbench.training.module_training  # noqa: F401  (with torch, which networks need)
from idwbench.cli.app import app

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "warm.yaml"
    file.write_text(sweep_text(1, 1))
    result = CliRunner().invoke(app, ["sweep", str(file), "--db", f"{folder}/warm.db", "-j", "1"])
    assert result.exit_code == 0, result.output
