"""Masks: a part of the memory, by class and task, that a model answers without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import ExplanationError, PatchError, did_you_mean
from idwbench.models.inputs import find_label

__all__ = ["Mask", "parse_mask"]

_FIELDS = ("label", "task")


@dataclass(frozen=True)
class Mask:
    """The part of a memory whose class is one of `labels` and whose task is one of `tasks`; None stands for all.

    `conditions` are the texts that it was given by.
    """

    conditions: tuple[str, ...]
    labels: frozenset[int] | None = None
    tasks: frozenset[int] | None = None

    def removes(
        self, labels: NDArray[np.integer] | None, tasks: NDArray[np.integer] | None = None
    ) -> NDArray[np.bool_]:
        """Return which entries (n,) of a memory belong to the part, by the class and the task of each.

        Raises:
            ExplanationError: none of them, or all.
        """
        given = [(chosen, of) for chosen, of in ((self.labels, labels), (self.tasks, tasks)) if chosen is not None]
        assert given and all(of is not None for _, of in given)
        where = np.logical_and.reduce([np.isin(of, sorted(chosen)) for chosen, of in given if of is not None])
        text = ", ".join(self.conditions)
        if not where.any():
            raise ExplanationError(f"no part of the memory has {text}", location=("mask",))
        if where.all():
            raise ExplanationError(f"the whole memory has {text}; nothing is left to answer", location=("mask",))
        return np.asarray(where)


def parse_mask(
    texts: Sequence[str], class_names: Sequence[str], task_names: Sequence[str] = (), data: str = "the data set"
) -> Mask | None:
    """Return the mask for texts ``label=CLASS`` and ``task=NAME``, or None for no texts.

    Several texts with the same word mean any of them; both words together mean what meets both. `data` is the name of
    the data set.

    Raises:
        ExplanationError: another form, no such class or task, or data without classes or tasks.
    """
    found: dict[str, set[int]] = {}
    for text in texts:
        field, sign, value = text.partition("=")
        if not sign or not value:
            raise ExplanationError(f"expected label=CLASS or task=NAME, got '{text}'", location=("mask",))
        if field not in _FIELDS:
            raise ExplanationError(f"unknown '{field}'", location=("mask",), hint=did_you_mean(field, _FIELDS))
        index = _label(value, class_names, data) if field == "label" else _task(value, task_names, data)
        found.setdefault(field, set()).add(index)
    if not found:
        return None
    labels, tasks = (frozenset(found[field]) if field in found else None for field in _FIELDS)
    return Mask(tuple(texts), labels, tasks)


def _label(text: str, class_names: Sequence[str], data: str) -> int:
    if not class_names:
        raise ExplanationError(f"{data} has no classes", location=("mask",))
    try:
        return find_label(text, class_names)
    except PatchError as error:
        raise ExplanationError(error.problem, location=("mask",), hint=error.hint) from None


def _task(text: str, task_names: Sequence[str], data: str) -> int:
    if not task_names:
        hint = "only data sets of several parts have tasks"
        raise ExplanationError(f"{data} has no tasks", location=("mask",), hint=hint)
    if text not in task_names:
        raise ExplanationError(f"no task is called '{text}'", location=("mask",), hint=did_you_mean(text, task_names))
    return list(task_names).index(text)
