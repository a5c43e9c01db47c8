"""Attention layers are PyTorch's module with other scores: arguments, masks, autocast, `torch.func`, compilation."""

import copy
import pickle

import jaxtyping
import pytest
import torch
from array_models import random, tensors_in
from case_tables import case_table
from torch.func import functional_call, grad, vmap

from idwbench import MultiheadAttention, SelfAttention
from idwbench.attention import sequences

E, H, L, S, N = 8, 2, 5, 6, 3


def twins(**arguments):
    """PyTorch's module, and one of ours with its weights."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(E, H, dtype=torch.float64, **arguments)
    for name, parameter in theirs.named_parameters():
        if "bias" in name:  # zeros hide mistakes
            torch.nn.init.normal_(parameter)
    ours = MultiheadAttention(E, H, "scaled_dot", dtype=torch.float64, **arguments)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


CAUSAL = torch.ones(L, S, dtype=torch.bool).triu(1)
OF_HEADS, PADDED = random(N * H, L, S, seed=3), torch.arange(S) >= torch.tensor([6, 4, 1])[:, None]


def gradients(module, inputs, **arguments):
    """Output and weights, and the gradients of the inputs and of all parameters."""
    inputs = [part.detach().clone().requires_grad_() for part in inputs]
    module.zero_grad()
    results = [part for part in module(*inputs, **arguments) if part is not None]
    sum((part * random(*part.shape, seed=9)).sum() for part in results).backward()
    return {
        **dict(zip(("output", "weights"), results, strict=False)),
        **{f"input {number}": part.grad for number, part in enumerate(inputs)},
        **{name: parameter.grad for name, parameter in module.named_parameters()},
    }


def assert_same(theirs, ours, inputs, **arguments):
    expected, found = (gradients(module, inputs, **arguments) for module in (theirs, ours))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


INPUTS = random(L, N, E, seed=1), random(S, N, E, seed=2), random(S, N, E, seed=5)


@pytest.mark.parametrize("arguments", case_table("inputs")["layer_arguments"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_the_arguments_of_the_layer_do_what_they_do_in_pytorch_also_without_a_batch(arguments, need_weights):
    inputs = INPUTS[0], random(S, N, arguments.get("kdim", E)), random(S, N, arguments.get("vdim", E))
    if arguments.get("batch_first"):
        inputs = tuple(part.transpose(0, 1) for part in inputs)
    masks = {"attn_mask": CAUSAL, "key_padding_mask": PADDED}
    numbers = {"attn_mask": OF_HEADS, "key_padding_mask": random(N, S, seed=4).masked_fill(PADDED, -torch.inf)}
    for given in (masks, numbers, {"average_attn_weights": False}):
        assert_same(*twins(**arguments), inputs, need_weights=need_weights, **given)
    for given in ({}, {"attn_mask": OF_HEADS[0]}, {"attn_mask": OF_HEADS[:H] > 1}, {"key_padding_mask": PADDED[1]}):
        alone = [part.select(0 if arguments.get("batch_first") else 1, 0) for part in inputs]
        assert_same(*twins(**arguments), alone, need_weights=need_weights, average_attn_weights=False, **given)
    _, ours = twins(**arguments)  # a causal mask needs no tensor, also with more keys
    masked, causal = (ours(*inputs, **mask)[0] for mask in ({"attn_mask": CAUSAL}, {"is_causal": True}))
    torch.testing.assert_close(causal, masked)


def test_dropout_draws_the_same_weights_as_pytorch():
    theirs, ours = twins(dropout=0.4)
    torch.manual_seed(1)
    expected = theirs(*INPUTS)
    torch.manual_seed(1)
    torch.testing.assert_close(ours(*INPUTS), expected)
    torch.testing.assert_close(ours.eval()(*INPUTS)[0], theirs.eval()(*INPUTS)[0])


@pytest.mark.parametrize("arguments", [{"add_bias_kv": True}, {"kdim": 3, "bias": False}, {"score": "idw", "power": 1}])
def test_the_layer_begins_with_the_weights_of_pytorch_and_exchanges_them(arguments):
    torch.manual_seed(3)
    theirs = torch.nn.MultiheadAttention(E, H, **{k: v for k, v in arguments.items() if k not in ("score", "power")})
    torch.manual_seed(3)
    ours = MultiheadAttention(E, H, **arguments)
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    assert all(torch.equal(part, theirs.state_dict()[name]) for name, part in ours.state_dict().items())
    theirs.load_state_dict(ours.state_dict())


@pytest.mark.parametrize("score", ["scaled_dot", "idw"])
def test_a_transformer_layer_of_pytorch_uses_the_score_in_evaluation_too(score):
    torch.manual_seed(0)
    transformer = torch.nn.TransformerEncoderLayer(E, H, 16, dropout=0.0, batch_first=True)
    theirs = copy.deepcopy(transformer)
    transformer.self_attn = MultiheadAttention(E, H, score, batch_first=True)
    transformer.self_attn.load_state_dict(theirs.self_attn.state_dict())
    inputs = random(N, L, E, dtype=torch.float32)
    trained = transformer(inputs)
    with torch.no_grad():
        torch.testing.assert_close(transformer.eval()(inputs), trained.detach())
    assert torch.allclose(trained, theirs(inputs), atol=1e-5) == (score == "scaled_dot")


@pytest.mark.parametrize(("arguments", "message"), case_table("wrong_inputs")["attention_layers"])
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(AssertionError if message == "divisible" else ValueError, match=message):
        MultiheadAttention(**{"embed_dim": E, "num_heads": H, **arguments})


@pytest.mark.parametrize(("arguments", "message"), case_table("wrong_arrays")["layer_inputs"])
def test_a_wrong_input_gets_an_error_of_the_kind_of_pytorch(arguments, message):
    theirs, ours = twins()
    arguments = dict(zip(("query", "key", "value"), INPUTS, strict=True)) | tensors_in(arguments)
    with pytest.raises((AssertionError, RuntimeError)):
        theirs(**arguments)
    with pytest.raises(AssertionError if "type" in message else (AssertionError, RuntimeError), match=message):
        ours(**arguments)
    nested = torch.nested.nested_tensor([random(L, E), random(S, E)], layout=torch.jagged)
    with pytest.raises(AssertionError, match="nested tensors are not supported; use key_padding_mask"):
        ours(nested, nested, nested)


# Autocast, compilation, `torch.func`, copies and pickling

SCORES = ["scaled_dot", "cosine", "neg_dist", "gaussian", "inv_dist", "idw", "additive"]


@pytest.fixture
def products_of_few_pairs(monkeypatch):
    monkeypatch.setattr(sequences, "FEWEST_PAIRS", 0)


def make_layer(score="idw", **arguments):
    torch.manual_seed(0)
    return SelfAttention(E, H, score, batch_first=True, **arguments)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("need_weights", [True, False])
def test_autocast_and_half_precision_are_near_float32(products_of_few_pairs, score, need_weights):
    layer, inputs = make_layer(score), random(N, L, E, dtype=torch.float32)
    exact, _ = layer(inputs, need_weights=need_weights)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = layer(inputs, need_weights=need_weights)
    half, weights = copy.deepcopy(layer).bfloat16()(inputs.bfloat16(), need_weights=need_weights)
    assert weights is None or weights.dtype == torch.bfloat16
    for found in (output, half):
        assert found.dtype == torch.bfloat16 and (found - exact).abs().max() < 0.03
    output.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_distances_are_not_rounded_by_autocast(products_of_few_pairs):
    """The squared norms of the augmented keys need more than the 8 bits of bfloat16."""
    layer, inputs = make_layer("neg_dist"), 3 * random(1, 64, E, dtype=torch.float32)
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
def test_the_layer_and_its_gradients_are_mapped_over_examples(products_of_few_pairs, score, budget, monkeypatch):
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", budget)
    layer, inputs = make_layer(score), random(N, L, E, dtype=torch.float32)
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


def test_a_layer_is_pickled_and_shows_its_score():
    layer, inputs = make_layer("additive", add_bias_kv=True), random(N, L, E, dtype=torch.float32)
    assert "8, 2, score='additive'" in repr(layer)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(inputs)[0], layer(inputs)[0])


@pytest.mark.slow
def test_a_compiled_layer_is_one_graph_with_the_same_gradients(products_of_few_pairs, monkeypatch):
    # The checks of shapes at each call, which only the tests have, cannot be compiled.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", N * H * L * 3)
    layer, inputs, results = make_layer("idw"), random(N, L, E, dtype=torch.float32), []
    torch._dynamo.reset()
    for module in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True)):
        layer.zero_grad()
        output, _ = module(inputs, need_weights=False, is_causal=True)
        output.square().sum().backward()
        results.append([output, *(parameter.grad.clone() for parameter in layer.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
