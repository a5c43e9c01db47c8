"""What patches do to the predictions of a model: for other inputs, and for perturbed copies of the patched ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.models.array_weights import ArrayNetwork, calibration_error
from idwbench.models.demands import Demand
from idwbench.models.patches import Floats, PatchPrototypes
from idwbench.models.radii import Rows

__all__ = ["NOISE", "SplitEffect", "kept_shares", "shifted", "split_effect"]

# The standard deviation of the noise, as a part of the range of each feature.
NOISE = 0.05
_COPIES = 100
_STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))


@dataclass(frozen=True)
class SplitEffect:
    """The effect of patches on the predictions for a split.

    Attributes:
        n: Its inputs.
        patched: How many of them are inputs of patches; the others are counted below, but in `changed`.
        changed: Predictions that changed; of a regression by more than 1 % of the targets' standard deviation.
        better: Other predictions that became right; of a regression those of which an error shrinks by more than that.
        worse: Other predictions that became wrong; of a regression those of which an error grows by more than that.
        classes: For each class, by number, how many of its other inputs became right and wrong; if any did.
        before: ``accuracy`` and expected ``calibration`` error of all inputs before, or ``rmse``, the root mean squared
            error in the targets' own units.
        after: The same after.
    """

    n: int
    patched: int
    changed: int
    better: int
    worse: int
    classes: dict[int, tuple[int, int]]
    before: dict[str, float]
    after: dict[str, float]

    def facts(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        facts = {name: value for name, value in vars(self).items() if name not in ("before", "after")}
        pairs = [(name, when) for name in self.before for when in ("before", "after")]
        return facts | {f"{name}_{when}": getattr(self, when)[name] for name, when in pairs}

    def __str__(self) -> str:
        text = f"of {self.n - self.patched} others {self.better} better, {self.worse} worse"
        if "rmse" in self.before:
            return f"{text}; rmse {self.before['rmse']:.4g} -> {self.after['rmse']:.4g}"
        accuracy = f"accuracy {100 * self.before['accuracy']:.2f} -> {100 * self.after['accuracy']:.2f} %"
        return (
            f"{text}; {accuracy}; calibration error {self.before['calibration']:.3f} -> {self.after['calibration']:.3f}"
        )


def split_effect(
    base: ArrayNetwork,
    rows: Rows,
    before: PatchPrototypes,
    after: PatchPrototypes,
    patched: NDArray[np.float32],
    slack: Floats,
    unit: Floats | float = 1.0,
) -> SplitEffect:
    """Return how the predictions for a split differ with one list of patches and with another.

    Args:
        base: The network.
        rows: The inputs and targets of the split.
        before: The patches before.
        after: The patches after.
        patched: Inputs (n, features) that are not counted as others.
        slack: The change (outputs,) of an error that is not counted, see `idwbench.models.radii.error_slack`.
        unit: That of the scaled targets of a regression, (outputs,) or a number.
    """
    states = rows.states(base)
    # Those after are first: their distances may be known.
    new, old = (
        states.patched(one.log_weights_at(rows.sq_dist(one.keys)), one.values) if len(one) else states.outputs
        for one in (after, before)
    )
    is_other = ~np.isin(rows.inputs.sum(1), patched.sum(1))
    for row in np.flatnonzero(~is_other):
        is_other[row] = not (rows.inputs[row] == patched).all(1).any()
    is_regression, targets = rows.targets.ndim == 2, rows.targets
    answers = [one if is_regression else one.argmax(1)[:, None] for one in (old, new)]
    # The error of a label is 0 or 1.
    errors = [np.abs(one - targets) if is_regression else one != targets[:, None] for one in answers]
    growth = np.subtract(*errors[::-1], dtype=np.float64)
    better, worse = (np.flatnonzero(is_other & (change > slack).any(1)) for change in (-growth, growth))
    counts = [Counter([] if is_regression else targets[rows].tolist()) for rows in (better, worse)]
    return SplitEffect(
        n=len(targets),
        patched=int((~is_other).sum()),
        changed=int((np.abs(answers[1] - answers[0]) > slack).any(1).sum()),
        better=len(better),
        worse=len(worse),
        classes={label: (counts[0][label], counts[1][label]) for label in sorted(counts[0] | counts[1])},
        before=_metrics(old, targets, unit),
        after=_metrics(new, targets, unit),
    )


def _metrics(outputs: Floats, targets: NDArray[Any], unit: Floats | float) -> dict[str, float]:
    if targets.ndim == 2:
        return {"rmse": float(np.sqrt(np.mean(np.square((outputs - targets) * unit))))}
    return {
        "accuracy": float((outputs.argmax(1) == targets).mean()),
        "calibration": calibration_error(outputs, targets),
    }


def shifted(query: NDArray[np.float32], image_shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return the four copies of an image (features,) that are moved by one pixel; borders are repeated."""
    image, (rows, columns) = np.pad(query.reshape(image_shape), 1, mode="edge"), image_shape
    moved = [image[1 + down : 1 + down + rows, 1 + right : 1 + right + columns] for down, right in _STEPS]
    return np.stack(moved).reshape(4, -1)


def kept_shares(
    base: ArrayNetwork,
    patches: PatchPrototypes,
    demands: Sequence[Demand],
    spread: NDArray[np.floating],
    image_shape: tuple[int, int] | None,
) -> dict[str, float]:
    """Return the share of the perturbed copies of inputs that get their labels: with ``noise``, and of images, moved.

    `spread` is the range (features,) of each feature; there are 100 copies with normal noise of 5 % of it. The shares
    of images are called ``shifts``.
    """
    kept: dict[str, list[NDArray[np.bool_]]] = {"noise": []} if image_shape is None else {"noise": [], "shifts": []}
    for seed, one in enumerate(demands):
        noise = np.random.default_rng(seed).normal(0, NOISE, (_COPIES, len(one.query)))
        copies = {"noise": one.query + noise * spread}
        if image_shape is not None:
            copies["shifts"] = shifted(one.query, image_shape)
        for name, inputs in copies.items():
            kept[name].append(patches.outputs(base, inputs).argmax(1) == one.label)
    return {name: float(np.mean(each)) for name, each in kept.items()}
