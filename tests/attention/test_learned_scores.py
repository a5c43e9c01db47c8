"""Scores with learned numbers against the scores of methods with these numbers, and against finite differences."""

from itertools import product

import numpy as np
import pytest
import torch
from case_tables import case_table
from torch.autograd import gradcheck

from idwbench.attention.layers import MultiheadAttention
from idwbench.attention.learned_scores import LearnedScore
from idwbench.attention.masks import Masks
from idwbench.attention.records import check_learned_numbers
from idwbench.attention.scores import get_method
from idwbench.attention.sequences import MethodScore, SequenceAttention
from idwbench.errors import ConfigError

WITH_POWER = ["idw", "inv_dist", "neg_dist"]
METHODS = [*WITH_POWER, "gaussian", "cosine", "scaled_dot"]
EVERYTHING = [
    (method, {"qk_norm": norm, "learned_power": power, "learned_temperature": temperature})
    for method, norm, power, temperature in product(METHODS, ("none", "rms", "l2"), (False, True), (False, True))
    if not (power and method not in WITH_POWER) and not (norm == "l2" and method == "cosine")
]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(heads=2):
    """Return queries (2, heads, 3, 4) and keys (2, heads, 5, 4)."""
    return drawn(2, heads, 3, 4), drawn(2, heads, 5, 4, seed=1)


def disturbed(module):
    """Return the module in float64 with other numbers than the initial ones."""
    module = module.double()
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter += 0.3 * drawn(*parameter.shape, seed=seed)
    return module


@pytest.mark.parametrize(("method", "settings"), EVERYTHING)
def test_scores_are_those_of_the_method_with_the_learned_numbers(method, settings):
    score = disturbed(LearnedScore(MethodScore(method), 4, 2, **settings))
    queries, keys = pairs()
    scores = score(queries, keys)
    numbers = {name: tensor.numpy() for name, tensor in score.state_dict().items()}
    for head in range(2):
        one, other = queries[:, head].numpy(), keys[:, head].numpy()
        if settings["qk_norm"] == "rms":
            one, other = (x / np.sqrt((x**2).mean(-1, keepdims=True)) for x in (one, other))
            one, other = one * numbers["query_scale"], other * numbers["key_scale"]
        elif settings["qk_norm"] == "l2":
            one, other = (
                numbers["scale"][head] * 2 * x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (one, other)
            )
        parameters = get_method(method).resolve({})
        if settings["learned_power"]:
            parameters["power"] *= float(np.exp(numbers["log_power"][head]))
        expected = get_method(method).score(torch.from_numpy(one), torch.from_numpy(other), **parameters).numpy()
        if settings["learned_temperature"]:
            expected = expected / np.exp(numbers["log_temperature"][head])
        np.testing.assert_allclose(scores[:, head].detach(), expected, rtol=1e-11)


@pytest.mark.parametrize(("method", "settings"), EVERYTHING)
def test_gradients_of_inputs_and_learned_numbers_equal_finite_differences(method, settings):
    score = disturbed(LearnedScore(MethodScore(method), 4, 2, **settings))
    names = [name for name, _ in score.named_parameters()]

    def scores(queries, keys, *numbers):
        return torch.func.functional_call(score, dict(zip(names, numbers, strict=True)), (queries, keys))

    numbers = [parameter.detach().requires_grad_() for parameter in score.parameters()]
    assert gradcheck(scores, [*(part.requires_grad_() for part in pairs()), *numbers])


@pytest.mark.parametrize("norm", ["rms", "l2"])
def test_first_normalised_queries_and_keys_have_the_mean_square_1(norm):
    for part in LearnedScore(MethodScore("idw"), 4, 2, qk_norm=norm).normalised(*pairs()):
        torch.testing.assert_close(part.square().mean(-1), torch.ones(part.shape[:-1], dtype=torch.float64))
    zeros = torch.zeros(2, 2, 1, 4, requires_grad=True)
    query, _ = LearnedScore(MethodScore("idw"), 4, 2, qk_norm=norm).normalised(zeros, zeros)
    query.sum().backward()
    assert not query.any() and zeros.grad.isfinite().all()


@pytest.mark.parametrize(("method", "settings"), EVERYTHING)
def test_attention_in_linear_memory_is_that_of_the_weights(method, settings):
    """The fused function of PyTorch and parts of the queries, with gradients of the learned numbers."""
    score = disturbed(LearnedScore(MethodScore(method), 4, 2, **settings))
    attention, (queries, keys), values = SequenceAttention(score), pairs(), drawn(2, 2, 5, 3, seed=2)
    expected, weights = attention.with_weights(queries, keys, values, Masks())
    torch.testing.assert_close(weights, score(queries, keys).softmax(-1))
    output = attention.without_weights(queries, keys, values, Masks())
    torch.testing.assert_close(output, expected)
    numbers = [*score.parameters()]
    if numbers:
        gradients = (
            torch.autograd.grad(part.square().sum(), numbers, retain_graph=True) for part in (output, expected)
        )
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("settings", [{"learned_power": True}, {"learned_temperature": True}])
def test_hits_with_epsilon_0_share_the_weight_and_no_gradient_is_nan(settings):
    score = LearnedScore(MethodScore("idw", {"epsilon": 0.0}), 4, 2, **settings).double()
    keys = drawn(1, 2, 3, 4)
    output = SequenceAttention(score).without_weights(keys, keys, keys, Masks())
    torch.testing.assert_close(output, keys)
    output.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in score.parameters())


@pytest.mark.parametrize(("method", "settings", "problem"), case_table("wrong_inputs")["learned_numbers"])
def test_numbers_that_a_score_does_not_have_are_refused(method, settings, problem):
    with pytest.raises(ConfigError, match=problem) as refused:
        check_learned_numbers(
            get_method(method), {f"attention_{name}": value for name, value in settings.items()}, "attention_"
        )
    assert refused.value.location == (f"attention_{next(iter(settings))}",)
    with pytest.raises(ConfigError, match="no score"):
        check_learned_numbers(None, settings)
    if method != "fc_relu":
        with pytest.raises(ValueError, match=problem):
            MultiheadAttention(8, 2, method, **settings)
