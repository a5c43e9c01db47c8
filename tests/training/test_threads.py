"""The number of threads of a large run that trains alone, and of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from blob_data import make_dataset
from engine_runs import train_run
from float64_loop import assert_near_float64, start_with
from kinds import prototypes_run
from sweep_specs import sweep_spec

from idwbench.data.dataset import Split
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import parse_dataset
from idwbench.sweep.execution import run_sweep, train
from idwbench.training.kernel_runs import MOST_THREADS, useful_threads
from idwbench.training.threads import limited_threads

BLOBS = make_dataset(n_train=600, n_features=450)
# Noise with squared distances near 2: no method has gradients of 0.
NOISE = (0.05 * np.random.default_rng(1).normal(size=(600, 450))).astype(np.float32)
DATASET = replace(BLOBS, train=Split(NOISE, BLOBS.train.labels))


def large(method: str = "idw", **settings: object) -> RunConfig:
    return prototypes_run(DATASET, method, **{"prototypes": 300, "batch_size": 250, "epochs": 1, **settings})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["idw", "scaled_dot", "cosine"])
def test_a_large_run_equals_a_plain_loop_in_pytorch_and_has_the_same_bytes_on_as_many_threads(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_with(monkeypatch)
    results = []
    for threads in (1, 2, 2):
        with limited_threads(threads):
            results.append(train_run(large(method), DATASET, engine="fused"))
    assert [result.threads for result in results] == [1, 2, 2]
    assert_near_float64(results[:2], DATASET)
    assert all(array.tobytes() == results[1].arrays[name].tobytes() for name, array in results[2].arrays.items())


def test_small_runs_need_one_thread_and_large_ones_as_many_as_gain_something() -> None:
    with limited_threads(2):
        assert useful_threads(large(), DATASET) == 2
        for small in (large(prototypes=20), large(prototypes=64), large(batch_size=31)):
            assert useful_threads(small, DATASET) == 1
    assert 1 <= useful_threads(large(), DATASET) <= MOST_THREADS


def test_one_run_that_trains_alone_has_the_threads_of_blas_and_the_runs_of_a_sweep_one_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idwbench.training.kernel_runs.THREADED_PRODUCT", 1)
    data = parse_dataset("digits")
    config = run_config(data, prototypes=64, batch_size=32, epochs=1, seed=5)
    with limited_threads(2):
        assert train(config, tmp_path / "runs.db").threads == 2
        run_sweep(
            sweep_spec("test", (data, config.protocol), grid=[{"method": "idw", "prototypes": 64}]),
            tmp_path / "runs.db",
        )
    with limited_threads(1):
        assert train(config, tmp_path / "other.db").threads == 1
    assert [run.threads for run in Results(tmp_path / "runs.db").find_runs(sweep="test")] == [1]
