"""Encoders, blocks, heads and hash tables against NumPy, SciPy and modules of PyTorch with the same weights."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from array_models import randomise
from blob_data import make_dataset
from case_tables import case_table
from scipy.signal import correlate2d
from scipy.special import softmax
from torch import nn

from idwbench import Results, run_config, train
from idwbench.attention.forward import apply_weighting
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.data.synthetic import LookupTable, Queries, draw_queries, draw_table
from idwbench.errors import ConfigError
from idwbench.models.hash_table import HashTable, initial_arrays, measured, recall, stored_hash_table
from idwbench.models.networks import Conv, Mlp, VitTiny, check_network, initial_network
from idwbench.models.transformer import Transformer
from idwbench.runs.datasets import LookupConfig
from idwbench.runs.kinds.hash_table import SIMILARITIES
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
    vit = randomise(VitTiny(parsed(encoder="vit_tiny", patch=2, width=8, depth=2, heads=4), (4, 6), generator()))
    layer = nn.TransformerEncoderLayer(8, 4, 32, 0.0, "gelu", batch_first=True, norm_first=True, bias=False)
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, bias=False), enable_nested_tensor=False)
    theirs.load_state_dict({name.replace("blocks", "layers"): t for name, t in vit.transformer.state_dict().items()})
    inputs = torch.randn(3, 24, generator=generator(1))
    kernel = vit.embedding.weight.view(8, 1, 2, 2)
    tokens = nn.functional.conv2d(inputs.view(3, 1, 4, 6), kernel, vit.embedding.bias, stride=2)
    tokens = tokens.flatten(2).transpose(1, 2) + vit.positions
    ways, other = (vit(inputs), theirs(tokens).mean(1)), dict(theirs.named_parameters())
    torch.testing.assert_close(*ways, rtol=1e-5, atol=1e-5)
    pairs = [(own, other[name.replace("blocks", "layers")]) for name, own in vit.transformer.named_parameters()]
    own, expected = (
        torch.autograd.grad(way.square().sum(), parameters)
        for way, parameters in zip(ways, zip(*pairs, strict=True), strict=True)
    )
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-4)
    attention = {"attention": "idw", "attention_power": 3, "attention_weighting": "sparsemax"}
    config = parsed(encoder="vit_tiny", width=8, depth=1, heads=4, **attention)
    attention = VitTiny(config, (4, 6), generator()).transformer.blocks[0].self_attn
    assert (attention.score, attention.weighting) == ("idw", "sparsemax")
    assert dict(attention.pair_score.parameters) == {"power": 3.0, "epsilon": 1e-3}


def test_deep_branches_begin_smaller_and_learned_numbers_as_no_change():
    weights = Transformer(8, 64, 2, generator=generator()).state_dict()
    expected = {"linear1.weight": 0.05, "linear2.weight": 0.05 / 4, "self_attn.out_proj.weight": 0.05 / 4}
    for name, deviation in expected.items():
        assert weights[f"blocks.3.{name}"].std() == pytest.approx(deviation, rel=0.05)
    learned = {"attention_learned_power": True, "attention_learned_temperature": True}
    data, model = image_data(), {"encoder": "vit_tiny", "width": 8, "heads": 4, "depth": 1, "attention": "idw"}
    networks = [initial_network(parsed(**model, **some), data, np.random.default_rng(0)) for some in ({}, learned)]
    np.testing.assert_allclose(*(network.outputs(data.test.inputs) for network in networks), rtol=1e-5, atol=1e-6)
    states = [arrays(network) for network in networks]
    added = {name: state.tolist() for name, state in states[1].items() if name not in states[0]}
    place = "encoder.transformer.blocks.0.self_attn.pair_score"
    assert added == {f"{place}.log_power": [0] * 4, f"{place}.log_temperature": [0] * 4}


def test_a_head_of_prototypes_begins_at_features_of_training_inputs():
    data, model = make_dataset(), {"encoder": "mlp", "width": 6, "head": "idw", "prototypes": 5}
    network = initial_network(parsed(**model, initialisation="samples"), data, np.random.default_rng(0))
    features = network.features(data.train.inputs)
    for key, value in zip(*(part.detach().numpy() for part in (network.head.keys, network.head.values)), strict=True):
        row = int(np.flatnonzero((features == key).all(1))[0])
        assert np.array_equal(value, np.eye(3)[data.train.labels[row]])
    for way, is_mean in (("mean", True), ("kmeans", False), ("default", True)):
        other = initial_network(parsed(**model, initialisation=way), data, np.random.default_rng(3)).head
        assert (other.keys.shape, bool((other.values == 0).all())) == ((5, 6), is_mean)


@pytest.mark.parametrize("learned", [{}, {"qk_norm": "rms", "learned_power": True, "learned_temperature": True}])
def test_a_head_equals_the_formula_on_features_which_learned_numbers_normalise(learned):
    data, head = make_dataset(), {"encoder": "mlp", "width": 6, "head": "idw", "prototypes": 5}
    network = initial_network(parsed(**head, **learned), data, np.random.default_rng(0)).eval()
    weights = {name: array + 0.3 for name, array in arrays(network.head).items()}
    network.head.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    features = network.features(data.test.inputs)
    compared = network.head.compared(features)
    for part, whole, scale in zip(compared, (features, weights["keys"]), ("query", "key"), strict=True):
        expected = whole
        if learned:
            rms = np.sqrt(np.mean(np.float64(whole) ** 2, 1, keepdims=True))
            expected = np.divide(whole, rms, out=np.zeros(whole.shape), where=rms > 0)
            expected *= weights[f"learned.{scale}_scale"]
        np.testing.assert_allclose(part, expected, rtol=1e-5)
    distances = np.linalg.norm(np.float64(compared[0])[:, None] - compared[1], axis=2)
    power, temperature = (np.exp(weights.get(f"learned.log_{name}", 0.0)) for name in ("power", "temperature"))
    scores = -np.log(1e-3 + distances ** (2 * power)) / temperature
    expected = softmax(scores, 1) @ weights["values"]
    np.testing.assert_allclose(network.outputs(data.test.inputs), expected, rtol=1e-4, atol=1e-5)
    assert np.array_equal(network.predict(data.test.inputs), expected.argmax(1))
    some = network.head.without(np.arange(5) < 2)
    np.testing.assert_allclose(some.outputs(features), softmax(scores[:, 2:], 1) @ weights["values"][2:], rtol=1e-4)


@pytest.mark.parametrize(("settings", "kind", "message"), case_table("wrong_inputs")["network_data"])
def test_data_that_does_not_fit_gets_one_line(settings, kind, message):
    model, data = parsed(**settings), image_data() if kind == "images" else make_dataset()
    for check in (check_network, lambda model, data: initial_network(model, data, np.random.default_rng(0))):
        with pytest.raises(ConfigError) as caught:
            check(model, data)
        assert message in str(caught.value) and "\n" not in str(caught.value)


# Softened hash tables: answers, recall and gradients against formulas in float64 NumPy


N, D = 6, 4


def a_hash_table(weights=None, **settings):
    similarity = {} if settings.get("weighting") == "exact_match" else {"similarity": "inner_product"}
    k = {"k": 2} if settings.get("weighting") == "top_k" else {}
    config = parse_model({"kind": "hash_table", **similarity, **k, **settings})
    learned = initial_arrays(config, D, np.random.default_rng(0)) if weights is None else weights
    return HashTable(config, {k: torch.from_numpy(v).double() for k, v in learned.items()})


def a_table(n=N, d=D, noise=0.3, queries=12, mean=0.0, std=1.0):
    config = LookupConfig(items=n, dimensions=d, noise=noise, queries=queries, mean=mean, std=std)
    table = draw_table(config, 0)
    return table, draw_queries(config, 0, table)


@pytest.fixture
def asked():
    generator = np.random.default_rng(3)
    keys, values = generator.normal(size=(2, N, D))
    return keys[[0, 2, 5]] + 0.2 * generator.normal(size=(3, D)), keys, values


def plain_scores(hash_table, queries, keys):
    """The method of the similarity, whose formula other tests check, scaled as docs/methods.md says."""
    config, factor = hash_table.config, 1.0
    method = METHODS[SIMILARITIES[config.similarity]]
    if config.scaling == "qk_norm":
        queries, keys = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (queries, keys))
        factor = math.log2(len(keys) ** 2 - len(keys))
    elif config.scaling == "sqrt_dimensions":
        factor = 1 / math.sqrt(keys.shape[1])
    if config.similarity == "inner_product":
        return torch.from_numpy(factor * queries @ keys.T)
    tensors = torch.from_numpy(queries), torch.from_numpy(keys)
    learned = {name.removeprefix("score_"): array for name, array in hash_table.learned.items()}
    return factor * method.scores(*tensors, method.resolve(config.score_parameters) | learned)


@pytest.mark.parametrize("weighting", ["argmax", "max", "softmax", "top_k", "sparsemax"])
@pytest.mark.parametrize("scaling", ["none", "sqrt_dimensions", "qk_norm"])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_an_answer_is_the_formula(asked, similarity, scaling, weighting):
    hash_table = a_hash_table(similarity=similarity, scaling=scaling, weighting=weighting)
    answers = hash_table.answers(*map(torch.from_numpy, asked)).numpy()
    scores = plain_scores(hash_table, *asked[:2])
    weights = apply_weighting(WEIGHTINGS[weighting], {"k": 2.0} if weighting == "top_k" else {}, scores)
    np.testing.assert_allclose(answers, weights.numpy() @ asked[2], rtol=1e-10, atol=1e-12)


def test_a_stored_table_is_loaded_with_what_it_learned_and_was_measured_on_the_table_of_its_seed(tmp_path):
    settings = {"similarity": "additive", "projections": "linear", "epochs": 1}
    data = {"name": "lookup", "items": 4, "dimensions": 3, "queries": 8}
    run = train(run_config(data, kind="hash_table", seed=4, **settings), tmp_path / "r.db")
    table, drawn = stored_hash_table(Results(tmp_path / "r.db"), run), draw_table(run.config.dataset, 4)
    found = measured(table, drawn, draw_queries(run.config.dataset, 4, drawn))
    stored = {name: value for (split, name), value in run.metrics.items() if split == "test"}
    assert found == pytest.approx({name: stored[name] for name in found}, rel=1e-6)
    assert stored.keys() - found.keys() == {"recall_before"}  # which only what learned has


def test_qk_norm_exact_matches_undefined_metrics_and_infinite_answers_have_their_limits():
    for n, factor in ((1, 1.0), (2, 1.0), (3, math.log2(6))):
        unit = torch.eye(3, dtype=torch.float64)[:n]
        assert a_hash_table(scaling="qk_norm").scores(2 * unit[:1], 3 * unit)[0, 0] == pytest.approx(factor)
    exact = a_hash_table(weighting="exact_match")
    assert recall(exact, *a_table(noise=0.0)) == 1
    # The answer to every other query is 0, which is nearest to one of the values.
    assert recall(exact, *a_table(noise=0.3)) == 1 / N
    assert "score_variance" not in measured(a_hash_table(), *a_table(n=1))
    assert "weight_entropy" not in measured(a_hash_table(weighting="max"), *a_table())  # its weights sum to no 1
    hits = measured(a_hash_table(similarity="idw", epsilon=0.0), *a_table(noise=0.0))
    assert hits["recall"] == 1 and hits["weight_entropy"] == 0
    table = LookupTable(np.full((2, 2), 3e38, np.float32), np.eye(2, dtype=np.float32))
    assert recall(a_hash_table(), table, Queries(table.keys, np.array([0, 1]))) <= 0.5


@pytest.mark.parametrize("projections", ["linear", "mlp"])
def test_projections_are_applied_to_queries_and_keys_separately(asked, projections):
    config = parse_model(
        {"kind": "hash_table", "similarity": "idw", "projections": projections, "project_values": True}
    )
    initial = initial_arrays(config, D, np.random.default_rng(0))
    weights = {name: array + 0.1 for name, array in initial.items()}  # biases are not 0
    table = a_hash_table(weights, projections=projections)

    def projected(side, x):
        if projections == "mlp":
            x = np.maximum(0, x @ weights[f"{side}_hidden_weight"] + weights[f"{side}_hidden_bias"])
        return x @ weights[f"{side}_weight"] + weights.get(f"{side}_bias", 0)

    queries, keys, _ = asked
    expected = projected("query", queries) @ projected("key", keys).T
    np.testing.assert_allclose(table.scores(*map(torch.from_numpy, (queries, keys))).numpy(), expected, rtol=1e-5)
    both = a_hash_table(weights, projections=projections, project_values=True)
    answers = both.answers(*map(torch.from_numpy, asked)).numpy()
    mixed = softmax(expected, axis=1) @ projected("value", asked[2])
    np.testing.assert_allclose(answers, mixed, rtol=1e-5)
    plain = table.answers(*map(torch.from_numpy, asked)).numpy()
    np.testing.assert_allclose(plain, softmax(expected, axis=1) @ asked[2], rtol=1e-5)
    if projections == "mlp":
        assert weights["query_hidden_weight"].shape == weights["key_hidden_weight"].shape == (D, 2 * D)


@pytest.mark.parametrize("weighting", ["softmax", "top_k", "argmax", "exact_match"])
def test_the_gradient_is_that_of_finite_differences(weighting):
    table, queries = a_table(n=4, d=3, queries=2)
    hash_table = a_hash_table(weighting=weighting, **{"similarity": "idw"} if weighting == "softmax" else {})
    inputs, keys, values = (torch.from_numpy(a).double() for a in (queries.inputs, table.keys, table.values))

    def losses(keys):
        return (hash_table.answers(inputs, keys, values) - values[queries.items]).square().mean(1)

    steps = 1e-5 * torch.eye(12, dtype=torch.float64).view(12, 4, 3)
    gradients = torch.stack([(losses(keys + step) - losses(keys - step)) / 2e-5 for step in steps], 1)
    metrics, is_gradient = measured(hash_table, table, queries), gradients.view(2, 4, 3).abs() > 1e-9
    assert metrics["gradient_norm"] == pytest.approx(gradients.norm(dim=1).mean().item(), rel=1e-4)
    assert metrics["gradient_share"] == pytest.approx(is_gradient.any(2).double().mean().item())


def test_recall_and_entropy_are_those_of_the_formulas_also_in_parts(monkeypatch):
    table, queries = a_table(n=40, noise=1.0, queries=80)
    hash_table = a_hash_table(similarity="idw")
    weights = plain_scores(hash_table, queries.inputs.astype(float), table.keys.astype(float)).softmax(1).numpy()
    nearest = ((weights @ table.values.astype(float))[:, None] - table.values) ** 2
    expected = (nearest.sum(-1).argmin(1) == queries.items).mean()
    metrics = measured(hash_table, table, queries)
    assert 0 < recall(hash_table, table, queries) == metrics["recall"] == expected < 1
    assert metrics["weight_entropy"] == pytest.approx(-(weights * np.log(weights)).sum(1).mean(), rel=1e-5)
    assert measured(a_hash_table(weighting="argmax"), table, queries)["weight_entropy"] == 0
    monkeypatch.setattr("idwbench.models.hash_table._NUMBERS_AT_ONCE", 50)
    assert measured(hash_table, table, queries) == pytest.approx(metrics, rel=1e-5)


@pytest.mark.parametrize("std", [0.5, 1.0, 2.0])
def test_the_variance_of_scores_is_that_of_the_theory(std):
    d, mean, noise = 30, 0.5, 0.7
    table, queries = a_table(n=400, d=d, noise=noise, queries=400, mean=mean, std=std)
    variance = measured(a_hash_table(), table, queries)["score_variance"]
    theory = d * std**2 * (std**2 + noise**2) + (2 * std**2 + noise**2) * d * mean**2
    assert variance == pytest.approx(theory, rel=0.1)
    products = (queries.inputs.astype(float) @ table.keys.astype(float).T)[~np.eye(400, dtype=bool)]
    assert variance == pytest.approx(products.var(), rel=1e-4)
    scaled = measured(a_hash_table(scaling="sqrt_dimensions"), table, queries)["score_variance"]
    assert scaled == pytest.approx(variance / d, rel=1e-4)
