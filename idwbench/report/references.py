"""Published test accuracies: those of the paper, and those of its authors' code when run again.

A reference belongs to one model with all its settings and one data set. Tables with another protocol show it with a
note.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from idwbench.report.labels import protocol_label
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.kinds.models import ModelConfig, parse_model
from idwbench.runs.protocol import Protocol, default_protocol

__all__ = ["REFERENCES", "Reference", "ReferenceSource", "find_reference", "reference_notes"]

ReferenceSource = Literal["paper", "authors"]

_SOURCES: dict[tuple[str, ReferenceSource], str] = {
    ("mnist", "paper"): (
        "paper: test accuracy in Table 1 of arXiv 2310.18805; the authors' code made it, whose scaled_dot divides by "
        "√prototypes."
    ),
    ("mnist", "authors"): "authors' code: test accuracy, run again.",
    ("two_moons", "paper"): (
        "paper: test accuracy on 40 points in arXiv 2310.18805, printed as 98 %; its training accuracy is 100 %."
    ),
    ("two_moons", "authors"): (
        "authors' code: mean test accuracy on 40 points, formulas and training loop run again; spread not recorded."
    ),
}
# Settings that do not matter: the name is compared already, the authors set no seed, a holdout changes no training.
_FREE_SETTINGS = {"name", "seed", "holdout_per_class"}


@dataclass(frozen=True)
class Reference:
    """A published test accuracy of a model, as a fraction; `n` is the number of trainings, if known."""

    source: ReferenceSource
    dataset: str
    model: ModelConfig
    test_accuracy: float
    n: int | None = None


def _model(method: str, prototypes: int) -> ModelConfig:
    """Return a model of the paper; all parameters but `scale` have their default."""
    scale = {"scale": "prototypes"} if method == "scaled_dot" else {}
    return parse_model({"method": method, "prototypes": prototypes, **scale})


_METHODS = ("fc_relu", "scaled_dot", "neg_dist", "gaussian", "inv_dist", "idw")
_MNIST: tuple[tuple[ReferenceSource, int | None, tuple[float, ...]], ...] = (
    ("paper", None, (0.9599, 0.9315, 0.8363, 0.1135, 0.1135, 0.8820)),
    ("authors", 1, (0.9549, 0.9338, 0.9368, 0.1135, 0.1135, 0.8784)),
)
_TWO_MOONS = {
    2: (0.8375, 0.8525, 0.9, 0.825, 0.785, 0.8925),
    16: (0.85, 0.8375, 0.8975, 0.825, 0.975, 0.975),
    128: (0.85, 0.82, 0.9075, 0.825, 0.97, 0.975),
}

REFERENCES: tuple[Reference, ...] = (
    *(
        Reference(source, "mnist", _model(method, 20), accuracy, n)
        for source, n, accuracies in _MNIST
        for method, accuracy in zip(_METHODS, accuracies, strict=True)
    ),
    *(Reference("paper", "two_moons", _model("idw", prototypes), 0.975) for prototypes in (16, 128)),
    *(
        Reference("authors", "two_moons", _model(method, prototypes), accuracy, 10)
        for prototypes, accuracies in _TWO_MOONS.items()
        for method, accuracy in zip(_METHODS, accuracies, strict=True)
    ),
)

_BY_SIZE: dict[tuple[ReferenceSource, str, str, int], list[Reference]] = {}
for _reference in REFERENCES:
    _size = _reference.model.method, _reference.model.prototypes
    _BY_SIZE.setdefault((_reference.source, _reference.dataset, *_size), []).append(_reference)


def find_reference(source: ReferenceSource, dataset: DatasetConfig, model: ModelConfig) -> Reference | None:
    """Return the reference for exactly this model and data set, or None."""
    for reference in _BY_SIZE.get((source, dataset.name, model.method, model.prototypes), ()):
        if reference.model == model:
            return reference if _same_data(dataset) else None
    return None


def reference_notes(dataset: str, protocol: Protocol, sources: Iterable[ReferenceSource]) -> tuple[str, ...]:
    """Return a note on the origin of each column of references, and one if the protocol differs."""
    notes = [text for (name, source), text in _SOURCES.items() if name == dataset and source in sources]
    theirs = default_protocol(dataset)
    if notes and protocol != theirs:
        notes.append(f"The references used the paper's protocol ({protocol_label(theirs)}); these runs did not.")
    return tuple(notes)


def _same_data(dataset: DatasetConfig) -> bool:
    settings = type(dataset).model_fields.items()
    return all(getattr(dataset, name) == field.default for name, field in settings if name not in _FREE_SETTINGS)
