"""A disk that is full in mid-sweep."""

import os
from multiprocessing import get_context
from pathlib import Path

import pytest
from torture_database import contents, is_sound, most_written, query, record_results, results_by_run, states
from torture_disk import FileSizeLimit, TmpfsDisk, can_mount
from torture_drivers import FULL, sweep_text, type_command

pytestmark = pytest.mark.slow

SETTINGS, SEEDS = (150, 2) if FULL else (12, 2)
# Room for some of the runs, after the tables.
ROOMS = (20_000, 60_000, 130_000, 400_000) if FULL else (60_000, 130_000)


def typed(folder: Path, name: str, db: str) -> tuple[int, str]:
    """Type the sweep in a child of this process, and return its exit code and its output."""
    log = folder / name
    child = os.fork()
    if child == 0:
        type_command(["sweep", str(folder / "torture.yaml"), "--db", db, "-j", "2"], log)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text()


def fill_the_disk_in_mid_sweep(folder: Path, kind: str, room: int, alone: str) -> None:
    """Sweep on a disk that gets full, make room, and sweep again."""
    n, db = SETTINGS * SEEDS, folder / "disk" / "torture.db"
    disk = (TmpfsDisk if kind == "tmpfs" else FileSizeLimit)(db.parent, 2**24)
    record_results(db)
    disk.fill(room)
    code, output = typed(folder, "full.log", str(db))
    disk.make_room()
    before = results_by_run(db)
    assert code == 1, output
    assert "Traceback" not in output
    last = output.splitlines()[-1]
    assert last.startswith("idwbench: ") and "torture.db" in last
    assert sum(line.startswith("idwbench:") for line in output.splitlines()) == 1
    assert 0 <= len(before) < n
    code, output = typed(folder, "resumed.log", str(db))
    assert code == 0, output
    after = results_by_run(db)
    assert all(after[key] == rows for key, rows in before.items()) and is_sound(db)
    assert states(db) == {"complete": n}
    assert (most_written(db), query(db, "SELECT count(*) FROM written")) == (1, [(n,)])
    assert repr(contents(db)) == alone


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What the sweep stores where there is room."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "torture.yaml").write_text(sweep_text(SETTINGS, SEEDS))
    process = get_context("forkserver").Process(target=typed, args=(folder, "log", str(folder / "alone.db")))
    process.start()
    process.join()
    return repr(contents(folder / "alone.db"))


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("kind", ["tmpfs", "limit on file sizes"])
def test_a_full_disk_ends_a_sweep_in_one_line_and_nothing_stored_is_lost(tmp_path, sweep, alone, kind, room):
    if kind == "tmpfs" and not can_mount(tmp_path / "probe"):
        kind = "limit on file sizes"
    sweep.write_text(sweep_text(SETTINGS, SEEDS))
    process = get_context("forkserver").Process(target=fill_the_disk_in_mid_sweep, args=(tmp_path, kind, room, alone))
    process.start()
    process.join()
    assert process.exitcode == 0  # a failure is printed by the process
