"""Scores and slopes of values against their formulas in float64, and with learned numbers; and finite differences."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from array_models import learned_tensors, random
from case_tables import case_table
from scipy.special import softmax
from torch.autograd import gradcheck

from idwbench.attention.distances import squared_distances
from idwbench.attention.forward import attention_weights, prototype_logits
from idwbench.attention.layers import MultiheadAttention
from idwbench.attention.learned_scores import LearnedScore
from idwbench.attention.masks import Masks
from idwbench.attention.records import check_learned_numbers
from idwbench.attention.scores import METHODS, get_method, log_inv_dist
from idwbench.attention.sequences import MethodScore, SequenceAttention
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.errors import ConfigError
from idwbench.models.array_weights import ArrayNetwork

POWERS = [0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 1000.0]
DISTANCES = [0.0, 1e-6, 1e-3, 0.1, 0.9, 1.0, 1.1, 3.0, 25.0, 1e3]


def formula(name, inputs, keys, **p):
    """The design's formulas, written plainly in float64."""
    d = np.sqrt(((inputs[:, None] - keys[None]) ** 2).sum(-1))
    dots = inputs @ keys.T
    norms = np.linalg.norm(inputs, axis=1)[:, None] * np.linalg.norm(keys, axis=1)[None]
    with np.errstate(divide="ignore"):
        return {
            "fc_relu": lambda: dots,
            "scaled_dot": lambda: dots / math.sqrt(inputs.shape[1] if p["scale"] == "features" else len(keys)),
            "cosine": lambda: dots / norms / p["temperature"],
            "additive": lambda: np.array([[additive_score(q, k, **p) for k in keys] for q in inputs]),
            "neg_dist": lambda: -(d ** p["power"]),
            "gaussian": lambda: np.exp(-(d**2) / p["sigma_squared"]),
            "inv_dist": lambda: 1 / (p["epsilon"] + d ** p["power"]),
            "idw": lambda: -np.log(p["epsilon"] + d ** p["power"]),
        }[name]()


def additive_score(q, k, form, query_weight, key_weight, vector, hidden):
    assert len(vector) == hidden
    units = query_weight.numpy() @ q + key_weight.numpy() @ k
    return vector.numpy() @ (np.tanh(units) if form == "tanh" else units)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 3.3])
@pytest.mark.parametrize("scale", ["features", "prototypes"])
def test_each_method_equals_its_formula_also_with_slopes_of_values(name, power, scale):
    generator = np.random.default_rng(1)
    inputs, keys, values = (generator.normal(size=size) for size in [(7, 5), (4, 5), (4, 3)])
    slopes = {name: random(2, 4, size) for name, size in zip(SLOPE_ARRAYS, (5, 3), strict=True)}  # of rank 2
    given = {"power": power, "epsilon": 1e-2, "scale": scale, "sigma_squared": 1.7, "temperature": 0.3}
    given |= {"form": "linear" if scale == "prototypes" else "tanh", "hidden": 6}
    takes = {parameter.name for parameter in METHODS[name].parameters}
    parameters = METHODS[name].resolve({key: value for key, value in given.items() if key in takes})
    parameters |= learned_tensors(name, 5, **parameters)
    expected = formula(name, inputs, keys, **parameters)
    arguments = torch.tensor(inputs), torch.tensor(keys)
    np.testing.assert_allclose(METHODS[name].scores(*arguments, parameters).numpy(), expected, rtol=1e-10)
    weights = np.maximum(expected, 0) if name == "fc_relu" else softmax(expected, axis=1)
    logits = prototype_logits(METHODS[name], parameters, *arguments, torch.tensor(values))
    np.testing.assert_allclose(logits.numpy(), weights @ values, rtol=1e-9)
    sloped = prototype_logits(METHODS[name], parameters, *arguments, torch.tensor(values), slopes)
    rises = np.einsum("rpf,rpo,bpf->bpo", *slopes.values(), inputs[:, None] - keys)
    np.testing.assert_allclose(sloped.numpy(), (weights[:, :, None] * (values + rises)).sum(1), rtol=1e-9)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-3, 1.0])
