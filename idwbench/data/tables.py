"""Tables that scikit-learn ships, by the names of its functions; no download."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from idwbench.data.preparation import RawData, RawSplit, split_rows
from idwbench.runs.datasets import TableConfig

__all__ = ["TABLES", "load_table"]

# Options of the function ``sklearn.datasets.load_name`` that returns the table.
TABLES: dict[str, Mapping[str, Any]] = {
    "iris": {},
    "wine": {},
    "breast_cancer": {},
    "digits": {},
    "diabetes": {"scaled": False},
}


def load_table(config: TableConfig, folder: Path) -> RawData:
    """Return a table in its original units, split by class, or at random if it is a regression.

    Each feature is standardised, since features have units; images by one mean and standard deviation over all pixels.
    """
    from sklearn import datasets

    table = getattr(datasets, f"load_{config.name}")(**TABLES[config.name])
    image_shape = table.images.shape[1:] if "images" in table else None
    if config.task == "classification":
        whole = RawSplit(np.asarray(table.data, np.float64), np.asarray(table.target, np.int64))
        classes, class_names = whole.targets, tuple(map(str, table.target_names))
    else:
        whole = RawSplit(np.asarray(table.data, np.float64), np.asarray(table.target, np.float64)[:, np.newaxis])
        classes, class_names = np.zeros(len(whole.targets)), ()
    train, test = split_rows(classes, config.test_fraction, np.random.RandomState(config.seed))
    return RawData(
        whole.rows(train),
        whole.rows(test),
        class_names=class_names,
        image_shape=image_shape,
        scaling="pixels" if image_shape else "features",
    )
