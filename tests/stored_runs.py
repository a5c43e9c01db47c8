"""Runs with chosen results, without training: as an engine returns them, and as the database does."""

import sqlite3
from contextlib import closing
from typing import Any

import numpy as np

from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config
from idwbench.runs.metrics import HEADLINES
from idwbench.runs.results import Curve, RunResult


def query(db, text, *values):
    """Execute one statement on an SQLite file, and return its rows."""
    with closing(sqlite3.connect(db, timeout=60)) as connection, connection:
        return connection.execute(text, values).fetchall()


def run_result(config, **facts):
    """Return the result of a run, by default a complete one without curve and arrays; a diverged one has no metrics."""
    result = {"state": "complete", "curve": (), "metrics": {("test", "accuracy"): 0.5}, "arrays": {}}
    cost = {"n_parameters": 12, "diverged_epoch": None, "seconds": 0.5}
    machine = {"engine": "torch", "device": "cpu", "threads": 1, "instruction_set": "AVX2"}
    values: dict[str, Any] = {**result, **cost, **machine}
    if facts.get("state") == "diverged":
        values |= {"metrics": {}, "n_parameters": None, "diverged_epoch": 2}
    return RunResult(config, **(values | facts))


def trained_result(config, *, shape=(2, 2), train=0.99, test=0.975, holdout=0.995, **facts):
    """Return a result with a curve up to the accuracy on test, and random arrays of so many features and classes."""
    numbers = np.random.default_rng(config.seed).normal(size=(config.model.prototypes, sum(shape))).astype(np.float32)
    keys, values = np.split(numbers, [shape[0]], axis=1)
    names = ("train", "learning_rate"), ("train", "loss"), ("test", "accuracy")
    shares = np.arange(1, config.protocol.epochs + 1) / config.protocol.epochs
    accuracies = {"train": train, "test": test, "holdout": holdout}
    made = {
        "curve": Curve(names, np.stack([0.01 - 0.009 * shares, 1 / shares, test * shares], 1).ravel().tolist()),
        "metrics": {(split, "accuracy"): value for split, value in accuracies.items() if value is not None},
        "arrays": {"keys": keys, "values": values},
        "n_parameters": numbers.size,
    }
    return run_result(config, **(made | facts))


def stored_run(
    test=0.9,
    *,
    config=None,
    dataset="mnist",
    seed=0,
    state="complete",
    train=0.95,
    holdout=None,
    validation=None,
    metrics=None,
    n_parameters=15_880,
    **settings,
):
    """Return a run with its headline metric by split, and other metrics; None means that it has no such metric."""
    if config is None:
        counts = {} if settings.get("kind", "prototypes") not in ("prototypes", "baseline") else {"prototypes": 20}
        config = run_config(dataset, seed=seed, **{**counts, **settings})
    name = HEADLINES[config.dataset.task].name
    values = {"test": test, "holdout": holdout, "train": train, "validation": validation}
    headline = {(split, name): value for split, value in values.items() if value is not None}
    complete = state == "complete"
    return StoredRun(
        run_key=config.run_key,
        config=config,
        dataset=config.dataset_label,
        state=state,  # type: ignore[arg-type]
        metrics={**headline, **(metrics or {})} if complete else {},
        n_parameters=n_parameters if complete else None,
        diverged_epoch=3 if state == "diverged" else None,
    )


def columns(*tables):
    """Return the texts of all columns of tables by name."""
    return {column.name: column.texts for table in tables for column in table.columns}
