"""Several drivers at once, on one SQLite file and on one PostgreSQL server; the first to come makes the tables."""

from collections import Counter
from functools import partial

import pytest
from stored_runs import query
from torture_database import is_sound, most_written, record_results, states
from torture_drivers import FULL, start, sweep_text

pytestmark = pytest.mark.slow

DRIVERS = 4
SETTINGS, SEEDS = (200, 10) if FULL else (15, 4)
N = SETTINGS * SEEDS
ISOLATIONS = ["read committed", "serializable"] if FULL else ["serializable"]


@pytest.fixture
def drive(tmp_path, sweep, capsys):
    """A function that lets drivers train a sweep into a new database, and returns their processes."""

    def drive(db, kind, prepare=None):
        sweep.write_text(sweep_text(SETTINGS, SEEDS))
        command = ("sweep", "torture.yaml", "--db", db, "-j", 1, "--wait")
        drivers = [start(tmp_path / f"log{number}", *command, prepare=prepare) for number in range(DRIVERS)]
        codes, outputs = [driver.wait() for driver in drivers], [driver.output for driver in drivers]
        assert codes == [0] * DRIVERS, outputs
        assert not any("locked" in output or "Traceback" in output for output in outputs)
        if FULL:
            with capsys.disabled():
                print(f"\n{DRIVERS} drivers at once on one {kind}: {N} runs complete, each trained once, no lock error")
        return {driver.process.pid for driver in drivers}

    return drive


def test_drivers_on_one_file_train_every_run_once(tmp_path, drive):
    db = tmp_path / "torture.db"
    drive("torture.db", "SQLite file", partial(record_results, db))
    assert states(db) == {"complete": N}
    assert query(db, "SELECT DISTINCT attempt FROM runs") == [(1,)]
    assert most_written(db) == 1
    assert query(db, "SELECT count(*) FROM written") == [(N,)]
    assert is_sound(db)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_drivers_on_one_server_train_every_run_once(postgresql_server, drive, isolation):
    name = postgresql_server.create()
    postgresql_server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    processes = drive(postgresql_server.url(name), f"PostgreSQL server ({isolation})")
    found = postgresql_server.execute("SELECT state, attempt, count(*) FROM runs GROUP BY 1, 2", database=name)
    assert found == [("complete", 1, N)]
    trained = Counter(pid for (pid,) in postgresql_server.execute("SELECT pid FROM runs", database=name))
    assert trained.keys() <= processes
    counts = "SELECT (SELECT count(*) FROM arrays), (SELECT count(*) FROM sweep_runs)"
    assert postgresql_server.execute(counts, database=name) == [(2 * N, N)]
