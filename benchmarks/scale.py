"""Commands on 100,000 stored runs, and a plan of 1,000,000: processor time and peak memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.stored_runs import SWEEP, fill_database, sweep_text
from benchmarks.tables import header, row
from idwbench.cli.app import COMMANDS
from idwbench.data.dataset import Dataset

__all__ = ["scale"]

YARDSTICK = ("-c", "import sqlalchemy, pydantic, typer, numpy, pandas")
_RUNS, _PLANNED = 100_000, 1_000_000
_ROUNDS = 3
_MILLION = f"""\
name: million
dataset: two_moons
seeds: {_PLANNED // 1_000}
grid:
  method: idw
  prototypes: [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
  power: [0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16]
  epsilon: [0, 1.0e-6, 1.0e-5, 1.0e-4, 1.0e-3, 3.0e-3, 1.0e-2, 0.1, 1, 3]
"""


def scale(mnist: Dataset) -> None:
    """Each command in a fresh process, in turn with the imports of `YARDSTICK`."""
    header("command", "ratio", "processor seconds", "peak memory, MB", "must", numbers=3)
    with tempfile.TemporaryDirectory() as folder:
        for n_seeds in (10, 50):
            file, db = Path(folder) / f"{n_seeds}.yaml", Path(folder) / f"{n_seeds}.db"
            file.write_text(sweep_text(_RUNS, n_seeds), encoding="utf-8")
            fill_database(file, db)
            of = f"of {_RUNS // n_seeds:,} settings with {n_seeds} seeds"
            _row(f"report --table, {of}", "≤ 6, ≤ 500 MB", "report", "--table", SWEEP, "--db", str(db))
            _row(f"sweep with nothing to do, {of}", "≤ 4", "sweep", str(file), "--db", str(db))
            if "runs" in COMMANDS:
                _row(f"runs list, {of}", "≤ 4, ≤ 500 MB", "runs", "list", "--db", str(db))
            db.unlink()
        file = Path(folder) / "million.yaml"
        file.write_text(_MILLION, encoding="utf-8")
        none = str(Path(folder) / "none.db")
        _row(f"sweep --dry-run of {_PLANNED:,} runs", "", "sweep", str(file), "--dry-run", "--db", none, rounds=1)


def _row(title: str, must: str, *words: str, rounds: int = _ROUNDS) -> None:
    found = [(_measured("-m", "idwbench", *words), _measured(*YARDSTICK)) for _ in range(rounds)]
    ratio = statistics.median(command[0] / imports[0] for command, imports in found)
    seconds, peak = (statistics.median(command[place] for command, _ in found) for place in (0, 1))
    row(title, f"{ratio:.1f}", f"{seconds:.1f}", f"{peak:.0f}", must)


# A process that is started counts the memory of the process that starts it: this one is small.
_STARTER = """
import json, os, subprocess, sys
process = subprocess.Popen([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def _measured(*words: str) -> tuple[float, float]:
    """Return the processor time in seconds and the peak memory in MB of a Python process."""
    starter = subprocess.run([sys.executable, "-c", _STARTER, *words], stdout=subprocess.PIPE, check=True)
    code, seconds, peak = json.loads(starter.stdout)
    if code:
        raise subprocess.CalledProcessError(code, words)
    return seconds, peak
