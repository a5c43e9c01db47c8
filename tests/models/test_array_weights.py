"""Weights on NumPy arrays against those of torch in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from idwbench.attention.forward import attention_weights
from idwbench.attention.scores import BUILT_IN_METHODS, METHODS
from idwbench.models.array_weights import array_weights, shared_by_hits
from idwbench.training.kernels.scores import KERNEL_SCORES

OTHERS = ({}, {"power": 3.0}, {"power": 64.0}, {"epsilon": 0.0}, {"scale": "prototypes"}, {"temperature": 0.1})
CASES = [
    (name, others)
    for name in BUILT_IN_METHODS
    for others in OTHERS
    if others.keys() <= {parameter.name for parameter in METHODS[name].parameters}
]


def test_there_is_a_function_for_every_method_of_the_fused_engine():
    assert set(BUILT_IN_METHODS) == set(KERNEL_SCORES)


@pytest.mark.parametrize(("name", "others"), CASES)
@pytest.mark.parametrize("n_features", [2, 12])
def test_weights_equal_those_of_torch_with_hits_and_zeros(name, others, n_features):
    generator = np.random.default_rng(0)
    inputs, keys = generator.normal(size=(9, n_features)), generator.normal(size=(5, n_features))
    inputs[0], inputs[1], inputs[2] = keys[1], 0.0, 40.0
    keys[4] = keys[1]
    parameters = {parameter.name: parameter.default for parameter in METHODS[name].parameters} | others
    tensors = torch.from_numpy(inputs), torch.from_numpy(keys)
    expected = attention_weights(METHODS[name], METHODS[name].score(*tensors, **parameters)).numpy()
    np.testing.assert_allclose(array_weights(name, parameters, inputs, keys), expected, rtol=1e-10, atol=1e-13)


def test_infinite_scores_share_the_weight():
    scores = np.array([[np.inf, 0.0, np.inf], [1000.0, 1000.0, -1000.0]])
    np.testing.assert_array_equal(shared_by_hits(scores), [[0.5, 0, 0.5], [0.5, 0.5, 0]])
