"""Iris: scikit-learn's 150 flowers of three species, four lengths and widths; no download."""

from pathlib import Path

from idwbench.data.preparation import RawData
from idwbench.data.shipped import split_table
from idwbench.runs.datasets import IrisConfig

__all__ = ["load_iris"]


def load_iris(config: IrisConfig, folder: Path) -> RawData:
    """Return the flowers, split by class; features are standardised."""
    from sklearn import datasets

    return split_table(datasets.load_iris(), config.test_fraction, config.seed)
