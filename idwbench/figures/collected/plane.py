"""Two-dimensional data and the predictions of a model on a grid around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.plane import Extent, Points, cell_centres
from idwbench.runs.kinds.models import ModelConfig

__all__ = ["GRID", "PlaneData", "class_probability", "plane_data"]

GRID = 160  # points of the grid of predictions in each direction
_MARGIN = 0.35  # around the data, in its own units


@dataclass(frozen=True)
class PlaneData:
    """Training and test points of a data set with two features and two classes, and the extent of pictures of it."""

    dataset: Dataset
    train: Points
    test: Points
    extent: Extent


def plane_data(dataset: Dataset) -> PlaneData:
    """Return the points in their own units.

    Raises:
        ConfigError: the data does not have two classes in two dimensions.
    """
    if dataset.n_features != 2 or len(dataset.class_names) != 2:
        problem = (
            f"the figure needs 2 features and 2 classes, {dataset.config.name} has "
            f"{dataset.n_features} and {len(dataset.class_names)}"
        )
        raise ConfigError(problem, location=("figure",))
    train, test = (
        Points(dataset.scaling.invert(split.inputs), split.labels) for split in (dataset.train, dataset.test)
    )
    inputs = np.concatenate([train.inputs, test.inputs])
    low, high = inputs.min(0) - _MARGIN, inputs.max(0) + _MARGIN
    return PlaneData(dataset, train, test, (float(low[0]), float(high[0]), float(low[1]), float(high[1])))


def class_probability(
    model: ModelConfig,
    keys: NDArray[np.float32],
    values: NDArray[np.float32],
    data: PlaneData,
    points: int = GRID,
) -> NDArray[np.float32]:
    """Return P(class 1) at the middles of a grid (points, points) of the extent, first row lowest.

    Keys are in scaled units.
    """
    import torch

    from idwbench.attention.scores import get_method
    from idwbench.models.modules import PrototypeNetwork

    xs, ys = cell_centres(*data.extent[:2], points), cell_centres(*data.extent[2:], points)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(xs, ys)], axis=1)
    network = PrototypeNetwork(
        get_method(model.method), model.parameters, torch.from_numpy(keys), torch.from_numpy(values)
    )
    logits = torch.from_numpy(network.outputs(data.dataset.scaling.apply(grid)))
    return np.asarray(logits.softmax(-1)[:, 1].reshape(points, points).numpy())
