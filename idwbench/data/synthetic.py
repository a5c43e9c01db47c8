"""Data sets that are drawn: one table of generators, most of them scikit-learn's, which is imported when needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import HOLDOUT_STREAM, RawData, RawSplit, ScalingChoice, random_stream
from idwbench.runs.datasets import (
    BlobsConfig,
    CirclesConfig,
    DatasetConfig,
    Friedman1Config,
    GaussianQuantilesConfig,
    HypercubeConfig,
    SineConfig,
    TwoMoonsConfig,
)

__all__ = ["GENERATORS", "Generator", "draw_two_moons", "drawn_numbers", "load_synthetic"]


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
