"""A stored run of kind mlp with a recording, trained on tiny images of two parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from engine_runs import train_run

from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import DatasetConfig, parse_dataset

OF = ["mnist", "fashion_mnist"]
SEQUENCE = {"name": "sequence", "of": OF}
SETTINGS = {"width": 5, "depth": 1, "batch_size": 4, "optimizer": "sgd", "schedule": "constant"}
PROTOCOL = {"epochs": 2, "learning_rate": 0.1, "momentum": 0.9, "gradient_clip": 1.0}

SCALING = Scaling(np.zeros(()), np.full((), 255.0))


def made_parts(dataset: object = SEQUENCE) -> Dataset:
    """Images of 2 x 3 pixels from 0 to 1 in 3 classes; even rows are of the first part."""
    generator = np.random.default_rng(0)

    def split(n: int) -> Split:
        labels, tasks = np.arange(n) % 3, np.arange(n) % 2
        bright = np.eye(6)[(labels + 3 * tasks) % 6]
        pixels = (150 * bright + generator.integers(0, 100, (n, 6))).astype(np.float64)
        inputs = SCALING.apply(pixels)
        return Split(inputs, labels.astype(np.int64), tasks.astype(np.int64))

    config = parse_dataset(dataset)
    made = Dataset(
        config=config,
        train=split(21),
        test=split(12),
        holdout=None,
        scaling=SCALING,
        image_shape=(2, 3),
        class_names=("0", "1", "2"),
        sha256="0" * 64,
    )
    return made if config.name == "sequence" else replace(made, **_splits(made, None))


def load_made(config: DatasetConfig, data_dir: Path | None = None) -> Dataset:
    """Return the data, or for the name of a part its rows."""
    made = made_parts()
    if config.name == "sequence":
        return made
    return replace(made, config=config, **_splits(made, OF.index(config.name)))


def _splits(made: Dataset, part: int | None) -> dict[str, Split]:
    """Return the splits of one part, or of all, without tasks."""
    found = {}
    for name, split in made.splits.items():
        rows = slice(None) if part is None or split.tasks is None else np.flatnonzero(split.tasks == part)
        found[name] = Split(np.ascontiguousarray(split.inputs[rows]), np.ascontiguousarray(split.targets[rows]))
    return found


def recorded_config(dataset: object = SEQUENCE, **settings: object) -> RunConfig:
    return run_config(dataset, kind="mlp", record=True, **{**SETTINGS, **PROTOCOL, **settings})


def store_recorded(db: Path, config: RunConfig | None = None) -> RunConfig:
    """Train a run with a recording, and store both."""
    chosen, results = config or recorded_config(), Results(db)
    dataset = load_made(chosen.dataset)
    result = train_run(chosen, dataset, recording_folder=results.recording_folder)
    results.finish([result], dataset.sha256)
    return chosen
