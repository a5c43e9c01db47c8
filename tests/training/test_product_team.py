"""A large run on several threads, against the same run on one."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from blob_data import make_dataset
from test_fused_engine import same

from idwbench.data.dataset import Split
from idwbench.runs.config import RunConfig, run_config
from idwbench.training.fused_engine import FusedEngine
from idwbench.training.kernel_runs import KernelRun
from idwbench.training.kernels.scores import KERNEL_SCORES
from idwbench.training.kernels.team import BLOCK, MOST_MEMBERS, TEAM_NUMBERS, share, team_in
from idwbench.training.product_team import product_team
from idwbench.training.threads import SpareCores

# Odd sizes: neither rows of a batch nor prototypes are whole blocks.
SIZES = {"prototypes": 300, "batch_size": 250}
N_FEATURES = 450
BLOBS = make_dataset(n_train=600, n_features=N_FEATURES)
# Noise with squared distances near 2: no method has gradients of 0.
NOISE = (0.05 * np.random.default_rng(1).normal(size=(600, N_FEATURES))).astype(np.float32)
DATASET = replace(BLOBS, train=Split(NOISE, BLOBS.train.labels))


def idle(free: int) -> SpareCores:
    return SpareCores(free, is_busy=lambda: False)


def large(method: str, **settings: object) -> RunConfig:
    return run_config(DATASET.config, method=method, **{**SIZES, "epochs": 2, "learning_rate": 0.01, **settings})


def trained(config: RunConfig, threads: int) -> KernelRun:
    run = KernelRun(config, DATASET, DATASET.moments)
    assert run.can_share == (sys.platform == "linux")
    run.threads = threads
    assert run.train_epochs(0, 2) == 2
    assert run.most_threads == threads
    return run


@pytest.mark.parametrize("method", KERNEL_SCORES)
@pytest.mark.parametrize(
    "settings", [{}, {"optimizer": "sgd", "gradient_clip": 1.0, "learning_rate": 10.0}], ids=["adam", "clipped_sgd"]
)
def test_one_two_and_three_threads_give_the_same_bits(method: str, settings: dict[str, object]) -> None:
    config = large(method, **settings)
    expected, *others = (trained(config, threads) for threads in (1, 2, 3))
    for run in others:
        assert run.keys.tobytes() == expected.keys.tobytes()
        assert run.values.tobytes() == expected.values.tobytes()
        assert run.curve == expected.curve
        assert all(run.outputs[name].tobytes() == expected.outputs[name].tobytes() for name in expected.outputs)
    initial = KernelRun(config, DATASET, DATASET.moments)
    assert (expected.keys[0, 0] != initial.keys[0, 0]).mean() > 0.5


def test_a_run_claims_the_spare_cores_and_gives_them_back() -> None:
    spare, expected = idle(2), FusedEngine().train([large("idw")], DATASET)[0]
    found: list[int] = []
    result = FusedEngine(spare).train([large("idw")], DATASET, lambda epoch: found.append(spare.free))[0]
    assert same(result, expected)
    assert (expected.threads, result.threads) == (1, 3)
    assert found == [2, 2] and spare.free == 2


def test_a_run_claims_no_more_cores_than_its_threads_can_use() -> None:
    spare = idle(63)
    (result,) = FusedEngine(spare).train([large("idw", epochs=1)], DATASET)
    assert result.threads == MOST_MEMBERS and spare.free == 63
    with spare.claimed(5) as first, spare.claimed(100) as second:
        assert (first, second) == (5, 58)


def test_small_runs_and_stacks_leave_the_spare_cores() -> None:
    spare = idle(2)
    small = FusedEngine(spare).train([large("idw", prototypes=20)], DATASET)
    stack = FusedEngine(spare).train([large("idw", seed=seed) for seed in range(2)], DATASET)
    assert [result.threads for result in (*small, *stack)] == [1, 1, 1]


def test_helpers_end_with_the_training_also_by_an_error() -> None:
    def fail(epoch: int) -> None:
        raise KeyError(epoch)

    before = threading.active_count()
    with pytest.raises(KeyError):
        FusedEngine(idle(2)).train([large("idw")], DATASET, fail)
    run = KernelRun(large("idw"), DATASET, DATASET.moments)
    with pytest.raises(KeyError), product_team(3, run.keys[0, 0], run.scratch):
        assert threading.active_count() == before + 2
        raise KeyError
    assert threading.active_count() == before and team_in(run.scratch.labels)[0] == 1


def test_a_system_without_more_threads_trains_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(large("idw"), 1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert trained(large("idw"), 3).keys.tobytes() == expected.keys.tobytes()


def test_cores_that_are_claimed_are_not_free_for_another_run() -> None:
    spare = idle(3)
    with spare.claimed(8) as first, spare.claimed(8) as second:
        assert (first, second) == (3, 0)
        spare.add(-1)  # a thread begins to work elsewhere
    assert spare.free == 2
    spare.add(-3)
    with spare.claimed(8) as none:
        assert none == 0
    assert spare.free == -1


def test_on_a_busy_machine_no_core_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.cpu_count() or 1
    for load, expected in ((0.0, 2), (cores + 0.9, 2), (cores + 1.1, 0)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        with SpareCores(2).claimed(8) as claimed:
            assert claimed == expected
    monkeypatch.delattr(os, "getloadavg")  # as on Windows
    with SpareCores(2).claimed(8) as claimed:
        assert claimed == 2


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 127, 300, 1000, 1024])
@pytest.mark.parametrize("n_members", [1, 2, 3, MOST_MEMBERS])
def test_shares_are_whole_blocks_of_all_rows_in_order(n_rows: int, n_members: int) -> None:
    team = np.zeros(TEAM_NUMBERS, np.int64)
    team[0] = n_members
    parts = [share.py_func(team, member, n_rows) for member in range(n_members)]
    assert [part[0] for part in parts] == [0, *(part[1] for part in parts[:-1])]
    assert parts[-1][1] == n_rows
    assert all(first % BLOCK == 0 or first == n_rows for first, _ in parts)
