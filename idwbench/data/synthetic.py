"""Data sets without files: drawn by one table of generators, tables that scikit-learn ships, and pairs for lookup.

Most generators are scikit-learn's, which is imported when needed. A lookup has n items: keys k_i ~ N(mean, std²) and
values v_i ~ N(0, 1), each of `dimensions` independent numbers. A query for item i is q = k_i + noise · z with
z ~ N(0, 1). An answer is right when v_i is the nearest of the stored values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.data.columns import Columns
from idwbench.data.dataset import Scaling
from idwbench.data.preparation import HOLDOUT_STREAM, RawData, RawSplit, ScalingChoice, random_stream
from idwbench.runs.dataset_base import DatasetConfig, TableConfig
from idwbench.runs.datasets import LookupConfig, SineConfig, TwoMoonsConfig

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


Draw = Callable[[Any, int, np.random.RandomState], RawSplit]


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

    draw: Draw
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


def _draw_sine(config: SineConfig, size: int, random: np.random.RandomState) -> RawSplit:
    """Return x uniform in [−π, π] and y = sin x + noise · N(0, 1)."""
    inputs = random.uniform(-np.pi, np.pi, (size, 1))
    return RawSplit(inputs, np.sin(inputs) + config.noise * random.normal(size=(size, 1)))


def _drawn_by(function: str, options: Callable[[Any], dict[str, Any]]) -> Draw:
    """Return what draws by a function of ``sklearn.datasets``; `options` are its arguments for the settings."""

    def draw(config: DatasetConfig, size: int, random: np.random.RandomState) -> RawSplit:
        from sklearn import datasets

        inputs, targets, *_ = getattr(datasets, function)(n_samples=size, random_state=random, **options(config))
        # Hastie's classes are −1 and 1.
        return RawSplit(inputs, targets[:, np.newaxis] if config.task == "regression" else np.maximum(targets, 0))

    return draw


GENERATORS = {
    "two_moons": Generator(draw_two_moons, 6, ("upper", "lower")),
    "circles": Generator(
        _drawn_by("make_circles", lambda config: {"noise": config.noise, "factor": config.factor}),
        3,
        ("outer", "inner"),
    ),
    "blobs": Generator(  # around centres that are uniform in [−10, 10] and belong to the seed
        _drawn_by(
            "make_blobs",
            lambda config: {
                "centers": np.random.RandomState(config.seed).uniform(-10, 10, (config.classes, config.features)),
                "cluster_std": config.spread,
            },
        ),
        None,
        scaling="features",
    ),
    "hypercube": Generator(  # the vertices of the classes belong to the sample
        _drawn_by(
            "make_classification",
            lambda config: {
                "n_features": config.features,
                "n_informative": config.informative,
                "n_redundant": 0,
                "n_classes": config.classes,
                "flip_y": config.flipped,
            },
        ),
        None,
        scaling="features",
        draws_once=True,
    ),
    "gaussian_quantiles": Generator(  # the bounds between the classes are quantiles of the sample
        _drawn_by(
            "make_gaussian_quantiles", lambda config: {"n_features": config.features, "n_classes": config.classes}
        ),
        None,
        draws_once=True,
    ),
    # The class ``outer`` has Σ x² > 9.34, the median.
    "hastie_10_2": Generator(_drawn_by("make_hastie_10_2", lambda config: {}), 11, ("inner", "outer")),
    "sine": Generator(_draw_sine, 2),
    # y = 10 sin(π x₁ x₂) + 20 (x₃ − ½)² + 10 x₄ + 5 x₅ + noise · N(0, 1) (Friedman 1991).
    "friedman1": Generator(
        _drawn_by("make_friedman1", lambda config: {"n_features": 10, "noise": config.noise}), 11, scaling="features"
    ),
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
    pairs[:, 0] = config.mean + config.std * pairs[:, 0]
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


TABLES = ("iris", "wine", "breast_cancer", "digits", "diabetes")


def load_table(config: TableConfig, folder: Path) -> RawData:
    """Return a table in its original units, split by class, or at random if it is a regression.

    Each feature is standardised, since features have units; images by one mean and standard deviation over all pixels.
    """
    from sklearn import datasets

    table = getattr(datasets, f"load_{config.name}")(**({"scaled": False} if config.name == "diabetes" else {}))
    image_shape = table.images.shape[1:] if "images" in table else None
    is_regression = config.task == "regression"
    whole = RawSplit(table.data, table.target[:, np.newaxis] if is_regression else table.target)
    train, test = whole.split(config.test_fraction, np.random.RandomState(config.seed))
    return RawData(
        train,
        test,
        class_names=() if is_regression else tuple(map(str, table.target_names)),
        image_shape=image_shape,
        scaling="pixels" if image_shape else "features",
        columns=None if image_shape else Columns.of_numbers(table.feature_names),
    )
