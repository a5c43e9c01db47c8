"""A small run of each kind with its data, for what all kinds promise and for what one of them does."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from blob_data import make_dataset, make_regression
from case_tables import case_table
from engine_runs import train_runs
from texts import lstm_run, text_dataset, text_file, text_run

from idwbench.data.dataset import Dataset, Split
from idwbench.data.loading import load_dataset
from idwbench.runs.config import RunConfig, run_config

OF = ["mnist", "fashion_mnist"]
N_FIRST = 13  # rows of the first part of a sequence
TIMED = {"seconds_per_step", "fit_seconds", "predict_seconds"}
EXAMPLES = case_table("kinds")
PROTOCOLS = EXAMPLES["protocols"]
IDW_HEAD = {"encoder": "mlp", "width": 6, "head": "idw", "prototypes": 5}
LOOKUP = {"name": "lookup", "items": 8, "dimensions": 6, "queries": 64, "noise": 0.1}
LEARNED = {"projections": "linear", "epochs": 25, "batch_size": 16, "learning_rate": 0.02}


def prototypes_run(dataset, method="idw", **settings):
    base = {"epochs": 3, "batch_size": 4, "prototypes": 6, "seed": 3, "learning_rate": 0.01}
    return run_config(dataset.config, method=method, **{**base, **settings})


@cache
def images():
    """Classes of images with so much noise that some test inputs are wrong."""
    data = replace(make_dataset(n_features=24, validation=True), image_shape=(4, 6))
    generator = np.random.default_rng(1)

    def noisy(split):
        return replace(split, inputs=(split.inputs + 6 * generator.normal(size=split.inputs.shape)).astype(np.float32))

    return replace(data, **{name: noisy(data.splits[name]) for name in ("train", "test", "holdout", "validation")})


def network_run(data=None, **settings):
    protocol = {"epochs": 3, "batch_size": 8, "learning_rate": 0.02}
    return run_config((data or images()).config, kind="network", **{**protocol, **settings})


def two_parts(*, parts=True):
    """Return noisy classes with positive inputs; the first 13 training rows are of the first part."""
    made = make_dataset(n_train=29, n_features=5, constant_feature=False, validation=True)
    generator = np.random.default_rng(1)

    def split(old, n_first):
        inputs = np.abs(old.inputs + 2 * generator.normal(size=old.inputs.shape)).astype(np.float32)
        tasks = (np.arange(len(old)) >= n_first).astype(np.int64) if parts else None
        return Split(inputs, old.targets, tasks)

    return replace(made, **{name: split(old, N_FIRST if name == "train" else 5) for name, old in made.splits.items()})


def mlp_run(name="sequence", **settings):
    protocol = {"epochs": 2, "batch_size": 4, "learning_rate": 0.05, "momentum": 0.9, "gradient_clip": 1.0}
    chosen = {**protocol, "optimizer": "sgd", "schedule": "constant", "width": 6, **settings}
    return run_config({"name": name, "of": OF} if name in ("joint", "sequence") else name, kind="mlp", **chosen)


def table_run(seed=0, data=(), **settings):
    similarity = {} if settings.get("weighting") == "exact_match" else {"similarity": "inner_product"}
    return run_config({**LOOKUP, **dict(data)}, kind="hash_table", seed=seed, **{**similarity, **settings})


class Example(NamedTuple):
    """A run and its data; and the engine of its prototypes."""

    load: Callable[[Path], tuple[RunConfig, Dataset]]
    engine: str = "auto"

    def train(self, folder, *configs, **options):
        own, dataset = self.load(folder)
        return train_runs(configs or (own,), dataset, engine=self.engine, **options)


def fit_run(**settings):
    return run_config(images().config, seed=3, **settings)


def sequences_run(**settings):
    lengths = {"name": "copying", "symbols": 3, "shortest": 2, "longest": 4, "longest_holdout": 6}
    data = {**lengths, "train_size": 38, "test_size": 9, "holdout_size": 6, "validation": 8}
    protocol = {"epochs": 3, "batch_size": 16, "learning_rate": 0.05}
    return run_config(data, kind="sequence_to_sequence", embedding=3, width=6, **protocol, **settings)


TEXTS = {"transformer": text_run, "lstm": lstm_run}
VALIDATED = partial(table_run, data={"validation": 32})
# What makes a run of the table, and its data if they are not those that it names.
MAKERS = {
    "fit": (fit_run, images),
    "network": (network_run, images),
    "network with idw": (partial(network_run, **IDW_HEAD), images),
    "network of numbers": (partial(network_run, make_regression(), **IDW_HEAD), make_regression),
    "perceptron": (mlp_run, two_parts),
    "table": (VALIDATED, None),
    "learned table": (partial(VALIDATED, **{**LEARNED, "epochs": 3}), None),
    "sequences": (sequences_run, None),
}


def _examples(part):
    """Return the examples of a part of the table by name."""

    def example(made, **settings):
        def load(folder):
            if made in TEXTS:
                return TEXTS[made](text_file(folder), epochs=3, **settings), text_dataset(text_file(folder))
            make, data = MAKERS[made]
            config = make(**settings)
            return config, load_dataset(config.dataset) if data is None else data()

        return Example(load)

    return {name: example(**row) for name, row in EXAMPLES[part].items()}


PROTOTYPES = {
    f"{name} by {engine}": Example(lambda folder, data=data: (prototypes_run(data), data), engine)
    for name, data in {"classes": make_dataset(validation=True), "numbers": make_regression()}.items()
    for engine in ("torch", "fused")
}
RESUMED, RECORDED = _examples("resumed"), _examples("recorded")
TRAINED = PROTOTYPES | _examples("tables") | RESUMED
KINDS = TRAINED | _examples("direct")
