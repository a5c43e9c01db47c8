"""The claims on methods whose rule is code: 22 on the places of keys, and 33 on the capacity of hash tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.definitions import Series, combine, difference
from idwbench.claims.evidence import TWO_MOONS, Arrays, Evidence
from idwbench.claims.findings import Comparison, mean_label
from idwbench.report.lookups import lookup_capacities
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import parse_dataset

__all__ = [
    "NEIGHBOURS",
    "keys_are_where_data_is_dense",
    "neighbour_distance",
    "recalls_more",
    "uniform_neighbour_distance",
]

# A place is the denser, the nearer its 10th nearest training point.
NEIGHBOURS = 10
_UNIFORM_POINTS = 10_000
_DIMENSIONS = (16, 64)
_TABLES: dict[str, dict[str, Any]] = {
    "idw": {"similarity": "idw", "scaling": "none", "power": 2.0, "epsilon": 1e-3},
    "scaled dot": {"similarity": "inner_product", "scaling": "sqrt_dimensions"},
}


def keys_are_where_data_is_dense(evidence: Evidence) -> list[Comparison | str]:
    """Compare the density at keys with that at training points."""
    from idwbench.data.loading import load_dataset

    data = load_dataset(parse_dataset(TWO_MOONS)).train.inputs.astype(np.float64)
    typical = neighbour_distance(data, data)

    def excess(arrays: Arrays) -> float | None:
        keys = arrays.get("keys")
        return None if keys is None else neighbour_distance(np.asarray(keys, np.float64), data) - typical

    at_keys = [(n, evidence.from_arrays(TWO_MOONS, "keys", excess, method="idw", prototypes=n)) for n in (16, 128)]
    where = (
        f"{typical:.3g} from training points, {uniform_neighbour_distance(data):.3g} from uniformly random positions"
    )
    return [
        *(Comparison(combine(f"keys − training points, {n} prototypes", float, one), below=0.0) for n, one in at_keys),
        f"Median distance to the {NEIGHBOURS}th neighbour: {where}.",
    ]


def neighbour_distance(points: NDArray[np.float64], data: NDArray[np.float64]) -> float:
    """Return the median over points of the distance to the 10th nearest row of `data`: small where data is dense."""
    from scipy.spatial import KDTree

    distances, _ = KDTree(data).query(points, k=[min(NEIGHBOURS, len(data))])
    return float(np.median(distances))


def uniform_neighbour_distance(data: NDArray[np.float64]) -> float:
    """Return `neighbour_distance` of 10,000 uniformly random positions in the bounding box of `data` (n, features)."""
    generator = np.random.default_rng(0)
    positions = generator.uniform(data.min(0), data.max(0), (_UNIFORM_POINTS, data.shape[1]))
    return neighbour_distance(positions, data)


def recalls_more(evidence: Evidence) -> list[Comparison | str]:
    """Compare capacities."""
    compared: list[Comparison | str] = []
    by_name = {name: _capacities(evidence, **model) for name, model in _TABLES.items()}
    for d in sorted({*_DIMENSIONS, *(d for capacities in by_name.values() for d in capacities)}):
        series = {name: Series(f"{name}, d = {d}", capacities.get(d, {})) for name, capacities in by_name.items()}
        if d in _DIMENSIONS:
            more = difference(f"capacity, idw − scaled dot, d = {d}", *series.values())
            compared.append(Comparison(more, above=0.0, unit="items"))
        if all(one.values for one in series.values()):
            words = (f"{name} {mean_label(one)}" for name, one in series.items())
            compared.append(f"d = {d}: {', '.join(words)} items.")
    return compared


def _capacities(evidence: Evidence, **model: Any) -> dict[int, dict[int, float]]:
    """Return the number of items at 99 % recall by dimensions and seed; bounds count as such."""
    settings = {"kind": "hash_table", "weighting": "softmax", "projections": "none", **model}

    def has_data(config: RunConfig) -> bool:
        dataset = config.dataset
        return (getattr(dataset, "noise", None), getattr(dataset, "mean", None)) == (0.2, 0.0)

    keys = [key for rows in evidence.complete("lookup", has_data, **settings) for key in rows.run_key]
    found = lookup_capacities(evidence.results.load_runs(keys)) if keys else []
    if not found:
        return {}
    # Of tables with other numbers of queries those with the most runs count.
    largest = max(found, key=lambda one: sum(map(len, one.by_dimensions.values()))).by_dimensions
    return {d: {seed: capacity.items for seed, capacity in seeds.items()} for d, seeds in largest.items()}
