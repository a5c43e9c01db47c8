"""The explanation of one answer: query, answer, and for each layer the memory that it attends to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import idwbench
from idwbench.data.columns import Columns
from idwbench.report.labels import cell_label

__all__ = [
    "CURVE_SIZE",
    "AccuracyChange",
    "Answer",
    "ClassAttention",
    "Explanation",
    "LayerAttention",
    "MaskEffect",
    "MemoryItem",
    "MemoryKind",
    "Nearest",
    "Plane",
    "Query",
]

# Largest number of attentions of each class in a curve.
CURVE_SIZE = 500
# Names of features that a table lists.
_MOST_OUTSIDE = 3

MemoryKind = Literal["prototypes", "training data", "history of training"]


@dataclass(frozen=True)
class Query:
    """The input that is answered.

    Attributes:
        text: How it was given.
        inputs: (features,), in scaled units.
        picture: (features,), in the data's own units.
        label: Its class, if it is a row of the model's data.
        target: (outputs,), its target in own units, if it is a row of the model's data and that is a regression.
        missing: The columns of a table that were given without a value.
    """

    text: str
    inputs: NDArray[np.float32]
    picture: NDArray[np.float64]
    label: int | None = None
    target: NDArray[np.float64] | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The outputs (outputs,) for one query: logits or class frequencies, or predictions in the targets' own units.

    `probabilities` (classes,) is None for a regression.
    """

    outputs: NDArray[np.float64]
    probabilities: NDArray[np.float64] | None = None

    @classmethod
    def from_logits(cls, logits: NDArray[np.floating]) -> Answer:
        """Return the answer with the softmax of the logits as probabilities."""
        exact = np.asarray(logits, np.float64)
        powers = np.exp(exact - exact.max())
        return cls(exact, powers / powers.sum())

    @classmethod
    def from_frequencies(cls, frequencies: NDArray[np.floating]) -> Answer:
        """Return the answer with class frequencies as probabilities, of which planes may give negative ones."""
        exact = np.asarray(frequencies, np.float64)
        positive = np.maximum(exact, 0.0)
        return cls(exact, exact if (exact >= 0).all() else positive / positive.sum())

    @property
    def label(self) -> int | None:
        """The class with the largest output; None for a regression."""
        return None if self.probabilities is None else int(self.outputs.argmax())


class Nearest(NamedTuple):
    """The training row nearest to a prototype: a reference, its row, distance in scaled units, and class if any."""

    source: str
    row: int
    distance: float
    label: int | None


class Plane(NamedTuple):
    """What a model of two features answers everywhere near its data.

    Attributes:
        extent: (x minimum, x maximum, y minimum, y maximum) in own units.
        probabilities: (n, n, classes) at the middles of the cells of a grid over the extent, first row lowest.
        points: The training rows (m, 2) in own units.
        labels: Their classes (m,).
    """

    extent: tuple[float, float, float, float]
    probabilities: NDArray[np.float64]
    points: NDArray[np.float64]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class MemoryItem:
    """One entry of a memory, a prototype or a training sample, with its attention.

    Attributes:
        source: ``prototype 3``, or a row as a reference: ``mnist:train:17``.
        weight: Weight or attention; of a training sample that was visited several times the sum over its visits.
        label: Class of the prototype's value, or of the sample; None for a regression.
        picture: (features,), in the data's own units: key, or input of the sample; of a prototype in feature space the
            nearest training input.
        value: (outputs,), None for the history of training.
        contribution: What it adds to the output of the predicted class; None if the layer's outputs are no classes.
        row: Row of the training data, or None.
        task: Name of the part of a joint or sequence data set, or an empty text.
        visits: Number of training steps with this sample.
        step: The step, from 1, of the visit with the largest attention, or None.
        nearest: Of a prototype among the inputs, if the training data is at hand.
        outside: Of the same, the features (n,) in which it lies outside the range of the training data.
    """

    source: str
    weight: float
    label: int | None
    picture: NDArray[np.float64]
    value: NDArray[np.float64] | None = None
    contribution: float | None = None
    row: int | None = None
    task: str = ""
    visits: int = 1
    step: int | None = None
    nearest: Nearest | None = None
    outside: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class ClassAttention:
    """The attention of one layer to the entries of each class that come from one part of the data.

    Attributes:
        task: Name of the part of a joint or sequence data set.
        totals: (classes,), as in `LayerAttention`.
        curves: As in `LayerAttention`.
    """

    task: str
    totals: NDArray[np.float64]
    curves: tuple[NDArray[np.float64], ...]


