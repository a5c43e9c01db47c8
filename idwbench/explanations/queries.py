"""The input of an explanation, given as a text or as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idwbench.data.dataset import Dataset, Scaling
from idwbench.data.loading import load_dataset
from idwbench.errors import ExplanationError, PatchError
from idwbench.explanations.answers import Query
from idwbench.models.inputs import LoadDataset, Reference, TakesInputs, find_input, find_reference, scaled_input
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import PartsConfig

__all__ = ["DatasetInputs", "Request", "read_query", "task_names"]

_MOST_SHOWN = 6


class _Scaled(TakesInputs, Protocol):
    @property
    def scaling(self) -> Scaling: ...


@dataclass(frozen=True)
class Request:
    """What to explain.

    Attributes:
        x: The input: a text, see `idwbench.models.inputs.find_input`, or numbers in the data's own units.
        top: Number of prototypes or samples of each layer to return.
        layer: The only layer to return, or None for all.
        masks: The part of the memory to answer without, see `idwbench.explanations.masks.parse_mask`.
        data_dir: Folder of the image archives.
        load: Loads data sets.
        on_slots: Called with the number of slots of a recording that were looked at, and of all.
    """

    x: str | ArrayLike
    top: int = 10
    layer: str | None = None
    masks: Sequence[str] = ()
    data_dir: Path | None = None
    load: LoadDataset = load_dataset
    on_slots: Callable[[int, int], None] = lambda done, total: None

    def dataset(self, config: RunConfig) -> Dataset:
        """Return the data of a run; raises `DatasetError` if it cannot be loaded."""
        return self.load(config.dataset, self.data_dir)


@dataclass(frozen=True)
class DatasetInputs:
    """What an input of a run on `dataset` must fit."""

    config: RunConfig
    dataset: Dataset

    @property
    def scaling(self) -> Scaling:
        """Scaling of the inputs."""
        return self.dataset.scaling

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """(height, width) if an input is an image."""
        return self.dataset.image_shape

    def scale(self, x: ArrayLike) -> NDArray[np.float32]:
        """Return one input, in the data's own units, scaled and flattened; raises like `scaled_input`."""
        return scaled_input(x, self.scaling, self.dataset.n_features)


def task_names(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the parts of a joint or sequence data set; none for another one."""
    return config.dataset.of if isinstance(config.dataset, PartsConfig) else ()


def read_query(request: Request, model: _Scaled) -> Query:
    """Return the input, with its class or target if it is a row of the data of `model`.

    Raises:
        ExplanationError: the text is not valid, or the input does not fit the model; `location` is ``("x",)``.
        DatasetError: the data set in `x` cannot be loaded.
    """
    x, data_dir, load = request.x, request.data_dir, request.load
    try:
        if not isinstance(x, str):
            inputs = model.scale(x)
            return Query(_text(np.asarray(x).reshape(-1).tolist()), inputs, model.scaling.invert(inputs))
        inputs = find_input(x, model, data_dir, load)
        reference = find_reference(x, model.config, data_dir, load)
    except PatchError as error:
        raise ExplanationError(error.problem, location=error.location, hint=error.hint, file=error.file) from None
    query = Query(x, inputs, model.scaling.invert(inputs))
    return query if reference is None else _with_target(query, reference, model.config)


def _with_target(query: Query, reference: Reference, config: RunConfig) -> Query:
    """Return the query with its class or target, which other data sets than that of the run do not have."""
    dataset = reference.dataset
    if dataset.config != config.dataset and dataset.config.name not in task_names(config):
        return query
    if dataset.task == "classification":
        return replace(query, label=int(reference.split.labels[reference.index]))
    target = np.asarray(reference.split.targets[reference.index], np.float32)
    return replace(query, target=dataset.target_scaling.invert(target))


def _text(numbers: Sequence[float]) -> str:
    more = ",..." if len(numbers) > _MOST_SHOWN else ""
    return ",".join(f"{number:g}" for number in numbers[:_MOST_SHOWN]) + more
