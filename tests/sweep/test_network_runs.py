"""Sweeps with networks: their files, tables, interruption, and networks loaded from the database."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, ResultsError, TrainingError
from idwbench.models.networks import load_network
from idwbench.report.leaderboard import leaderboard
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.observer import Observer

HEAD = """\
name: networks
dataset: {name: two_moons, train_per_class: 20, test_per_class: 15, holdout_per_class: 10}
protocol: {epochs: 2}
seeds: 2
grid:
"""
LINEAR = "  - {kind: network, encoder: mlp, width: [4, 8], learning_rate: [0.001, 0.01]}\n"
IDW = "  - {kind: network, encoder: mlp, width: 4, head: idw, prototypes: 3, power: [2, 4], learning_rate: 0.01}\n"
PLAIN = "  - {method: idw, prototypes: 3}\n"


@pytest.fixture
def write(tmp_path: Path):
    def write(grid: str, head: str = HEAD) -> Path:
        path = tmp_path / "networks.yaml"
        path.write_text(head + grid)
        return path

    return write


@pytest.fixture
def results(write, tmp_path: Path) -> Results:
    db = tmp_path / "results.db"
    status = run_sweep(write(LINEAR + IDW + PLAIN), db, engine="torch", jobs=1)
    assert (status.complete, status.total) == (14, 14)
    assert not (tmp_path / "results.db.checkpoints").exists()
    return Results(db)


class Stopping(Observer):
    """Interrupts after a number of epochs."""

    def __init__(self, epochs: int) -> None:
        self.left, self.notes = epochs, []

    def epoch(self, configs, epoch: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("{kind: network, encoder: conv}", "encoder 'conv' needs images"),
        ("{kind: network, encoder: mlp, head: idw, prototypes: 41}", "expected at most 40, the number of training"),
    ],
)
def test_data_that_does_not_fit_is_refused_before_anything_is_trained(write, tmp_path, block, expected) -> None:
    with pytest.raises(ConfigError, match=expected):
        run_sweep(write(f"  - {block}\n"), tmp_path / "results.db", jobs=1)
    assert Results(tmp_path / "results.db").sweep_status("networks").complete == 0


def test_patches_of_pixels_that_do_not_divide_the_digits_are_refused(write, tmp_path) -> None:
    head = HEAD.replace("{name: two_moons, train_per_class: 20, test_per_class: 15, holdout_per_class: 10}", "digits")
    with pytest.raises(ConfigError, match="patches of 3 x 3 pixels do not divide images of 8 x 8"):
        run_sweep(write("  - {kind: network, encoder: vit_tiny, patch: 3}\n", head), tmp_path / "results.db", jobs=1)


def test_a_loaded_network_has_the_stored_accuracy(results) -> None:
    runs = [run for run in results.find_runs() if run.config.model.kind == "network"]
    assert len(runs) == 12
    for run in runs:
        network = load_network(results, run.run_key[:16])
        assert not network.training
        for name, split in load_dataset(run.config.dataset).splits.items():
            assert (network.predict(split.inputs) == split.labels).mean() == run.metric("accuracy", name)


def test_what_is_no_network_is_not_loaded(results) -> None:
    plain = next(run for run in results.find_runs() if run.config.model.kind == "prototypes")
    with pytest.raises(TrainingError, match="a run of kind prototypes has no network"):
        load_network(results, plain.run_key)
    with pytest.raises(ResultsError):
        load_network(results, "0" * 64)
    key = results.plan([run_config("two_moons", kind="network")])[0]
    with pytest.raises(TrainingError, match="the run is planned: it has no network"):
        load_network(results, key)


def test_an_interrupted_sweep_continues_within_a_run_with_the_same_bytes(write, results, tmp_path) -> None:
    db = tmp_path / "other.db"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(write(LINEAR + IDW), db, jobs=1, observer=Stopping(3))  # after the first epoch of the second run
    assert len(list((tmp_path / "other.db.checkpoints").iterdir())) == 1
    observer = Stopping(-1)
    assert run_sweep(write(LINEAR + IDW), db, jobs=1, observer=observer).complete == 12
    assert observer.left == -1 - (12 * 2 - 3)  # no epoch was trained twice
    assert not (tmp_path / "other.db.checkpoints").exists()
    for run in (found := Results(db)).find_runs():
        expected = results.load_arrays(run.run_key)
        arrays = found.load_arrays(run.run_key)
        assert arrays.keys() == expected.keys()
        assert all(np.array_equal(array, expected[name]) for name, array in arrays.items())
        assert found.load_curve(run.run_key) == results.load_curve(run.run_key)


def test_a_damaged_checkpoint_gets_a_note_and_is_replaced(write, tmp_path) -> None:
    db = tmp_path / "results.db"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(write(IDW), db, jobs=1, observer=Stopping(1))
    file = next((tmp_path / "results.db.checkpoints").iterdir())
    file.write_bytes(b"not a checkpoint")
    observer = Stopping(-1)
    assert run_sweep(write(IDW), db, jobs=1, observer=observer).complete == 4
    assert [note for note in observer.notes if "damaged" in note] == [
        f"{file}: the checkpoint is damaged; the training starts anew"
    ]
    assert not file.exists()


def test_tables_show_what_differs_between_their_rows(results) -> None:
    rows, learned = set(), set()
    for table in section_tables(summarise(results.find_runs())):
        columns = {column.name: [cell.text for cell in column.cells] for column in table.columns}
        prototypes = columns.get("prototypes", ["–"] * len(columns["n"]))  # the column is left out if it is empty
        shown = list(zip(columns["method"], columns["setting"], prototypes, strict=True))
        assert len(set(shown)) == len(shown)
        rows.update(shown)
        learned.update(columns["learned_parameters"])
    assert rows == {
        ("mlp+linear", "width 4, depth 2", "–"),
        ("mlp+linear", "width 8, depth 2", "–"),
        ("mlp+idw", "width 4, depth 2, head p=2, ε=0.001", "3"),
        ("mlp+idw", "width 4, depth 2, head p=4, ε=0.001", "3"),
        ("idw", "p=2, ε=0.001", "3"),
    }
    assert learned == {"42", "114", "50", "12"}  # such as (2·4 + 4) + (4·4 + 4) + 3·(4 + 2)
    board = leaderboard([run for run in results.find_runs() if run.config.model.kind == "network"])
    rank, *settings = board.columns[:6]
    assert [column.name for column in settings] == ["method", "power", "prototypes", "width", "learning_rate"]
    assert len({*zip(*(column.cells for column in settings), strict=True)}) == len(rank.cells)


def test_the_key_of_a_run_is_pinned() -> None:
    run = run_config("digits", kind="network", encoder="vit_tiny", attention="idw", head="idw", prototypes=5)
    assert run.run_key == "806698e59a5fd93770eb754976c35234b4636dc92e8df3d36025cacc68bc3785"
