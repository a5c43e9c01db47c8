"""Two data sets of images that are trained on one after the other."""

from pathlib import Path

from idwbench.data.joint import load_joint
from idwbench.data.preparation import RawData
from idwbench.runs.datasets import SequenceConfig

__all__ = ["load_sequence"]


def load_sequence(config: SequenceConfig, folder: Path) -> RawData:
    """Return both parts, as `load_joint`; runs take their training rows part by part."""
    return load_joint(config, folder)
