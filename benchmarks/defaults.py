"""The choice of the defaults for data that is not the paper's: accuracy and keys inside the data on ten sets.

Each candidate is fitted to five folds of each set with three seeds, with three prototypes for each class. A key is
outside if one of its features is outside the range of the training rows of its fold. The distance of a key is that to
the nearest training row, divided by the mean distance of a training row to its nearest other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.model_selection import StratifiedKFold

from benchmarks.tables import header, row
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.estimators.classifier import PrototypeClassifier
from idwbench.models.neighbours import mean_neighbour_distance, nearest
from idwbench.runs.datasets import parse_dataset

__all__ = ["CANDIDATES", "SETS", "defaults", "write_sets"]

_FOLDS, _PER_CLASS = 5, 3
_PARTS = ("inputs", "labels")
_PENGUINS = Path(__file__).parents[1] / "tests" / "assets" / "penguins.csv"
_EARLIER = {"initialisation": "default", "key_bounds": "none", "learning_rate": 0.05}
_CHOSEN = {"initialisation": "samples", "key_bounds": "data", "learning_rate": 0.05}
_AS_TRAIN = {"batch_size": 16, "epochs": 50}  # the steps of `idwbench train`

SETS: dict[str, Any] = {
    **{name: name for name in ("iris", "wine", "breast_cancer", "digits")},
    "penguins": {"name": str(_PENGUINS), "label": "species", "drop": ["year"]},
    **{name: name for name in ("circles", "blobs", "hypercube", "gaussian_quantiles", "hastie_10_2")},
}


def _candidates() -> dict[str, dict[str, Any]]:
    """Return settings of the estimator by their name in the table."""
    named: dict[str, dict[str, Any]] = {
        "before": _EARLIER,
        "before, within bounds": {**_EARLIER, "key_bounds": "data"},
        "before, as `train`": {**_EARLIER, **_AS_TRAIN, "learning_rate": 0.01},
        "samples, 0.05, p = 2, as `train`": {**_CHOSEN, **_AS_TRAIN},
    }
    for start in ("samples", "kmeans"):
        for rate in (0.01, 0.05):
            for power in (2.0, 4.0, 8.0):
                settings = {**_CHOSEN, "initialisation": start, "learning_rate": rate, "power": power}
                named[f"{start}, {rate:g}, p = {power:g}"] = settings
    return named


CANDIDATES = _candidates()


@dataclass(frozen=True)
class Measured:
    """Means over folds and seeds: accuracy, share of keys outside the data, relative distance of keys to the data."""

    accuracy: float
    outside: float
    distance: float


def defaults(_: Dataset, seeds: int = 3) -> None:
    """Print a row for each candidate: its mean rank, its keys, and its accuracy on each set in %."""
    table = {name: {data: measure(data, settings, seeds) for data in SETS} for name, settings in CANDIDATES.items()}
    accuracies = np.array([[one.accuracy for one in by_set.values()] for by_set in table.values()])
    ranks = np.mean([rankdata(-column.round(4)) for column in accuracies.T], axis=0)
    header("start, learning rate, power", "mean rank", "mean %", "outside %", "distance", *SETS, numbers=4 + len(SETS))
    for (name, by_set), rank, own in zip(table.items(), ranks, accuracies, strict=True):
        outside = 100 * np.mean([one.outside for one in by_set.values()])
        distance = np.mean([one.distance for one in by_set.values()])
        cells = [f"{rank:.1f}", f"{100 * own.mean():.2f}", f"{outside:.0f}", f"{distance:.2f}"]
        row(name, *cells, *(f"{100 * accuracy:.1f}" for accuracy in own))


def measure(name: str, settings: Mapping[str, Any], seeds: int) -> Measured:
    """Return what a candidate reaches on a set."""
    inputs, labels = _rows(name)
    folds = [
        _fold(inputs, labels, train, test, seed, settings)
        for seed in range(seeds)
        for train, test in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(inputs, labels)
    ]
    return Measured(*np.mean(folds, axis=0).tolist())


def write_sets(path: str) -> None:
    """Write the sets for `benchmarks.lvq`."""
    sets = {name: _rows(name) for name in SETS}
    parts = {f"{name}_{part}": array for name, pair in sets.items() for part, array in zip(_PARTS, pair, strict=True)}
    np.savez(path, **parts)


def _rows(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return inputs and labels of a set."""
    data = load_dataset(parse_dataset(SETS[name]))
    inputs = np.concatenate([data.train.inputs, data.test.inputs])
    return inputs, np.concatenate([data.train.labels, data.test.labels])


def _fold(
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    seed: int,
    settings: Mapping[str, Any],
) -> tuple[float, float, float]:
    n_prototypes = _PER_CLASS * len(np.unique(labels))
    model = PrototypeClassifier(n_prototypes, random_state=seed, **settings).fit(inputs[train], labels[train])
    keys, rows = model.prototypes_, inputs[train]
    outside = ((keys < rows.min(0)) | (keys > rows.max(0))).any(1)
    distance = nearest(keys, rows)[1].mean() / mean_neighbour_distance(rows)
    return float(model.score(inputs[test], labels[test])), float(outside.mean()), float(distance)
