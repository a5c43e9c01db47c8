"""The study of patches: what a patch of an `idw` network costs, for many inputs and for several sizes η.

All is computed in float64, see `idwbench.models.closed_form`, for three sizes of η: ``exact``, ``logit_margin`` and
``authors``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset, Split
from idwbench.errors import ConfigError
from idwbench.models.closed_form import (
    CRITERIA,
    MARGIN,
    Floats,
    IdwNetwork,
    Parameters,
    State,
    softmax,
)
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.neighbours import mean_neighbour_distance, squared_distances

__all__ = ["SPECIAL_POINTS", "calibration_error", "special_cases", "study_patches"]

# The special cases of arXiv 2310.18805, Figures 3 and 6.
SPECIAL_POINTS = ((-1.0, 1.0), (0.0, 1.0), (1.0, 0.0))
PATCH_COUNTS = (0, 1, 5, 20, 100)
_SPLITS = ("train", "test", "holdout")

Cases = tuple[Floats, NDArray[np.int64]]


def calibration_error(probabilities: Floats, labels: NDArray[np.int64], bins: int = 15) -> float:
    """Return the expected calibration error of `probabilities` (n, classes).

    Σ_b (n_b/n)·|accuracy_b − confidence_b| over bins b of equal width of the largest probability (Guo et al. 2017, *On
    Calibration of Modern Neural Networks*, Eq. 3).
    """
    confidence = probabilities.max(1)
    right = (probabilities.argmax(1) == labels).astype(np.float64)
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, right - confidence, bins)
    return float(np.abs(gap).sum() / len(labels))


def study_patches(
    parameters: Parameters,
    keys: NDArray[np.floating],
    values: NDArray[np.floating],
    data: Mapping[str, Split],
    cases: Cases | int,
) -> tuple[dict[tuple[str, str], float], dict[str, NDArray[np.generic]]]:
    """Return metrics and arrays of a study of patches of a trained network.

    Each case is one patch of the original network. With C cases and the criteria of the module in their order, the
    arrays are ``inputs`` (C, features), scaled; ``labels`` and ``labels_before`` (C,); ``eta`` (3, C), NaN where the
    label was right before; for each of the splits train, test and holdout ``changed_…`` (3, C), the number of other
    predictions that changed, −1 without a patch, and ``accuracy_…`` (3, C) after the patch; ``influence`` (3, bins),
    the largest change of a class probability over all cases and the points of the largest new split (holdout or test)
    in each bin of the distance from the patch, with ``influence_edges`` (bins + 1,); and the expected calibration error
    on that split after 0, 1, 5, 20, 100 patches of wrong inputs, one after the other: ``calibration_patches`` (k,),
    ``calibration_error`` (3, k), and ``patches_held`` (3, k), the number of these inputs whose label is right then.

    Args:
        parameters: ``power`` and ``epsilon`` of the network.
        keys: (prototypes, features), scaled.
        values: (prototypes, classes).
        data: The splits of the network's data, or of what stands for it; distances are in its scaled units.
        cases: At most so many wrong test inputs, or inputs (C, features), scaled, and target labels (C,).

    Raises:
        ConfigError: a regression.
    """
    if data["test"].targets.ndim == 2:
        raise ConfigError("patches need classes, not a regression", location=("kind",))
    network = IdwNetwork(parameters, keys, values)
    splits = {name: data[name] for name in _SPLITS if name in data}
    states = {name: network.at(split.inputs) for name, split in splits.items()}
    fresh = "holdout" if "holdout" in splits else "test"
    if isinstance(cases, int):
        wrong = np.flatnonzero(states["test"].logits.argmax(1) != data["test"].labels)[:cases]
        cases = data["test"].inputs[wrong].astype(np.float64), data["test"].labels[wrong]
    inputs, labels = cases
    before = network.at(inputs)
    answers = before.logits.argmax(1)
    eta = np.full((3, len(labels)), np.nan)
    for case in np.flatnonzero(answers != labels):
        eta[:, case] = network.etas(before.take(case), int(labels[case]))
    arrays: dict[str, NDArray[np.generic]] = {
        "inputs": inputs.astype(np.float32),
        "labels": labels,
        "labels_before": answers,
        "eta": eta,
    }
    metrics: dict[tuple[str, str], float] = {("cases", "patched"): float((answers != labels).sum())}
    if (answers != labels).any():
        metrics["cases", "smallest_eta"] = _smallest(parameters, keys, values, inputs, labels, eta[0])
    unit = mean_neighbour_distance(data["train"].inputs) or 1.0
    edges = np.concatenate([[0.0], unit * 2.0 ** (np.arange(-6, 15) / 2)])
    influence = np.full((3, len(edges) - 1), np.nan)
    for name, split in splits.items():
        squared = squared_distances(split.inputs, inputs)
        changed, accuracy = _effects(network, states[name], split, squared, labels, eta)
        arrays |= {f"changed_{name}": changed, f"accuracy_{name}": accuracy}
        metrics[name, "accuracy_before"] = float((states[name].logits.argmax(1) == split.labels).mean())
        for criterion, counts in zip(CRITERIA, changed, strict=True):
            if (counts >= 0).any():
                metrics[name, f"changed_{criterion}"] = float(counts[counts >= 0].mean())
        if name == fresh:
            _add_influence(influence, edges, network, states[name], squared, labels, eta)
    arrays |= {"influence_edges": edges, "influence": influence}
    calibrated = _calibration(network, states[fresh], splits[fresh])
    arrays |= calibrated
    for n, error in zip(calibrated["calibration_patches"], calibrated["calibration_error"][0], strict=True):
        metrics[fresh, f"calibration_error_{n}"] = float(error)
    return metrics, arrays


def special_cases(dataset: Dataset) -> Cases:
    """Return the special points of Two Moons, scaled, each with both labels.

    Raises:
        ConfigError: the data set is another one.
    """
    if dataset.n_features != 2 or dataset.n_outputs != 2:
        raise ConfigError("the special cases belong to the data set two_moons", location=("cases",))
    points = np.repeat(np.array(SPECIAL_POINTS), 2, axis=0)
    return dataset.scaling.apply(points).astype(np.float64), np.tile(np.arange(2), len(SPECIAL_POINTS))


def _effects(
    network: IdwNetwork,
    state: State,
    split: Split,
    squared: Floats,
    labels: NDArray[np.int64],
    eta: Floats,
) -> tuple[NDArray[np.int64], Floats]:
    """Return the number of other predictions that change, and the accuracy after the patch, both (3, cases)."""
    answers, top = state.logits.argmax(1), state.logits.max(1)
    right = answers == split.labels
    changed = np.full(eta.shape, -1, np.int64)
    accuracy = np.full(eta.shape, right.mean())
    for case in np.flatnonzero(np.isfinite(eta[0])):
        label = int(labels[case])
        # In logarithms, since S/w overflows far from the patch for large p; log 0 is −∞.
        with np.errstate(divide="ignore"):
            needed = state.log_sum - network.log_weights(squared[:, case]) + np.log(top - state.logits[:, label])
            log_eta = np.log(eta[:, case])
        other = squared[:, case] > 0  # not the patched input itself
        for criterion in range(len(CRITERIA)):
            moved = (answers != label) & (log_eta[criterion] > needed)
            changed[criterion, case] = (moved & other).sum()
            gained = (moved & (split.labels == label)).sum() - (moved & right).sum()
            accuracy[criterion, case] += gained / len(split)
    return changed, accuracy


def _add_influence(
    influence: Floats,
    edges: Floats,
    network: IdwNetwork,
    state: State,
    squared: Floats,
    labels: NDArray[np.int64],
    eta: Floats,
) -> None:
    """Raise `influence` (3, bins) to the largest change of a class probability in each bin of the distance."""
    before = softmax(state.logits)
    for case in np.flatnonzero(np.isfinite(eta[0])):
        bins = np.searchsorted(edges, np.sqrt(squared[:, case]), side="right") - 1
        inside = bins < influence.shape[1]
        log_weight = network.log_weights(squared[:, case])
        for criterion in range(len(CRITERIA)):
            after = state.patched(log_weight, int(labels[case]), float(eta[criterion, case]))
            change = np.abs(softmax(after.logits) - before).max(1)
            np.fmax.at(influence[criterion], bins[inside], change[inside])


def _calibration(network: IdwNetwork, state: State, split: Split) -> dict[str, NDArray[np.generic]]:
    """Return the calibration error after patches of wrong inputs of the split, one after the other."""
    wrong = np.flatnonzero(state.logits.argmax(1) != split.labels)[: PATCH_COUNTS[-1]]
    counts = [n for n in PATCH_COUNTS if n <= len(wrong)]
    squared = squared_distances(split.inputs, split.inputs[wrong])
    errors, held = np.empty((3, len(counts))), np.empty((3, len(counts)), np.int64)
    for criterion in range(len(CRITERIA)):
        current = state
        for done in range(counts[-1] + 1):
            if done in counts:
                place = counts.index(done)
                answers = current.logits[wrong[:done]].argmax(1)
                held[criterion, place] = (answers == split.labels[wrong[:done]]).sum()
                errors[criterion, place] = calibration_error(softmax(current.logits), split.labels)
            if done < counts[-1]:
                row = int(wrong[done])
                label, at_query = int(split.labels[row]), current.take(row)
                if at_query.logits.argmax() == label:
                    continue  # an earlier patch has corrected it
                eta = network.etas(at_query, label)[criterion]
                current = current.patched(network.log_weights(squared[:, done]), label, eta)
    return {"calibration_patches": np.array(counts), "calibration_error": errors, "patches_held": held}


def _smallest(
    parameters: Parameters,
    keys: NDArray[np.floating],
    values: NDArray[np.floating],
    inputs: Floats,
    labels: NDArray[np.int64],
    eta: Floats,
) -> float:
    """Return the fraction of patches whose η wins and of which 0.99 does not, in the network itself."""
    wins = []
    for case in np.flatnonzero(np.isfinite(eta)):
        label = int(labels[case])
        answers = [
            _answer(parameters, keys, values, inputs[case], label, size * eta[case] / (1 + MARGIN))
            for size in (1 + MARGIN, 0.99)
        ]
        wins.append(answers[0] == label and answers[1] != label)
    return float(np.mean(wins))


@torch.no_grad()
def _answer(
    parameters: Parameters,
    keys: NDArray[np.floating],
    values: NDArray[np.floating],
    query: Floats,
    label: int,
    eta: float,
) -> int:
    """Return the label of the patched network at the query, by its forward pass in float64."""
    value = np.zeros((1, values.shape[1]))
    value[0, label] = eta
    network = PrototypeNetwork(
        METHODS["idw"],
        parameters,
        torch.from_numpy(np.concatenate([keys.astype(np.float64), query[None]])),
        torch.from_numpy(np.concatenate([values.astype(np.float64), value])),
    )
    return int(network(torch.from_numpy(query)[None])[0].argmax())
