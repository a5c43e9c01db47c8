"""Published figures to set beside ours: what the paper prints, and what its authors' code gives when run again.

A reference belongs to one model, all its settings included, and to one data set and protocol. A table whose protocol
differs shows it too, and a note says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from idwbench.attention.definitions import ParameterValue
from idwbench.report.labels import protocol_label
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.models import ModelConfig, parse_model
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
    (
        "two_moons",
        "authors",
    ): "authors' code: mean test accuracy on 40 points, formulas and training loop run again; spread not recorded.",
}
# What a reference does not depend on: the authors seed nothing, and a holdout split does not change training.
_FREE_SETTINGS = {"seed", "holdout_per_class"}


@dataclass(frozen=True)
class Reference:
    """One published test accuracy, as a fraction, and the model it belongs to.

    Attributes:
        n: Number of trainings that it is the mean of; None if that is not known.
    """

    source: ReferenceSource
    dataset: str
    model: ModelConfig
    test_accuracy: float
    n: int | None = None


def _model(method: str, prototypes: int, **parameters: ParameterValue) -> ModelConfig:
    return parse_model({"method": method, "prototypes": prototypes, **parameters})


# The models of the paper; parameters that are not named have their defaults, as the authors ran them.
_METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fc_relu", {}),
    ("scaled_dot", {"scale": "prototypes"}),
    ("neg_dist", {}),
    ("gaussian", {}),
    ("inv_dist", {}),
    ("idw", {}),
)
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
        Reference(source, "mnist", _model(method, 20, **parameters), accuracy, n)
        for source, n, accuracies in _MNIST
        for (method, parameters), accuracy in zip(_METHODS, accuracies, strict=True)
    ),
    *(Reference("paper", "two_moons", _model("idw", prototypes), 0.975) for prototypes in (16, 128)),
    *(
        Reference("authors", "two_moons", _model(method, prototypes, **parameters), accuracy, 10)
        for prototypes, accuracies in _TWO_MOONS.items()
        for (method, parameters), accuracy in zip(_METHODS, accuracies, strict=True)
    ),
)


def find_reference(source: ReferenceSource, dataset: DatasetConfig, model: ModelConfig) -> Reference | None:
    """Return what is published for exactly this model on this data set; None if there is nothing."""
    for reference in REFERENCES:
        if (reference.source, reference.dataset) == (source, dataset.name) and reference.model == model:
            return reference if _same_data(dataset) else None
    return None


def reference_notes(dataset: str, protocol: Protocol, sources: Iterable[ReferenceSource]) -> tuple[str, ...]:
    """Return a line for the origin of each column of references, and one if the protocol is not theirs."""
    notes = [text for (name, source), text in _SOURCES.items() if name == dataset and source in sources]
    theirs = default_protocol(dataset)
    if notes and protocol != theirs:
        notes.append(f"The references used the paper's protocol ({protocol_label(theirs)}); these runs did not.")
    return tuple(notes)


def _same_data(dataset: DatasetConfig) -> bool:
    settings = type(dataset).model_fields.items()
    return all(getattr(dataset, name) == field.default for name, field in settings if name not in _FREE_SETTINGS)
