"""Encoders, blocks and heads against NumPy, SciPy and modules of PyTorch with the same weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from case_tables import case_table
from scipy.signal import correlate2d
from scipy.special import softmax
from torch import nn

from idwbench.errors import ConfigError
from idwbench.models.networks import Conv, Mlp, VitTiny, check_network, initial_network
from idwbench.models.transformer import Transformer, TransformerBlock
from idwbench.runs.kinds.models import parse_model


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def image_data(**settings):
    return replace(make_dataset(n_features=24, **settings), image_shape=(4, 6))


def parsed(**settings):
    return parse_model({"kind": "network", **settings})


def arrays(module):
    return {name: tensor.detach().double().numpy() for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize("encoder", ["mlp", "conv", "vit_tiny"])
def test_no_inputs_have_no_features_outputs_and_labels(encoder):
    network = initial_network(parsed(encoder=encoder, width=4), image_data(), np.random.default_rng(0))
    nothing = np.zeros((0, 24), np.float32)
    assert [len(part) for part in (network.features(nothing), network.predict(nothing))] == [0, 0]
    assert network.outputs(nothing).shape == (0, 3)


def test_mlp_equals_numpy():
    mlp = Mlp(parsed(encoder="mlp", width=4, depth=3), 5, generator())
    inputs = torch.randn(7, 5, generator=generator(1))
    expected, weights = inputs.double().numpy(), arrays(mlp)
    for layer in range(3):
        expected = expected @ weights[f"layers.{layer}.weight"].T + weights[f"layers.{layer}.bias"]
        expected = np.maximum(expected, 0)
    np.testing.assert_allclose(mlp(inputs).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert mlp.n_outputs == 4


def test_conv_equals_scipy():
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


def test_vit_with_scaled_dot_equals_the_encoder_of_pytorch_and_has_the_attention_that_was_asked_for():
    vit = VitTiny(parsed(encoder="vit_tiny", patch=2, width=8, depth=2, heads=4), (4, 6), generator())
    layer = nn.TransformerEncoderLayer(8, 4, 32, 0.0, "gelu", batch_first=True, norm_first=True, bias=False)
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, bias=False), enable_nested_tensor=False)
    theirs.load_state_dict({name.replace("blocks", "layers"): t for name, t in vit.transformer.state_dict().items()})
    inputs = torch.randn(3, 24, generator=generator(1))
    kernel = vit.embedding.weight.view(8, 1, 2, 2)
    tokens = nn.functional.conv2d(inputs.view(3, 1, 4, 6), kernel, vit.embedding.bias, stride=2)
    tokens = tokens.flatten(2).transpose(1, 2) + vit.positions
    torch.testing.assert_close(vit(inputs), theirs(tokens).mean(1), rtol=1e-5, atol=1e-6)
    attention = {"attention": "idw", "attention_power": 3, "attention_weighting": "sparsemax"}
    config = parsed(encoder="vit_tiny", width=8, depth=1, heads=4, **attention)
    attention = VitTiny(config, (4, 6), generator()).transformer.blocks[0].self_attn
    assert (attention.score, attention.weighting) == ("idw", "sparsemax")
    assert dict(attention.pair_score.parameters) == {"power": 3.0, "epsilon": 1e-3}


def random_weights(module):
    draws = generator(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.5 if parameter.dim() == 1 else 0, 0.5, generator=draws)


def test_a_causal_block_with_scaled_dot_is_a_block_of_torch_with_the_same_weights_and_gradients():
    block = TransformerBlock(8, 2, "scaled_dot", feedforward=12, causal=True)
    random_weights(block)
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True, bias=False)
    layer.load_state_dict(block.state_dict())
    inputs = torch.randn(3, 5, 8, generator=generator()).requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    outputs, expected = block(inputs), layer(inputs, src_mask=mask, is_causal=True)
    torch.testing.assert_close(outputs, expected)
    direction, theirs = torch.randn(3, 5, 8, generator=generator(1)), dict(layer.named_parameters())
    gradients = torch.autograd.grad(outputs, (inputs, *block.parameters()), direction)
    parameters = [theirs[name] for name, _ in block.named_parameters()]
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, (inputs, *parameters), direction))


def test_weights_of_branches_that_are_added_start_smaller_in_deep_networks():
    weights = Transformer(8, 64, 2, generator=generator()).state_dict()
    expected = {"linear1.weight": 0.05, "linear2.weight": 0.05 / 4, "self_attn.out_proj.weight": 0.05 / 4}
    for name, deviation in expected.items():
        assert weights[f"blocks.3.{name}"].std() == pytest.approx(deviation, rel=0.05)


def test_a_head_of_prototypes_equals_the_formula_on_features_and_begins_at_those_of_training_inputs():
    data, model = make_dataset(), {"encoder": "mlp", "width": 6, "head": "idw", "prototypes": 5}
    network = initial_network(parsed(**model, initialisation="samples"), data, np.random.default_rng(0))
    features, weights = network.features(data.test.inputs).astype(np.float64), arrays(network)
    attention = 1 / (1e-3 + ((features[:, None] - weights["head.keys"]) ** 2).sum(2))
    expected = attention / attention.sum(1, keepdims=True) @ weights["head.values"]
    np.testing.assert_allclose(network.outputs(data.test.inputs), expected, rtol=1e-4, atol=1e-5)
    assert np.array_equal(network.predict(data.test.inputs), expected.argmax(1))
    features = network.features(data.train.inputs)
    for key, value in zip(network.head.keys.detach().numpy(), weights["head.values"], strict=True):
        row = int(np.flatnonzero((features == key).all(1))[0])
        assert np.array_equal(value, np.eye(3)[data.train.labels[row]])
    for way, is_mean in (("mean", True), ("kmeans", False), ("default", True)):
        other = initial_network(parsed(**model, initialisation=way), data, np.random.default_rng(3)).head
        assert (other.keys.shape, bool((other.values == 0).all())) == ((5, 6), is_mean)


def test_a_head_with_learned_numbers_equals_the_formula_and_compares_normalised_features():
    data, head = make_dataset(), {"encoder": "mlp", "width": 6, "head": "idw", "prototypes": 5}
    learned = {"qk_norm": "rms", "learned_power": True, "learned_temperature": True}
    network = initial_network(parsed(**head, **learned), data, np.random.default_rng(0)).eval()
    weights = {name: array + 0.3 for name, array in arrays(network.head).items()}
    network.head.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    features = network.features(data.test.inputs)
    compared = network.head.compared(features)
    for part, whole, scale in zip(compared, (features, weights["keys"]), ("query", "key"), strict=True):
        rms = np.sqrt(np.mean(np.float64(whole) ** 2, 1, keepdims=True))
        expected = np.divide(whole, rms, out=np.zeros(whole.shape), where=rms > 0) * weights[f"learned.{scale}_scale"]
        np.testing.assert_allclose(part, expected, rtol=1e-5)
    distances = np.linalg.norm(np.float64(compared[0])[:, None] - compared[1], axis=2)
    power = 2 * np.exp(weights["learned.log_power"])
    scores = -np.log(1e-3 + distances**power) / np.exp(weights["learned.log_temperature"])
    expected = softmax(scores, 1) @ weights["values"]
    np.testing.assert_allclose(network.outputs(data.test.inputs), expected, rtol=1e-4, atol=1e-5)
    some = network.head.without(np.arange(5) < 2)
    np.testing.assert_allclose(some.outputs(features), softmax(scores[:, 2:], 1) @ weights["values"][2:], rtol=1e-4)


def test_learned_numbers_of_attention_begin_as_no_change_and_every_head_has_its_own():
    learned = {"attention_learned_power": True, "attention_learned_temperature": True}
    data, model = image_data(), {"encoder": "vit_tiny", "width": 8, "heads": 4, "depth": 1, "attention": "idw"}
    networks = [initial_network(parsed(**model, **some), data, np.random.default_rng(0)) for some in ({}, learned)]
    np.testing.assert_allclose(*(network.outputs(data.test.inputs) for network in networks), rtol=1e-5, atol=1e-6)
    states = [arrays(network) for network in networks]
    added = {name: state.tolist() for name, state in states[1].items() if name not in states[0]}
    place = "encoder.transformer.blocks.0.self_attn.pair_score"
    assert added == {f"{place}.log_power": [0] * 4, f"{place}.log_temperature": [0] * 4}


@pytest.mark.parametrize(("settings", "kind", "message"), case_table("wrong_inputs")["network_data"])
def test_data_that_does_not_fit_gets_one_line(settings, kind, message):
    model, data = parsed(**settings), image_data() if kind == "images" else make_dataset()
    for check in (check_network, lambda model, data: initial_network(model, data, np.random.default_rng(0))):
        with pytest.raises(ConfigError) as caught:
            check(model, data)
        assert message in str(caught.value) and "\n" not in str(caught.value)
