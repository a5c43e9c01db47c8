"""The history of keys by the engines that trained them."""

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from engine_runs import train_run
from kinds import prototypes_run

import idwbench
from idwbench.data.dataset import Dataset
from idwbench.dual.key_history import KeyHistory
from idwbench.errors import ResultsError, TrainingError
from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config
from idwbench.training import replay as replay_module
from idwbench.training.replay import AbstractReplay, key_history, replay_keys, run_replay
from idwbench.training.threads import limited_threads

ENGINES = ("torch", "fused")
PROTOCOLS = [
    {},
    {"optimizer": "adam", "weight_decay": 0.1, "gradient_clip": 0.05},
    {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 0.1, "gradient_clip": 0.05, "learning_rate": 0.1},
]


def trained_and_replayed(
    dataset: Dataset, engine: str = "torch", **settings: object
) -> tuple[AbstractReplay, np.ndarray, np.ndarray]:
    """Return the replay of a run, and its keys and values."""
    base = {"prototypes": 3, "learning_rate": 0.02, "initialisation": "mean"}
    config = prototypes_run(dataset, **{**base, **settings})
    with limited_threads(1):
        arrays = train_run(config, dataset, engine=engine).arrays
        return run_replay(config, dataset, engine, "cpu"), arrays["keys"], arrays["values"]


def history(dataset: Dataset, **settings: object) -> KeyHistory:
    return replay_keys(*trained_and_replayed(dataset, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["default", "adam", "sgd"])
def test_a_replay_arrives_at_the_stored_bytes_with_the_same_shares_by_both_engines(protocol):
    dataset = make_regression(9, 20) if "weight_decay" in protocol else make_dataset()
    shares = []
    for engine in ENGINES:
        replay, keys, values = trained_and_replayed(dataset, engine, **protocol)
        done = []
        history = replay_keys(replay, keys, values, on_step=lambda n, total, done=done: done.append((n, total)))
        assert history.is_exact
        np.testing.assert_array_equal(history.keys, keys)
        np.testing.assert_allclose(history.shares.sum(0) + history.initial_share, 1, rtol=0, atol=1e-3)
        np.testing.assert_allclose(history.remainder, 1 - history.shares.sum(0) - history.initial_share, atol=1e-12)
        assert done == sorted(done) and done[-1] == (2 * replay.n_steps, 2 * replay.n_steps)
        shares.append(history.shares)
    np.testing.assert_allclose(shares[0], shares[1], rtol=0, atol=1e-3)


def test_shares_by_epoch_and_class_are_sums_of_those_of_samples_in_blocks_of_any_size(blobs, monkeypatch):
    two = history(blobs, epochs=2)
    class_sums = [two.shares[blobs.train.labels == label].sum(0) for label in range(3)]
    np.testing.assert_allclose(two.class_shares.sum(0), class_sums, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sum(two.own_class_shares()), two.class_shares.sum(1), rtol=0, atol=1e-12)
    monkeypatch.setattr(replay_module, "_BLOCK_NUMBERS", 1)
    np.testing.assert_allclose(history(blobs, epochs=2).class_shares, two.class_shares, rtol=0, atol=1e-12)
    still = history(blobs, learning_rate=1e-30, epochs=1)  # keys that do not move
    assert not still.shares.any() and not still.remainder.any() and not still.distance.any()
    np.testing.assert_array_equal(still.n_for(), -1)


def test_keys_within_rounding_are_accepted_and_others_and_too_little_memory_are_refused_in_one_line(blobs):
    replay, keys, values = trained_and_replayed(blobs, epochs=1)
    start = replay.snapshot()
    assert not replay_keys(replay, np.nextafter(keys, np.float32(9)), values).is_exact
    for other, memory, problem in (
        (keys + np.float32(0.01), 2**31, "the repeated training ends .* from the stored keys, expected at most 0.001"),
        (keys, 1000, "6 steps of 3 prototypes need 0.0 GiB, expected at most 0.0 GiB of memory$"),
    ):
        replay.restore(start)
        with pytest.raises(TrainingError, match=f"^{problem}"):
            replay_keys(replay, other, values, memory=memory)


def test_the_history_of_a_stored_run_is_one_call_and_others_are_refused_in_one_line(tmp_path, monkeypatch):
    def trained(engine: str = "torch", **settings: object) -> StoredRun:
        return idwbench.train(run_config("two_moons", prototypes=2, **settings), tmp_path / "results.db", engine=engine)

    run, diverged = trained(epochs=1), trained(method="gaussian", epochs=2, learning_rate=1e37)
    baseline = trained("auto", kind="baseline", method="samples")
    results = idwbench.Results(tmp_path / "results.db")
    history = idwbench.key_history(results, run.run_key[:10])
    assert history.shares.shape == (200, 2) and history.is_exact
    lines = [*history.lines()]
    assert len(lines) == 2 and lines[0].startswith("key 0: moved ")
    [planned] = results.plan([run_config("two_moons", prototypes=2)])
    for key, problem in {
        baseline.run_key: "is of kind 'baseline': expected a run of kind",
        diverged.run_key: "is diverged in epoch 1: it has no keys$",
        planned: "is planned: it has no keys$",
    }.items():
        with pytest.raises(TrainingError, match=f"^run {key[:12]} {problem}"):
            key_history(results, key)
    with pytest.raises(ResultsError, match="no run"):
        key_history(results, "feedfeed")
    monkeypatch.setattr(replay_module, "load_dataset", lambda config, data_dir: make_dataset())
    with pytest.raises(TrainingError, match=r"was trained on other data: the data set has changed$"):
        key_history(results, run.run_key)
