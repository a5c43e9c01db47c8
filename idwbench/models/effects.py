"""What patches do to the predictions of a model: for other inputs, and for perturbed copies of the patched ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Split
from idwbench.models.patches import Base, Floats, PatchPrototypes, States

__all__ = ["NOISE", "SplitEffect", "calibration_error", "kept_under_noise", "kept_under_shifts", "split_effect"]

# The standard deviation of the noise, as a part of the range of each feature.
NOISE = 0.05
_COPIES = 100


@dataclass(frozen=True)
class SplitEffect:
    """The effect of patches on the predictions for a split.

    Attributes:
        n: Its inputs.
        changed: Predictions that changed; those of the patched inputs among them.
        better: Other predictions that became right.
        worse: Other predictions that became wrong.
        classes: For each class, by number, how many of its other inputs became right and wrong; if any did.
        accuracy_before: Accuracy before, of all inputs.
        accuracy_after: Accuracy after.
        calibration_before: Expected calibration error before.
        calibration_after: Expected calibration error after.
    """

    n: int
    changed: int
    better: int
    worse: int
    classes: dict[int, tuple[int, int]]
    accuracy_before: float
    accuracy_after: float
    calibration_before: float
    calibration_after: float

    def facts(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        return asdict(self)


def split_effect(
    states: States, split: Split, before: PatchPrototypes, after: PatchPrototypes, patched: NDArray[np.float32]
) -> SplitEffect:
    """Return how the predictions for a split differ with one list of patches and with another.

    Args:
        states: The network without patches at the inputs of the split.
        split: Inputs and labels.
        before: The patches before.
        after: The patches after.
        patched: Inputs (n, features) that are not counted as others.
    """
    old, new = (states.patched(one.log_weights(split.inputs), one.values) for one in (before, after))
    labels = split.labels
    right = [logits.argmax(1) == labels for logits in (old, new)]
    keys = {row.tobytes() for row in patched}
    changed = np.flatnonzero(old.argmax(1) != new.argmax(1))
    others = np.array([row for row in changed if split.inputs[row].tobytes() not in keys], np.int64)
    better, worse = others[right[1][others]], others[right[0][others]]
    counts = [Counter(labels[rows].tolist()) for rows in (better, worse)]
    return SplitEffect(
        n=len(labels),
        changed=len(changed),
        better=len(better),
        worse=len(worse),
        classes={label: (counts[0][label], counts[1][label]) for label in sorted(counts[0] | counts[1])},
        accuracy_before=float(right[0].mean()),
        accuracy_after=float(right[1].mean()),
        calibration_before=calibration_error(old, labels),
        calibration_after=calibration_error(new, labels),
    )


def calibration_error(logits: Floats, labels: NDArray[np.int64], bins: int = 15) -> float:
    """Return the expected calibration error of `logits` (n, classes).

    Σ_b (n_b/n)·|accuracy_b − confidence_b| over bins b of equal width of the largest probability (Guo et al. 2017, *On
    Calibration of Modern Neural Networks*, Eq. 3).
    """
    confidence = np.exp(logits.max(1) - np.logaddexp.reduce(logits, axis=1))
    right = (logits.argmax(1) == labels).astype(np.float64)
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, right - confidence, bins)
    return float(np.abs(gap).sum() / len(labels))


def kept_under_noise(
    base: Base,
    patches: PatchPrototypes,
    query: NDArray[np.float32],
    label: int,
    spread: NDArray[np.floating],
    seed: int,
) -> float:
    """Return the share of copies of an input with normal noise that get its label.

    Args:
        base: The network.
        patches: Its patches.
        query: (features,), scaled.
        label: The label.
        spread: Range (features,) of each feature, of which 5 % is the standard deviation of the noise.
        seed: Seed of the noise.
    """
    noise = np.random.default_rng(seed).normal(0, NOISE, (_COPIES, len(query))) * spread
    return float((patches.outputs(base, query + noise).argmax(1) == label).mean())


def kept_under_shifts(
    base: Base, patches: PatchPrototypes, query: NDArray[np.float32], label: int, image_shape: tuple[int, int]
) -> float:
    """Return the share of the four copies of an image, moved by one pixel, that get its label; borders are repeated."""
    image = np.pad(query.reshape(image_shape), 1, mode="edge")
    rows, columns = image_shape
    moved = [image[1 + down : 1 + down + rows, 1 + right : 1 + right + columns] for down, right in _STEPS]
    return float((patches.outputs(base, np.stack(moved).reshape(4, -1)).argmax(1) == label).mean())


_STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))
