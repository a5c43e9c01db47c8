"""Data sets without files: drawn by one table of generators, tables that scikit-learn ships, and pairs for lookup.

Most generators are scikit-learn's, which is imported when needed. A lookup has n items: keys k_i ~ N(mean, 1) and
values v_i ~ N(0, 1), each of `dimensions` independent numbers. A query for item i is q = k_i + noise · z with
z ~ N(0, 1). An answer is right when v_i is the nearest of the stored values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import HOLDOUT_STREAM, RawData, RawSplit, ScalingChoice, random_stream, split_rows
from idwbench.runs.datasets import (
    BlobsConfig,
    CirclesConfig,
    DatasetConfig,
    Friedman1Config,
    GaussianQuantilesConfig,
    HypercubeConfig,
    LookupConfig,
    SineConfig,
    TableConfig,
    TwoMoonsConfig,
)

__all__ = [
    "GENERATORS",
    "TABLES",
    "Generator",
    "LookupTable",
    "Queries",
    "QuerySplit",
    "draw_queries",
    "draw_table",
    "draw_two_moons",
    "drawn_numbers",
    "load_lookup",
    "load_synthetic",
    "load_table",
    "lookup_stream",
]


class Generator(NamedTuple):
    """How a data set is drawn.

    Attributes:
        draw: Returns rows for the settings, a size (of each class, where the settings have such sizes) and a generator.
        numbers: How many numbers each unit of the size needs: features and target of a row; None for as many features
            as the settings have.
        class_names: Names of the classes; empty for their numbers, or for a regression.
        scaling: Scaling of the inputs.
        draws_once: Whether classes depend on the whole sample, so that all splits are drawn as one.
    """

    draw: Callable[[Any, int, np.random.RandomState], RawSplit]
    numbers: int | None
    class_names: tuple[str, ...] = ()
    scaling: ScalingChoice = Scaling.identity()
    draws_once: bool = False


def load_synthetic(config: DatasetConfig, folder: Path) -> RawData:
    """Return train and test, drawn in this order from one generator, and the holdout from a separate one.

    The holdout does not depend on the sizes of train and test; that of a regression is without noise. Splits of a
    sample that is drawn as one are its rows in order.
    """
    generator, (n_train, n_test, n_holdout) = GENERATORS[config.name], _sizes(config).values()
    random = np.random.RandomState(config.seed)
    holdout = None
    if generator.draws_once:
        whole = generator.draw(config, n_train + n_test + n_holdout, random)
        bounds = np.cumsum([n_train, n_test])
        train, test, rest = (whole.rows(rows) for rows in np.split(np.arange(len(whole.targets)), bounds))
        holdout = rest if n_holdout else None
    else:
        train, test = generator.draw(config, n_train, random), generator.draw(config, n_test, random)
        if n_holdout:
            clean = config.model_copy(update={"noise": 0.0}) if config.task == "regression" else config
            holdout = generator.draw(clean, n_holdout, random_stream(config.seed, HOLDOUT_STREAM))
    names = generator.class_names or tuple(map(str, range(getattr(config, "classes", 0))))
    return RawData(train, test, holdout, class_names=names, scaling=generator.scaling)


def drawn_numbers(config: DatasetConfig) -> dict[str, int]:
    """Return how many numbers are drawn because of each setting of a size."""
    numbers = GENERATORS[config.name].numbers or getattr(config, "features", 0) + 1
    return {name: numbers * size for name, size in _sizes(config).items()}


def _sizes(config: DatasetConfig) -> dict[str, int]:
    """Return the settings with the sizes of train, test and holdout."""
    return {name: size for name, size in config if name.startswith(("train_", "test_", "holdout_"))}


def draw_two_moons(config: TwoMoonsConfig, per_class: int, random: np.random.RandomState) -> RawSplit:
    """Return the points of ``sklearn.datasets.make_moons``, not shuffled, without importing scikit-learn."""
    angles = np.linspace(0, np.pi, per_class)
    upper = np.column_stack([np.cos(angles), np.sin(angles)])
    lower = np.column_stack([1 - np.cos(angles), 1 - np.sin(angles) - 0.5])
    points = np.concatenate([upper, lower])
    points += random.normal(scale=config.noise, size=points.shape)
    return RawSplit(points, np.repeat([0, 1], per_class))


def _draw_circles(config: CirclesConfig, size: int, random: np.random.RandomState) -> RawSplit:
    from sklearn.datasets import make_circles

    return RawSplit(*make_circles(size, noise=config.noise, factor=config.factor, random_state=random))


def _draw_blobs(config: BlobsConfig, size: int, random: np.random.RandomState) -> RawSplit:
    """Return points around centres that are uniform in [−10, 10] and belong to the seed."""
    from sklearn.datasets import make_blobs

    centres = np.random.RandomState(config.seed).uniform(-10, 10, (config.classes, config.features))
    inputs, labels, *_ = make_blobs(size, centers=centres, cluster_std=config.spread, random_state=random)
    return RawSplit(inputs, labels)


def _draw_hypercube(config: HypercubeConfig, size: int, random: np.random.RandomState) -> RawSplit:
    """Return two clusters for each class; the vertices of the classes belong to the sample."""
    from sklearn.datasets import make_classification

    inputs, labels = make_classification(
        size,
        n_features=config.features,
        n_informative=config.informative,
        n_redundant=0,
        n_classes=config.classes,
        flip_y=config.flipped,
        random_state=random,
    )
    return RawSplit(inputs, labels)


def _draw_gaussian_quantiles(config: GaussianQuantilesConfig, size: int, random: np.random.RandomState) -> RawSplit:
    """Return normal points; the bounds between the classes are quantiles of the sample."""
    from sklearn.datasets import make_gaussian_quantiles

    inputs, labels = make_gaussian_quantiles(
        n_samples=size, n_features=config.features, n_classes=config.classes, random_state=random
    )
    return RawSplit(inputs, labels)


def _draw_hastie_10_2(config: DatasetConfig, size: int, random: np.random.RandomState) -> RawSplit:
    """Return ten normal features; the class ``outer`` has Σ x² > 9.34, the median."""
    from sklearn.datasets import make_hastie_10_2

    inputs, signs = make_hastie_10_2(size, random_state=random)
    return RawSplit(inputs, (signs > 0).astype(np.int64))


def _draw_sine(config: SineConfig, size: int, random: np.random.RandomState) -> RawSplit:
    """Return x uniform in [−π, π] and y = sin x + noise · N(0, 1)."""
    inputs = random.uniform(-np.pi, np.pi, (size, 1))
    return RawSplit(inputs, np.sin(inputs) + config.noise * random.normal(size=(size, 1)))


def _draw_friedman1(config: Friedman1Config, size: int, random: np.random.RandomState) -> RawSplit:
    """Return y = 10 sin(π x₁ x₂) + 20 (x₃ − ½)² + 10 x₄ + 5 x₅ + noise · N(0, 1) (Friedman 1991)."""
    from sklearn.datasets import make_friedman1

    inputs, targets = make_friedman1(size, n_features=10, noise=config.noise, random_state=random)
    return RawSplit(inputs, targets[:, np.newaxis])


GENERATORS = {
    "two_moons": Generator(draw_two_moons, 6, ("upper", "lower")),
    "circles": Generator(_draw_circles, 3, ("outer", "inner")),
    "blobs": Generator(_draw_blobs, None, scaling="features"),
    "hypercube": Generator(_draw_hypercube, None, scaling="features", draws_once=True),
    "gaussian_quantiles": Generator(_draw_gaussian_quantiles, None, draws_once=True),
    "hastie_10_2": Generator(_draw_hastie_10_2, 11, ("inner", "outer")),
    "sine": Generator(_draw_sine, 2),
    "friedman1": Generator(_draw_friedman1, 11, scaling="features"),
}


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
    names: tuple[QuerySplit, ...] = ("test", "validation") if config.validation else ("test",)
    named = {split: draw_queries(config, 0, table, split) for split in names}
    splits = {name: RawSplit(queries.inputs, table.values[queries.items]) for name, queries in named.items()}
    stored = RawSplit(table.keys, table.values)
    return RawData(
        stored,
        splits["test"],
        holdout=stored,
        validation=splits.get("validation"),
        target_scaling=Scaling.identity(),
    )


# Options of the function ``sklearn.datasets.load_name`` that returns the table.
TABLES: dict[str, Mapping[str, Any]] = {
    "iris": {},
    "wine": {},
    "breast_cancer": {},
    "digits": {},
    "diabetes": {"scaled": False},
}


def load_table(config: TableConfig, folder: Path) -> RawData:
    """Return a table in its original units, split by class, or at random if it is a regression.

    Each feature is standardised, since features have units; images by one mean and standard deviation over all pixels.
    """
    from sklearn import datasets

    table = getattr(datasets, f"load_{config.name}")(**TABLES[config.name])
    image_shape = table.images.shape[1:] if "images" in table else None
    if config.task == "classification":
        whole = RawSplit(np.asarray(table.data, np.float64), np.asarray(table.target, np.int64))
        classes, class_names = whole.targets, tuple(map(str, table.target_names))
    else:
        whole = RawSplit(np.asarray(table.data, np.float64), np.asarray(table.target, np.float64)[:, np.newaxis])
        classes, class_names = np.zeros(len(whole.targets)), ()
    train, test = split_rows(classes, config.test_fraction, np.random.RandomState(config.seed))
    return RawData(
        whole.rows(train),
        whole.rows(test),
        class_names=class_names,
        image_shape=image_shape,
        scaling="pixels" if image_shape else "features",
    )
