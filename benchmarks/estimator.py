"""What `PrototypeClassifier.fit` costs beside the engine alone, with the same settings and the same result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.tables import header, row
from benchmarks.timing import side_by_side
from benchmarks.workloads import cut, run
from idwbench.data.dataset import Dataset
from idwbench.estimators.classifier import PrototypeClassifier
from idwbench.training.engine import Context
from idwbench.training.fused_engine import ENGINES

__all__ = ["estimator"]

_SETTINGS = {"epochs": 5, "learning_rate": 0.05}
_BATCH = 200  # the automatic batch size
_MUST = 1.2


def estimator(mnist: Dataset) -> None:
    """Print the time of a fit of 5 epochs with 20 prototypes, and its ratio to that of the engine."""
    dataset = cut(mnist, len(mnist.train))
    config = run(dataset, batch_size=_BATCH, **_SETTINGS)
    engine, y = ENGINES["fused"], dataset.train.labels

    def train() -> dict[str, np.ndarray]:
        # A new data set, so that the moments of the features are computed anew, as in `fit`.
        return dict(engine.train([config], replace(dataset), Context())[0].arrays)

    classifier = PrototypeClassifier(n_prototypes=20, random_state=0, **_SETTINGS)
    header("inputs", "engine s", "fit s", "fit / engine", "must", numbers=3)
    for dtype in (np.float64, np.float32):
        X = dataset.train.inputs.astype(dtype)
        assert np.array_equal(classifier.fit(X, y).prototypes_, train()["keys"]), "the keys differ"
        times = side_by_side(train, lambda X=X: classifier.fit(X, y), rounds=5)
        seconds = [f"{times.seconds(place):.2f}" for place in (0, 1)]
        row(np.dtype(dtype).name, *seconds, f"{times.ratio(1, 0):.2f}", f"≤ {_MUST}")
