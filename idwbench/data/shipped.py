"""Tables of classes that scikit-learn ships, split by class, and samples that it draws as one, cut into splits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.preparation import RawData, RawSplit, ScalingChoice
from idwbench.data.splits import split_rows

__all__ = ["cut_sample", "split_table"]


def split_table(found: Any, test_fraction: float, seed: int) -> RawData:
    """Return a table of scikit-learn, split by class; each feature is standardised, since features have units.

    Args:
        found: The result of a function such as ``sklearn.datasets.load_iris``.
        test_fraction: Fraction of the rows of each class for the test.
        seed: Seed of the split.
    """
    whole = RawSplit(np.asarray(found.data, np.float64), np.asarray(found.target, np.int64))
    train, test = split_rows(whole.targets, test_fraction, np.random.RandomState(seed))
    names = tuple(str(name) for name in found.target_names)
    return RawData(whole.rows(train), whole.rows(test), class_names=names, scaling="features")


def cut_sample(
    inputs: NDArray[np.float64],
    labels: NDArray[np.int64],
    sizes: tuple[int, int, int],
    class_names: tuple[str, ...],
    scaling: ScalingChoice,
) -> RawData:
    """Return train, test and holdout of a sample that was drawn and shuffled as one, with the given sizes in order.

    It is for data whose classes depend on the whole sample.
    """
    ends = np.cumsum(sizes)
    parts = [
        RawSplit(inputs[end - size : end], labels[end - size : end]) for size, end in zip(sizes, ends, strict=True)
    ]
    train, test, holdout = parts
    return RawData(train, test, holdout if sizes[2] else None, class_names=class_names, scaling=scaling)
