"""The claims on prototypes: 4, 5, 16, 22 and 23."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.definitions import Claim, Remark, SeedComparison, SeedTest
from idwbench.claims.evidence import MNIST, RIVALS, TWO_MOONS, Arrays, Evidence
from idwbench.claims.labels import mean_label
from idwbench.claims.series import Series, difference, renamed

__all__ = [
    "NEIGHBOURS",
    "QUALITY_CLAIMS",
    "few_keys_cluster",
    "inverse_distance_clumps",
    "keys_are_where_data_is_dense",
    "keys_recapitulate",
    "mnist_keys_are_digits",
    "neighbour_distance",
    "uniform_neighbour_distance",
]

# A place is the denser, the nearer its 10th nearest training point.
NEIGHBOURS = 10
_UNIFORM_POINTS = 10_000
_LARGE = (16, 128)
_MNIST_PROTOTYPES = 20


def keys_recapitulate(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the coverage of IDW with that of each other method; lower is better."""
    found: list[SeedComparison | Remark] = []
    for prototypes in _LARGE:
        found += [_compare(evidence, TWO_MOONS, "coverage", "idw", rival, prototypes, below=0.0) for rival in RIVALS]
    for prototypes in _LARGE:
        found += _yardsticks(evidence, "coverage", ("idw",), prototypes)
    return found


def inverse_distance_clumps(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare dead keys and spacing of keys of inverse distance with those of IDW."""
    found: list[SeedComparison | Remark] = []
    for prototypes in _LARGE:
        found.append(_compare(evidence, TWO_MOONS, "dead_keys", "inv_dist", "idw", prototypes, above=0.0))
        found.append(_compare(evidence, TWO_MOONS, "key_spacing", "inv_dist", "idw", prototypes, below=0.0))
    for prototypes in _LARGE:
        found += _yardsticks(evidence, "key_spacing", ("inv_dist", "idw"), prototypes)
    return found


def mnist_keys_are_digits(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the distance of IDW's keys to their nearest training images with that of each other method."""
    found: list[SeedComparison | Remark] = [
        _compare(evidence, MNIST, "key_distance", "idw", rival, _MNIST_PROTOTYPES, below=0.0) for rival in RIVALS
    ]
    for name in ("dead_keys", "key_agreement"):
        methods = ("idw", *RIVALS)
        series = [evidence.metric(MNIST, name, method=method, prototypes=_MNIST_PROTOTYPES) for method in methods]
        found += _remark(f"Mean {name.replace('_', ' ')}", series)
    return found


def keys_are_where_data_is_dense(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the density of the training data at IDW's keys with that at uniformly random positions."""
    data = evidence.training_inputs(TWO_MOONS)
    uniform = uniform_neighbour_distance(data)
    typical = float(np.median(_distances_to_neighbour(data, data, NEIGHBOURS + 1)))

    def excess(arrays: Arrays) -> float | None:
        keys = arrays.get("keys")
        return None if keys is None else neighbour_distance(np.asarray(keys, np.float64), data) - uniform

    found: list[SeedComparison | Remark] = []
    for prototypes in _LARGE:
        at_keys = evidence.from_arrays(TWO_MOONS, "keys", excess, method="idw", prototypes=prototypes)
        series = renamed(f"keys − random positions, {prototypes} prototypes", at_keys)
        found.append(SeedComparison(series, below=0.0))
    where = f"{uniform:.3g} at random positions, {typical:.3g} at training points"
    return [*found, Remark(f"Median distance to the {NEIGHBOURS}th neighbour: {where}.")]


def few_keys_cluster(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare the distance of IDW's two keys with that of the two centres of k-means."""
    idw = evidence.metric(TWO_MOONS, "key_spacing", method="idw", prototypes=2)
    centres = evidence.metric(TWO_MOONS, "key_spacing", kind="baseline", method="kmeans", prototypes=2)
    return [SeedComparison(difference("key spacing: idw − kmeans, 2 prototypes", idw, centres), below=0.0)]


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


def _compare(
    evidence: Evidence,
    dataset: str,
    name: str,
    method: str,
    other: str,
    prototypes: int,
    *,
    above: float | None = None,
    below: float | None = None,
) -> SeedComparison:
    pair = [evidence.metric(dataset, name, method=each, prototypes=prototypes) for each in (method, other)]
    label = f"{name.replace('_', ' ')}: {method} − {other}, {prototypes} prototypes"
    unit = "keys" if name == "dead_keys" else ""
    test: SeedTest = "every seed" if dataset == MNIST else "wilcoxon"
    return SeedComparison(difference(label, *pair), above, below, unit, test)


def _yardsticks(evidence: Evidence, name: str, methods: Sequence[str], prototypes: int) -> list[Remark]:
    """Return the means of a metric beside those of k-means and random training points."""
    series = [evidence.metric(TWO_MOONS, name, method=method, prototypes=prototypes) for method in methods]
    series += [
        evidence.metric(TWO_MOONS, name, kind="baseline", method=method, prototypes=prototypes)
        for method in ("kmeans", "samples")
    ]
    return _remark(f"Mean {name.replace('_', ' ')} with {prototypes} prototypes", series)


def _remark(title: str, series: Sequence[Series]) -> list[Remark]:
    shown = [f"{each.name.split(',')[0]} {mean_label(each.values.values())}" for each in series if each.values]
    return [Remark(f"{title}: {', '.join(shown)}.")] if shown else []


QUALITY_CLAIMS = (
    Claim(
        4,
        "Only IDW's keys recapitulate the data.",
        "Figure 2",
        "Coverage (mean distance of a training point to the nearest key) of Two Moons: idw below each of the other "
        "five methods, with 16 and 128 prototypes.",
        keys_recapitulate,
        ("paper_two_moons",),
    ),
    Claim(
        5,
        "Inverse distance clumps: its keys lie on top of each other.",
        "Figure 2",
        "Two Moons with 16 and 128 prototypes: inv_dist has more dead keys than idw and a smaller spacing of keys.",
        inverse_distance_clumps,
        ("paper_two_moons",),
    ),
    Claim(
        16,
        "Only IDW's MNIST keys look like digits.",
        "Figure 4",
        "Mean distance of a key to the nearest training image, in every seed: idw below each of the other five "
        "methods.",
        mnist_keys_are_digits,
        ("paper_mnist",),
    ),
    Claim(
        22,
        "Keys go where the data is dense.",
        "text",
        f"Median distance from idw's keys to the {NEIGHBOURS}th nearest training point of Two Moons, with 16 and 128 "
        "prototypes: below that from uniformly random positions in the bounding box of the data.",
        keys_are_where_data_is_dense,
        ("paper_two_moons",),
    ),
    Claim(
        23,
        "With too few prototypes keys cluster.",
        "text",
        "Distance of idw's keys on Two Moons with 2 prototypes: below that of the two centres of k-means.",
        few_keys_cluster,
        ("paper_two_moons",),
    ),
)
