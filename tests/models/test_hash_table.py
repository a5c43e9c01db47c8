"""Softened hash tables: answers, recall and gradients against formulas in float64 NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from idwbench.attention.forward import attend
from idwbench.data.synthetic import LookupTable, Queries, draw_queries, draw_table
from idwbench.models.hash_table import HashTable, initial_projections, measured, recall
from idwbench.runs.datasets import LookupConfig
from idwbench.runs.kinds.hash_table import SIMILARITIES, HashTableConfig
from idwbench.runs.kinds.models import parse_model

N, D = 6, 4


def a_config(**settings: object) -> HashTableConfig:
    found = parse_model({"kind": "hash_table", "similarity": "inner_product", **settings})
    assert isinstance(found, HashTableConfig)
    return found


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    keys, values = generator.normal(size=(2, N, D))
    return keys[[0, 2, 5]] + 0.2 * generator.normal(size=(3, D)), keys, values


def plain_scores(similarity: str, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The formulas of docs/methods.md with default parameters."""
    squares = ((queries[:, None] - keys) ** 2).sum(-1)
    norms = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(keys, axis=1)
    return {
        "inner_product": queries @ keys.T,
        "cosine": queries @ keys.T / norms,
        "gaussian": np.exp(-squares / 2),
        "idw": -np.log(1e-3 + squares),
        "inv_dist": 1 / (1e-3 + squares),
        "neg_dist": -squares,
    }[similarity]


def plain_weights(weighting: str, scores: np.ndarray) -> np.ndarray:
    largest = scores == scores.max(1, keepdims=True)
    if weighting == "argmax":
        return largest.astype(float)
    if weighting == "max":
        return np.where(largest, scores, 0)
    if weighting == "top_k":
        scores = np.where(scores >= np.sort(scores, 1)[:, -2:-1], scores, -np.inf)
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


@pytest.mark.parametrize("weighting", ["argmax", "max", "softmax", "top_k"])
@pytest.mark.parametrize("scaling", ["none", "sqrt_dimensions", "qk_norm"])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_an_answer_is_the_formula(arrays, similarity: str, scaling: str, weighting: str) -> None:
    queries, keys, values = arrays
    k = {"k": 2} if weighting == "top_k" else {}
    config = a_config(similarity=similarity, scaling=scaling, weighting=weighting, **k)
    found = HashTable(config).answers(*map(torch.from_numpy, arrays)).numpy()
    factor = {"none": 1, "sqrt_dimensions": 1 / math.sqrt(D), "qk_norm": math.log2(N * N - N)}[scaling]
    if scaling == "qk_norm":
        queries, keys = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (queries, keys))
    expected = plain_weights(weighting, factor * plain_scores(similarity, queries, keys)) @ values
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_without_scaling_it_is_attend(arrays) -> None:
    queries, keys, values = map(torch.from_numpy, arrays)
    for weighting in ("softmax", "sparsemax", "entmax15", "exact_match"):
        similarity = {} if weighting == "exact_match" else {"similarity": "idw", "power": 3.0}
        config = parse_model({"kind": "hash_table", "weighting": weighting, **similarity})
        expected = attend(queries, keys, values, score="idw", weighting=weighting, power=3.0)
        assert torch.equal(HashTable(config).answers(queries, keys, values), expected)


@pytest.mark.parametrize(("n", "factor"), [(1, 1.0), (2, 1.0), (3, math.log2(6))])
def test_qk_norm_of_few_keys_has_a_factor_of_at_least_one(n: int, factor: float) -> None:
    unit = torch.eye(3, dtype=torch.float64)[:n]
    assert HashTable(a_config(scaling="qk_norm")).scores(2 * unit[:1], 3 * unit)[0, 0] == pytest.approx(factor)


@pytest.mark.parametrize("projections", ["linear", "mlp"])
def test_projections_are_applied_to_queries_and_keys_separately(arrays, projections: str) -> None:
    weights = initial_projections(projections, D, np.random.default_rng(0))
    if projections == "mlp":
        assert weights["query_hidden_weight"].shape == weights["key_hidden_weight"].shape == (D, 2 * D)
    for name in weights:
        weights[name] = weights[name] + 0.1  # biases are not 0
    table = HashTable(a_config(projections=projections), {k: torch.from_numpy(v).double() for k, v in weights.items()})

    def projected(side: str, x: np.ndarray) -> np.ndarray:
        w = {name.removeprefix(f"{side}_"): array.astype(float) for name, array in weights.items()}
        if projections == "linear":
            return x @ w["weight"]
        return np.maximum(0, x @ w["hidden_weight"] + w["hidden_bias"]) @ w["weight"] + w["bias"]

    queries, keys, _ = arrays
    expected = projected("query", queries) @ projected("key", keys).T
    np.testing.assert_allclose(table.scores(*map(torch.from_numpy, (queries, keys))).numpy(), expected, rtol=1e-5)


def a_table(n: int = N, d: int = D, noise: float = 0.3, queries: int = 12, mean: float = 0.0):
    config = LookupConfig(items=n, dimensions=d, noise=noise, queries=queries, mean=mean)
    table = draw_table(config, 0)
    return table, draw_queries(config, 0, table)


