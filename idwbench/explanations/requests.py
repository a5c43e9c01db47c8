"""What is asked for: an input, given as a text or as numbers, and a mask, a part of the memory to answer without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ExplanationError, PatchError, did_you_mean
from idwbench.explanations.explanation import Query
from idwbench.explanations.memory import Memory
from idwbench.models.inputs import LoadDataset, Reference, find_input, find_label, find_reference
from idwbench.runs.config import RunConfig

__all__ = ["Mask", "Request", "parse_mask", "read_query"]

_MOST_SHOWN = 6
_FIELDS = ("label", "task")


@dataclass(frozen=True)
class Request:
    """What to explain.

    Attributes:
        x: The input: a text, see `idwbench.models.inputs.find_input`, or numbers in the data's own units.
        top: Number of prototypes or samples of each layer to return.
        layer: The only layer to return, or None for all.
        masks: The part of the memory to answer without, see `parse_mask`.
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


def read_query(request: Request, memory: Memory) -> Query:
    """Return the input, with its class or target if it is a row of the data of the model.

    Raises:
        ExplanationError: the text is not valid, or the input does not fit the model; `location` is ``("x",)``.
        DatasetError: the data set in `x` cannot be loaded.
    """
    x, data_dir, load = request.x, request.data_dir, request.load
    try:
        if not isinstance(x, str):
            inputs = memory.scale(x)
            return Query(_text(np.asarray(x).reshape(-1).tolist()), inputs, memory.scaling.invert(inputs))
        inputs = find_input(x, memory, data_dir, load)
        reference = find_reference(x, memory.config, data_dir, load)
    except PatchError as error:
        raise ExplanationError(error.problem, location=error.location, hint=error.hint, file=error.file) from None
    query = Query(x, inputs, memory.scaling.invert(inputs))
    return query if reference is None else _with_target(query, reference, memory)


def _with_target(query: Query, reference: Reference, memory: Memory) -> Query:
    """Return the query with its class or target, which other data sets than that of the run do not have."""
    dataset = reference.dataset
    if dataset.config != memory.config.dataset and dataset.config.name not in memory.task_names:
        return query
    if dataset.task == "classification":
        return replace(query, label=int(reference.split.labels[reference.index]))
    target = np.asarray(reference.split.targets[reference.index], np.float32)
    return replace(query, target=dataset.target_scaling.invert(target))


def _text(numbers: Sequence[float]) -> str:
    more = ",..." if len(numbers) > _MOST_SHOWN else ""
    return ",".join(f"{number:g}" for number in numbers[:_MOST_SHOWN]) + more


@dataclass(frozen=True)
class Mask:
    """The part of a memory whose class is one of `labels` and whose task is one of `tasks`; None stands for all.

    `conditions` are the texts that it was given by.
    """

    conditions: tuple[str, ...]
    labels: frozenset[int] | None = None
    tasks: frozenset[int] | None = None

    def removes(self, memory: Memory) -> NDArray[np.bool_]:
        """Return which entries (entries,) of a memory belong to the part, by the class and the task of each.

        Raises:
            ExplanationError: none of them, or all.
        """
        pairs = ((self.labels, memory.labels), (self.tasks, memory.tasks))
        where = np.logical_and.reduce(
            [
                np.isin(numbers, sorted(chosen))
                for chosen, numbers in pairs
                if chosen is not None and numbers is not None
            ]
        )
        text = ", ".join(self.conditions)
        if not where.any():
            raise ExplanationError(f"no part of the memory has {text}", location=("mask",))
        if where.all():
            raise ExplanationError(f"the whole memory has {text}; nothing is left to answer", location=("mask",))
        return np.asarray(where)


def parse_mask(texts: Sequence[str], memory: Memory) -> Mask | None:
    """Return the mask for texts ``label=CLASS`` and ``task=NAME``, or None for no texts.

    Several texts with the same word mean any of them; both words together mean what meets both.

    Raises:
        ExplanationError: another form, no such class or task, or a memory without classes or tasks.
    """
    chosen: dict[str, set[int]] = {}
    for text in texts:
        field, sign, value = text.partition("=")
        if not sign or not value:
            raise ExplanationError(f"expected label=CLASS or task=NAME, got '{text}'", location=("mask",))
        if field not in _FIELDS:
            raise ExplanationError(f"unknown '{field}'", location=("mask",), hint=did_you_mean(field, _FIELDS))
        chosen.setdefault(field, set()).add((_label if field == "label" else _task)(value, memory))
    if not chosen:
        return None
    labels, tasks = (frozenset(chosen[field]) if field in chosen else None for field in _FIELDS)
    return Mask(tuple(texts), labels, tasks)


def _label(text: str, memory: Memory) -> int:
    if not memory.data.class_names:
        raise ExplanationError(f"the data set {memory.config.dataset_label} has no classes", location=("mask",))
    try:
        return find_label(text, memory.data.class_names)
    except PatchError as error:
        raise ExplanationError(error.problem, location=("mask",), hint=error.hint) from None


def _task(text: str, memory: Memory) -> int:
    names = memory.task_names
    if not names:
        problem, hint = (
            f"the data set {memory.config.dataset_label} has no tasks",
            "only data sets of several parts have tasks",
        )
        raise ExplanationError(problem, location=("mask",), hint=hint)
    if text not in names:
        raise ExplanationError(f"no task is called '{text}'", location=("mask",), hint=did_you_mean(text, names))
    if memory.tasks is None:
        problem = "a prototype has a class but no task: it is learned from all parts of the data"
        raise ExplanationError(problem, location=("mask",), hint="expected label=CLASS")
    return names.index(text)
