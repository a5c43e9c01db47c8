"""Encoders and heads against NumPy, SciPy and modules of PyTorch with the same weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from scipy.signal import correlate2d
from torch import nn

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.models.networks import (
    Conv,
    Mlp,
    VitTiny,
    check_network,
    initial_network,
)
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.kinds.network import NetworkConfig


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def image_data(**settings) -> Dataset:
    return replace(make_dataset(n_features=24, **settings), image_shape=(4, 6))


def parsed(**settings) -> NetworkConfig:
    return parse_model({"kind": "network", **settings})


def arrays(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.detach().double().numpy() for name, tensor in module.state_dict().items()}


def test_mlp_equals_numpy() -> None:
    mlp = Mlp(parsed(encoder="mlp", width=4, depth=3), 5, generator())
    inputs = torch.randn(7, 5, generator=generator(1))
    expected, weights = inputs.double().numpy(), arrays(mlp)
    for layer in range(3):
        expected = expected @ weights[f"layers.{layer}.weight"].T + weights[f"layers.{layer}.bias"]
        expected = np.maximum(expected, 0)
    np.testing.assert_allclose(mlp(inputs).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert mlp.n_outputs == 4


def test_conv_equals_scipy() -> None:
    conv = Conv(parsed(encoder="conv", width=2, depth=3), (5, 6), generator())
    inputs = torch.randn(3, 30, generator=generator(1))
    weights = arrays(conv)
    for image, found in zip(inputs.double().numpy(), conv(inputs).detach().numpy(), strict=True):
        channels = [image.reshape(5, 6)]
        for layer in range(3):
            step = 2 if layer else 1
            channels = [
                np.maximum(sum(correlate2d(c, k, "same") for c, k in zip(channels, kernels, strict=True)), 0)[
                    ::step, ::step
                ]
                for kernels in weights[f"layers.{layer}.weight"]
            ]
        np.testing.assert_allclose(found, [channel.mean() for channel in channels], rtol=1e-5, atol=1e-6)
    assert conv.n_outputs == len(found) == 8


def test_vit_with_scaled_dot_equals_the_encoder_of_pytorch() -> None:
    vit = VitTiny(parsed(encoder="vit_tiny", patch=2, width=8, depth=2, heads=4), (4, 6), generator())
    layer = nn.TransformerEncoderLayer(8, 4, 32, 0.0, "gelu", batch_first=True, norm_first=True, bias=False)
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, bias=False), enable_nested_tensor=False)
    weights = {name.replace("blocks", "layers"): t for name, t in vit.transformer.state_dict().items()}
    theirs.load_state_dict(weights)
    inputs = torch.randn(3, 24, generator=generator(1))
    images = inputs.view(3, 1, 4, 6)
    kernel = vit.embedding.weight.view(8, 1, 2, 2)
    tokens = nn.functional.conv2d(images, kernel, vit.embedding.bias, stride=2).flatten(2).transpose(1, 2)
    expected = theirs(tokens + vit.positions).mean(1)
    torch.testing.assert_close(vit(inputs), expected, rtol=1e-5, atol=1e-6)


def test_a_head_of_prototypes_equals_the_formula_on_features() -> None:
    network = initial_network(
        parsed(encoder="mlp", width=6, head="idw", prototypes=5), make_dataset(), np.random.default_rng(0)
    )
    inputs = make_dataset().test.inputs
    features, weights = network.features(inputs).astype(np.float64), arrays(network)
    squared = ((features[:, None] - weights["head.keys"]) ** 2).sum(2)
    attention = 1 / (1e-3 + squared)
    expected = attention / attention.sum(1, keepdims=True) @ weights["head.values"]
    np.testing.assert_allclose(network.outputs(inputs), expected, rtol=1e-4, atol=1e-5)
    assert np.array_equal(network.predict(inputs), expected.argmax(1))


@pytest.mark.parametrize("encoder", ["mlp", "conv", "vit_tiny"])
@pytest.mark.parametrize("head", [{}, {"head": "idw", "prototypes": 3}])
def test_no_inputs_have_no_features_outputs_and_labels(encoder: str, head: dict[str, object]) -> None:
    network = initial_network(parsed(encoder=encoder, width=4, **head), image_data(), np.random.default_rng(0))
    nothing = np.zeros((0, 24), np.float32)
    labels = network.predict(nothing)
    assert (network.features(nothing).shape[0], network.outputs(nothing).shape) == (0, (0, 3))
    assert (labels.shape, labels.dtype, network.outputs(nothing).dtype) == ((0,), np.int64, np.float32)


@pytest.mark.parametrize(
    "settings",
    [
        {"encoder": "conv", "width": 2, "depth": 2, "head": "idw", "prototypes": 3},
        {"encoder": "vit_tiny", "width": 4, "heads": 2, "depth": 1, "attention": "idw"},
        {"encoder": "vit_tiny", "width": 4, "heads": 1, "depth": 1, "attention": "gaussian", "head": "cosine"}
        | {"prototypes": 3},
    ],
)
def test_gradients_of_all_parameters_equal_finite_differences(settings: dict[str, object]) -> None:
    data = image_data(n_train=9)
    network = initial_network(parsed(**settings), data, np.random.default_rng(0)).double()
    inputs = torch.randn(2, 24, generator=generator(1)).double()  # not the training inputs, whose keys they hit
    names, tensors = zip(*network.named_parameters(), strict=True)

    def outputs(*given: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(network, dict(zip(names, given, strict=True)), (inputs,))

    assert torch.autograd.gradcheck(outputs, tensors, fast_mode=True)


def test_initial_keys_are_features_of_training_inputs_with_their_labels() -> None:
    data = make_dataset()
    network = initial_network(parsed(encoder="mlp", head="neg_dist", prototypes=6), data, np.random.default_rng(3))
    features = network.features(data.train.inputs)
    for key, value in zip(network.head.keys.detach().numpy(), network.head.values.detach().numpy(), strict=True):
        row = int(np.flatnonzero((features == key).all(1))[0])
        assert np.array_equal(value, np.eye(3, dtype=np.float32)[data.train.labels[row]])


@pytest.mark.parametrize("initialisation", ["mean", "kmeans", "default"])
def test_heads_take_the_other_initialisations(initialisation: str) -> None:
    data = make_dataset()
    model = parsed(encoder="mlp", width=5, head="idw", prototypes=4, initialisation=initialisation)
    network = initial_network(model, data, np.random.default_rng(3))
    assert network.head.keys.shape == (4, 5)
    is_mean = initialisation != "kmeans"  # the default of idw is the mean
    assert bool((network.head.values == 0).all()) == is_mean


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        ({"encoder": "conv"}, make_dataset(), "encoder: encoder 'conv' needs images"),
        ({"encoder": "vit_tiny"}, make_dataset(), "choose mlp"),
        ({"encoder": "vit_tiny", "patch": 4}, image_data(), "patch: patches of 4 x 4 pixels do not divide images of 4"),
        ({"encoder": "mlp", "head": "idw", "prototypes": 99}, make_dataset(), "prototypes: expected at most 23"),
    ],
)
def test_data_that_does_not_fit_gets_one_line(settings, data: Dataset, message: str) -> None:
    model = parsed(**settings)
    for check in (check_network, lambda model, data: initial_network(model, data, np.random.default_rng(0))):
        with pytest.raises(ConfigError) as caught:
            check(model, data)
        assert message in str(caught.value) and "\n" not in str(caught.value)
