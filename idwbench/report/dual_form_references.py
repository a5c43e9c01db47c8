"""Published accuracies and classes of largest attention of multilayer perceptrons: arXiv 2202.05798, Table 1 and text.

They belong to networks with two hidden layers of 800 units, on MNIST, on MNIST and Fashion-MNIST together, or on one
after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["REFERENCE_NOTE", "SHARES", "published_accuracies", "published_shares"]

# Of the test inputs with a wrong answer, and of the others.
SHARES = ("target_if_wrong", "output_if_wrong", "output_if_right")

REFERENCE_NOTE = (
    "paper: arXiv 2202.05798; shares of Table 1, for MNIST alone, and accuracies of its text. It trained for 3,000 "
    "steps of 128 images on each data set."
)
_SHARES = ((0.172, 0.495, 0.751), (0.180, 0.529, 0.788), (0.206, 0.601, 0.847))
# After the training, and on the first part before the second began.
_ACCURACIES: Mapping[tuple[str, ...], tuple[tuple[float | None, float | None], ...]] = {
    ("mnist",): ((0.97, None),),
    ("joint", "mnist", "fashion_mnist"): ((0.97, None), (0.87, None)),
    ("sequence", "mnist", "fashion_mnist"): ((0.45, 0.97), (0.85, None)),
}


def published_shares(config: RunConfig) -> Mapping[int, Mapping[str, float]]:
    """Return the published shares by layer; empty for other networks or data."""
    if _data(config) != ("mnist",) or not _is_published(config.model):
        return {}
    return {layer: dict(zip(SHARES, shares, strict=True)) for layer, shares in enumerate(_SHARES)}


def published_accuracies(config: RunConfig) -> tuple[tuple[float | None, float | None], ...]:
    """Return the published accuracies for each part of the data, after the training and before the second part."""
    found = _ACCURACIES.get(_data(config)) if _is_published(config.model) else None
    n_parts = len(config.dataset.of) if isinstance(config.dataset, PartsConfig) else 1
    return ((None, None),) * n_parts if found is None else found


def _is_published(model: object) -> bool:
    return isinstance(model, MlpConfig) and (model.width, model.depth) == (800, 2)


def _data(config: RunConfig) -> tuple[str, ...]:
    """Return the name of the data set with its parts."""
    dataset = config.dataset
    return (dataset.name, *(dataset.of if isinstance(dataset, PartsConfig) else ()))
