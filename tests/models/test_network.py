"""Encoders, blocks and heads against NumPy, SciPy and modules of PyTorch with the same weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from scipy.signal import correlate2d
from torch import nn

from idwbench.attention.layers import SelfAttention
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.models.networks import Conv, Mlp, VitTiny, check_network, initial_network
from idwbench.models.transformer import Transformer, TransformerBlock
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
    theirs.load_state_dict({name.replace("blocks", "layers"): t for name, t in vit.transformer.state_dict().items()})
    inputs = torch.randn(3, 24, generator=generator(1))
    kernel = vit.embedding.weight.view(8, 1, 2, 2)
    tokens = nn.functional.conv2d(inputs.view(3, 1, 4, 6), kernel, vit.embedding.bias, stride=2)
    expected = theirs(tokens.flatten(2).transpose(1, 2) + vit.positions).mean(1)
    torch.testing.assert_close(vit(inputs), expected, rtol=1e-5, atol=1e-6)


def random_weights(module: nn.Module) -> None:
    draws = generator(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.5 if parameter.dim() == 1 else 0, 0.5, generator=draws)


@pytest.mark.parametrize("causal", [False, True])
def test_a_block_with_scaled_dot_is_a_block_of_torch_with_the_same_weights(causal: bool) -> None:
    block = TransformerBlock(8, 2, "scaled_dot", hidden=12, causal=causal)
    random_weights(block)
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True, bias=False)
    layer.load_state_dict(block.state_dict())
    inputs = torch.randn(3, 5, 8, generator=generator()).requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(5) if causal else None
    outputs, expected = block(inputs), layer(inputs, src_mask=mask, is_causal=causal)
    torch.testing.assert_close(outputs, expected)
    direction, theirs = torch.randn(3, 5, 8, generator=generator(1)), dict(layer.named_parameters())
    gradients = torch.autograd.grad(outputs, (inputs, *block.parameters()), direction)
    parameters = [theirs[name] for name, _ in block.named_parameters()]
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, (inputs, *parameters), direction))


def test_the_attention_of_a_block_has_its_score_parameters_and_mask() -> None:
    block = TransformerBlock(6, 2, "idw", causal=True, power=3, epsilon=0.1)
    random_weights(block)
    attention = SelfAttention(6, 2, "idw", bias=False, batch_first=True, power=3, epsilon=0.1)
    attention.load_state_dict(block.self_attn.state_dict())
    inputs = torch.randn(1, 7, 6, generator=generator())
    residual = inputs + attention(block.norm1(inputs), is_causal=True)[0]
    expected = residual + block.linear2(nn.functional.gelu(block.linear1(block.norm2(residual))))
    torch.testing.assert_close(block(inputs), expected)


def test_weights_of_branches_that_are_added_start_smaller_in_deep_networks() -> None:
    weights = Transformer(8, 64, 2, generator=generator()).state_dict()
    assert weights["blocks.3.linear1.weight"].std() == pytest.approx(0.05, rel=0.05)
    assert weights["blocks.3.linear2.weight"].std() == pytest.approx(0.05 / 4, rel=0.05)
    assert weights["blocks.3.self_attn.out_proj.weight"].std() == pytest.approx(0.05 / 4, rel=0.05)


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
