"""The study of patches: what the patch of the paper costs in an `idw` network, for many inputs and three sizes η.

With Δ = max z − z_c and ρ = ε·S at the input:

- ``exact``: (1 + 10⁻³)·ρΔ, the smallest η that wins, with a relative margin;
- ``logit_margin``: ρΔ + (1 + ρ), which wins by a logit margin of 1;
- ``authors``: (1 + ρ)·Δ, of the authors' code for arXiv 2310.18805, which normalises over the old keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset, Split
from idwbench.models.array_weights import ArrayNetwork, States, calibration_error, softmax
from idwbench.models.demands import Demand
from idwbench.models.neighbours import mean_neighbour_distance
from idwbench.models.patch_solution import prototypes_alone
from idwbench.models.patches import Floats, PatchPrototypes

__all__ = ["CRITERIA", "SPECIAL_POINTS", "Cases", "Labels", "Study", "special_cases", "study_patches", "wrong_cases"]

# The special cases of arXiv 2310.18805, Figures 3 and 6.
SPECIAL_POINTS = ((-1.0, 1.0), (0.0, 1.0), (1.0, 0.0))
CRITERIA: Mapping[str, Mapping[str, Any]] = {
    "exact": {"kind": "exact"},
    "logit_margin": {"kind": "exact", "margin": 1.0},
    "authors": {"kind": "authors"},
}
_PATCH_COUNTS = (0, 1, 5, 20, 100)
_SPLITS = ("train", "test", "holdout")
# Directions from a patch, in each of which there is a point at each distance.
_DIRECTIONS = 32

Labels = NDArray[np.int64]
# Inputs (n, features), scaled, and the labels (n,) that they must get.
Cases = tuple[NDArray[np.float32], Labels]
Study = tuple[dict[tuple[str, str], float], dict[str, NDArray[np.generic]]]


def study_patches(base: ArrayNetwork, data: Mapping[str, Split], cases: Cases | int) -> Study:
    """Return metrics and arrays of a study of patches of a trained `idw` network.

    Each case is one patch of the original network. With C cases and the criteria of the module in their order, the
    arrays are ``inputs`` (C, features), scaled; ``labels`` and ``labels_before`` (C,); ``eta`` (3, C), NaN where the
    label was right before; for each of the splits train, test and holdout ``changed_…`` (3, C), the number of other
    predictions that changed, −1 without a patch, and ``accuracy_…`` (3, C) after the patch; ``influence`` (3, bins),
    see `_influence`, with ``influence_edges`` (bins + 1,); and the expected calibration error on the largest new split
    (holdout or test) after 0, 1, 5, 20, 100 patches of wrong inputs, one after the other: ``calibration_patches`` (k,),
    ``calibration_error`` (3, k), and ``patches_held`` (3, k), the number of these inputs whose label is right then.

    Args:
        base: The network.
        data: The splits of the network's data, or of what stands for it; distances are in its scaled units.
        cases: At most so many wrong test inputs, or the cases.

    Raises:
        PatchError: the network's method is not `idw`.
    """
    splits = {name: data[name] for name in _SPLITS if name in data}
    states = {name: base.states(split.inputs) for name, split in splits.items()}
    inputs, labels = cases if not isinstance(cases, int) else wrong_cases(states["test"], splits["test"], cases)[:2]
    before = base.states(inputs)
    answers = before.outputs.argmax(1)
    needs = answers != labels
    by_criterion = [_patches(base, (inputs, labels), before, name) for name in CRITERIA]
    patches, values = by_criterion[0], np.stack([patches.values for patches in by_criterion])
    metrics: dict[tuple[str, str], float] = {("cases", "patched"): float(needs.sum())}
    if needs.any():
        metrics["cases", "smallest_eta"] = _smallest(before.take(needs), patches.take(needs), labels[needs])
    arrays: dict[str, NDArray[np.generic]] = {
        "inputs": inputs,
        "labels": labels,
        "labels_before": answers,
        "eta": np.where(needs, values.sum(2), np.nan),
        **_influence(base, data["train"], patches.take(needs), values[:, needs]),
    }
    for name, split in splits.items():
        changed, accuracy = _effects(states[name], split, patches, values)
        accuracy_before = float((states[name].outputs.argmax(1) == split.labels).mean())
        arrays[f"changed_{name}"] = np.where(needs, changed, -1)
        arrays[f"accuracy_{name}"] = np.where(needs, accuracy, accuracy_before)
        metrics[name, "accuracy_before"] = accuracy_before
        if needs.any():
            means = zip(CRITERIA, changed[:, needs].mean(1).tolist(), strict=True)
            metrics |= {(name, f"changed_{criterion}"): mean for criterion, mean in means}
    fresh = "holdout" if "holdout" in splits else "test"
    calibrated = _calibration(base, states[fresh], splits[fresh])
    pairs = zip(calibrated["calibration_patches"], calibrated["calibration_error"][0].tolist(), strict=True)
    return metrics | {(fresh, f"calibration_error_{n}"): error for n, error in pairs}, arrays | calibrated


def special_cases(dataset: Dataset) -> Cases:
    """Return the special points of Two Moons, scaled, each with both labels."""
    points = np.repeat(np.array(SPECIAL_POINTS), 2, axis=0)
    return dataset.scaling.apply(points), np.tile(np.arange(2), len(SPECIAL_POINTS))


def wrong_cases(states: States, split: Split, n: int) -> tuple[NDArray[np.float32], Labels, Labels]:
    """Return the first `n` inputs of a split whose prediction is wrong, or all if they are fewer; labels and rows."""
    rows = np.flatnonzero(states.outputs.argmax(1) != split.labels)[:n]
    return split.inputs[rows], split.labels[rows], rows


def _patches(base: ArrayNetwork, cases: Cases, states: States, name: str) -> PatchPrototypes:
    """Return the patches of cases with these states by one of `CRITERIA`; keys and weights are the same by each."""
    pairs = zip(cases[0], cases[1].tolist(), strict=True)
    demands = [Demand(query=query, label=label, **CRITERIA[name]) for query, label in pairs]
    return prototypes_alone(base, demands, states)


def _effects(states: States, split: Split, patches: PatchPrototypes, values: Floats) -> tuple[Labels, Floats]:
    """Return the number of other predictions that change, and the accuracy after the patch, both (3, patches)."""
    answers, log_weights = states.outputs.argmax(1), patches.log_weights(split.inputs)
    changed, accuracy = np.empty(values.shape[:2], np.int64), np.empty(values.shape[:2])
    for criterion, case in np.ndindex(changed.shape):
        after = states.patched(log_weights[:, [case]], values[criterion, [case]]).argmax(1)
        differ = after != answers
        changed[criterion, case] = (split.inputs[differ] != patches.keys[case]).any(1).sum()  # not the patched input
        accuracy[criterion, case] = (after == split.labels).mean()
    return changed, accuracy


def _influence(
    base: ArrayNetwork, train: Split, patches: PatchPrototypes, values: Floats
) -> dict[str, NDArray[np.generic]]:
    """Return the largest change of a class probability over all cases at distances from the patch.

    For each case there are `_DIRECTIONS` points at each distance, in directions towards random points of the box that
    the training data span; points outside of it do not count. The distances differ by equal factors: they are the
    geometric means of the edges of each bin, of which the first, from 0, is as wide as the second.
    """
    unit = mean_neighbour_distance(train.inputs) or 1.0
    edges = np.concatenate([[0.0], unit * 2.0 ** (np.arange(-6, 15) / 2)])
    distances = np.sqrt(np.concatenate([[edges[1] ** 2 / edges[2]], edges[1:-1]]) * edges[1:])
    influence = np.full((3, len(distances)), np.nan)
    box = (train.inputs.min(0), train.inputs.max(0))
    generator = np.random.default_rng(0)
    for case, query in enumerate(patches.keys):
        low, high = (bound(side, query) for bound, side in zip((np.minimum, np.maximum), box, strict=True))
        directions = generator.uniform(low, high, (_DIRECTIONS, len(query))) - query
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        points = query + distances[:, None, None] * directions
        inside = ((points >= low) & (points <= high)).all(2)
        states, places = base.states(points[inside]), np.nonzero(inside)[0]
        log_weights = patches.take([case]).log_weights_at(distances[places, None] ** 2)
        for criterion, value in enumerate(values[:, [case]]):
            change = softmax(states.patched(log_weights, value)) - softmax(states.outputs)
            np.fmax.at(influence[criterion], places, np.abs(change).max(1))
    return {"influence_edges": edges, "influence": influence}


def _calibration(base: ArrayNetwork, states: States, split: Split) -> dict[str, NDArray[np.generic]]:
    """Return the calibration error after patches of wrong inputs of the split, one after the other."""
    inputs, labels, rows = wrong_cases(states, split, _PATCH_COUNTS[-1])
    counts = [n for n in _PATCH_COUNTS if n <= len(rows)]
    errors, held = np.empty((3, len(counts))), np.empty((3, len(counts)), np.int64)
    log_weights = _patches(base, (inputs, labels), states.take(rows), "exact").log_weights(split.inputs)
    for criterion, name in enumerate(CRITERIA):
        current = states
        for case in range(counts[-1] + 1):
            is_right = current.outputs[rows].argmax(1) == labels
            if case in counts:
                held[criterion, counts.index(case)] = is_right[:case].sum()
                errors[criterion, counts.index(case)] = calibration_error(current.outputs, split.labels)
            if case < counts[-1] and not is_right[case]:  # or an earlier patch has corrected it
                patch = _patches(base, (inputs[[case]], labels[[case]]), current.take(rows[[case]]), name)
                outputs = current.patched(log_weights[:, [case]], patch.values)
                current = States(np.logaddexp(current.log_sum, log_weights[:, case]), outputs)
    return {"calibration_patches": np.array(counts), "calibration_error": errors, "patches_held": held}


def _smallest(states: States, patches: PatchPrototypes, labels: Labels) -> float:
    """Return the fraction of patches whose value wins at their inputs, of these states, and of which 0.99 does not."""
    shares = np.exp(patches.log_peaks - np.logaddexp(states.log_sum, patches.log_peaks))[:, None]
    sizes = (1.0, 0.99 / 1.001)  # of the smallest value that ties
    answers = [((1 - shares) * states.outputs + shares * size * patches.values).argmax(1) for size in sizes]
    return float(((answers[0] == labels) & (answers[1] != labels)).mean())