@pytest.mark.parametrize(
    "settings", [{}, {"similarity": "idw"}, {"similarity": "neg_dist", "weighting": "top_k", "k": 3}]
)
def test_the_gradient_is_that_of_finite_differences(settings: dict[str, object]) -> None:
    table, queries = a_table(queries=2)
    found = measured(HashTable(a_config(**settings)), table, queries)
    hash_table = HashTable(a_config(**settings))
    values = torch.from_numpy(table.values).double()

    def loss(keys: np.ndarray, query: int) -> float:
        inputs = torch.from_numpy(queries.inputs[[query]]).double()
        answer = hash_table.answers(inputs, torch.from_numpy(keys), values)[0]
        return float((answer - values[queries.items[query]]).square().mean())

    norms, shares = [], []
    for query in range(2):
        gradient = np.zeros((N, D))
        for place in np.ndindex(N, D):
            high, low = table.keys.astype(float), table.keys.astype(float)
            high[place] += 1e-5
            low[place] -= 1e-5
            gradient[place] = (loss(high, query) - loss(low, query)) / 2e-5
        norms.append(np.linalg.norm(gradient))
        shares.append((np.abs(gradient) > 1e-9).any(1).mean())
    assert found["gradient_norm"] == pytest.approx(np.mean(norms), rel=1e-4)
    assert found["gradient_share"] == pytest.approx(np.mean(shares))


def test_the_weightings_give_gradients_to_the_keys_that_they_use() -> None:
    table, queries = a_table(n=16, queries=32)
    exact = parse_model({"kind": "hash_table", "weighting": "exact_match"})
    shares = {"exact_match": measured(HashTable(exact), table, queries)["gradient_share"]}
    for weighting in ("argmax", "max", "top_k", "softmax"):
        k = {"k": 4} if weighting == "top_k" else {}
        shares[weighting] = measured(HashTable(a_config(weighting=weighting, **k)), table, queries)["gradient_share"]
    assert shares == {"exact_match": 0, "argmax": 0, "max": 1 / 16, "top_k": 4 / 16, "softmax": 1}


def test_an_exact_match_recalls_stored_keys_and_nothing_else() -> None:
    exact = HashTable(parse_model({"kind": "hash_table", "weighting": "exact_match"}))
    assert recall(exact, *a_table(noise=0.0)) == 1
    # The answer to every other query is 0, which is nearest to one of the values.
    assert recall(exact, *a_table(noise=0.3)) == 1 / N


def test_recall_is_that_of_all_differences() -> None:
    table, queries = a_table(n=40, noise=1.0, queries=80)
    config = a_config(similarity="idw")
    scores = plain_scores("idw", queries.inputs.astype(float), table.keys.astype(float))
    answers = plain_weights("softmax", scores) @ table.values.astype(float)
    nearest = ((answers[:, None] - table.values) ** 2).sum(-1).argmin(1)
    expected = (nearest == queries.items).mean()
    assert 0 < expected < 1
    assert recall(HashTable(config), table, queries) == expected
    assert measured(HashTable(config), table, queries)["recall"] == expected


def test_parts_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table, queries = a_table(n=10, queries=23)
    hash_table = HashTable(a_config())
    whole = measured(hash_table, table, queries)
    monkeypatch.setattr("idwbench.models.hash_table._NUMBERS_AT_ONCE", 50)
    assert measured(hash_table, table, queries) == pytest.approx(whole, rel=1e-5)


def test_the_entropy_is_that_of_the_weights_and_only_of_distributions() -> None:
    table, queries = a_table()
    weights = plain_weights("softmax", queries.inputs.astype(float) @ table.keys.astype(float).T)
    expected = -(weights * np.log(weights)).sum(1).mean()
    assert measured(HashTable(a_config()), table, queries)["weight_entropy"] == pytest.approx(expected, rel=1e-5)
    assert measured(HashTable(a_config(weighting="argmax")), table, queries)["weight_entropy"] == 0
    assert "weight_entropy" not in measured(HashTable(a_config(weighting="max")), table, queries)


@pytest.mark.parametrize(("mean", "noise"), [(0.0, 0.0), (1.5, 0.0), (0.5, 0.7)])
def test_the_variance_of_scores_is_that_of_the_theory(mean: float, noise: float) -> None:
    d = 30
    table, queries = a_table(n=400, d=d, noise=noise, queries=400, mean=mean)
    variance = measured(HashTable(a_config()), table, queries)["score_variance"]
    theory = d * (1 + noise**2) + (2 + noise**2) * d * mean**2
    assert variance == pytest.approx(theory, rel=0.1)
    scaled = measured(HashTable(a_config(scaling="sqrt_dimensions")), table, queries)["score_variance"]
    assert scaled == pytest.approx(variance / d, rel=1e-4)
    others = ~np.eye(400, dtype=bool)
    expected = (queries.inputs.astype(float) @ table.keys.astype(float).T)[others].var()
    assert variance == pytest.approx(expected, rel=1e-4)


def test_a_metric_that_is_not_defined_is_left_out() -> None:
    table, queries = a_table(n=1)
    assert "score_variance" not in measured(HashTable(a_config()), table, queries)
    table, queries = a_table(noise=0.0)
    hits = measured(HashTable(a_config(similarity="idw", epsilon=0.0)), table, queries)
    assert hits["recall"] == 1 and hits["weight_entropy"] == 0


def test_an_answer_that_is_not_finite_is_wrong() -> None:
    table = LookupTable(np.full((2, 2), 3e38, np.float32), np.eye(2, dtype=np.float32))
    queries = Queries(np.full((2, 2), 3e38, np.float32), np.array([0, 1]))
    assert recall(HashTable(a_config()), table, queries) <= 0.5
