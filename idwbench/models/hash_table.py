"""A softened hash table: stored keys and values, looked up by similarity.

    answer(q) = Σ_j a_j h(v_j),  a = weighting(c · s(f(q), g(k_j)))

The similarity s is the score of a method (x·k for ``inner_product``); what that of ``additive`` learns is learned here,
too. The scaling is

- ``none``: c = 1;
- ``sqrt_dimensions``: c = 1/√d, where d is the number of dimensions (Vaswani et al. 2017, section 3.2.1);
- ``qk_norm``: q and k are divided by their norms, and c = log₂(n² − n) for n keys (Henry et al. 2020, *Query-Key
  Normalization for Transformers*, Eq. 4 and 5; the initial value of a number that is learned there), at least 1.

The projections f and g are the identity (``none``), linear, or perceptrons with one hidden layer of 2d ReLU units
(``mlp``); they have d outputs and are learned separately. The projection h of values is the identity unless
`project_values` is true; then it is of the same form and learned too.

What a table recalls, and which keys a query reaches, for queries q_b for items i(b) with answers o_b, weights a_bj and
values v_j of D numbers:

- ``recall``: the fraction of queries for which v_i(b) is the stored value nearest to o_b.
- ``gradient_share``: the fraction of keys k_j with ∂ℓ_b/∂k_j ≠ 0 in float32, mean over queries, where
  ℓ_b = ‖o_b − v_i(b)‖²/D is the squared error of one answer.
- ``gradient_norm``: ‖∂ℓ_b/∂K‖ over all keys, mean over queries.
- ``weight_entropy``: −Σ_j a_bj log a_bj in nats, mean over queries; for weightings whose weights sum to 1.
- ``score_variance``: the variance of the scaled scores over all pairs of a query and a key that is not its own.

The first `GRADIENT_QUERIES` queries have gradients, each by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idwbench.attention.distances import stacked_product
from idwbench.attention.forward import apply_weighting
from idwbench.attention.scores import unit_vectors
from idwbench.attention.weightings import get_weighting
from idwbench.data.dataset import nearest_values
from idwbench.data.synthetic import LookupTable, Queries
from idwbench.models.initialisation import learned_arrays
from idwbench.runs.kinds.hash_table import HashTableConfig

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = [
    "GRADIENT_QUERIES",
    "HashTable",
    "initial_arrays",
    "measured",
    "recall",
    "stored_hash_table",
]

GRADIENT_QUERIES = 32
_DISTRIBUTIONS = ("softmax", "argmax", "straight_through", "top_k", "sparsemax", "entmax15")
_NUMBERS_AT_ONCE = 2**22
# What the names of arrays begin with that the score learns; projections have weights of the queries and keys, too.
_OF_SCORE = "score_"


@dataclass(frozen=True)
class HashTable:
    """The functions of one hash table.

    Attributes:
        config: Similarity, scaling, weighting and their parameters.
        learned: The weights of the projections, and what the score learns, by name, as of `initial_arrays`.
    """

    config: HashTableConfig
    learned: Mapping[str, Tensor] = field(default_factory=dict)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scaled scores (…, queries, keys) of queries (…, queries, d) and keys (…, keys, d)."""
        config = self.config
        queries, keys = self._projected("query", queries), self._projected("key", keys)
        own_score = get_weighting(config.weighting).own_score
        if own_score is not None:
            return own_score(queries, keys)  # type: ignore[no-any-return]
        assert config.score is not None  # all other weightings need a similarity
        if config.scaling == "qk_norm":
            queries, keys = unit_vectors(queries), unit_vectors(keys)
        own = {one.name: self.learned[f"{_OF_SCORE}{one.name}"] for one in config.score.learned}
        scores: Tensor = config.score.scores(queries, keys, {**config.score_parameters, **own})
        factor = _factor(config.scaling, *keys.shape[-2:])
        return scores if factor == 1 else scores * factor

    def weights(self, scores: Tensor) -> Tensor:
        """Return the weights (…, queries, keys) for scaled scores."""
        return apply_weighting(get_weighting(self.config.weighting), self.config.weighting_parameters, scores)

    def answers(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return Σ_j a_j h(v_j) (…, queries, outputs)."""
        return stacked_product(self.weights(self.scores(queries, keys)), self.values(values))

    def values(self, values: Tensor) -> Tensor:
        """Return the values h(v_j) (…, keys, outputs) that are stored for v_j."""
        return self._projected("value", values)

    def _projected(self, name: str, vectors: Tensor) -> Tensor:
        if name not in self.config.projected:
            return vectors
        if self.config.projections == "linear":
            return vectors @ self.learned[f"{name}_weight"]
        hidden = (vectors @ self.learned[f"{name}_hidden_weight"] + self.learned[f"{name}_hidden_bias"]).relu()
        return hidden @ self.learned[f"{name}_weight"] + self.learned[f"{name}_bias"]


def stored_hash_table(store: Results, run: StoredRun) -> HashTable:
    """Return the hash table of a complete run, with what it learned.

    Raises:
        ValueError: the run is of another kind.
        ResultsError: the database cannot be read.
    """
    config = run.config.model
    if not isinstance(config, HashTableConfig):
        raise ValueError(f"a run of kind {config.kind} has no hash table")
    arrays = store.load_arrays(run.run_key)
    return HashTable(config, {name: torch.from_numpy(array) for name, array in arrays.items()})


def _factor(scaling: str, n_keys: int, dimensions: int) -> float:
    if scaling == "sqrt_dimensions":
        return 1 / math.sqrt(dimensions)
    if scaling == "qk_norm":
        return math.log2(max(2, n_keys * (n_keys - 1)))
    return 1.0


def initial_arrays(
    config: HashTableConfig, dimensions: int, generator: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    """Return initial weights by name: of projections, and those that the score learns, see `learned_arrays`.

    Weights of projections (inputs, outputs) are N(0, 1/inputs), before a ReLU N(0, 2/inputs), and biases 0. Queries and
    keys are projected differently, so a table finds nothing before it has learned.
    """
    shapes: dict[str, tuple[int, ...]] = {"weight": (dimensions, dimensions)}
    if config.projections == "mlp":
        hidden = 2 * dimensions
        shapes = {
            "hidden_weight": (dimensions, hidden),
            "hidden_bias": (hidden,),
            "weight": (hidden, dimensions),
            "bias": (dimensions,),
        }
    arrays = {
        f"{side}_{name}": _initial(name, shape, generator).astype(np.float32)
        for side in config.projected
        for name, shape in shapes.items()
    }
    if config.score is not None:
        learned = learned_arrays(config.score, config.score_parameters, dimensions, generator)
        arrays |= {f"{_OF_SCORE}{name}": array for name, array in learned.items()}
    return arrays


def _initial(name: str, shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.float64]:
    if name.endswith("bias"):
        return np.zeros(shape)
    gain = 2.0 if name == "hidden_weight" else 1.0
    return generator.standard_normal(shape) * math.sqrt(gain / shape[0])


def recall(hash_table: HashTable, table: LookupTable, queries: Queries) -> float:
    """Return the fraction of right answers; an answer that is not finite is wrong."""
    keys, values = torch.from_numpy(table.keys), torch.from_numpy(table.values)
    with torch.no_grad():
        parts = [hash_table.answers(part, keys, values).numpy() for part in _parts(hash_table, queries, table)]
    return _fraction_right(np.concatenate(parts), table, queries)


def measured(hash_table: HashTable, table: LookupTable, queries: Queries) -> dict[str, float]:
    """Return the metrics of the module by name, without those that are not defined."""
    keys, values = torch.from_numpy(table.keys), torch.from_numpy(table.values)
    outputs: list[NDArray[np.float32]] = []
    entropies: list[Tensor] = []
    scores: list[Tensor] = []
    with torch.no_grad():
        for part in _parts(hash_table, queries, table):
            scores.append(hash_table.scores(part, keys))
            weights = hash_table.weights(scores[-1])
            entropies.append(torch.special.entr(weights).sum(-1))
            outputs.append((weights @ hash_table.values(values)).numpy())
    metrics = {
        "recall": _fraction_right(np.concatenate(outputs), table, queries),
        "weight_entropy": float(torch.cat(entropies).double().mean()),
        "score_variance": _variance_of_others(torch.cat(scores).numpy(), queries),
        **_gradients(hash_table, keys, values, queries),
    }
    if hash_table.config.weighting not in _DISTRIBUTIONS:
        del metrics["weight_entropy"]
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _parts(hash_table: HashTable, queries: Queries, table: LookupTable) -> tuple[Tensor, ...]:
    """Return the queries in parts whose scores fit into some megabytes."""
    units = int(hash_table.config.parameters.get("hidden", 1))
    return torch.split(torch.from_numpy(queries.inputs), max(1, _NUMBERS_AT_ONCE // (units * len(table.keys))))


def _fraction_right(outputs: NDArray[np.float32], table: LookupTable, queries: Queries) -> float:
    return float((nearest_values(outputs, table.values) == queries.items).mean())


def _variance_of_others(scores: NDArray[np.float32], queries: Queries) -> float:
    """Return the variance of the scores of other keys; NaN with one key, or with infinite scores."""
    if scores.shape[1] < 2:
        return math.nan
    own = scores[np.arange(len(scores)), queries.items].astype(np.float64)
    n = scores.size - len(own)
    with np.errstate(invalid="ignore"):
        total = scores.sum(dtype=np.float64) - own.sum()
        centred = scores.astype(np.float64) - total / n
        own -= total / n
        return float(((centred**2).sum() - (own**2).sum()) / n)


def _gradients(hash_table: HashTable, keys: Tensor, values: Tensor, queries: Queries) -> dict[str, float]:
    """Return share and norm; each query has its own copy of the keys."""
    inputs = torch.from_numpy(queries.inputs[:GRADIENT_QUERIES])
    targets = values[torch.from_numpy(queries.items[:GRADIENT_QUERIES])]
    at_once = max(1, _NUMBERS_AT_ONCE // keys.numel())
    norms: list[Tensor] = []
    shares: list[Tensor] = []
    for some, wanted in zip(torch.split(inputs, at_once), torch.split(targets, at_once), strict=True):
        copies = keys.expand(len(some), -1, -1).clone().requires_grad_()
        answers = hash_table.answers(some.unsqueeze(1), copies, values).squeeze(1)
        losses = (answers - wanted).square().mean(-1)
        gradient = torch.zeros_like(copies)
        if losses.requires_grad:
            gradient = torch.autograd.grad(losses.sum(), copies, allow_unused=True, materialize_grads=True)[0]
        shares.append((gradient != 0).any(-1).double().mean(-1))
        norms.append(gradient.double().flatten(1).norm(dim=1))
    return {"gradient_share": float(torch.cat(shares).mean()), "gradient_norm": float(torch.cat(norms).mean())}