def test_idw_in_float32_is_as_exact_as_its_docstring_says(power, epsilon):
    """Bound: p·δ/2 + 4u·(1 + |score| + p·|log d|), with δ the relative error of d² and u = 2⁻²⁴."""
    distances = np.array(DISTANCES if epsilon else DISTANCES[1:])
    inputs, keys = torch.zeros(1, 1), torch.tensor(distances, dtype=torch.float32)[:, None]
    with np.errstate(divide="ignore"):
        log_power = power * np.log(distances)
        exact = -np.logaddexp(np.log(epsilon), log_power)
    sq_dist = squared_distances(inputs, keys)[0].double().numpy()
    delta = np.abs(np.divide(sq_dist, distances**2, out=np.ones_like(sq_dist), where=distances > 0) - 1)
    amplified = np.where(distances > 0, power * delta / 2, 0)
    bound = amplified + 4 * 2**-24 * (1 + np.abs(exact) + np.where(distances > 0, np.abs(log_power), 0))
    scores = METHODS["idw"].score(inputs, keys, power=power, epsilon=epsilon)[0]
    assert (np.abs(scores.double().numpy() - exact) <= bound).all()


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 1.0])
def test_inv_dist_with_power_2_and_its_weights_are_exact_to_float32_rounding(epsilon):
    inputs, keys = torch.zeros(1, 1), torch.tensor([*DISTANCES, 1.1e-6])[:, None]
    scores = METHODS["inv_dist"].score(inputs, keys, power=2.0, epsilon=epsilon)
    exact = 1 / (epsilon + keys[:, 0].double().numpy() ** 2)
    # Rounding of the difference, its square, the root and square of cdist, ε, the sum and the quotient.
    rounding = 8 * 2**-24
    np.testing.assert_allclose(scores[0].double().numpy(), exact, rtol=rounding)
    # A score of 1e6 rounds to 0.06, and a softmax turns that into a relative error of its weight.
    weights = attention_weights(METHODS["inv_dist"], scores)[0].numpy()
    np.testing.assert_allclose(weights, softmax(exact), rtol=rounding * max(1, 1 / epsilon), atol=1e-30)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neg_dist", "inv_dist", "idw"])
@pytest.mark.parametrize("power", POWERS)
def test_values_and_gradients_are_finite_for_any_power_and_epsilon(name, power):
    distances = torch.tensor(DISTANCES)[:, None]
    for epsilon in (0.0, 1e-40, 1e-12, 1e-3, 1.0):
        given = {"power": power} if name == "neg_dist" else {"power": power, "epsilon": epsilon}
        keys = distances.clone().requires_grad_()
        values = torch.linspace(-1, 1, len(DISTANCES) * 2).reshape(-1, 2).requires_grad_()
        logits = prototype_logits(METHODS[name], given, distances, keys, values)
        torch.nn.functional.cross_entropy(logits, torch.ones(len(DISTANCES), dtype=torch.int64)).backward()
        assert all(part.isfinite().all() for part in (logits, keys.grad, values.grad))


@pytest.mark.parametrize("name", METHODS)
def test_weights_of_arrays_are_those_of_tensors_with_hits_zeros_and_equal_keys(name):
    inputs, keys = (np.random.default_rng(0).normal(size=size) for size in [(9, 12), (5, 12)])
    inputs[0], inputs[1], inputs[2], keys[4] = keys[1], 0.0, 40.0, keys[1]
    takes = {parameter.name for parameter in METHODS[name].parameters}
    for given in ({}, {"power": 64.0}, {"epsilon": 0.0}, {"epsilon": 0.0, "power": 3.0}):
        parameters = METHODS[name].resolve({key: value for key, value in given.items() if key in takes})
        learned = learned_tensors(name, 12)
        scores = METHODS[name].scores(torch.from_numpy(inputs), torch.from_numpy(keys), parameters | learned)
        expected = attention_weights(METHODS[name], scores).numpy()
        parameters |= {one: array.numpy() for one, array in learned.items()}
        network = ArrayNetwork(METHODS[name], parameters, keys, np.empty((5, 2)))
        np.testing.assert_allclose(network.weights(inputs), expected, rtol=1e-10, atol=1e-13)


