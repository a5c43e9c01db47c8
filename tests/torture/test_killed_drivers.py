"""Drivers that are killed at random moments, and several at once, on one SQLite file and one PostgreSQL server."""

import math
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial

import pytest
from stored_runs import query
from torture_database import contents, is_sound, most_written, record_results, states
from torture_drivers import FULL, start, sweep_text

pytestmark = pytest.mark.slow

KILLS, SETTINGS, SEEDS = (200, 150, 2) if FULL else (20, 32, 2)
REAL_KILLS = 20 if FULL else 1  # of these, on a command line that is started anew
MOST_STEPS = 16 if FULL else 24  # so that all kills come before the last run is stored


def kill_real_command(folder, moment):
    """Start the command with a new interpreter, and kill it some time after it has planned the sweep."""
    command = [sys.executable, "-m", "idwbench", "sweep", "torture.yaml", "--db", "torture.db", "-j", "2"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "to go" in process.stderr.readline()
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)


def kill_driver(folder, steps, moment):
    """Start the command in a fork, and kill it some time after it has taken some steps."""
    driver = start(folder / "log", "sweep", "torture.yaml", "--db", "torture.db", "-j", 2, is_stepping=True)
    driver.take_steps(steps)
    time.sleep(moment)
    driver.kill()


def test_a_sweep_whose_driver_is_killed_again_and_again_ends_like_one_that_was_left_alone(tmp_path, sweep, capsys):
    sweep.write_text(sweep_text(SETTINGS, SEEDS))
    db, n = tmp_path / "torture.db", SETTINGS * SEEDS
    record_results(db)
    random_moments = random.Random(0)
    progress = []
    for number in range(KILLS):
        # From the first instant to some milliseconds after a step, so also within transactions.
        steps, moment = random_moments.randrange(MOST_STEPS), random_moments.uniform(0, 0.01)
        # How far a real one gets depends on the machine, so the short version has its one at the end.
        if (number + 1) % (KILLS // REAL_KILLS) == 0:
            kill_real_command(tmp_path, 10 * moment)
        else:
            kill_driver(tmp_path, steps, moment if steps else 10 * moment)
        progress.append(states(db).get("complete", 0))
    assert is_sound(db)

    last = start(tmp_path / "log", "sweep", "torture.yaml", "--db", "torture.db", "-j", 2)
    assert last.wait() == 0, last.output
    alone = start(tmp_path / "log", "sweep", "torture.yaml", "--db", "alone.db", "-j", 2)
    assert alone.wait() == 0, alone.output
    assert "Traceback" not in last.output

    assert states(db) == {"complete": n}
    assert most_written(db) == 1  # no run got a result twice
    assert query(db, "SELECT count(*), count(DISTINCT run_key) FROM written") == [(n, n)]
    # Each start of a run is an attempt: one is complete, and the others lost their process.
    lost = query(db, "SELECT sum(attempt) FROM runs")[0][0] - n
    assert is_sound(db)
    assert contents(db) == contents(tmp_path / "alone.db")
    # The kills hit what they were meant to hit: begun runs, and a sweep that was not done yet.
    assert lost > 0
    assert 0 < progress[KILLS // 2] < n
    assert not FULL or progress[-1] < n
    if FULL:
        with capsys.disabled():
            print(f"\n{KILLS} kills (SIGKILL) of a sweep of {n} runs, {REAL_KILLS} of them of a new interpreter:")
            hits = sum(done < n for done in progress)
            print(f"{n} complete, {hits} kills before the last run was stored, {lost} trainings lost,")
            print("none stored twice, metrics, curves and arrays equal to the byte to a sweep left alone")


# Several at once

DRIVERS = 4
SIZE = (200, 10) if FULL else (15, 4)
N = math.prod(SIZE)
ISOLATIONS = ["read committed", "serializable"] if FULL else ["serializable"]


@pytest.fixture
def drive(tmp_path, sweep, capsys):
    """A function that lets drivers train a sweep into a new database, and returns their processes."""

    def drive(db, kind, prepare=None):
        sweep.write_text(sweep_text(*SIZE))
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
