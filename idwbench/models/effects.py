"""What patches do to the predictions of a model: for other inputs, and for perturbed copies of the patched ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.models.demands import Demand
from idwbench.models.patches import Base, Floats, PatchPrototypes
from idwbench.models.radii import Rows

__all__ = [
    "NOISE",
    "RegressionEffect",
    "SplitEffect",
    "calibration_error",
    "kept_shares",
    "noisy_copies",
    "regression_effect",
    "shifted",
    "split_effect",
]

# The standard deviation of the noise, as a part of the range of each feature.
NOISE = 0.05
_COPIES = 100
_STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))


@dataclass(frozen=True)
class SplitEffect:
    """The effect of patches on the predictions for a split.

    Attributes:
        n: Its inputs.
        patched: How many of them are inputs of patches; the others are counted below.
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
    patched: int
    changed: int
    better: int
    worse: int
    classes: dict[int, tuple[int, int]]
    accuracy_before: float
    accuracy_after: float
    calibration_before: float
    calibration_after: float

    @property
    def metrics_after(self) -> dict[str, float]:
        """The metric of the model with the patches."""
        return {"accuracy": self.accuracy_after}

    def __str__(self) -> str:
        accuracy = f"accuracy {100 * self.accuracy_before:.2f} -> {100 * self.accuracy_after:.2f} %"
        calibration = f"calibration error {self.calibration_before:.3f} -> {self.calibration_after:.3f}"
        others = f"{self.n - self.patched} others {self.better} better, {self.worse} worse"
        return f"of {others}; {accuracy}; {calibration}"


@dataclass(frozen=True)
class RegressionEffect:
    """The effect of patches on the predictions of a regression for a split.

    Attributes:
        n: Its inputs.
        patched: How many of them are inputs of patches; the others are counted below.
        better: Other predictions of which an error shrinks by more than 1 % of the targets' standard deviation.
        worse: Other predictions of which an error grows by more than that.
        rmse_before: Root mean squared error before, of all inputs, in the targets' own units.
        rmse_after: Root mean squared error after.
    """

    n: int
    patched: int
    better: int
    worse: int
    rmse_before: float
    rmse_after: float

    @property
    def metrics_after(self) -> dict[str, float]:
        """The metric of the model with the patches."""
        return {"rmse": self.rmse_after}

    def __str__(self) -> str:
        others = f"{self.n - self.patched} others {self.better} better, {self.worse} worse"
        return f"of {others}; rmse {self.rmse_before:.4g} -> {self.rmse_after:.4g}"


def split_effect(
    base: Base, rows: Rows, before: PatchPrototypes, after: PatchPrototypes, patched: NDArray[np.float32]
) -> SplitEffect:
    """Return how the predictions for a split differ with one list of patches and with another.

    Args:
        base: The network.
        rows: The inputs and labels of the split.
        before: The patches before.
        after: The patches after.
        patched: Inputs (n, features) that are not counted as others.
    """
    old, new = _outputs(base, rows, before, after)
    labels, is_other = rows.targets, _is_other(rows.inputs, patched)
    right = [logits.argmax(1) == labels for logits in (old, new)]
    better, worse = (np.flatnonzero(is_other & now & ~then) for then, now in (right, right[::-1]))
    counts = [Counter(labels[rows].tolist()) for rows in (better, worse)]
    return SplitEffect(
        n=len(labels),
        patched=int((~is_other).sum()),
        changed=int((old.argmax(1) != new.argmax(1)).sum()),
        better=len(better),
        worse=len(worse),
        classes={label: (counts[0][label], counts[1][label]) for label in sorted(counts[0] | counts[1])},
        accuracy_before=float(right[0].mean()),
        accuracy_after=float(right[1].mean()),
        calibration_before=calibration_error(old, labels),
        calibration_after=calibration_error(new, labels),
    )


def regression_effect(
    base: Base,
    rows: Rows,
    before: PatchPrototypes,
    after: PatchPrototypes,
    patched: NDArray[np.float32],
    slack: Floats,
    std: Floats,
) -> RegressionEffect:
    """Return how the predictions for a split differ with one list of patches and with another.

    Args:
        base: The network.
        rows: The inputs and scaled targets of the split.
        before: The patches before.
        after: The patches after.
        patched: Inputs (n, features) that are not counted as others.
        slack: The change (outputs,) of an error, scaled, that is not counted.
        std: The unit (outputs,) of the scaled targets.
    """
    errors = [np.abs(outputs - rows.targets) for outputs in _outputs(base, rows, before, after)]
    is_other, growth = _is_other(rows.inputs, patched), errors[1] - errors[0]
    rmse = [float(np.sqrt(np.mean(np.square(error * std)))) for error in errors]
    better, worse = (int((is_other & (change > slack).any(1)).sum()) for change in (-growth, growth))
    return RegressionEffect(len(is_other), int((~is_other).sum()), better, worse, *rmse)


def _outputs(base: Base, rows: Rows, before: PatchPrototypes, after: PatchPrototypes) -> tuple[Floats, Floats]:
    """Return the outputs (n, outputs) with the patches before, and with those after."""
    states = base.states(rows.inputs) if rows.states is None else rows.states
    # Those after are first: their distances may be known.
    new, old = (
        states.patched(one.log_weights_at(rows.sq_dist(one.keys)), one.values) if len(one) else states.outputs
        for one in (after, before)
    )
    return old, new


def _is_other(inputs: NDArray[np.float32], patched: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which inputs (n, features) are none of the patched ones."""
    is_other = ~np.isin(inputs.sum(1), patched.sum(1))
    for row in np.flatnonzero(~is_other):
        is_other[row] = not (inputs[row] == patched).all(1).any()
    return is_other


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


def noisy_copies(query: NDArray[np.float32], spread: NDArray[np.floating], seed: int) -> Floats:
    """Return 100 copies of an input (features,) with normal noise of 5 % of the range (features,) of each feature."""
    return np.asarray(query + np.random.default_rng(seed).normal(0, NOISE, (_COPIES, len(query))) * spread, np.float64)


def shifted(query: NDArray[np.float32], image_shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return the four copies of an image (features,) that are moved by one pixel; borders are repeated."""
    image, (rows, columns) = np.pad(query.reshape(image_shape), 1, mode="edge"), image_shape
    moved = [image[1 + down : 1 + down + rows, 1 + right : 1 + right + columns] for down, right in _STEPS]
    return np.stack(moved).reshape(4, -1)


def kept_shares(
    base: Base,
    patches: PatchPrototypes,
    demands: Sequence[Demand],
    spread: NDArray[np.floating],
    image_shape: tuple[int, int] | None,
) -> dict[str, float]:
    """Return the share of the perturbed copies of inputs that get their labels: with ``noise``, and of images, moved.

    `spread` is the range (features,) of each feature. The shares of images are called ``shifts``.
    """
    copies: dict[str, list[NDArray[Any]]] = {
        "noise": [noisy_copies(one.query, spread, seed) for seed, one in enumerate(demands)]
    }
    if image_shape is not None:
        copies["shifts"] = [shifted(one.query, image_shape) for one in demands]
    labels = [one.label for one in demands]
    return {
        name: float(np.mean([patches.outputs(base, x).argmax(1) == y for x, y in zip(each, labels, strict=True)]))
        for name, each in copies.items()
    }
