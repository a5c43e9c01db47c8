"""Claim 22 on the places of keys, and its measure of density."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.definitions import combine
from idwbench.claims.evidence import TWO_MOONS, Arrays, Evidence
from idwbench.claims.findings import Comparison
from idwbench.runs.datasets import parse_dataset

__all__ = ["NEIGHBOURS", "keys_are_where_data_is_dense", "neighbour_distance", "uniform_neighbour_distance"]

# A place is the denser, the nearer its 10th nearest training point.
NEIGHBOURS = 10
_UNIFORM_POINTS = 10_000


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
