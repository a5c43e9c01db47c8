"""A softened hash table: stored keys and values, looked up by similarity.

    answer(q) = Σ_j a_j v_j,  a = weighting(c · s(f(q), g(k_j)))

The similarity s is the score of a method (x·k for ``inner_product``). The scaling is

- ``none``: c = 1;
- ``sqrt_dimensions``: c = 1/√d, where d is the number of dimensions (Vaswani et al. 2017, section 3.2.1);
- ``qk_norm``: q and k are divided by their norms, and c = log₂(n² − n) for n keys (Henry et al. 2020, *Query-Key
  Normalization for Transformers*, Eq. 4 and 5; the initial value of a number that is learned there), at least 1.

The projections f and g are the identity (``none``), linear, or perceptrons with one hidden layer of 2d ReLU units
(``mlp``); they have d outputs and are learned separately.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from idwbench.runs.kinds.hash_table import HashTableConfig

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = ["HashTable", "initial_projections", "projection_shapes", "stored_hash_table"]

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class HashTable:
    """The functions of one hash table.

    Attributes:
        config: Similarity, scaling, weighting and their parameters.
        projections: The weights of the projections by name, with the shapes of `projection_shapes`.
    """

    config: HashTableConfig
    projections: Mapping[str, Tensor] = field(default_factory=dict)

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
        scores: Tensor = config.score.score(queries, keys, **config.score_parameters)
        factor = _factor(config.scaling, *keys.shape[-2:])
        return scores if factor == 1 else scores * factor

    def weights(self, scores: Tensor) -> Tensor:
        """Return the weights (…, queries, keys) for scaled scores."""
        return apply_weighting(get_weighting(self.config.weighting), self.config.weighting_parameters, scores)

    def answers(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return Σ_j a_j v_j (…, queries, outputs)."""
        return stacked_product(self.weights(self.scores(queries, keys)), values)

    def _projected(self, name: str, vectors: Tensor) -> Tensor:
        if self.config.projections == "none":
            return vectors
        if self.config.projections == "linear":
            return vectors @ self.projections[f"{name}_weight"]
        hidden = (vectors @ self.projections[f"{name}_hidden_weight"] + self.projections[f"{name}_hidden_bias"]).relu()
        return hidden @ self.projections[f"{name}_weight"] + self.projections[f"{name}_bias"]


def stored_hash_table(store: Results, run: StoredRun) -> HashTable:
    """Return the hash table of a complete run, with its learned projections.

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


def projection_shapes(projections: str, dimensions: int) -> Shapes:
    """Return the names and shapes of the weights of projections; a weight is (inputs, outputs)."""
    if projections == "none":
        return {}
    one: Shapes = {"weight": (dimensions, dimensions)}
    if projections == "mlp":
        hidden = 2 * dimensions
        one = {
            "hidden_weight": (dimensions, hidden),
            "hidden_bias": (hidden,),
            "weight": (hidden, dimensions),
            "bias": (dimensions,),
        }
    return {f"{side}_{name}": shape for side in ("query", "key") for name, shape in one.items()}


def initial_projections(
    projections: str, dimensions: int, generator: np.random.Generator
) -> Sequence[NDArray[np.float32]]:
    """Return initial weights in the order of `projection_shapes`: N(0, 1/inputs), before a ReLU N(0, 2/inputs).

    Biases are 0. Queries and keys are projected differently, so a table finds nothing before it has learned.
    """
    return [
        _initial(name, shape, generator).astype(np.float32)
        for name, shape in projection_shapes(projections, dimensions).items()
    ]


def _initial(name: str, shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.float64]:
    if name.endswith("bias"):
        return np.zeros(shape)
    gain = 2.0 if name.endswith("hidden_weight") else 1.0
    return generator.standard_normal(shape) * math.sqrt(gain / shape[0])
