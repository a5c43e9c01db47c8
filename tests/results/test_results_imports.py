from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from idwbench.results.store import ResultsStore
ResultsStore.open(sys.argv[1], read_only=True).find_runs()
print(*(name for name in ("torch", "alembic", "pandas", "matplotlib") if name in sys.modules))
"""


def test_reading_loads_neither_torch_nor_alembic(store, db):
    output = subprocess.run([sys.executable, "-c", SCRIPT, db], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == ""
