"""Sweeps with studies of patches: what they need is trained first."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from engine_runs import replace_train, train_run

from idwbench.errors import ResultsError, TrainingError
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.sweep.execution import run_sweep, train

DATA = {"name": "two_moons", "train_per_class": 10, "test_per_class": 8, "holdout_per_class": 10}
HEAD = f"name: kinds\ndataset: {DATA}\nprotocol: {{epochs: 2}}\nseeds: 2\ngrid:\n"
STUDY = "  - {kind: patch_study, cases: wrong, method: idw, prototypes: 2}\n"
NETWORK = "  - {method: idw, prototypes: 2}\n"


def a_study(seed: int = 0, **settings: object) -> RunConfig:
    chosen = {"cases": "wrong", "prototypes": 2, "epochs": 2, **settings}
    return run_config(DATA, kind="patch_study", seed=seed, **chosen)


def network_of(study: RunConfig) -> RunConfig:
    assert study.required is not None
    return study.required


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


@pytest.fixture
def write(tmp_path: Path):
    def write(grid: str) -> Path:
        path = tmp_path / "kinds.yaml"
        path.write_text(HEAD + grid)
        return path

    return write


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often each network was trained."""
    counts: Counter[str] = Counter()

    def count(configs, dataset, context):
        counts.update(config.run_key for config in configs)
        return train_torch(configs, dataset, context)

    train_torch = replace_train(monkeypatch, "torch", count)
    return counts


def sweep(path: Path, db: Path, **settings):
    return run_sweep(path, db, engine="torch", jobs=1, **settings)


def by_kind(db: Path) -> Counter[tuple[str, str]]:
    return Counter((run.config.model.kind, run.state) for run in Results(db, read_only=True).find_runs())


def test_a_study_trains_its_network_first_and_uses_it_the_next_time(write, db, trained):
    status = sweep(write(STUDY), db)
    assert (status.complete, status.total) == (2, 2)
    assert by_kind(db) == {("patch_study", "complete"): 2, ("prototypes", "complete"): 2}
    study = a_study(seed=1)
    assert trained == {network_of(study).run_key: 1, network_of(a_study()).run_key: 1}
    results = Results(db, read_only=True)
    stored = results.find_run(study.run_key)
    assert stored.config == study
    assert stored.metric("accuracy") is None
    assert stored.metric("accuracy_before") == results.find_run(network_of(study).run_key).metric("accuracy")
    arrays = results.load_arrays(study.run_key)
    assert arrays["eta"].dtype == np.float64
    assert {arrays[name].dtype for name in ("labels", "labels_before", "changed_test")} == {np.dtype(np.int64)}
    assert sweep(write(STUDY.replace("cases: wrong", "cases: special")), db).complete == 2
    assert sweep(write(STUDY + NETWORK), db).complete == 4
    assert set(trained.values()) == {1}


@pytest.mark.slow
def test_a_failed_network_makes_the_study_fail_with_the_reason(write, db, monkeypatch):
    def broken(configs, dataset, context):
        raise RuntimeError("no memory")

    path = write(STUDY)
    with monkeypatch.context() as patched:
        replace_train(patched, "torch", broken)
        assert sweep(path, db).failed == 2
    results = Results(db)
    network = network_of(a_study()).run_key
    last = (results.find_run(a_study().run_key).error or "").strip().splitlines()[-1]
    assert last.endswith(f"the run {network[:12]}, whose network is to be patched, is failed")
    assert sweep(path, db, retry="failed").complete == 2
    assert by_kind(db) == {("patch_study", "complete"): 2, ("prototypes", "complete"): 2}


def test_the_study_of_a_diverged_network_is_diverged(write, db):
    block = STUDY.replace("prototypes: 2", "prototypes: 2, optimizer: sgd, learning_rate: 1.0e+30")
    status = sweep(write(block), db)
    assert (status.diverged, status.total) == (2, 2)
    assert by_kind(db) == {("patch_study", "diverged"): 2, ("prototypes", "diverged"): 2}
    results = Results(db)
    run = next(run for run in results.find_runs() if run.config.model.kind == "patch_study")
    assert run.metrics == {}
    assert run.diverged_epoch == results.find_run(network_of(run.config).run_key).diverged_epoch
    assert results.load_arrays(run.run_key) == {}


def test_a_study_without_its_network_or_with_one_of_other_data_is_refused(db, blobs):
    study = a_study()
    with pytest.raises(ResultsError, match="no run has a key"):
        train_run(study, blobs, results=Results(db))
    train(network_of(study), db, engine="torch")
    with pytest.raises(TrainingError, match=r"was trained on other data: the checksums differ"):
        train_run(study, blobs, results=Results(db))
