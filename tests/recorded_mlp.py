"""A stored run of kind mlp with a recording, trained on tiny images of two parts."""

from dataclasses import replace

import numpy as np
from engine_runs import train_run

from idwbench import Results, run_config
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.runs.datasets import parse_dataset

OF = ["mnist", "fashion_mnist"]
SETTINGS = {"width": 5, "depth": 1, "batch_size": 4, "optimizer": "sgd", "schedule": "constant"}
PROTOCOL = {"epochs": 2, "learning_rate": 0.1, "momentum": 0.9, "gradient_clip": 1.0}
SCALING = Scaling(np.zeros(()), np.full((), 255.0))


def made_parts():
    """Images of 2 x 3 pixels from 0 to 1 in 3 classes; even rows are of the first part."""
    generator = np.random.default_rng(0)

    def split(n):
        labels, tasks = np.arange(n) % 3, np.arange(n) % 2
        bright = np.eye(6)[(labels + 3 * tasks) % 6]
        pixels = (150 * bright + generator.integers(0, 100, (n, 6))).astype(np.float64)
        return Split(SCALING.apply(pixels), labels.astype(np.int64), tasks.astype(np.int64))

    return Dataset(
        config=parse_dataset({"name": "sequence", "of": OF}),
        train=split(21),
        test=split(12),
        holdout=None,
        scaling=SCALING,
        image_shape=(2, 3),
        class_names=("0", "1", "2"),
        sha256="0" * 64,
    )


def load_made(config, data_dir=None):
    """Return the data, or for the name of a part its rows without tasks."""
    made = made_parts()
    if config.name == "sequence":
        return made
    part, splits = OF.index(config.name), {}
    for name, split in made.splits.items():
        rows = split.tasks == part
        splits[name] = Split(split.inputs[rows], split.targets[rows])
    return replace(made, config=config, **splits)


def recorded_config(**settings):
    dataset = {"name": "sequence", "of": OF}
    return run_config(dataset, kind="mlp", record=True, **{**SETTINGS, **PROTOCOL, **settings})


def store_recorded(db, config=None):
    """Train a run with a recording, and store both."""
    chosen, results, dataset = config or recorded_config(), Results(db), made_parts()
    result = train_run(chosen, dataset, recording_folder=results.recording_folder)
    results.finish([result], dataset.sha256)
    return chosen


def layers_of(recording, where=None, last_alone=False):
    """Return weights and biases in float64 without the slots in a mask, in all layers or in the last one."""
    layers, names = [], list(recording.layers)
    for name, memory in recording.layers.items():
        weight = memory.final.astype(np.float64)
        if where is not None and (name == names[-1] or not last_alone):
            keys = np.column_stack([memory.keys(slice(None)), np.ones(memory.slots)])[where].astype(np.float64)
            weight = weight - memory.errors(slice(None))[where].astype(np.float64).T @ keys
        layers.append(weight)
    return layers


def outputs(layers, inputs):
    for number, weight in enumerate(layers):
        inputs = np.maximum(inputs, 0) if number else inputs.astype(np.float64)
        inputs = inputs @ weight[:, :-1].T + weight[:, -1]
    return inputs
