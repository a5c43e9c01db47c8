"""Several drivers at once on one SQLite file."""

from __future__ import annotations

import pytest
from torture_database import is_sound, most_written, query, record_results, states
from torture_drivers import start
from torture_sweeps import FULL, sweep_text

pytestmark = pytest.mark.slow

DRIVERS = 4
SETTINGS, SEEDS = (200, 10) if FULL else (15, 4)


def test_drivers_that_start_at_once_train_every_run_once(tmp_path, sweep, capsys):
    sweep.write_text(sweep_text(SETTINGS, SEEDS))
    db, n = tmp_path / "torture.db", SETTINGS * SEEDS
    record_results(db)
    command = ("sweep", "torture.yaml", "--db", "torture.db", "-j", 1, "--wait")
    drivers = [start(tmp_path / f"log{number}", *command) for number in range(DRIVERS)]
    codes = [driver.wait() for driver in drivers]
    outputs = [driver.output for driver in drivers]
    assert codes == [0] * DRIVERS, outputs
    assert not any("locked" in output or "Traceback" in output for output in outputs)
    assert states(db) == {"complete": n}
    assert query(db, "SELECT DISTINCT attempt FROM runs") == [(1,)]
    assert most_written(db) == 1
    assert query(db, "SELECT count(*) FROM written") == [(n,)]
    assert is_sound(db)
    if FULL:
        with capsys.disabled():
            print(
                f"\n{DRIVERS} drivers at once on one SQLite file: {n} runs complete, each trained once, no lock error"
            )
