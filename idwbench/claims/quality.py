"""The claims on prototypes: 4, 5, 16, 22 and 23."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.definitions import Series, claim, combine, difference
from idwbench.claims.evidence import MNIST, RIVALS, TWO_MOONS, Arrays, Evidence
from idwbench.claims.findings import Finding, compare, mean_label

__all__ = ["NEIGHBOURS", "neighbour_distance", "uniform_neighbour_distance"]

# A place is the denser, the nearer its 10th nearest training point.
NEIGHBOURS = 10
_UNIFORM_POINTS = 10_000
_LARGE = (16, 128)


@claim(4, "Figure 2", "paper_two_moons")
def keys_recapitulate(evidence: Evidence) -> list[Finding | str]:
    """Only IDW's keys recapitulate the data.

    Coverage (mean distance of a training point to the nearest key) of Two Moons: idw below each of the other five
    methods, with 16 and 128 prototypes.
    """
    pairs = [(n, rival) for n in _LARGE for rival in RIVALS]
    return [
        *(compare(_less(evidence, TWO_MOONS, "coverage", "idw", rival, n), below=0.0) for n, rival in pairs),
        *(remark for n in _LARGE for remark in _yardsticks(evidence, "coverage", ("idw",), n)),
    ]


@claim(5, "Figure 2", "paper_two_moons")
def inverse_distance_clumps(evidence: Evidence) -> list[Finding | str]:
    """Inverse distance clumps: its keys lie on top of each other.

    Two Moons with 16 and 128 prototypes: inv_dist has more dead keys than idw and a smaller spacing of keys.
    """
    findings: list[Finding | str] = []
    for n in _LARGE:
        dead, spacing = (_less(evidence, TWO_MOONS, of, "inv_dist", "idw", n) for of in ("dead_keys", "key_spacing"))
        findings += [compare(dead, above=0.0, unit="keys"), compare(spacing, below=0.0)]
    return findings + [text for n in _LARGE for text in _yardsticks(evidence, "key_spacing", ("inv_dist", "idw"), n)]


@claim(16, "Figure 4", "paper_mnist")
def mnist_keys_are_digits(evidence: Evidence) -> list[Finding | str]:
    """Only IDW's MNIST keys look like digits.

    Mean distance of a key to the nearest training image, in every seed: idw below each of the other five methods.
    """
    found: list[Finding | str] = [
        compare(_less(evidence, MNIST, "key_distance", "idw", rival, 20), below=0.0, test="every seed")
        for rival in RIVALS
    ]
    for name in ("dead_keys", "key_agreement"):
        series = [evidence.metric(MNIST, name, method=method, prototypes=20) for method in ("idw", *RIVALS)]
        found += _means(f"Mean {name.replace('_', ' ')}", series)
    return found


@claim(22, "text", "paper_two_moons")
def keys_are_where_data_is_dense(evidence: Evidence) -> list[Finding | str]:
    """Keys go where the data is dense.

    Median distance from idw's keys to the {NEIGHBOURS}th nearest training point of Two Moons, with 16 and 128
    prototypes: below that from uniformly random positions in the bounding box of the data.
    """
    data = evidence.training_inputs(TWO_MOONS)
    uniform = uniform_neighbour_distance(data)
    typical = float(np.median(_distances_to_neighbour(data, data, NEIGHBOURS + 1)))

    def excess(arrays: Arrays) -> float | None:
        keys = arrays.get("keys")
        return None if keys is None else neighbour_distance(np.asarray(keys, np.float64), data) - uniform

    at_keys = [(n, evidence.from_arrays(TWO_MOONS, "keys", excess, method="idw", prototypes=n)) for n in _LARGE]
    where = f"{uniform:.3g} at random positions, {typical:.3g} at training points"
    return [
        *(compare(combine(f"keys − random positions, {n} prototypes", float, one), below=0.0) for n, one in at_keys),
        f"Median distance to the {NEIGHBOURS}th neighbour: {where}.",
    ]


@claim(23, "text", "paper_two_moons")
def few_keys_cluster(evidence: Evidence) -> list[Finding]:
    """With too few prototypes keys cluster.

    Distance of idw's keys on Two Moons with 2 prototypes: below that of the two centres of k-means.
    """
    idw = evidence.metric(TWO_MOONS, "key_spacing", method="idw", prototypes=2)
    centres = evidence.metric(TWO_MOONS, "key_spacing", kind="baseline", method="kmeans", prototypes=2)
    return [compare(difference("key spacing: idw − kmeans, 2 prototypes", idw, centres), below=0.0)]


def neighbour_distance(points: NDArray[np.float64], data: NDArray[np.float64]) -> float:
    """Return the median over points of the distance to the 10th nearest row of `data`: small where data is dense."""
    return float(np.median(_distances_to_neighbour(points, data, NEIGHBOURS)))


def uniform_neighbour_distance(data: NDArray[np.float64]) -> float:
    """Return `neighbour_distance` of 10,000 uniformly random positions in the bounding box of `data` (n, features)."""
    generator = np.random.default_rng(0)
    positions = generator.uniform(data.min(0), data.max(0), (_UNIFORM_POINTS, data.shape[1]))
    return neighbour_distance(positions, data)


def _distances_to_neighbour(
    points: NDArray[np.float64], data: NDArray[np.float64], neighbour: int
) -> NDArray[np.float64]:
    from scipy.spatial import KDTree

    distances, _ = KDTree(data).query(points, k=[min(neighbour, len(data))])
    return np.asarray(distances[:, 0])


def _less(evidence: Evidence, dataset: str, name: str, method: str, other: str, prototypes: int) -> Series:
    """Return a metric of one method less that of another."""
    pair = [evidence.metric(dataset, name, method=each, prototypes=prototypes) for each in (method, other)]
    return difference(f"{name.replace('_', ' ')}: {method} − {other}, {prototypes} prototypes", *pair)


def _yardsticks(evidence: Evidence, name: str, methods: Sequence[str], prototypes: int) -> list[str]:
    """Return the means of a metric beside those of k-means and random training points."""
    models = [{"method": method} for method in methods]
    models += [{"kind": "baseline", "method": method} for method in ("kmeans", "samples")]
    series = [evidence.metric(TWO_MOONS, name, prototypes=prototypes, **model) for model in models]
    return _means(f"Mean {name.replace('_', ' ')} with {prototypes} prototypes", series)


def _means(title: str, series: Sequence[Series]) -> list[str]:
    shown = [f"{each.name.split(',')[0]} {mean_label(each.values.values())}" for each in series if each.values]
    return [f"{title}: {', '.join(shown)}."] if shown else []
