from __future__ import annotations

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from engine_runs import train_run

import idwbench
from idwbench.data.dataset import Dataset
from idwbench.dual.key_history import KeyHistory
from idwbench.errors import ResultsError, TrainingError
from idwbench.runs.config import RunConfig, run_config
from idwbench.training import replay as replay_module
from idwbench.training.replay import AbstractReplay, key_history, replay_keys, run_replay
from idwbench.training.threads import limited_threads

ENGINES = ("torch", "fused")
PROTOCOLS = [
    {},
    {"optimizer": "adam", "weight_decay": 0.1, "gradient_clip": 0.05},
    {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 0.1, "gradient_clip": 0.05, "learning_rate": 0.1},
]


def a_run(dataset: Dataset, **settings: object) -> RunConfig:
    base = {"epochs": 3, "batch_size": 4, "prototypes": 3, "seed": 3, "learning_rate": 0.02, "initialisation": "mean"}
    return run_config(dataset.config, **{**base, **settings})


def trained_and_replayed(engine: str, config: RunConfig, dataset: Dataset) -> tuple[dict, AbstractReplay]:
    with limited_threads(1):
        result = train_run(config, dataset, engine=engine)
        return dict(result.arrays), run_replay(config, dataset, engine, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", range(3), ids=["default", "adam", "sgd"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_replay_arrives_at_the_stored_bytes_and_the_shares_sum_to_one(engine, protocol):
    # Each engine and each protocol meets classes and numbers.
    is_regression = (ENGINES.index(engine) + protocol) % 2
    protocol, dataset = PROTOCOLS[protocol], make_regression(9, 20) if is_regression else make_dataset()
    arrays, replay = trained_and_replayed(engine, a_run(dataset, **protocol), dataset)
    done = []
    history = replay_keys(replay, arrays["keys"], arrays["values"], on_step=lambda n, total: done.append((n, total)))
    assert history.is_exact
    np.testing.assert_array_equal(history.keys, arrays["keys"])
    np.testing.assert_allclose(history.shares.sum(0) + history.initial_share, 1, rtol=0, atol=1e-3)
    np.testing.assert_allclose(history.remainder, 1 - history.shares.sum(0) - history.initial_share, atol=1e-12)
    assert done == sorted(done) and done[-1] == (2 * replay.n_steps, 2 * replay.n_steps)


@pytest.mark.slow
def test_both_engines_give_the_same_shares(blobs):
    found = []
    for engine in ENGINES:
        arrays, replay = trained_and_replayed(engine, a_run(blobs), blobs)
        found.append(replay_keys(replay, arrays["keys"], arrays["values"]).shares)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-3)


def history_of_blobs(blobs: Dataset, **settings: object) -> KeyHistory:
    arrays, replay = trained_and_replayed("torch", a_run(blobs, epochs=2, **settings), blobs)
    return replay_keys(replay, arrays["keys"], arrays["values"])


def test_shares_do_not_depend_on_the_blocks_that_they_are_computed_in(blobs, monkeypatch):
    whole = history_of_blobs(blobs)
    monkeypatch.setattr(replay_module, "_BLOCK_NUMBERS", 1)
    single = history_of_blobs(blobs)
    np.testing.assert_allclose(single.shares, whole.shares, rtol=0, atol=1e-12)
    np.testing.assert_allclose(single.class_shares, whole.class_shares, rtol=0, atol=1e-12)


def test_shares_by_epoch_and_class_are_sums_of_those_of_samples(blobs):
    history = history_of_blobs(blobs)
    for label in range(3):
        of_class = history.shares[blobs.train.labels == label].sum(0)
        np.testing.assert_allclose(history.class_shares[:, label].sum(0), of_class, rtol=0, atol=1e-12)
    own, others = history.own_class_shares()
    np.testing.assert_allclose(own + others, history.class_shares.sum(1), rtol=0, atol=1e-12)
    first = history_of_blobs(blobs, schedule="constant").class_shares[0]
    assert np.abs(first - history.class_shares[1]).max() > 1e-3


