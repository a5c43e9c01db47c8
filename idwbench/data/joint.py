"""Two data sets of images as one: shared classes, one scaling, and the part that each row comes from."""

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import RawData, RawSplit, ScalingChoice, split_off_validation
from idwbench.errors import DatasetError
from idwbench.runs.datasets import PartsConfig

__all__ = ["load_joint"]


def load_joint(config: PartsConfig, folder: Path) -> RawData:
    """Return the rows of the first part, then those of the second, in each split; inputs are bytes.

    Class c is label c of each part, by the name of its number. Pixels are scaled to x/255, or by mean and standard
    deviation over both parts, from those of each. The checksum is that of the parts' checksums.

    Raises:
        DatasetError: a part is missing or altered, or has too few rows for validation; or the parts have images of
            different shapes, or different numbers of classes.
    """
    parts = []
    for part in config.parts:
        load: Callable[[Any, Path], RawData] = getattr(import_module(f"idwbench.data.{part.name}"), f"load_{part.name}")
        parts.append(load(part, folder))
    first = parts[0]
    for name, other in zip(config.of[1:], parts[1:], strict=True):
        if (other.image_shape, len(other.class_names)) != (first.image_shape, len(first.class_names)):
            problem = f"{config.of[0]} and {name} have images of other shapes or other numbers of classes"
            raise DatasetError(problem, location=("of",))
    split = [split_off_validation(part, raw) for part, raw in zip(config.parts, parts, strict=True)]
    validation = [apart for _, apart in split if apart is not None]
    return RawData(
        _joined([rest for rest, _ in split]),
        _joined([raw.test for raw in parts]),
        validation=_joined(validation) if validation else None,
        class_names=tuple(str(label) for label in range(len(first.class_names))),
        image_shape=first.image_shape,
        scaling=_shared_scaling([raw.scaling for raw in parts]),
        sha256=hashlib.sha256("\n".join(str(raw.sha256) for raw in parts).encode()).hexdigest(),
    )


def _shared_scaling(scalings: Sequence[ScalingChoice]) -> Scaling:
    """Return the scaling of parts with the same scaling, or that by mean and standard deviation of all pixels.

    The parts have the same number of pixels, so that means and mean squares are those of the parts' values.
    """
    found = [scaling for scaling in scalings if isinstance(scaling, Scaling)]
    assert len(found) == len(scalings), "parts are scaled by constants"
    first = found[0]
    if all((one.mean, one.std) == (first.mean, first.std) for one in found):
        return first
    means, stds = (np.array([getattr(one, name) for one in found]) for name in ("mean", "std"))
    return Scaling(means.mean(), np.sqrt((stds**2 + means**2).mean() - means.mean() ** 2))


def _joined(splits: Sequence[RawSplit]) -> RawSplit:
    """Return the rows of all parts, one part after the other."""
    return RawSplit(
        np.concatenate([split.inputs for split in splits]),
        np.concatenate([split.targets for split in splits]),
        np.repeat(np.arange(len(splits)), [len(split.inputs) for split in splits]),
    )
