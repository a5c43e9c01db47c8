"""Recorded sweeps whose disk becomes full while they train, and which go on once there is room."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.dual import recorder
from idwbench.dual.recording import open_recording
from idwbench.results.store import Results
from idwbench.training.module_training import ModuleTraining

SWEEP = """\
name: recorded
dataset: {name: two_moons, train_per_class: 130, test_per_class: 5, holdout_per_class: 5}
protocol: {epochs: 2, learning_rate: 0.05, optimizer: sgd, momentum: 0.9}
seeds: 2
grid: {kind: mlp, width: 128, depth: 1, record: true}
"""
SIZE = 2**23  # of the small disk


@contextmanager
def mounted(folder: Path) -> Iterator[Path | None]:
    """Mount a tmpfs on a folder, in a namespace of its own; yield its path, or None if the system refuses it."""
    command = f"mount -t tmpfs -o size={SIZE} tmpfs '{folder}' && echo mounted && exec cat"
    for option in ("-m", "-rm"):
        try:
            process = subprocess.Popen(
                ["unshare", option, "sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        except OSError:  # the program is missing
            break
        with process:
            assert process.stdin is not None and process.stdout is not None
            if process.stdout.readline() == "mounted\n":
                yield Path(f"/proc/{process.pid}/root{folder}")
                process.stdin.close()  # the process ends, and the namespace with it
                return
    yield None


@contextmanager
def full_disk(folder: Path, room: int) -> Iterator[None]:
    """Leave only `room` bytes to the files in a folder of a small disk."""
    disk = os.statvfs(folder)
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - room))
    yield
    ballast.unlink()


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Let no file of this process exceed a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def sweep(folder: Path):
    return CliRunner().invoke(app, ["sweep", str(folder / "sweep.yaml"), "--db", str(folder / "runs.db"), "-j", "1"])


def contents(folder: Path) -> dict[str, dict[str, bytes]]:
    """Return the files of the recordings that have the name of a complete one."""
    complete = [path for path in folder.iterdir() if path.is_dir() and not path.suffix]
    return {path.name: {file.name: file.read_bytes() for file in path.iterdir()} for path in complete}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """The recordings made where there is room."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "sweep.yaml").write_text(SWEEP)
    assert sweep(folder).exit_code == 0
    return contents(folder / "runs.db.recordings")


def check(folder: Path, disk: object, undisturbed: dict[str, dict[str, bytes]], reason: str, monkeypatch) -> None:
    """Sweep on the full disk, and with room again."""
    (folder / "sweep.yaml").write_text(SWEEP)
    with monkeypatch.context() as patch, disk:
        patch.setattr(recorder.Recorder, "_check_space", lambda self: None)  # others took the room later
        full = sweep(folder)
    assert full.exit_code == 1, full.output
    lines = [line for line in full.stderr.splitlines() if line.startswith("idwbench:")]
    assert len(lines) == 1 and lines[0] == full.stderr.splitlines()[-1]
    assert "runs.db" in lines[0] and reason in lines[0] and "Traceback" not in full.output
    runs = Results(folder / "runs.db").find_runs()
    complete = {run.run_key for run in runs if run.state == "complete"}
    assert sorted(run.state for run in runs) == ["complete"] * len(complete) + ["planned"] * (2 - len(complete))
    assert contents(folder / "runs.db.recordings") == {key: undisturbed[key] for key in complete}
    resumed = sweep(folder)
    assert resumed.exit_code == 0, resumed.output
    results = Results(folder / "runs.db")
    assert [run.state for run in results.find_runs()] == ["complete"] * 2
    assert contents(folder / "runs.db.recordings") == undisturbed
    for run in results.find_runs():
        assert open_recording(results, run).steps == open_recording(results, run).facts.steps > 0


@pytest.fixture(params=[0, 60], ids=["checkpoints", "no checkpoint"])
def _checkpoints(request, monkeypatch) -> None:
    """Whether each step writes a checkpoint, or none does."""
    monkeypatch.setitem(ModuleTraining.__init__.__kwdefaults__, "checkpoint_seconds", request.param)


# In the first run: no file, the first files, and others; and in the second run.
@pytest.mark.slow
@pytest.mark.usefixtures("_checkpoints")
@pytest.mark.parametrize("share", [0, 0.05, 0.2, 0.49, 0.7])
def test_a_recording_that_fills_the_disk_ends_the_sweep_which_goes_on_with_room(
    tmp_path, undisturbed, share, monkeypatch
):
    room = int(share * sum(len(content) for files in undisturbed.values() for content in files.values()))
    (tmp_path / "disk").mkdir()
    with mounted(tmp_path / "disk") as folder:
        if folder is None:
            check_with_limit(tmp_path, undisturbed, share, monkeypatch)
            return
        (tmp_path / "runs.db.recordings").symlink_to(folder)
        check(tmp_path, full_disk(folder, room), undisturbed, "No space left on device", monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("_checkpoints")
def test_a_recording_with_a_file_beyond_the_limit_ends_the_sweep_which_goes_on_without(
    tmp_path, undisturbed, monkeypatch
):
    check_with_limit(tmp_path, undisturbed, 0.5, monkeypatch)


def check_with_limit(folder: Path, undisturbed, share: float, monkeypatch) -> None:
    largest = max(len(content) for files in undisturbed.values() for content in files.values())
    check(folder, limited_files(int(largest * (0.6 + 0.3 * share))), undisturbed, "File too large", monkeypatch)