def test_only_the_samples_of_a_batch_share_in_a_single_step(blobs):
    config = a_run(blobs, epochs=1, batch_size=23, initialisation="samples")
    arrays, replay = trained_and_replayed("torch", config, blobs)
    assert replay.n_steps == 1
    history = replay_keys(replay, arrays["keys"], arrays["values"])
    np.testing.assert_allclose(history.shares.sum(0), 1, rtol=0, atol=1e-3)


def test_a_key_that_does_not_move_has_no_shares(blobs):
    arrays, replay = trained_and_replayed("torch", a_run(blobs, learning_rate=1e-30, epochs=1), blobs)
    history = replay_keys(replay, arrays["keys"], arrays["values"])
    assert not history.shares.any() and not history.remainder.any() and not history.distance.any()
    np.testing.assert_array_equal(history.n_for(), -1)


def test_keys_that_the_training_does_not_lead_to_are_refused_in_one_line(blobs):
    arrays, replay = trained_and_replayed("torch", a_run(blobs, epochs=1), blobs)
    with pytest.raises(
        TrainingError, match=r"^the repeated training ends .* from the stored keys, expected at most 0.001"
    ):
        replay_keys(replay, arrays["keys"] + np.float32(0.01), arrays["values"])


def test_keys_within_rounding_are_accepted_and_said_to_be_inexact(blobs):
    arrays, replay = trained_and_replayed("torch", a_run(blobs, epochs=1), blobs)
    history = replay_keys(replay, np.nextafter(arrays["keys"], np.float32(9)), arrays["values"])
    assert not history.is_exact


def test_a_training_that_needs_more_memory_is_refused_before_it_begins(blobs):
    _, replay = trained_and_replayed("torch", a_run(blobs, epochs=1), blobs)
    with pytest.raises(
        TrainingError, match=r"^6 steps of 3 prototypes need 0.0 GiB, expected at most 0.0 GiB of memory$"
    ):
        replay_keys(replay, replay.prototypes().keys, replay.prototypes().values, memory=1000)


def test_the_history_of_a_stored_run_is_one_call(tmp_path):
    db = tmp_path / "results.db"
    config = run_config("two_moons", prototypes=2, epochs=1, method="idw")
    run = idwbench.train(config, db, engine="torch")
    history = idwbench.key_history(idwbench.Results(db, read_only=True), run.run_key[:10])
    assert history.shares.shape == (200, 2) and history.is_exact
    lines = [*history.lines()]
    assert len(lines) == 2 and lines[0].startswith("key 0: moved ")


def test_runs_without_such_keys_are_refused_in_one_line(tmp_path, monkeypatch):
    db = tmp_path / "results.db"
    baseline = idwbench.train(run_config("two_moons", kind="baseline", method="samples", prototypes=2), db)
    results = idwbench.Results(db)
    with pytest.raises(
        TrainingError, match=rf"^run {baseline.run_key[:12]} is of kind 'baseline': expected a run of kind"
    ):
        key_history(results, baseline.run_key)
    with pytest.raises(ResultsError, match="no run"):
        key_history(results, "feedfeed")
    [planned] = results.plan([run_config("two_moons", prototypes=2)])
    with pytest.raises(TrainingError, match=rf"^run {planned[:12]} is planned: it has no keys$"):
        key_history(results, planned)
    diverged = run_config("two_moons", method="gaussian", prototypes=2, epochs=2, learning_rate=1e37)
    run = idwbench.train(diverged, db, engine="torch")
    assert run.state == "diverged"
    with pytest.raises(TrainingError, match=rf"^run {run.run_key[:12]} is diverged in epoch 1: it has no keys$"):
        key_history(results, run.run_key)


def test_a_run_on_data_that_changed_since_is_refused(tmp_path, monkeypatch):
    db = tmp_path / "results.db"
    run = idwbench.train(run_config("two_moons", prototypes=2, epochs=1), db, engine="torch")
    monkeypatch.setattr(replay_module, "load_dataset", lambda config, data_dir: make_dataset())
    with pytest.raises(TrainingError, match=r"was trained on other data: the data set has changed$"):
        key_history(idwbench.Results(db), run.run_key)
