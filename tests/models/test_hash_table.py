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
from idwbench.runs.kinds.hash_table import SIMILARITIES
from idwbench.runs.kinds.models import parse_model

N, D = 6, 4


def a_hash_table(weights: dict[str, np.ndarray] | None = None, **settings: object) -> HashTable:
    similarity = {} if settings.get("weighting") == "exact_match" else {"similarity": "inner_product"}
    k = {"k": 2} if settings.get("weighting") == "top_k" else {}
    config = parse_model({"kind": "hash_table", **similarity, **k, **settings})
    return HashTable(config, {k: torch.from_numpy(v).double() for k, v in (weights or {}).items()})


def a_table(n: int = N, d: int = D, noise: float = 0.3, queries: int = 12, mean: float = 0.0):
    config = LookupConfig(items=n, dimensions=d, noise=noise, queries=queries, mean=mean)
    table = draw_table(config, 0)
    return table, draw_queries(config, 0, table)


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
    hash_table = a_hash_table(similarity=similarity, scaling=scaling, weighting=weighting)
    answers = hash_table.answers(*map(torch.from_numpy, arrays)).numpy()
    factor = {"none": 1, "sqrt_dimensions": 1 / math.sqrt(D), "qk_norm": math.log2(N * N - N)}[scaling]
    if scaling == "qk_norm":
        queries, keys = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (queries, keys))
    expected = plain_weights(weighting, factor * plain_scores(similarity, queries, keys)) @ values
    np.testing.assert_allclose(answers, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("weighting", ["softmax", "sparsemax", "entmax15", "exact_match"])
def test_without_scaling_it_is_attend(arrays, weighting: str) -> None:
    tensors = [*map(torch.from_numpy, arrays)]
    similarity = {} if weighting == "exact_match" else {"similarity": "idw", "power": 3.0}
    expected = attend(*tensors, score="idw", weighting=weighting, power=3.0)
    assert torch.equal(a_hash_table(weighting=weighting, **similarity).answers(*tensors), expected)


@pytest.mark.parametrize(("n", "factor"), [(1, 1.0), (2, 1.0), (3, math.log2(6))])
def test_qk_norm_of_few_keys_has_a_factor_of_at_least_one(n: int, factor: float) -> None:
    unit = torch.eye(3, dtype=torch.float64)[:n]
    assert a_hash_table(scaling="qk_norm").scores(2 * unit[:1], 3 * unit)[0, 0] == pytest.approx(factor)


@pytest.mark.parametrize("projections", ["linear", "mlp"])
def test_projections_are_applied_to_queries_and_keys_separately(arrays, projections: str) -> None:
    weights = initial_projections(projections, D, np.random.default_rng(0))
    if projections == "mlp":
        assert weights["query_hidden_weight"].shape == weights["key_hidden_weight"].shape == (D, 2 * D)
    for name in weights:
        weights[name] = weights[name] + 0.1  # biases are not 0
    table = a_hash_table(weights, projections=projections)

    def projected(side: str, x: np.ndarray) -> np.ndarray:
        w = {name.removeprefix(f"{side}_"): array.astype(float) for name, array in weights.items()}
        if projections == "linear":
            return x @ w["weight"]
        return np.maximum(0, x @ w["hidden_weight"] + w["hidden_bias"]) @ w["weight"] + w["bias"]

    queries, keys, _ = arrays
    expected = projected("query", queries) @ projected("key", keys).T
    np.testing.assert_allclose(table.scores(*map(torch.from_numpy, (queries, keys))).numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [{"similarity": "idw"}, *({"weighting": name} for name in ("softmax", "top_k", "max", "argmax", "exact_match"))],
    ids=str,
)
def test_the_gradient_is_that_of_finite_differences(settings: dict[str, object]) -> None:
    table, queries = a_table(queries=2)
    hash_table = a_hash_table(**settings)
    values = torch.from_numpy(table.values).double()

    def loss(keys: np.ndarray, query: int) -> float:
        inputs = torch.from_numpy(queries.inputs[[query]]).double()
        answer = hash_table.answers(inputs, torch.from_numpy(keys), values)[0]
        return float((answer - values[queries.items[query]]).square().mean())

    gradients = np.zeros((2, N, D))
    for query, *place in np.ndindex(2, N, D):
        step = np.zeros((N, D))
        step[tuple(place)] = 1e-5
        sides = [loss(table.keys + sign * step, query) for sign in (1, -1)]
        gradients[query, *place] = (sides[0] - sides[1]) / 2e-5
    metrics = measured(hash_table, table, queries)
    norms, shares = np.linalg.norm(gradients, axis=(1, 2)), (np.abs(gradients) > 1e-9).any(2).mean()
    assert metrics["gradient_norm"] == pytest.approx(norms.mean(), rel=1e-4)
    assert metrics["gradient_share"] == pytest.approx(shares)


def test_an_exact_match_recalls_stored_keys_and_nothing_else() -> None:
    exact = a_hash_table(weighting="exact_match")
    assert recall(exact, *a_table(noise=0.0)) == 1
    # The answer to every other query is 0, which is nearest to one of the values.
    assert recall(exact, *a_table(noise=0.3)) == 1 / N


def test_recall_and_entropy_are_those_of_the_formulas_also_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    table, queries = a_table(n=40, noise=1.0, queries=80)
    hash_table = a_hash_table(similarity="idw")
    scores = plain_scores("idw", queries.inputs.astype(float), table.keys.astype(float))
    weights = plain_weights("softmax", scores)
    nearest = ((weights @ table.values.astype(float))[:, None] - table.values) ** 2
    expected = (nearest.sum(-1).argmin(1) == queries.items).mean()
    metrics = measured(hash_table, table, queries)
    assert 0 < recall(hash_table, table, queries) == metrics["recall"] == expected < 1
    assert metrics["weight_entropy"] == pytest.approx(-(weights * np.log(weights)).sum(1).mean(), rel=1e-5)
    assert measured(a_hash_table(weighting="argmax"), table, queries)["weight_entropy"] == 0
    monkeypatch.setattr("idwbench.models.hash_table._NUMBERS_AT_ONCE", 50)
    assert measured(hash_table, table, queries) == pytest.approx(metrics, rel=1e-5)


@pytest.mark.parametrize(("mean", "noise"), [(0.0, 0.0), (1.5, 0.0), (0.5, 0.7)])
def test_the_variance_of_scores_is_that_of_the_theory(mean: float, noise: float) -> None:
    d = 30
    table, queries = a_table(n=400, d=d, noise=noise, queries=400, mean=mean)
    variance = measured(a_hash_table(), table, queries)["score_variance"]
    theory = d * (1 + noise**2) + (2 + noise**2) * d * mean**2
    assert variance == pytest.approx(theory, rel=0.1)
    products = (queries.inputs.astype(float) @ table.keys.astype(float).T)[~np.eye(400, dtype=bool)]
    assert variance == pytest.approx(products.var(), rel=1e-4)
    scaled = measured(a_hash_table(scaling="sqrt_dimensions"), table, queries)["score_variance"]
    assert scaled == pytest.approx(variance / d, rel=1e-4)


def test_a_metric_that_is_not_defined_is_left_out_and_an_answer_that_is_not_finite_is_wrong() -> None:
    assert "score_variance" not in measured(a_hash_table(), *a_table(n=1))
    assert "weight_entropy" not in measured(a_hash_table(weighting="max"), *a_table())  # its weights sum to no 1
    hits = measured(a_hash_table(similarity="idw", epsilon=0.0), *a_table(noise=0.0))
    assert hits["recall"] == 1 and hits["weight_entropy"] == 0
    table = LookupTable(np.full((2, 2), 3e38, np.float32), np.eye(2, dtype=np.float32))
    assert recall(a_hash_table(), table, Queries(table.keys, np.array([0, 1]))) <= 0.5
