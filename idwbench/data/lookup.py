"""Random key-value pairs, and noisy queries for them.

A table has n items: keys k_i ~ N(mean, 1) and values v_i ~ N(0, 1), each of `dimensions` independent numbers. A query
for item i is q = k_i + noise · z with z ~ N(0, 1). An answer is right when v_i is the nearest of the stored values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import RawData, RawSplit
from idwbench.runs.datasets import LookupConfig

__all__ = ["LookupTable", "Queries", "QuerySplit", "draw_queries", "draw_table", "load_lookup", "lookup_stream"]

QuerySplit = Literal["test", "validation", "holdout"]
# Each part has a stream of its own, so that the size of one does not change another.
_STREAMS = ("table", "test", "validation", "holdout_table", "holdout", "training", "projections")


@dataclass(frozen=True)
class LookupTable:
    """Keys (items, dimensions) and values (items, dimensions), float32."""

    keys: NDArray[np.float32]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class Queries:
    """Queries (queries, dimensions), float32, and the items (queries,) that they ask for."""

    inputs: NDArray[np.float32]
    items: NDArray[np.int64]


def lookup_stream(config: LookupConfig, seed: int, name: str) -> np.random.Generator:
    """Return the generator of one part of a table: ``table``, ``test``, ``training``, …."""
    return np.random.default_rng([seed, config.seed, _STREAMS.index(name)])


def draw_table(config: LookupConfig, seed: int, *, holdout: bool = False) -> LookupTable:
    """Return the table of a seed; a table with more items begins with the items of a smaller one.

    The holdout is a second table with the same settings.
    """
    generator = lookup_stream(config, seed, "holdout_table" if holdout else "table")
    pairs = generator.standard_normal((config.items, 2, config.dimensions))
    pairs[:, 0] += config.mean
    keys, values = (np.ascontiguousarray(pairs[:, part], np.float32) for part in (0, 1))
    return LookupTable(keys, values)


def draw_queries(config: LookupConfig, seed: int, table: LookupTable, split: QuerySplit = "test") -> Queries:
    """Return noisy queries for the items in turn: query i asks for item i modulo the number of items."""
    number = config.validation if split == "validation" else config.queries
    noise = lookup_stream(config, seed, split).standard_normal((int(number), config.dimensions))
    items = np.arange(int(number)) % config.items
    return Queries((table.keys[items] + config.noise * noise).astype(np.float32), items)


def load_lookup(config: LookupConfig, folder: Path) -> RawData:
    """Return the table of seed 0 as a regression: keys and values are the training data, queries the other splits.

    Inputs and targets are not scaled. The holdout has the keys themselves as queries.
    """
    table = draw_table(config, 0)
    named = {split: draw_queries(config, 0, table, split) for split in _splits(config)}
    splits = {name: RawSplit(queries.inputs, table.values[queries.items]) for name, queries in named.items()}
    stored = RawSplit(table.keys, table.values)
    return RawData(
        stored,
        splits["test"],
        holdout=stored,
        validation=splits.get("validation"),
        target_scaling=Scaling.identity(),
    )


def _splits(config: LookupConfig) -> tuple[QuerySplit, ...]:
    return ("test", "validation") if config.validation else ("test",)
