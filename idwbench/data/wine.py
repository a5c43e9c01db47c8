"""Wine: scikit-learn's 178 wines of three growers, 13 chemical measurements; no download."""

from pathlib import Path

from idwbench.data.preparation import RawData
from idwbench.data.shipped import split_table
from idwbench.runs.datasets import WineConfig

__all__ = ["load_wine"]


def load_wine(config: WineConfig, folder: Path) -> RawData:
    """Return the wines, split by class; features are standardised."""
    from sklearn import datasets

    return split_table(datasets.load_wine(), config.test_fraction, config.seed)
