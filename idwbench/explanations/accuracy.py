"""The accuracy on the test data, by task, before and after a part of the memory is removed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.explanations.answers import AccuracyChange

__all__ = ["accuracy_changes"]

Outputs = Callable[[NDArray[np.float32]], NDArray[np.floating]]


def accuracy_changes(
    dataset: Dataset, task_names: tuple[str, ...], before: Outputs, after: Outputs
) -> tuple[AccuracyChange, ...]:
    """Return the accuracy of two models on the test data, for each task if there are several.

    Args:
        dataset: The data set, with classes.
        task_names: Names of its parts, in the order of the numbers of `Split.tasks`; or none.
        before: The outputs (n, classes) of a model for scaled inputs (n, features).
        after: Those of the other model.
    """
    test = dataset.test
    right = [outputs(test.inputs).argmax(1) == test.labels for outputs in (before, after)]
    parts = [("test", np.ones(len(test), bool))]
    if test.tasks is not None:
        parts = [(f"test {name}", test.tasks == number) for number, name in enumerate(task_names)]
    return tuple(
        AccuracyChange(name, int(where.sum()), *(float(found[where].mean()) for found in right))
        for name, where in parts
    )
