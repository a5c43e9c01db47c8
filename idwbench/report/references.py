"""Published results: test accuracies of the paper and of its authors' code when run again, and of arXiv 2202.05798.

A reference belongs to one model with all its settings and one data set. Tables with another protocol show it with a
note. Those of arXiv 2202.05798, Table 1 and text, belong to perceptrons with two hidden layers of 800 units, on MNIST,
on MNIST and Fashion-MNIST together, or on one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = [
    "DUAL_FORM_NOTE",
    "FREE_SETTINGS",
    "PAPER_METHODS",
    "PAPER_PARAMETERS",
    "PUBLISHED_CLASSIFIERS",
    "PUBLISHED_CLASSIFIERS_NOTE",
    "REFERENCES",
    "SHARES",
    "SOURCES",
    "SOURCE_NOTES",
    "PublishedClassifier",
    "Reference",
    "ReferenceSource",
    "published_values",
]

ReferenceSource = Literal["paper", "authors"]
SOURCES: tuple[ReferenceSource, ...] = get_args(ReferenceSource)  # in the order of columns

SOURCE_NOTES: dict[tuple[str, str], str] = {
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
FREE_SETTINGS = {"name", "seed", "holdout_per_class"}


class Reference(NamedTuple):
    """A published test accuracy of a model, as a fraction; `n` is the number of trainings, if known."""

    test_accuracy: float
    n: int | None = None


# The six methods of Table 1, and their parameters that are not the default: the authors' code divides by √prototypes.
PAPER_METHODS = ("fc_relu", "scaled_dot", "neg_dist", "gaussian", "inv_dist", "idw")
PAPER_PARAMETERS: dict[str, dict[str, str]] = {"scaled_dot": {"scale": "prototypes"}}

# The accuracies of these methods by source, data set and number of prototypes, with the number of trainings.
_ACCURACIES_BY_METHOD: dict[tuple[ReferenceSource, str, int], tuple[int | None, tuple[float, ...]]] = {
    ("paper", "mnist", 20): (None, (0.9599, 0.9315, 0.8363, 0.1135, 0.1135, 0.8820)),
    ("authors", "mnist", 20): (1, (0.9549, 0.9338, 0.9368, 0.1135, 0.1135, 0.8784)),
    ("authors", "two_moons", 2): (10, (0.8375, 0.8525, 0.9, 0.825, 0.785, 0.8925)),
    ("authors", "two_moons", 16): (10, (0.85, 0.8375, 0.8975, 0.825, 0.975, 0.975)),
    ("authors", "two_moons", 128): (10, (0.85, 0.82, 0.9075, 0.825, 0.97, 0.975)),
}
# By source, data set, number of prototypes and method.
REFERENCES: dict[tuple[ReferenceSource, str, int, str], Reference] = {
    (*key, method): Reference(accuracy, n)
    for key, (n, accuracies) in _ACCURACIES_BY_METHOD.items()
    for method, accuracy in zip(PAPER_METHODS, accuracies, strict=True)
} | {("paper", "two_moons", prototypes, "idw"): Reference(0.975) for prototypes in (16, 128)}


class PublishedClassifier(NamedTuple):
    """A published test accuracy of a classifier with prototypes, as a fraction; prototypes count learned parameters."""

    name: str
    prototypes: int
    parameters: int
    test_accuracy: float


# Of learning vector quantization with the squared Euclidean distance (GLVQ), with one learned metric of full rank
# (GMLVQ), and with a tangent space of 12 dimensions for each prototype (GTLVQ).
PUBLISHED_CLASSIFIERS: Mapping[str, Sequence[PublishedClassifier]] = {
    "mnist": (
        PublishedClassifier("GLVQ", 10, 7_840, 0.8328),
        PublishedClassifier("GLVQ", 1_280, 1_003_520, 0.9612),
        PublishedClassifier("GMLVQ", 10, 7_840 + 784**2, 0.8825),
        PublishedClassifier("GMLVQ", 490, 384_160 + 784**2, 0.9264),
        PublishedClassifier("GTLVQ", 10, 13 * 7_840, 0.9461),
        PublishedClassifier("GTLVQ", 100, 13 * 78_400, 0.9735),
    ),
}
PUBLISHED_CLASSIFIERS_NOTE = (
    "GLVQ, GMLVQ, GTLVQ: classifiers of arXiv 1902.00577, their published weights applied to the test images again"
)

# Of the test inputs with a wrong answer, and of the others.
SHARES = ("target_if_wrong", "output_if_wrong", "output_if_right")

DUAL_FORM_NOTE = (
    "paper: arXiv 2202.05798; shares of Table 1, for MNIST alone, and accuracies of its text. It trained for 3,000 "
    "steps of 128 images on each data set."
)
Accuracies = tuple[float | None, float | None]
_SHARES = ((0.172, 0.495, 0.751), (0.180, 0.529, 0.788), (0.206, 0.601, 0.847))
# After the training, and on the first part before the second began.
_ACCURACIES: Mapping[tuple[str, ...], Sequence[Accuracies]] = {
    ("mnist",): ((0.97, None),),
    ("joint", "mnist", "fashion_mnist"): ((0.97, None), (0.87, None)),
    ("sequence", "mnist", "fashion_mnist"): ((0.45, 0.97), (0.85, None)),
}


def published_values(config: RunConfig) -> tuple[Mapping[int, Mapping[str, float]], Sequence[Accuracies]]:
    """Return the published shares by layer, and for each part of the data the accuracies.

    These are after the training and before the second part. Other networks and data have none.
    """
    parts = config.dataset.of if isinstance(config.dataset, PartsConfig) else ()
    data, model = (config.dataset.name, *parts), config.model
    is_published = isinstance(model, MlpConfig) and (model.width, model.depth) == (800, 2) and data in _ACCURACIES
    if not is_published:
        return {}, ((None, None),) * max(1, len(parts))
    shares = {layer: dict(zip(SHARES, own, strict=True)) for layer, own in enumerate(_SHARES)} if not parts else {}
    return shares, _ACCURACIES[data]
