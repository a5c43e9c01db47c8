"""Breast cancer: scikit-learn's 569 tumours, benign or malignant, 30 measurements; no download."""

from pathlib import Path

from idwbench.data.preparation import RawData
from idwbench.data.shipped import split_table
from idwbench.runs.datasets import BreastCancerConfig

__all__ = ["load_breast_cancer"]


def load_breast_cancer(config: BreastCancerConfig, folder: Path) -> RawData:
    """Return the tumours, split by class; features are standardised."""
    from sklearn import datasets

    return split_table(datasets.load_breast_cancer(), config.test_fraction, config.seed)
