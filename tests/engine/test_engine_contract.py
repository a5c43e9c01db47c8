"""What every engine promises, run on each, and how closely they agree."""

from __future__ import annotations

import numpy as np
import pytest
from blob_data import make_dataset

from idwbench.config import Protocol, parse_run
from idwbench.engine.fused_engine import FusedEngine
from idwbench.engine.threads import limited_threads
from idwbench.engine.torch_engine import TorchEngine
from idwbench.methods import METHODS

ENGINES = {"torch": TorchEngine, "fused": FusedEngine}
# (training size, batch size, epochs): one step of less than a batch, a hundred, one epoch whose last batch is smaller.
HORIZONS = {"one step": (4, 9, 1), "100 steps": (40, 4, 10), "one epoch": (103, 10, 1)}
# Adam divides a gradient by its own size, so where distances make gradients nearly cancel, rounding moves keys. Both
# engines are as far from a float64 run as from each other. (horizon: for scores of x·k, for scores of d)
TOLERANCES = {"one step": (1e-6, 1e-6), "100 steps": (1e-5, 5e-3), "one epoch": (1e-5, 1e-3)}
PRODUCTS = ("fc_relu", "scaled_dot", "cosine")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with limited_threads(1):
        yield


def a_run(dataset, method, *, batch_size=4, epochs=3, prototypes=6, seed=3, **parameters):
    protocol = Protocol(epochs=epochs, batch_size=batch_size, learning_rate=0.01)
    return parse_run(dataset.config, method, prototypes, protocol, seed, parameters)


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("n_features", [2, 40], ids=["narrow", "wide"])
@pytest.mark.parametrize("method", METHODS)
def test_engines_agree_on_keys_values_and_curve(method, n_features, horizon):
    n_train, batch_size, epochs = HORIZONS[horizon]
    dataset = make_dataset(n_train, n_features, 3)
    config = a_run(dataset, method, batch_size=batch_size, epochs=epochs)
    torch_result, fused_result = (engine().train([config], dataset)[0] for engine in ENGINES.values())
    tolerance = TOLERANCES[horizon][method not in PRODUCTS]
    np.testing.assert_allclose(fused_result.keys, torch_result.keys, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(fused_result.values, torch_result.values, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(fused_result.curve, torch_result.curve, strict=True):
        assert (ours.epoch, ours.learning_rate) == (theirs.epoch, theirs.learning_rate)
        assert ours.train_loss == pytest.approx(theirs.train_loss, rel=tolerance)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 4.0, 16.0, 64.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("method", ["idw", "inv_dist"])
def test_engines_are_both_finite_or_diverge_at_the_same_epoch(blobs, method, power, epsilon):
    assert_same_end(blobs, a_run(blobs, method, power=power, epsilon=epsilon))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 4.0, 16.0, 64.0])
def test_engines_end_alike_for_every_power_of_a_negative_distance(blobs, power):
    assert_same_end(blobs, a_run(blobs, "neg_dist", power=power))


@pytest.mark.parametrize("rate", [1e2, 1e15, 3e37])
@pytest.mark.parametrize("method", METHODS)
def test_engines_end_alike_at_rates_far_beyond_use(blobs, method, rate):
    protocol = Protocol(epochs=3, batch_size=4, learning_rate=rate)
    assert_same_end(blobs, parse_run(blobs.config, method, 4, protocol, 0))


def assert_same_end(blobs, config):
    torch_result, fused_result = (engine().train([config], blobs)[0] for engine in ENGINES.values())
    assert fused_result.state == torch_result.state
    assert fused_result.diverged_epoch == torch_result.diverged_epoch
    assert len(fused_result.curve) == len(torch_result.curve)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_one_prototype_can_be_trained(engine, method, blobs):
    result = ENGINES[engine]().train([a_run(blobs, method, prototypes=1)], blobs)[0]
    assert result.state == "complete"
    assert result.keys.shape == (1, 3)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_overflows_has_a_curve_up_to_that_epoch_and_no_tensors(engine, blobs):
    protocol = Protocol(epochs=5, batch_size=4, learning_rate=3e37)
    config = parse_run(blobs.config, "fc_relu", 4, protocol, 0)
    seen = []
    result = ENGINES[engine]().train([config], blobs, seen.append)[0]
    assert result.state == "diverged"
    assert (result.keys, result.values, result.train_accuracy, result.holdout_accuracy) == (None,) * 4
    assert [point.epoch for point in result.curve] == list(range(1, result.diverged_epoch))
    assert seen == list(range(1, result.diverged_epoch + 1))


@pytest.mark.parametrize("engine", ENGINES)
def test_results_come_in_the_order_of_the_runs_and_every_epoch_is_told(engine, blobs):
    runs = [a_run(blobs, "idw", seed=seed) for seed in (5, 1, 9)]
    seen = []
    results = ENGINES[engine]().train(runs, blobs, seen.append)
    assert [result.config for result in results] == runs
    assert sorted(set(seen)) == [1, 2, 3]
    assert {result.engine for result in results} == {engine}


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_of_different_stacks_are_refused(engine, blobs):
    with pytest.raises(ValueError, match="a stack holds"):
        ENGINES[engine]().train([a_run(blobs, "idw"), a_run(blobs, "gaussian")], blobs)
