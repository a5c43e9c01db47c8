"""The keys of a stored run with what moved them, and the attention of a recorded network of the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, IdwbenchError
from idwbench.figures.keys import keys_are_points, model_title
from idwbench.figures.runs import Model, select_runs_of_kind, stored_models
from idwbench.models.neighbours import nearest
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.dual.key_history import KeyHistory
    from idwbench.results.store import Results

__all__ = ["MovedKeys", "collect_moved_keys", "percent"]

_MOST_KEYS = {True: 10, False: 5}  # of images, and of points in the plane
_SHARE_CAPTION = (
    "share: part of the way from the initial to the learned key that is due to the gradients of one training sample, "
    "over all its visits; the shares of all samples sum to 100 %; negative shares moved the key the other way"
)
_MEMORY_CAPTION = (
    "attention: Σ (x_t·x + 1) over the visits of a training sample, for the layer's input x of the test sample nearest "
    "to the key"
)


@dataclass(frozen=True)
class MovedKeys:
    """The history of the keys of one run, and attention to the same training data.

    Attributes:
        title: The model.
        model: Its run and keys.
        dataset: Its data.
        history: The shares of the training samples.
        chosen: The keys to draw, sorted by class.
        typical: For each of them the test row nearest to it.
        network_data: The data of the recorded network, whose scaling may differ, or None.
        attention: Of its first and last layer by name, (chosen keys, training rows), to the typical test rows.
        captions: Sentences below a figure.
        left_out: One line for each kind of runs that is not drawn.
    """

    title: str
    model: Model
    dataset: Dataset
    history: KeyHistory
    chosen: tuple[int, ...]
    typical: NDArray[np.int64]
    network_data: Dataset | None
    attention: Mapping[str, NDArray[np.floating]]
    captions: tuple[str, ...]
    left_out: tuple[str, ...]


def collect_moved_keys(store: Results, runs: Sequence[StoredRun], data_dir: Path | None) -> MovedKeys:
    """Return the keys of ``idw``, or of the first method, for the lowest seed, after its training was repeated.

    Raises:
        ConfigError: no complete run, no key moved, or the inputs are neither images nor points of classes.
        TrainingError: the repeated training does not arrive at the stored keys.
    """
    from idwbench.training.replay import key_history

    selection = select_runs_of_kind(runs)
    section, left_out = selection.first()
    models, unusable = stored_models(store, selection, section)
    dataset = load_dataset(section.dataset_config, data_dir)
    if not dataset.class_names or (dataset.image_shape is None and dataset.n_features != 2):
        problem = f"the figure needs classes, and images or two features; {section.dataset} has no such inputs"
        raise ConfigError(problem, location=("figure",))
    model = next((model for model in models if model.row.model.method == "idw"), models[0])
    others = [model_title(section, other) for other in models if other is not model]
    history = key_history(store, model.run.run_key, data_dir=data_dir)
    chosen = _chosen(history, _MOST_KEYS[dataset.image_shape is not None])
    if not chosen:
        raise ConfigError("no key moved", location=("figure",))
    typical = _typical_rows(model, dataset, chosen)
    recorded, missing = _recorded_network(store, dataset, data_dir)
    attention: Mapping[str, NDArray[np.floating]] = {}
    memory = [f"recorded memories are not drawn: {missing}"]
    if recorded:
        attention = _attention(store, *recorded, dataset.scaling.invert(dataset.test.inputs[typical]))
        memory = [_MEMORY_CAPTION, _network_label(recorded[0])]
    return MovedKeys(
        title=model_title(section, model),
        model=model,
        dataset=dataset,
        history=history,
        chosen=tuple(chosen),
        typical=typical,
        network_data=recorded[1] if recorded else None,
        attention=attention,
        captions=(_SHARE_CAPTION, _summary(history, dataset), *memory, section.title),
        left_out=(*left_out, *unusable, *([f"not drawn: {'; '.join(others)}"] if others else [])),
    )


def percent(share: float) -> str:
    """Return ``+4.3 %`` or ``−0.02 %``."""
    number = f"{100 * share:+.1f}" if abs(share) >= 1e-3 else f"{100 * share:+.1g}"
    return f"{number} %".replace("-", "−")


def _chosen(history: KeyHistory, most: int) -> list[int]:
    """Return for each class the key that moved farthest, and then others, in the order of classes."""
    farthest = [int(key) for key in np.argsort(-history.distance, kind="stable") if history.distance[key] > 0]
    first = list({int(history.classes[key]): key for key in reversed(farthest)}.values())
    others = [key for key in farthest if key not in first]
    chosen = [*sorted(first, key=farthest.index), *others][:most]
    return sorted(chosen, key=lambda key: (history.classes[key], key))


def _typical_rows(model: Model, dataset: Dataset, chosen: Sequence[int]) -> NDArray[np.int64]:
    """Return the test row nearest to each key, or with the largest product with a key that is a direction."""
    if keys_are_points(model):
        return nearest(model.keys[chosen], dataset.test.inputs)[0]
    return np.asarray((dataset.test.inputs @ model.keys[chosen].T).argmax(0), np.int64)


def _recorded_network(
    results: Results, dataset: Dataset, data_dir: Path | None
) -> tuple[tuple[StoredRun, Dataset] | None, str]:
    """Return the recorded network of the lowest seed on the same data set, or None and what is missing, in one line."""
    from idwbench.dual.recording import open_recording

    name, problem = dataset.config.name, ""
    complete = results.find_runs(states=["complete"])
    runs = [run for run in complete if run.config.model.kind == "mlp" and run.config.dataset.name == name]
    for run in sorted(runs, key=lambda run: run.config.seed):
        try:
            open_recording(results, run)
            own = dataset if run.config.dataset == dataset.config else load_dataset(run.config.dataset, data_dir)
        except IdwbenchError as error:
            problem = problem or str(error)
            continue
        if own.class_names == dataset.class_names and own.n_features == dataset.n_features:
            return (run, own), ""
    return None, problem or f"the database has no run of kind 'mlp' with record: true on {name}"


def _attention(
    results: Results, run: StoredRun, dataset: Dataset, queries: NDArray[np.floating]
) -> dict[str, NDArray[np.floating]]:
    """Return the total attention (n, training rows) of the first and last layer to queries in the data's own units."""
    import torch

    from idwbench.dual.attribution import row_attention
    from idwbench.dual.recording import open_recording
    from idwbench.models.perceptron import load_mlp

    recording = open_recording(results, run)
    network = load_mlp(results, run.run_key)
    with torch.no_grad():
        inputs, _ = network.layer_inputs(torch.from_numpy(dataset.scaling.apply(queries)))
    layers = dict(zip(network.layer_names, inputs, strict=True))
    return {
        name: row_attention(recording.layers[name], recording.rows, len(dataset.train), layers[name].numpy())
        for name in dict.fromkeys((network.layer_names[0], network.layer_names[-1]))
    }


def _network_label(run: StoredRun) -> str:
    accuracy = run.metric("accuracy") or 0.0
    protocol = f"{run.config.protocol.optimizer}, {run.config.protocol.epochs} epochs"
    return f"{run.config.model.label} · {protocol} · seed {run.config.seed} · test accuracy {100 * accuracy:.2f} %"


def _summary(history: KeyHistory, dataset: Dataset) -> str:
    """Return how many samples make up half of a movement, and the share of each key's own class, over all keys."""
    halves = [int(n) for n in history.n_for() if n > 0]
    own = history.own_class_shares()[0].sum(0)[history.distance > 0]
    words = [f"medians of all {len(history.keys)} keys: samples of the own class {100 * np.median(own):.0f} %"]
    if np.abs(history.initial_share).max() > 0:
        words.append(f"weight decay {100 * np.median(history.initial_share):.0f} %")
    if halves:
        words.append(f"the {np.median(halves):g} largest shares of {len(dataset.train):,} sum to half of the movement")
    return ", ".join(words).replace("-", "−")
