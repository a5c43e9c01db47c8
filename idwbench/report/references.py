"""Published figures to set beside ours: what the paper prints, and what its authors' code gives when run again.

Only figures we hold with certainty are here. A reference belongs to one setting, parameters included, and to one
data set and protocol; a table whose protocol differs shows it all the same, and says so in a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from idwbench.config import DatasetConfig, Protocol, default_protocol
from idwbench.methods import ParameterValue
from idwbench.report.labels import protocol_label

__all__ = ["REFERENCES", "Reference", "ReferenceSource", "find_reference", "reference_notes"]

ReferenceSource = Literal["paper", "authors"]

_SOURCES: dict[tuple[str, ReferenceSource], str] = {
    ("mnist", "paper"): "paper: test accuracy printed in Table 1 of arXiv 2310.18805.",
    ("mnist", "authors"): "authors' code: test accuracy, run again for one seed.",
    (
        "two_moons",
        "authors",
    ): "authors' code: test accuracy (40 points), its formulas and training loop run again, mean of ten seeds.",
}
# What must agree in the data set itself. The authors seed nothing, and a holdout split does not change training.
_DATASETS: dict[str, dict[str, float]] = {
    "mnist": {},
    "two_moons": {"train_per_class": 100, "test_per_class": 20, "noise": 0.1},
}


@dataclass(frozen=True)
class Reference:
    """One published test accuracy, as a fraction, and the setting it belongs to."""

    source: ReferenceSource
    dataset: str
    method: str
    prototypes: int
    parameters: tuple[tuple[str, ParameterValue], ...]
    test_accuracy: float


_P = ("power", 2.0)
_E = ("epsilon", 1e-3)

REFERENCES: tuple[Reference, ...] = (
    Reference("paper", "mnist", "neg_dist", 20, (_P,), 0.8363),
    Reference("authors", "mnist", "fc_relu", 20, (), 0.955),
    # Their code divides by √prototypes where the paper says √features.
    Reference("authors", "mnist", "scaled_dot", 20, (("scale", "prototypes"),), 0.934),
    Reference("authors", "mnist", "neg_dist", 20, (_P,), 0.937),
    Reference("authors", "mnist", "gaussian", 20, (("sigma_squared", 2.0),), 0.1135),
    Reference("authors", "mnist", "inv_dist", 20, (_P, _E), 0.1135),
    Reference("authors", "mnist", "idw", 20, (_P, _E), 0.878),
    *(
        Reference("authors", "two_moons", method, prototypes, parameters, accuracy)
        for method, parameters, accuracies in (
            ("fc_relu", (), (0.8375, 0.85, 0.85)),
            ("scaled_dot", (("scale", "prototypes"),), (0.8525, 0.8375, 0.82)),
            ("neg_dist", (_P,), (0.9, 0.8975, 0.9075)),
            ("gaussian", (("sigma_squared", 2.0),), (0.825, 0.825, 0.825)),
            ("inv_dist", (_P, _E), (0.785, 0.975, 0.97)),
            ("idw", (_P, _E), (0.8925, 0.975, 0.975)),
        )
        for prototypes, accuracy in zip((2, 16, 128), accuracies, strict=True)
    ),
)


def find_reference(
    source: ReferenceSource,
    dataset: DatasetConfig,
    method: str,
    prototypes: int,
    parameters: tuple[tuple[str, ParameterValue], ...],
) -> float | None:
    """Return the published test accuracy of exactly this setting, as a fraction; None if there is none."""
    if any(getattr(dataset, name) != value for name, value in _DATASETS.get(dataset.name, {}).items()):
        return None
    for reference in REFERENCES:
        same = (reference.source, reference.dataset, reference.method) == (source, dataset.name, method)
        if same and reference.prototypes == prototypes and dict(reference.parameters) == dict(parameters):
            return reference.test_accuracy
    return None


def reference_notes(dataset: str, protocol: Protocol, sources: set[ReferenceSource]) -> tuple[str, ...]:
    """Return a line for the origin of each column of references, and one if the protocol is not theirs."""
    notes = [text for (name, source), text in _SOURCES.items() if name == dataset and source in sources]
    theirs = default_protocol(dataset)
    if notes and protocol != theirs:
        notes.append(f"The references used the paper's protocol ({protocol_label(theirs)}); these runs did not.")
    return tuple(notes)
