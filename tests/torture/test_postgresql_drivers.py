"""Several drivers at once on one PostgreSQL server."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections import Counter
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import pytest
from postgresql import Server

pytestmark = pytest.mark.slow

DRIVERS = 4
FULL = os.environ.get("IDWBENCH_TORTURE") == "1"  # set by `make torture`
SETTINGS, SEEDS = (200, 10) if FULL else (20, 10)
ISOLATIONS = ["read committed", "serializable"] if FULL else ["serializable"]
SWEEP = f"""
name: torture
dataset: {{name: two_moons, train_per_class: 10, test_per_class: 5, holdout_per_class: 0}}
protocol: {{epochs: 2, batch_size: 10}}
seeds: {SEEDS}
grid: {{method: idw, prototypes: {list(range(1, SETTINGS + 1))}}}
"""
IMPORTS = ["idwbench.sweep.runner", "idwbench.training.selection", "psycopg"]


@pytest.fixture(scope="module")
def context() -> Iterator[BaseContext]:
    """Drivers are copies of a process that has done the imports; another module may have started it."""
    context = multiprocessing.get_context("forkserver")
    is_running = forkserver._forkserver._forkserver_pid is not None
    if not is_running:
        context.set_forkserver_preload(IMPORTS)
    yield context
    if not is_running:
        forkserver._forkserver._stop()


def drive(sweep: Path, db: str, start_at: Any, answer: Connection) -> None:
    from idwbench.sweep.execution import run_sweep

    start_at.wait()
    try:
        run_sweep(sweep, db, jobs=1)
        answer.send((os.getpid(), ""))
    except BaseException:
        answer.send((os.getpid(), traceback.format_exc()))


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_drivers_that_start_at_once_train_every_run_once(
    postgresql_server: Server, tmp_path: Path, context: BaseContext, isolation: str, capsys: Any
) -> None:
    sweep, name = tmp_path / "torture.yaml", postgresql_server.create()
    sweep.write_text(SWEEP)
    postgresql_server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    barrier = context.Barrier(DRIVERS)
    pipes = [context.Pipe(duplex=False) for _ in range(DRIVERS)]
    drivers = [
        context.Process(target=drive, args=(sweep, postgresql_server.url(name), barrier, sender)) for _, sender in pipes
    ]
    for driver in drivers:
        driver.start()
    for _, sender in pipes:
        sender.close()  # so that a driver that ends without an answer ends the wait
    answers = [receiver.recv() for receiver, _ in pipes]
    for (receiver, _), driver in zip(pipes, drivers, strict=True):
        receiver.close()
        driver.join()
    assert [error for _, error in answers] == [""] * DRIVERS
    n = SETTINGS * SEEDS
    states = postgresql_server.execute("SELECT state, attempt, count(*) FROM runs GROUP BY 1, 2", database=name)
    assert states == [("complete", 1, n)]
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
