from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("alembic", "pandas", "torch", "numba", "safetensors", "psutil", "sklearn", "matplotlib")
CODE = f"""
import sys
from idwbench.results.store import Results
results = Results(sys.argv[1])
results.pending([run.run_key for run in results.find_runs()])
Results(sys.argv[1], read_only=True).list_sweeps()
print([name for name in {HEAVY} if name in sys.modules])
"""


@pytest.mark.slow
def test_opening_and_reading_load_nothing_heavy(store, db, make_config, make_result):
    store.finish([make_result(make_config(0))])
    done = subprocess.run([sys.executable, "-c", CODE, db], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
