"""The data of prototypes that were made elsewhere, of which nothing is known."""

from pathlib import Path

from idwbench.data.preparation import RawData
from idwbench.errors import DatasetError
from idwbench.runs.datasets import UnknownConfig

__all__ = ["load_unknown"]


def load_unknown(config: UnknownConfig, folder: Path) -> RawData:
    """Raise `DatasetError`: there is no data to load."""
    raise DatasetError("the data set of the prototypes is not known")
