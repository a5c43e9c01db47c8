"""The claims on methods: 1 to 3, 14 and 15 on their accuracy, and 4, 5, 16, 22 and 23 on their prototypes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.evidence import MNIST, RIVALS, TWO_MOONS, Arrays, Evidence
from idwbench.claims.findings import Comparison, Series, claim, combine, remark
from idwbench.runs.datasets import parse_dataset

__all__ = ["NEIGHBOURS", "SUBSTANTIAL", "neighbour_distance", "uniform_neighbour_distance"]

# The smallest difference of accuracies that counts as substantial, in points of a percent.
SUBSTANTIAL = 1.0
_DISTANCE_SCORES = tuple(method for method in RIVALS if method not in ("fc_relu", "scaled_dot"))
_NAMES = ", ".join(_DISTANCE_SCORES)
# A place is the denser, the nearer its 10th nearest training point.
NEIGHBOURS = 10
_UNIFORM_POINTS = 10_000
_LARGE = (16, 128)


@claim(1, "Figure 2", "paper_two_moons")
def idw_is_best_with_16(evidence: Evidence) -> list[Comparison]:
    """IDW has the best accuracy on Two Moons with 16 prototypes.

    Accuracy on 4,000 new points: idw above each of the other five methods with 16 prototypes.
    """
    return [Comparison(_less(evidence, "accuracy", "idw", rival, 16), above=0.0, unit="points") for rival in RIVALS]


@claim(2, "Figure 2", "paper_two_moons")
def idw_is_best_with_128(evidence: Evidence) -> list[Comparison]:
    """IDW has the best accuracy on Two Moons with 128 prototypes.

    Accuracy on 4,000 new points: idw above each of the other five methods with 128 prototypes.
    """
    return [Comparison(_less(evidence, "accuracy", "idw", rival, 128), above=0.0, unit="points") for rival in RIVALS]


@claim(3, "Figure 2", "paper_two_moons")
def inverse_distance_is_second(evidence: Evidence) -> list[Comparison | str]:
    """Inverse distance beats the other scores but IDW.

    Accuracy on 4,000 new points: inv_dist above each of the four other methods, with 16 and 128 prototypes.
    """
    rivals = [method for method in RIVALS if method != "inv_dist"]
    compared = [_less(evidence, "accuracy", "inv_dist", rival, n) for n in _LARGE for rival in rivals]
    few = {rival: _less(evidence, "accuracy", "inv_dist", rival, 2) for rival in rivals}
    return [
        *(Comparison(series, above=0.0, unit="points") for series in compared),
        *remark("Points of inv_dist − other with 2 prototypes", "{name} {mean}", few, sign=True),
    ]


@claim(14, "Table 1", "paper_mnist")
def idw_on_mnist(evidence: Evidence) -> list[Comparison]:
    """IDW reaches 88 % on MNIST, below FC ReLU and scaled dot.

    Test accuracy with 20 prototypes: idw between 87 and 89 %, below fc_relu and scaled_dot
    (1/√prototypes).
    """
    idw = evidence.metric(MNIST, "accuracy", method="idw", prototypes=20)
    below = [_less(evidence, "accuracy", "idw", rival, 20, MNIST) for rival in ("fc_relu", "scaled_dot")]
    return [
        Comparison(idw, above=87.0, below=89.0, unit="%"),
        *(Comparison(series, below=0.0, unit="points") for series in below),
    ]


@claim(15, "Table 1", "paper_mnist")
def idw_and_distances_on_mnist(evidence: Evidence) -> list[Comparison]:
    """IDW is substantially better on MNIST than the other scores of distances.

    Test accuracy with 20 prototypes: idw more than {SUBSTANTIAL:g} point above each of {_NAMES}.
    """
    compared = [_less(evidence, "accuracy", "idw", rival, 20, MNIST) for rival in _DISTANCE_SCORES]
    return [Comparison(series, above=SUBSTANTIAL, unit="points") for series in compared]


@claim(4, "Figure 2", "paper_two_moons")
def keys_recapitulate(evidence: Evidence) -> list[Comparison | str]:
    """Only IDW's keys recapitulate the data.

    Coverage (mean distance of a training point to the nearest key) of Two Moons: idw below each of the other five
    methods, with 16 and 128 prototypes.
    """
    pairs = [(n, rival) for n in _LARGE for rival in RIVALS]
    return [
        *(Comparison(_less(evidence, "coverage", "idw", rival, n), below=0.0) for n, rival in pairs),
        *(remark for n in _LARGE for remark in _yardsticks(evidence, "coverage", ("idw",), n)),
    ]


@claim(5, "Figure 2", "paper_two_moons")
def inverse_distance_clumps(evidence: Evidence) -> list[Comparison | str]:
    """Inverse distance clumps: its keys lie on top of each other.

    Two Moons with 16 and 128 prototypes: inv_dist has more dead keys than idw and a smaller spacing of keys.
    """
    shown: list[Comparison | str] = []
    for n in _LARGE:
        dead, spacing = (_less(evidence, of, "inv_dist", "idw", n) for of in ("dead_keys", "key_spacing"))
        shown += [Comparison(dead, above=0.0, unit="keys"), Comparison(spacing, below=0.0)]
    return shown + [text for n in _LARGE for text in _yardsticks(evidence, "key_spacing", ("inv_dist", "idw"), n)]


@claim(16, "Figure 4", "paper_mnist")
def mnist_keys_are_digits(evidence: Evidence) -> list[Comparison | str]:
    """Only IDW's MNIST keys look like digits.

    Correlation of a key with the training image that it is most like, over the pixels that are active in 5 % of the
    images, mean over keys: idw above each of the other five methods.
    """
    shown: list[Comparison | str] = [
        Comparison(_less(evidence, "key_correlation", "idw", rival, 20, MNIST), above=0.0) for rival in RIVALS
    ]
    for name in ("key_correlation", "key_distance", "dead_keys", "key_agreement"):
        series = {method: evidence.metric(MNIST, name, method=method, prototypes=20) for method in ("idw", *RIVALS)}
        shown += remark(f"Mean {name.replace('_', ' ')}", "{name} {mean}", series)
    return shown


@claim(22, "review: data-dense", "paper_two_moons")
def keys_are_where_data_is_dense(evidence: Evidence) -> list[Comparison | str]:
    """Keys go where the data is dense.

    Median distance from idw's keys to the {NEIGHBOURS}th nearest training point of Two Moons, with 16 and 128
    prototypes: below that from the training points themselves, each of which counts as its own nearest.
    """
    from idwbench.data.loading import load_dataset

    data = load_dataset(parse_dataset(TWO_MOONS)).train.inputs.astype(np.float64)
    typical = neighbour_distance(data, data)

    def excess(arrays: Arrays) -> float:
        return neighbour_distance(np.asarray(arrays["keys"], np.float64), data) - typical

    at_keys = [(n, evidence.from_arrays(TWO_MOONS, "keys", excess, method="idw", prototypes=n)) for n in _LARGE]
    where = (
        f"{typical:.3g} from training points, {uniform_neighbour_distance(data):.3g} from uniformly random positions"
    )
    return [
        *(Comparison(combine(f"keys − training points, {n} prototypes", float, one), below=0.0) for n, one in at_keys),
        f"Median distance to the {NEIGHBOURS}th neighbour: {where}.",
    ]


@claim(23, "review: may cluster", "paper_two_moons")
def few_keys_cluster(evidence: Evidence) -> list[Comparison]:
    """With too few prototypes keys cluster.

    Distance of idw's keys on Two Moons with 2 prototypes: below that of the two centres of k-means.
    """
    models = ({"method": "idw", "prototypes": 2}, {"kind": "baseline", "method": "kmeans", "prototypes": 2})
    less = evidence.less("key spacing: idw − kmeans, 2 prototypes", TWO_MOONS, "key_spacing", *models)
    return [Comparison(less, below=0.0)]


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


def _less(evidence: Evidence, name: str, method: str, other: str, prototypes: int, dataset: str = TWO_MOONS) -> Series:
    """Return the accuracy or another metric of one method less that of another."""
    what = "" if name == "accuracy" else f"{name.replace('_', ' ')}: "
    where = "MNIST" if (dataset, name) == (MNIST, "accuracy") else f"{prototypes} prototypes"
    pair = ({"method": each, "prototypes": prototypes} for each in (method, other))
    return evidence.less(f"{what}{method} − {other}, {where}", dataset, name, *pair)


def _yardsticks(evidence: Evidence, name: str, methods: Sequence[str], prototypes: int) -> list[str]:
    """Return the means of a metric beside those of k-means and random training points."""
    models = [{"method": method} for method in methods]
    models += [{"kind": "baseline", "method": method} for method in ("kmeans", "samples")]
    series = {one["method"]: evidence.metric(TWO_MOONS, name, prototypes=prototypes, **one) for one in models}
    return remark(f"Mean {name.replace('_', ' ')} with {prototypes} prototypes", "{name} {mean}", series)
