"""Attention layers under autocast, compilation, `torch.func`, copies and pickling."""

from __future__ import annotations

import copy
import io
import pickle

import jaxtyping
import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

from idwbench import SelfAttention
from idwbench.attention import sequences

E, H, L, N = 8, 2, 5, 3
SCORES = ["scaled_dot", "cosine", "neg_dist", "gaussian", "inv_dist", "idw", "additive"]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(autouse=True)
def _products_of_few_pairs(monkeypatch):
    monkeypatch.setattr(sequences, "FEWEST_PAIRS", 0)


def make_layer(score: str = "idw", **arguments) -> SelfAttention:
    torch.manual_seed(0)
    return SelfAttention(E, H, score, batch_first=True, **arguments)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("need_weights", [True, False])
def test_autocast_and_half_precision_are_near_float32(score, need_weights):
    layer, inputs = make_layer(score), random(N, L, E)
    exact, _ = layer(inputs, need_weights=need_weights)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = layer(inputs, need_weights=need_weights)
    half, weights = copy.deepcopy(layer).bfloat16()(inputs.bfloat16(), need_weights=need_weights)
    assert weights is None or weights.dtype == torch.bfloat16
    for found in (output, half):
        assert found.dtype == torch.bfloat16 and (found - exact).abs().max() < 0.03
    output.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_distances_are_not_rounded_by_autocast():
    """The squared norms of the augmented keys need more than the 8 bits of bfloat16."""
    layer, inputs = make_layer("neg_dist"), 3 * random(1, 64, E)
    with torch.no_grad():
        half = copy.deepcopy(layer).bfloat16()
        for name, parameter in layer.named_parameters():
            parameter.copy_(half.get_parameter(name))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fused, _ = layer(inputs, need_weights=False)
        by_differences, _ = layer(inputs)
    assert (fused - by_differences).abs().max() < 0.02


@pytest.mark.parametrize("budget", [1, 2**20])
@pytest.mark.parametrize("score", SCORES)
def test_the_layer_and_its_gradients_are_mapped_over_examples(score, budget, monkeypatch):
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", budget)
    layer, inputs = make_layer(score), random(N, L, E)
    mapped = vmap(lambda one: layer(one, is_causal=True)[0])
    torch.testing.assert_close(mapped(inputs), layer(inputs, is_causal=True)[0])
    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}

    def loss(given, one):
        return functional_call(layer, given, (one, None, False))[0].square().sum()

    found = vmap(grad(loss), (None, 0))(parameters, inputs)
    for number, one in enumerate(inputs):
        layer.zero_grad()
        layer(one, need_weights=False)[0].square().sum().backward()
        for name, parameter in layer.named_parameters():
            torch.testing.assert_close(found[name][number], parameter.grad, rtol=1e-4, atol=1e-5)


def test_an_ensemble_of_layers_is_mapped_over_its_parameters():
    layers = [make_layer(), SelfAttention(E, H, "idw", batch_first=True)]
    inputs = random(N, L, E)
    parameters, buffers = stack_module_state(layers)
    outputs = vmap(lambda *state: functional_call(layers[0], state, (inputs,))[0])(parameters, buffers)
    torch.testing.assert_close(outputs, torch.stack([layer(inputs)[0] for layer in layers]))


@pytest.mark.parametrize("score", SCORES)
def test_copies_and_saved_layers_give_the_same_output(score, tmp_path):
    layer, inputs = make_layer(score, add_bias_kv=True), random(N, L, E)
    expected = layer(inputs)[0]
    saved = io.BytesIO()
    torch.save(layer.state_dict(), saved)
    saved.seek(0)
    torch.manual_seed(5)
    loaded = SelfAttention(E, H, score, batch_first=True, add_bias_kv=True)
    assert not torch.equal(loaded(inputs)[0], expected)
    loaded.load_state_dict(torch.load(saved, weights_only=True))
    assert f"8, 2, score='{score}'" in repr(loaded)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
        torch.testing.assert_close(other(inputs)[0], expected, rtol=0, atol=0)


# Scores by PyTorch's fused function, by products, by distances in chunks, and by pairs of features.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("score", "backend", "need_weights"),
    [
        ("idw", "eager", True),
        ("scaled_dot", "aot_eager", False),
        ("neg_dist", "aot_eager", False),
        ("idw", "aot_eager", False),
        ("additive", "aot_eager", False),
    ],
)
def test_a_compiled_layer_is_one_graph_with_the_same_gradients(score, backend, need_weights, monkeypatch):
    # The checks of shapes at each call, which only the tests have, cannot be compiled.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    if score == "idw":
        monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", N * H * L * 3)
    layer, inputs, results = make_layer(score), random(N, L, E), []
    torch._dynamo.reset()
    for module in (layer, torch.compile(layer, backend=backend, fullgraph=True)):
        layer.zero_grad()
        output, _ = module(inputs, need_weights=need_weights, is_causal=True)
        output.square().sum().backward()
        results.append([output, *(parameter.grad.clone() for parameter in layer.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