def test_cosine_of_a_zero_vector_is_zero_with_finite_gradients():
    inputs, keys = torch.zeros(1, 3), torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]).requires_grad_()
    scores = METHODS["cosine"].score(inputs, keys, temperature=1.0)
    scores.sum().backward()
    assert scores.tolist() == [[0.0, 0.0]]
    assert keys.grad.tolist() == [[0.0] * 3] * 2


AUTHORS_LOGITS = case_table("authors_logits")


@pytest.mark.parametrize("name", AUTHORS_LOGITS)
def test_logits_are_those_of_the_authors_code(name):
    generator = np.random.default_rng(0)
    shapes = (3, 4), (5, 4), (5, 3)
    inputs, keys, values = (torch.tensor(generator.normal(size=shape).astype(np.float32)) for shape in shapes)
    given = {"scale": "prototypes"} if name == "scaled_dot" else {}
    parameters = METHODS[name].resolve(given)
    logits = prototype_logits(METHODS[name], parameters, inputs, keys, values)
    np.testing.assert_allclose(logits.numpy(), AUTHORS_LOGITS[name], atol=6e-6)


@pytest.mark.parametrize("epsilon", [1.0, torch.tensor([[1.0]])])
def test_the_gradient_is_right_where_the_power_of_the_distance_equals_epsilon(epsilon):
    sq_dist = torch.tensor([[1.0, 4.0]]).requires_grad_()
    log_inv_dist(sq_dist, power=3.0, epsilon=epsilon).sum().backward()
    # −(p/2) d^(p − 2) / (ε + d^p)
    torch.testing.assert_close(sq_dist.grad, torch.tensor([[-1.5 / 2, -1.5 * 2 / 9]]))


# Scores with learned numbers against the scores of methods with these numbers, and against finite differences


WITH_POWER = ["idw", "inv_dist", "neg_dist"]
WITH_NUMBERS = [*WITH_POWER, "gaussian", "cosine", "scaled_dot"]
EVERYTHING = [
    (method, {"qk_norm": norm, "learned_power": power, "learned_temperature": temperature})
    for method, norm, power, temperature in product(WITH_NUMBERS, ("none", "rms", "l2"), (False, True), (False, True))
    if not (power and method not in WITH_POWER) and not (norm == "l2" and method == "cosine")
]
FULLEST = dict(row for row in EVERYTHING if row[1]["qk_norm"] == "rms")  # the last of each method


def pairs():
    """Return queries (2, 2, 3, 4) and keys (2, 2, 5, 4) of two heads."""
    return random(2, 2, 3, 4), random(2, 2, 5, 4, seed=1)


def disturbed(module):
    """Return the module in float64 with other numbers than the initial ones."""
    module = module.double()
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter += 0.3 * random(*parameter.shape, seed=seed)
    return module


@pytest.mark.parametrize(("method", "settings"), EVERYTHING)
def test_scores_are_those_of_the_method_with_the_learned_numbers_and_attention_that_of_the_weights(method, settings):
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
    # Attention in linear memory: the fused function of PyTorch and parts of the queries.
    attention, values = SequenceAttention(score), random(2, 2, 5, 3, seed=2)
    expected, weights = attention.with_weights(queries, keys, values, Masks())
    torch.testing.assert_close(weights, scores.softmax(-1))
    output = attention.without_weights(queries, keys, values, Masks())
    torch.testing.assert_close(output, expected)
    for part in score.parameters():
        one, other = (torch.autograd.grad(way.square().sum(), part, retain_graph=True) for way in (output, expected))
        torch.testing.assert_close(one, other)


# All settings of one method, and all learned numbers of the others.
ALL_OF_THEM = [(one, with_all) for one, with_all in EVERYTHING if one == "idw" or with_all == FULLEST[one]]


@pytest.mark.parametrize(("method", "settings"), ALL_OF_THEM)
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
