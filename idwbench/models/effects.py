"""The effect of patches on the predictions for the data that a model was trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from idwbench.attention.distances import squared_distances
from idwbench.data.dataset import Dataset, Split
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.models.inputs import LoadDataset
from idwbench.models.joint_patches import CONFLICT_DISTANCE
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.saved_model import SavedModel

__all__ = ["LARGE_EFFECT", "SplitEffect", "data_difference", "large_effect", "measured_effects", "split_effect"]

# A warning is given if more than this fraction of a split changes that was not patched.
LARGE_EFFECT = 0.01


@dataclass(frozen=True)
class SplitEffect:
    """The effect of patches on a split: number of changed predictions, and accuracy before and after.

    `changed_others` leaves out the inputs that were patched.
    """

    n: int
    changed: int
    changed_others: int
    accuracy_before: float
    accuracy_after: float


def measured_effects(
    before: SavedModel, after: SavedModel, data_dir: Path | None = None, load: LoadDataset = load_dataset
) -> tuple[dict[str, SplitEffect], str]:
    """Return the effect of patches on the train and test data of the model by split, and why there is none, if so.

    Nothing is measured on other data than the model was trained on, which the SHA-256 in its provenance tells.
    """
    unmeasured = "the effect on other inputs is not measured"
    try:
        dataset = load(before.config.dataset, data_dir)
    except DatasetError as error:
        return {}, f"{unmeasured}: {error}"
    problem = data_difference(before, dataset)
    if problem:
        return {}, f"{unmeasured}: {problem}"
    splits = {name: dataset.splits[name] for name in ("train", "test")}
    return {name: split_effect(before.network, after.network, split) for name, split in splits.items()}, ""


def split_effect(before: PrototypeNetwork, after: PrototypeNetwork, split: Split) -> SplitEffect:
    """Return how the predictions on `split` differ between a network and the same with more or fewer patches."""
    old, new = before.predict(split.inputs), after.predict(split.inputs)
    changed = np.flatnonzero(old != new)
    counts = [Counter(key.tobytes() for key in network.keys.detach().cpu().numpy()) for network in (before, after)]
    patched = (counts[1] - counts[0]) + (counts[0] - counts[1])
    return SplitEffect(
        n=len(split),
        changed=len(changed),
        changed_others=sum(split.inputs[row].tobytes() not in patched for row in changed),
        accuracy_before=float((old == split.labels).mean()),
        accuracy_after=float((new == split.labels).mean()),
    )


def large_effect(before: SavedModel, after: SavedModel, effects: dict[str, SplitEffect]) -> str:
    """Return a warning if more than one prediction and 1 % of a split changed that was not patched, or an empty text.

    It names the existing key that is nearest to a new one, and its distance in scaled units.
    """
    large = {name: one for name, one in effects.items() if one.changed_others > max(1, LARGE_EFFECT * one.n)}
    keys = before.network.keys.detach().cpu().double()
    new = after.network.keys.detach().cpu().double()[len(keys) :]
    if not large or not len(new):
        return ""
    parts = [f"{effect.changed_others} of {effect.n} other {name} predictions" for name, effect in large.items()]
    distances = squared_distances(new, keys).sqrt()
    place = int(distances.argmin())
    distance, nearest = float(distances.flatten()[place]), place % len(keys)
    text = f"{' and '.join(parts)} changed; the nearest key, of prototype {nearest}, is at distance {distance:.3g}"
    hint = _hint(after, after.patches[len(before.patches) :], distance)
    return f"{text} ({hint})" if hint else text


def _hint(model: SavedModel, patches: Sequence[dict[str, Any]], distance: float) -> str:
    if model.n_outputs > 2 and any(patch.get("keep_logits") for patch in patches):
        return "without keep_logits fewer may change"
    if any(patch["criterion"] != "margin" for patch in patches):
        return "a smaller amount changes fewer"
    power, epsilon = (float(model.network.parameters_of_method[name]) for name in ("power", "epsilon"))
    radius = epsilon ** (1 / power)
    return f"within about {radius:.3g} of a key a patch outweighs it" if distance < CONFLICT_DISTANCE * radius else ""


def data_difference(model: SavedModel, dataset: Dataset) -> str:
    """Return how the data differs from what the model was trained on, or an empty text."""
    name = model.config.dataset_label
    expected, found = model.provenance.get("data_sha256"), dataset.sha256
    if not isinstance(expected, str):
        return f"the model file has no checksum of its data, {name}"
    if expected != found:
        return (
            f"the data {name} is not what the model was trained on "
            f"(its SHA-256 starts with {found[:12]}, that of the training data with {expected[:12]})"
        )
    if (dataset.n_features, dataset.n_outputs) != (model.n_features, model.n_outputs):
        return f"the data {name} does not fit the model"
    return ""
