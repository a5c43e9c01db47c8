"""What a sweep refuses once its data is loaded, before the first run is trained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from engine_runs import replace_train
from sweep_specs import sweep_spec

from idwbench.errors import ConfigError, TrainingError
from idwbench.plugins import load_plugin
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.datasets import TwoMoonsConfig
from idwbench.runs.protocol import Protocol
from idwbench.sweep.execution import run_sweep, train


@pytest.mark.parametrize("initialisation", ["samples", "kmeans"])
def test_more_prototypes_than_training_inputs_are_refused_before_any_run(tmp_path: Path, initialisation: str) -> None:
    data = TwoMoonsConfig(train_per_class=2, test_per_class=1, holdout_per_class=0)
    block = {"method": "idw", "prototypes": [2, 5], "initialisation": initialisation}
    spec = sweep_spec("test", (data, Protocol(epochs=1, batch_size=2, learning_rate=0.1)), grid=[block])
    with pytest.raises(ConfigError, match=r"^prototypes: expected at most 4, the number of .*, got 5$"):
        run_sweep(spec, tmp_path / "runs.db")
    assert [run.state for run in Results(tmp_path / "runs.db").find_runs()] == ["planned", "planned"]


ADDRESSES = "expected local:N, tcp://host:port or tls://host:port"
CONFIG = run_config("two_moons", epochs=1)


@pytest.mark.parametrize(
    ("call", "settings", "message"),
    [
        (train, {"engine": "fusd"}, "engine: expected auto, fused or torch, got 'fusd' (did you mean 'fused'?)"),
        (train, {"engine": None}, "engine: expected auto, fused or torch, got None"),
        (train, {"config": "two_moons"}, "config: expected a run, got 'two_moons' (make it with run_config)"),
        (train, {"db": 3}, "db: expected a path or URL, got 3"),
        (train, {"device": None}, "device: expected the name of a device, got None"),
        (train, {"data_dir": 1}, "data_dir: expected a path, got 1"),
        (train, {"retrain": "yes"}, "retrain: expected True or False, got 'yes'"),
        (train, {"observer": print}, "observer: expected an Observer, got <built-in function print>"),
        (run_sweep, {"sweep": 5}, "sweep: expected the path or name of a sweep, or the result of read_sweep, got 5"),
        (run_sweep, {"engine": "tensorflow"}, "engine: expected auto, fused or torch, got 'tensorflow'"),
        (run_sweep, {"retry": "no"}, "retry: expected one of failed, diverged, all, got 'no'"),
        (run_sweep, {"jobs": 0}, "jobs: expected a whole number above 0, got 0"),
        (run_sweep, {"jobs": True}, "jobs: expected a whole number above 0, got True"),
        (run_sweep, {"max_failures": 1.5}, "max_failures: expected a whole number above 0, got 1.5"),
        (run_sweep, {"dask": 8786}, "dask: expected the address of a cluster, got 8786"),
        (run_sweep, {"dask": "a:1"}, f"dask: 'a:1' is not the address of a cluster ({ADDRESSES})"),
        (run_sweep, {"wait": 1}, "wait: expected True or False, got 1"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line_before_the_database_is_made(tmp_path, call, settings, message):
    first = {train: {"config": CONFIG}, run_sweep: {"sweep": "two_moons"}}[call]
    with pytest.raises(ConfigError) as caught:
        call(**{**first, "db": tmp_path / "runs.db", **settings})
    assert str(caught.value) == message
    assert not (tmp_path / "runs.db").exists()


BAD_SCORES = {
    "column": ("(inputs @ keys.mT).sum(-1)", "shape (3,)"),
    "transposed": ("keys @ inputs.mT", "shape (2, 3)"),
    "no tensor": ("0.0", "'float'"),
}


@pytest.mark.parametrize("name", BAD_SCORES)
def test_a_plugins_score_of_a_wrong_shape_is_found_before_the_training(name, tmp_path):
    formula, got = BAD_SCORES[name]
    file = tmp_path / "plugin.py"
    file.write_text(
        f"from idwbench import register\n\n@register('bad')\ndef bad(inputs, keys):\n    return {formula}\n"
    )
    load_plugin(file)
    with pytest.raises(ConfigError) as caught:
        train(run_config("two_moons", method="bad", prototypes=4, epochs=1), tmp_path / "runs.db")
    expected = "the score of bad must have the shape (3, 2) for inputs (3, 2) and keys (2, 2)"
    assert str(caught.value) == f"method: {expected}, got {got}"
    assert not (tmp_path / "runs.db").exists()


def test_a_run_whose_memory_cannot_be_allocated_fails_with_one_line(tmp_path, monkeypatch):
    def allocate(configs, dataset, context):
        torch.empty(2**60)

    replace_train(monkeypatch, "fused", allocate)
    with pytest.raises(TrainingError, match=r"failed: .*TrainingError: idw · 16 .*: out of memory \(.*can't allocate"):
        train(run_config("two_moons", epochs=1), tmp_path / "runs.db")


def test_a_single_run_that_does_not_fit_leaves_no_database(tmp_path):
    for settings in ({"kind": "baseline", "method": "samples"}, {"kind": "patch_study", "initialisation": "samples"}):
        with pytest.raises(ConfigError, match=r"^prototypes: expected at most 200, the number of training inputs, got"):
            train(run_config("two_moons", prototypes=201, **settings), tmp_path / "runs.db")
    assert not (tmp_path / "runs.db").exists()


PROGRAM = """
import sys, idwbench
config = idwbench.run_config("iris", kind="scikit_learn", method="knn")
print(idwbench.train(config, sys.argv[1]).state, "torch" in sys.modules, "numba" in sys.modules)
"""


@pytest.mark.slow
def test_torch_is_not_imported_for_what_scikit_learn_fits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "runs.db"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["complete", "False", "False"]
