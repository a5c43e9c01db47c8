"""Several drivers at once, on one SQLite file and on one PostgreSQL server."""

from __future__ import annotations

import os
import traceback
from collections import Counter
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from torture_database import is_sound, most_written, query, record_results, states
from torture_drivers import start
from torture_sweeps import FULL, sweep_text

pytestmark = pytest.mark.slow

DRIVERS = 4
SETTINGS, SEEDS = (200, 10) if FULL else (15, 4)
ISOLATIONS = ["read committed", "serializable"] if FULL else ["serializable"]


def test_drivers_on_one_file_train_every_run_once(tmp_path, sweep, capsys):
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


def drive(sweep: Path, db: str, start_at: Any, answer: Connection) -> None:
    from idwbench.sweep.execution import run_sweep

    start_at.wait()
    try:
        run_sweep(sweep, db, jobs=1)
        answer.send((os.getpid(), ""))
    except BaseException:
        answer.send((os.getpid(), traceback.format_exc()))


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_drivers_on_one_server_train_every_run_once(postgresql_server, sweep, isolation, capsys):
    name, context, n = postgresql_server.create(), get_context("forkserver"), SETTINGS * SEEDS
    sweep.write_text(sweep_text(SETTINGS, SEEDS))
    postgresql_server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    barrier, url = context.Barrier(DRIVERS), postgresql_server.url(name)
    pipes = [context.Pipe(duplex=False) for _ in range(DRIVERS)]
    drivers = [context.Process(target=drive, args=(sweep, url, barrier, sender)) for _, sender in pipes]
    for driver in drivers:
        driver.start()
    for _, sender in pipes:
        sender.close()  # so that a driver that ends without an answer ends the wait
    answers = [receiver.recv() for receiver, _ in pipes]
    for (receiver, _), driver in zip(pipes, drivers, strict=True):
        receiver.close()
        driver.join()
    assert [error for _, error in answers] == [""] * DRIVERS
    found = postgresql_server.execute("SELECT state, attempt, count(*) FROM runs GROUP BY 1, 2", database=name)
    assert found == [("complete", 1, n)]
    trained = Counter(pid for (pid,) in postgresql_server.execute("SELECT pid FROM runs", database=name))
    assert trained.keys() <= {pid for pid, _ in answers}
    counts = "SELECT (SELECT count(*) FROM arrays), (SELECT count(*) FROM sweep_runs)"
    assert postgresql_server.execute(counts, database=name) == [(2 * n, n)]
    if FULL:
        shares = ", ".join(str(count) for count in sorted(trained.values()))
        with capsys.disabled():
            print(
                f"\n{DRIVERS} drivers at once on one PostgreSQL server ({isolation}): {n} runs complete, "
                f"each trained once, no lock error; runs of each driver: {shares}"
            )
