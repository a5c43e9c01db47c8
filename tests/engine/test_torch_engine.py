from __future__ import annotations

import numpy as np
import pytest
import torch

from idwbench.config import default_protocol, parse_protocol, parse_run
from idwbench.engine.base import batch_order, learning_rate
from idwbench.engine.torch_engine import TorchEngine
from idwbench.errors import ConfigError
from idwbench.initialisation import initial_prototypes
from idwbench.methods import METHODS
from idwbench.scores import prototype_logits

PROTOCOL = parse_protocol({"epochs": 3, "batch_size": 5}, default_protocol("two_moons"))


def runs(blobs, method, seeds, **parameters):
    return [parse_run(blobs.config, method, 4, PROTOCOL, seed, parameters) for seed in seeds]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_equals_a_plain_loop_in_pytorch(blobs, method):
    """The oracle is what a reader of the paper would type: one model, one optimizer, one scheduler."""
    config = runs(blobs, method, [7])[0]
    generator, inputs64 = np.random.default_rng(7), blobs.train.inputs.astype(np.float64)
    mean, std = inputs64.mean(0), inputs64.std(0, ddof=1)
    pair = initial_prototypes(METHODS[method], 4, 3, mean, std, generator)
    keys, values = (torch.from_numpy(array).requires_grad_() for array in pair)
    optimizer = torch.optim.Adam([keys, values], lr=PROTOCOL.learning_rate, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    inputs, labels = torch.from_numpy(blobs.train.inputs), torch.from_numpy(blobs.train.labels)
    for _ in range(3):
        order = torch.from_numpy(batch_order(generator, len(labels)))
        for batch in order.split(5):
            optimizer.zero_grad()
            logits = prototype_logits(METHODS[method], config.parameters, inputs[batch], keys, values)
            torch.nn.functional.cross_entropy(logits, labels[batch]).backward()
            optimizer.step()
        scheduler.step()
    result = TorchEngine().train([config], blobs)[0]
    np.testing.assert_allclose(result.keys, keys.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.values, values.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_in_a_stack_is_bit_for_bit_the_run_alone(blobs, method):
    stack = runs(blobs, method, range(6))
    together = TorchEngine().train(stack, blobs)
    for config, result in zip(stack, together, strict=True):
        alone = TorchEngine().train([config], blobs)[0]
        np.testing.assert_array_equal(alone.keys, result.keys)
        np.testing.assert_array_equal(alone.values, result.values)
        assert alone.curve == result.curve


def test_powers_and_epsilons_of_one_shape_train_in_one_stack(blobs):
    grid = [(1.0, 1e-3), (2.0, 1e-2), (16.0, 1.0), (0.5, 0.0)]
    stack = [runs(blobs, "idw", [0], power=power, epsilon=epsilon)[0] for power, epsilon in grid]
    for config, result in zip(stack, TorchEngine().train(stack, blobs), strict=True):
        alone = TorchEngine().train([config], blobs)[0]
        np.testing.assert_array_equal(alone.keys, result.keys)


def test_a_stack_of_different_shapes_is_a_mistake(blobs):
    with pytest.raises(ValueError, match="one data set, method, shape and protocol"):
        TorchEngine().train([*runs(blobs, "idw", [0]), *runs(blobs, "gaussian", [0])], blobs)


def test_a_diverged_run_is_told_with_its_epoch_and_leaves_its_neighbours_alone(blobs):
    wild = parse_protocol({"learning_rate": 1e30}, PROTOCOL)
    diverged = TorchEngine().train([parse_run(blobs.config, "fc_relu", 4, wild, 0)], blobs)[0]
    assert (diverged.state, diverged.keys, diverged.test_accuracy) == ("diverged", None, None)
    assert diverged.diverged_epoch == len(diverged.curve) + 1


def test_the_curve_has_one_point_an_epoch_with_the_cosine_rate(blobs):
    seen: list[int] = []
    result = TorchEngine().train(runs(blobs, "idw", [0]), blobs, seen.append)[0]
    assert seen == [point.epoch for point in result.curve] == [1, 2, 3]
    expected = [0.01, 0.0075, 0.0025]
    assert [point.learning_rate for point in result.curve] == pytest.approx(expected)
    assert [learning_rate(PROTOCOL, epoch) for epoch in range(3)] == pytest.approx(expected)
    assert result.test_accuracy == result.curve[-1].test_accuracy


def test_accuracies_are_those_of_the_returned_prototypes(blobs):
    result = TorchEngine().train(runs(blobs, "idw", [3]), blobs)[0]
    for split, accuracy in [
        (blobs.train, result.train_accuracy),
        (blobs.test, result.test_accuracy),
        (blobs.holdout, result.holdout_accuracy),
    ]:
        logits = prototype_logits(
            METHODS["idw"],
            result.config.parameters,
            torch.from_numpy(split.inputs),
            torch.from_numpy(result.keys),
            torch.from_numpy(result.values),
        )
        assert accuracy == pytest.approx((logits.argmax(1).numpy() == split.labels).mean())


def test_stacks_are_cut_to_bounded_memory(blobs):
    engine = TorchEngine()
    small = runs(blobs, "idw", [0])[0]
    large = parse_run(blobs.config, "idw", 2000, parse_protocol({"batch_size": 1024}, PROTOCOL), 0)
    assert engine.max_stack(small, blobs) == 1024
    assert engine.max_stack(large, blobs) == 5


def test_an_absent_device_is_refused_in_one_line():
    with pytest.raises(ConfigError, match="--device nonsense: not available here") as error:
        TorchEngine("nonsense")
    assert "\n" not in str(error.value)
