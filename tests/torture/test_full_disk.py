"""A disk that is full in mid-sweep: that of the database, and that of the recordings."""

import os
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pytest
from stored_runs import query
from torture_database import contents, is_sound, most_written, record_results, results_by_run, states
from torture_disk import FileSizeLimit, TmpfsDisk, can_mount
from torture_drivers import FULL, sweep_text, type_command

pytestmark = pytest.mark.slow

SETTINGS, SEEDS = (150, 2) if FULL else (12, 2)
# Room for some of the runs, after the tables.
ROOMS = (20_000, 60_000, 130_000, 400_000) if FULL else (60_000, 130_000)
RECORDED = """\
name: recorded
dataset: {name: two_moons, train_per_class: 130, test_per_class: 5, holdout_per_class: 5}
protocol: {epochs: 2, learning_rate: 0.05, optimizer: sgd, momentum: 0.9}
seeds: 2
grid: {kind: mlp, width: 128, depth: 1, record: true}
"""


def in_child(function, *arguments):
    """Call a function in a process that may mount a disk, and prints the failure."""
    process = get_context("forkserver").Process(target=function, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0


def typed(folder, name, db):
    """Type the sweep in a child of this process, and return its exit code and its output."""
    log = folder / name
    child = os.fork()
    if child == 0:
        type_command(["sweep", str(folder / "torture.yaml"), "--db", str(db), "-j", "2"], log)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text()


@contextmanager
def full_disk(folder, disk, room, db, *words):
    """Sweep with so much room until one line says which disk is full, and sweep again after the block, with more."""
    disk.fill(room)
    code, output = typed(folder, "full.log", db)
    disk.make_room()
    assert code == 1 and "Traceback" not in output, output
    [last] = [line for line in output.splitlines() if line.startswith("idwbench:")]
    assert last == output.splitlines()[-1] and all(word in last for word in words)
    yield
    code, output = typed(folder, "resumed.log", db)
    assert code == 0, output


def fill_the_disk_of_the_database(folder, kind, room, alone):
    """Sweep on a disk that gets full, make room, and sweep again."""
    n, db = SETTINGS * SEEDS, folder / "disk" / "torture.db"
    disk = (TmpfsDisk if kind == "tmpfs" else FileSizeLimit)(db.parent, 2**24)
    record_results(db)
    with full_disk(folder, disk, room, db, "torture.db"):
        before = results_by_run(db)
        assert 0 <= len(before) < n
    after = results_by_run(db)
    assert all(after[key] == rows for key, rows in before.items()) and is_sound(db)
    assert states(db) == {"complete": n}
    assert (most_written(db), query(db, "SELECT count(*) FROM written")) == (1, [(n,)])
    assert repr(contents(db)) == alone


def swept_with_room(folder, text):
    """Return the database of a sweep where there is room."""
    (folder / "torture.yaml").write_text(text)
    in_child(typed, folder, "log", folder / "alone.db")
    return folder / "alone.db"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return repr(contents(swept_with_room(tmp_path_factory.mktemp("alone"), sweep_text(SETTINGS, SEEDS))))


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("kind", ["tmpfs", "limit on file sizes"])
def test_a_full_disk_ends_a_sweep_in_one_line_and_nothing_stored_is_lost(tmp_path, sweep, alone, kind, room):
    if kind == "tmpfs" and not can_mount(tmp_path / "probe"):
        kind = "limit on file sizes"
    sweep.write_text(sweep_text(SETTINGS, SEEDS))
    in_child(fill_the_disk_of_the_database, tmp_path, kind, room, alone)


def recordings(db):
    """The files of the recordings that have the name of a complete one."""
    folders = Path(f"{db}.recordings").iterdir()
    complete = [path for path in folders if path.is_dir() and not path.suffix]
    return {path.name: {file.name: file.read_bytes() for file in path.iterdir()} for path in complete}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return recordings(swept_with_room(tmp_path_factory.mktemp("undisturbed"), RECORDED))


def fill_the_disk_of_recordings(folder, share, checkpoint_seconds, undisturbed):
    """Sweep on a disk with room for a share of the recordings, or a limit on each file, and sweep again with room."""
    from idwbench.dual.recorder import Recorder
    from idwbench.dual.recording import open_recording
    from idwbench.results.store import Results
    from idwbench.training.module_training import ModuleTraining

    ModuleTraining.__init__.__kwdefaults__["checkpoint_seconds"] = checkpoint_seconds
    check_space, Recorder._check_space = Recorder._check_space, lambda self: None  # others took the room later
    db, sizes = folder / "runs.db", [len(file) for files in undisturbed.values() for file in files.values()]
    disk = (FileSizeLimit if share is None else TmpfsDisk)(Path(f"{db}.recordings"), 2**23)
    room = int(0.75 * max(sizes)) if share is None else int(share * sum(sizes))
    words = "runs.db", "File too large" if share is None else "No space left on device"
    with full_disk(folder, disk, room, db, *words):
        Recorder._check_space = check_space
        complete = {run.run_key for run in Results(db).find_runs(states=["complete"])}
        assert states(db).keys() <= {"complete", "planned"} and len(complete) < 2
        assert recordings(db) == {key: undisturbed[key] for key in complete}
    assert (states(db), recordings(db)) == ({"complete": 2}, undisturbed)
    results = Results(db)
    for run in results.find_runs():
        assert open_recording(results, run).steps == open_recording(results, run).facts.steps > 0


@pytest.mark.parametrize("checkpoint_seconds", [0, 60], ids=["checkpoints", "no checkpoint"])
# In the first run: no file, the first files, and others; and in the second run; or a file beyond a limit.
@pytest.mark.parametrize("share", [0, 0.05, 0.2, 0.49, 0.7, None])
def test_a_recording_that_fills_the_disk_ends_the_sweep(tmp_path, sweep, undisturbed, share, checkpoint_seconds):
    if not can_mount(tmp_path / "probe"):
        share = None
    sweep.write_text(RECORDED)
    in_child(fill_the_disk_of_recordings, tmp_path, share, checkpoint_seconds, undisturbed)
