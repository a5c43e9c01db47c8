"""Softened hash tables: answers, recall and gradients against formulas in float64 NumPy."""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax

from idwbench import Results, run_config, train
from idwbench.attention.forward import apply_weighting
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.data.synthetic import LookupTable, Queries, draw_queries, draw_table
from idwbench.models.hash_table import HashTable, initial_arrays, measured, recall, stored_hash_table
from idwbench.runs.datasets import LookupConfig
from idwbench.runs.kinds.hash_table import SIMILARITIES
from idwbench.runs.kinds.models import parse_model

N, D = 6, 4


def a_hash_table(weights=None, **settings):
    similarity = {} if settings.get("weighting") == "exact_match" else {"similarity": "inner_product"}
    k = {"k": 2} if settings.get("weighting") == "top_k" else {}
    config = parse_model({"kind": "hash_table", **similarity, **k, **settings})
    arrays = initial_arrays(config, D, np.random.default_rng(0)) if weights is None else weights
    return HashTable(config, {k: torch.from_numpy(v).double() for k, v in arrays.items()})


def a_table(n=N, d=D, noise=0.3, queries=12, mean=0.0, std=1.0):
    config = LookupConfig(items=n, dimensions=d, noise=noise, queries=queries, mean=mean, std=std)
    table = draw_table(config, 0)
    return table, draw_queries(config, 0, table)


@pytest.fixture
def arrays():
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
def test_an_answer_is_the_formula(arrays, similarity, scaling, weighting):
    hash_table = a_hash_table(similarity=similarity, scaling=scaling, weighting=weighting)
    answers = hash_table.answers(*map(torch.from_numpy, arrays)).numpy()
    scores = plain_scores(hash_table, *arrays[:2])
    weights = apply_weighting(WEIGHTINGS[weighting], {"k": 2.0} if weighting == "top_k" else {}, scores)
    np.testing.assert_allclose(answers, weights.numpy() @ arrays[2], rtol=1e-10, atol=1e-12)


def test_a_stored_table_is_loaded_with_what_it_learned(tmp_path):
    settings = {"similarity": "additive", "projections": "linear", "epochs": 1}
    data = {"name": "lookup", "items": 4, "dimensions": 3, "queries": 8}
    run = train(run_config(data, kind="hash_table", **settings), tmp_path / "r.db")
    table, drawn = stored_hash_table(Results(tmp_path / "r.db"), run), draw_table(run.config.dataset, 0)
    found = measured(table, drawn, draw_queries(run.config.dataset, 0, drawn))
    assert found == pytest.approx({name: run.metrics["test", name] for name in found})


def test_qk_norm_of_few_keys_has_a_factor_of_at_least_one():
    for n, factor in ((1, 1.0), (2, 1.0), (3, math.log2(6))):
        unit = torch.eye(3, dtype=torch.float64)[:n]
        assert a_hash_table(scaling="qk_norm").scores(2 * unit[:1], 3 * unit)[0, 0] == pytest.approx(factor)


@pytest.mark.parametrize("projections", ["linear", "mlp"])
def test_projections_are_applied_to_queries_and_keys_separately(arrays, projections):
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

    queries, keys, _ = arrays
    expected = projected("query", queries) @ projected("key", keys).T
    np.testing.assert_allclose(table.scores(*map(torch.from_numpy, (queries, keys))).numpy(), expected, rtol=1e-5)
    both = a_hash_table(weights, projections=projections, project_values=True)
    answers = both.answers(*map(torch.from_numpy, arrays)).numpy()
    mixed = softmax(expected, axis=1) @ projected("value", arrays[2])
    np.testing.assert_allclose(answers, mixed, rtol=1e-5)
    plain = table.answers(*map(torch.from_numpy, arrays)).numpy()
    np.testing.assert_allclose(plain, softmax(expected, axis=1) @ arrays[2], rtol=1e-5)
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


def test_an_exact_match_recalls_stored_keys_and_nothing_else():
    exact = a_hash_table(weighting="exact_match")
    assert recall(exact, *a_table(noise=0.0)) == 1
    # The answer to every other query is 0, which is nearest to one of the values.
    assert recall(exact, *a_table(noise=0.3)) == 1 / N


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


def test_a_metric_that_is_not_defined_is_left_out_and_an_answer_that_is_not_finite_is_wrong():
    assert "score_variance" not in measured(a_hash_table(), *a_table(n=1))
    assert "weight_entropy" not in measured(a_hash_table(weighting="max"), *a_table())  # its weights sum to no 1
    hits = measured(a_hash_table(similarity="idw", epsilon=0.0), *a_table(noise=0.0))
    assert hits["recall"] == 1 and hits["weight_entropy"] == 0
    table = LookupTable(np.full((2, 2), 3e38, np.float32), np.eye(2, dtype=np.float32))
    assert recall(a_hash_table(), table, Queries(table.keys, np.array([0, 1]))) <= 0.5