@dataclass(frozen=True)
class LayerAttention:
    """The attention of one layer.

    Attributes:
        name: The layer.
        size: Number of prototypes, training samples or slots in its memory.
        items: In order of decreasing weight; those of kernel regression, also negative ones, of decreasing size.
        totals: (classes,), the sum of all weights of each class; empty for a regression.
        curves: For each class the largest weights, at most `CURVE_SIZE`, in decreasing order.
        tasks: The same for each part of a joint or sequence data set; empty for other data.
    """

    name: str
    size: int
    items: tuple[MemoryItem, ...]
    totals: NDArray[np.float64]
    curves: tuple[NDArray[np.float64], ...]
    tasks: tuple[ClassAttention, ...] = ()


@dataclass(frozen=True)
class AccuracyChange:
    """The accuracy on a part of the test data with the whole memory and without the masked part."""

    name: str
    n: int
    before: float
    after: float


@dataclass(frozen=True)
class MaskEffect:
    """The answer without a part of the memory.

    Attributes:
        conditions: Those of the part, such as ``task=fashion_mnist``.
        removed: Its number of prototypes, samples or slots.
        size: That of the whole memory.
        answer: The answer without it.
        accuracy: By part of the test data; empty for a regression, or if the data cannot be loaded.
    """

    conditions: tuple[str, ...]
    removed: int
    size: int
    answer: Answer
    accuracy: tuple[AccuracyChange, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """An answer and the memory that it attends to, of the same shape for every kind of memory.

    Attributes:
        model: Label of the model.
        memory: What its keys are.
        query: The input.
        answer: The answer with the whole memory.
        layers: One for each layer that has a memory; a single one except for the history of training.
        class_names: Empty for a regression.
        image_shape: (height, width) if an input is an image.
        effect: What a mask changes, or None.
        warnings: One line for each.
        columns: Those of a table, or None.
        spreads: The standard deviation (features,) of each feature in own units; None if they are not standardised.
        plane: Of a classifier of two features, if its training data is at hand.
    """

    model: str
    memory: MemoryKind
    query: Query
    answer: Answer
    layers: tuple[LayerAttention, ...]
    class_names: tuple[str, ...]
    image_shape: tuple[int, int] | None
    effect: MaskEffect | None = None
    warnings: tuple[str, ...] = ()
    columns: Columns | None = None
    spreads: NDArray[np.float64] | None = None
    plane: Plane | None = None

    @property
    def weight_name(self) -> str:
        """What the weights are called: ``attention`` in the history of training, otherwise ``weight``."""
        return "attention" if self.memory == "history of training" else "weight"

    def class_name(self, label: int | None) -> str:
        """Return the name of a class; an empty text for None."""
        return "" if label is None else self.class_names[label]

    def answer_text(self, answer: Answer) -> str:
        """Return the class with its probability, or the outputs of a regression."""
        if answer.probabilities is None or answer.label is None:
            return cell_label(answer.outputs.tolist())
        return f"{self.class_name(answer.label)} (probability {answer.probabilities[answer.label]:.4f})"

    def table(self, layer: LayerAttention) -> dict[str, list[str]]:
        """Return the columns of a table of the largest weights of a layer, as texts by header; none is empty."""
        items = [self._item_facts(item) for item in layer.items]
        visits = ("visits",) if self.memory == "history of training" else ()
        value = () if self.class_names else ("value",)
        names = ("source", "class", "task", *visits, "step", self.weight_name, "contribution", *value)
        columns = {name: [cell_label(item[name]) for item in items] for name in names}
        nearest = [item["nearest"] or {"source": "", "label": None} for item in items]
        columns["nearest"] = [f"{row['source']} ({row['label']})" if row["label"] else row["source"] for row in nearest]
        outside = [item["outside"] or () for item in items]
        columns["outside"] = [f"{len(f)} features" if len(f) > _MOST_OUTSIDE else ", ".join(f) for f in outside]
        return {name: column for name, column in columns.items() if any(column)}

    def comparison(self, layer: LayerAttention, entries: int = 3, most: int = 12) -> dict[str, list[str]]:
        """Return the columns of a table beside those of the first entries of a layer, as texts by header.

        A number has its difference from the input in standard deviations. Of more than `most` columns those are
        returned in which the first entry differs most.
        """
        items = layer.items[:entries]
        if self.columns is None or not items:
            return {}
        differences = [self.differences(item) for item in items]
        order = np.sort(np.argsort([-abs(number) for number in differences[0]], kind="stable")[:most]).tolist()
        shown = {"column": [self.columns.names[place] for place in order]}
        own = self.columns.texts(self.query.picture)
        shown["input"] = [own[place] for place in order]
        for item, apart in zip(items, differences, strict=True):
            texts = self.columns.texts(item.picture)
            shown[item.source] = [self._compared(place, texts[place], apart[place]) for place in order]
        return shown

    def differences(self, item: MemoryItem) -> list[float]:
        """Return for each column an entry less the input, in standard deviations; how far categories differ."""
        assert self.columns is not None
        apart = item.picture - self.query.picture
        apart = apart if self.spreads is None else apart / self.spreads
        parts = [apart[self.columns.slices[column.name]] for column in self.columns.columns]
        return [float(part[0]) if len(part) == 1 else float(np.abs(part).max()) for part in parts]

    def _compared(self, place: int, text: str, difference: float) -> str:
        assert self.columns is not None
        is_number = not self.columns.columns[place].categories
        return f"{text} ({difference:+z.1f} sd)" if is_number and self.spreads is not None else text

    def facts(self) -> dict[str, Any]:
        """Return the explanation as values for JSON."""
        query = self.query
        return {
            "model": self.model,
            "memory": self.memory,
            "x": query.text,
            "missing": list(query.missing),
            "target": self.class_name(query.label) or _numbers(query.target),
            "answer": self._answer_facts(self.answer),
            "layers": [self._layer_facts(layer) for layer in self.layers],
            "mask": None if self.effect is None else self._effect_facts(self.effect),
            "columns": None if self.columns is None else dict(zip(self.columns.names, self._own(query), strict=True)),
            "warnings": list(self.warnings),
        }

    def _own(self, entry: Query | MemoryItem) -> list[str]:
        assert self.columns is not None
        return self.columns.texts(entry.picture)

    def _repr_html_(self) -> str:
        return idwbench.html(self)

    def _answer_facts(self, answer: Answer) -> dict[str, Any]:
        return {
            "class": self.class_name(answer.label) or None,
            "outputs": _numbers(answer.outputs),
            "probabilities": _numbers(answer.probabilities),
        }

    def _layer_facts(self, layer: LayerAttention) -> dict[str, Any]:
        return {
            "layer": layer.name,
            "size": layer.size,
            "items": [self._item_facts(item) for item in layer.items],
            "classes": self._class_facts(layer),
            "tasks": [{"task": part.task, "classes": self._class_facts(part)} for part in layer.tasks],
        }

    def _class_facts(self, part: LayerAttention | ClassAttention) -> list[dict[str, Any]]:
        named = zip(self.class_names, part.totals, part.curves, strict=True) if self.class_names else ()
        return [{"class": name, "total": float(total), "largest": _numbers(curve)} for name, total, curve in named]

    def _item_facts(self, item: MemoryItem) -> dict[str, Any]:
        return {
            "source": item.source,
            self.weight_name: item.weight,
            "class": self.class_name(item.label) or None,
            "row": item.row,
            "task": item.task or None,
            "visits": item.visits,
            "step": item.step,
            "value": _numbers(item.value),
            "contribution": item.contribution,
            "input": _numbers(item.picture),
            "nearest": None if item.nearest is None else self._nearest_facts(item.nearest),
            "outside": None if item.outside is None else self.feature_names(item.outside),
            "columns": None if self.columns is None else dict(zip(self.columns.names, self._own(item), strict=True)),
        }

    def _nearest_facts(self, nearest: Nearest) -> dict[str, Any]:
        return nearest._asdict() | {"label": self.class_name(nearest.label) or None}

    def feature_names(self, features: NDArray[np.int64]) -> list[str]:
        """Return the names of features, or their numbers if they have no names."""
        return [str(one) if self.columns is None else self.columns.features[one] for one in features.tolist()]

    def _effect_facts(self, effect: MaskEffect) -> dict[str, Any]:
        accuracy = [vars(change) for change in effect.accuracy]
        return {**vars(effect), "answer": self._answer_facts(effect.answer), "accuracy": accuracy}


def _numbers(array: NDArray[np.floating] | Sequence[float] | None) -> list[float] | None:
    return None if array is None else [float(number) for number in array]
