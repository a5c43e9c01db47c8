import shutil

import numpy as np
import pytest
from recorded_mlp import store_recorded
from typed import SMALL_SWEEP, typed, wrong_label

from idwbench import Results, run_config

MODEL = "train --dataset two_moons --epochs 3 --prototypes 6 -o model.pt --db models.db"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Type a command in an empty folder: words, the first of which may be several."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IDWBENCH_DB", raising=False)
    return typed


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """What commands read, made once: a swept database, models, a model with patches, a recorded network, prototypes."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "small.yaml").write_text(SMALL_SWEEP)
    np.savez(folder / "three.npz", prototypes=[[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], labels=["a", "b", "a"])
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.delenv("IDWBENCH_DB", raising=False)
        for command in ("sweep small.yaml -j 1", MODEL, "import three.npz -o other.pt --method inv_dist"):
            assert typed(command).exit_code == 0
        for start, end, point in (("model.pt", "1.pt", "0,1"), ("1.pt", "2.pt", "1,0")):
            label = wrong_label(folder / "model.pt", point)
            assert typed(f"patch {start} --x {point} --label {label} -o {end}").exit_code == 0
    store_recorded(folder / "models.db")
    Results(folder / "models.db").plan([run_config("two_moons", kind="mlp")])
    return folder


@pytest.fixture
def swept(run, bench, tmp_path):
    """Type a command beside the database of the small sweep."""
    (tmp_path / "results").mkdir()
    shutil.copy(bench / "results/idwbench.db", tmp_path / "results")
    return run


@pytest.fixture
def folder(bench, tmp_path):
    """The folder of the test with all of the bench."""
    shutil.copytree(bench, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def small_sweep(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL_SWEEP)
    return path
