"""Diabetes: scikit-learn's 442 patients, ten features and the progression of the disease after one year."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit
from idwbench.data.splits import split_rows
from idwbench.runs.datasets import DiabetesConfig

__all__ = ["load_diabetes"]


def load_diabetes(config: DiabetesConfig, folder: Path) -> RawData:
    """Return the patients in the original units, split at random; inputs are standardised."""
    from sklearn import datasets

    found = datasets.load_diabetes(scaled=False)
    whole = RawSplit(np.asarray(found.data, np.float64), np.asarray(found.target, np.float64)[:, np.newaxis])
    random = np.random.RandomState(config.seed)
    train, test = split_rows(np.zeros(len(whole.inputs)), config.test_fraction, random)
    return RawData(whole.rows(train), whole.rows(test), scaling="features")
