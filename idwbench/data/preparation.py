"""From arrays in the data's own units to a `Dataset`: stratified splits, validation rows, scaling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.data.columns import Columns
from idwbench.data.dataset import Dataset, Scaling, Split, array_sha256
from idwbench.errors import DatasetError
from idwbench.runs.dataset_base import CorruptibleConfig, DatasetConfig, LanguageConfig
from idwbench.runs.datasets import ImageConfig, PartsConfig

__all__ = [
    "HOLDOUT_STREAM",
    "RawData",
    "RawSplit",
    "ScalingChoice",
    "prepare",
    "random_stream",
    "split_off_validation",
    "split_rows",
]

HOLDOUT_STREAM, VALIDATION_STREAM, _CORRUPTION_STREAM = 1, 2, 3

ScalingChoice = Scaling | Literal["features", "pixels"]
Rows = NDArray[np.int64]


class RawSplit(NamedTuple):
    """Inputs (n, features) and targets in their own units: labels (n,) from 0, or numbers (n, outputs).

    `tasks` are the numbers (n,) of the parts that rows come from; None for data without parts. `characters` are the
    characters of each label (n,) in a text of words, see `Split`; None for other data.
    """

    inputs: NDArray[np.generic]
    targets: NDArray[np.generic]
    tasks: NDArray[np.int64] | None = None
    characters: NDArray[np.int64] | None = None

    def rows(self, rows: NDArray[np.int64]) -> RawSplit:
        """Return the split of some rows."""
        tasks, characters = (None if part is None else part[rows] for part in (self.tasks, self.characters))
        return RawSplit(self.inputs[rows], self.targets[rows], tasks, characters)

    @property
    def classes(self) -> NDArray[np.generic]:
        """The labels (n,), or one class for all rows of a regression."""
        return self.targets if self.targets.ndim == 1 else np.zeros(len(self.targets))

    def split(self, size: int | float, random: np.random.RandomState) -> tuple[RawSplit, RawSplit]:
        """Return the rows that remain and those that are split off, as `split_rows` chooses them."""
        rest, apart = split_rows(self.classes, size, random)
        return self.rows(rest), self.rows(apart)


@dataclass(frozen=True)
class RawData:
    """The result of a loader: a data set without scaling.

    Attributes:
        scaling: Constants, or standardisation for each of the ``features`` or by one mean and one standard deviation
            over all ``pixels``.
        sha256: Checksum of the files that were read; None for that of the scaled arrays.
        validation: Validation data that is not split off the training data, or None.
        target_scaling: Scaling of the targets of a regression; None for standardisation.
        columns: Those of a table, whose rows are codes (n, columns), see `idwbench.data.columns`; None for other data.
    """

    train: RawSplit
    test: RawSplit
    holdout: RawSplit | None = None
    class_names: tuple[str, ...] = ()
    image_shape: tuple[int, int] | None = None
    scaling: ScalingChoice = field(default_factory=Scaling.identity)
    sha256: str | None = None
    validation: RawSplit | None = None
    target_scaling: Scaling | None = None
    columns: Columns | None = None


def prepare(config: DatasetConfig, raw: RawData) -> Dataset:
    """Return a data set: validation rows are split off, training rows corrupted or shifted, and numbers scaled.

    Means and standard deviations, and what stands for missing values, are those of the remaining training rows.

    Raises:
        DatasetError: too many validation rows, or a scaled value is too large for float32.
    """
    train, validation = split_off_validation(config, raw)
    train = _corrupted(config, train, len(raw.class_names))
    if isinstance(config, ImageConfig) and config.shifts and raw.image_shape is not None:
        train = _with_shifted(train, config.shifts, raw.image_shape)
    named = {"train": train, "validation": validation, "test": raw.test, "holdout": raw.holdout}
    parts = {name: split for name, split in named.items() if split is not None}
    columns = raw.columns
    if columns is not None:
        columns = columns.fitted(train.inputs)
        parts = {name: part._replace(inputs=columns.encode(part.inputs)) for name, part in parts.items()}
    scaling = raw.scaling
    if not isinstance(scaling, Scaling):
        scaling = _standard(parts["train"].inputs, whole=scaling == "pixels")
        if columns is not None and columns.is_category.any():
            is_number = ~columns.is_category
            scaling = Scaling(scaling.mean * is_number, np.where(is_number, scaling.std, 1.0))
    target_scaling = Scaling.identity() if raw.class_names else raw.target_scaling or _standard(train.targets)
    splits = {
        name: _scaled_split(name, split, scaling, None if raw.class_names else target_scaling)
        for name, split in parts.items()
    }
    return Dataset(
        config=config,
        train=splits["train"],
        test=splits["test"],
        holdout=splits.get("holdout"),
        scaling=scaling,
        image_shape=raw.image_shape,
        class_names=raw.class_names,
        sha256=raw.sha256 or array_sha256(*(array for split in splits.values() for array in split.arrays)),
        validation=splits.get("validation"),
        target_scaling=target_scaling,
        columns=columns,
    )


def split_off_validation(config: DatasetConfig, raw: RawData) -> tuple[RawSplit, RawSplit | None]:
    """Return the training rows that remain and those for validation, by the seed of the data and stratified by class.

    A text, and data of several parts, is already split.

    Raises:
        DatasetError: too many validation rows.
    """
    size = config.validation
    if isinstance(config, LanguageConfig | PartsConfig) or raw.validation is not None or not size:
        return raw.train, raw.validation
    classes = raw.train.classes
    spare = len(classes) - len(np.unique(classes))
    if spare == 0 or size > spare:
        each = " of each class" if raw.class_names else ""
        raise DatasetError(
            f"expected at most {spare} rows, as one{each} of the {len(classes)} training rows must stay, got {size}",
            location=("validation",),
        )
    return raw.train.split(size, random_stream(config.seed, VALIDATION_STREAM))


def _corrupted(config: DatasetConfig, train: RawSplit, n_classes: int) -> RawSplit:
    """Return the training rows with the label noise and the outliers of the settings, chosen by the seed of the data.

    A noisy label is that of another class, each as likely. The inputs of an outlier are uniform in the box that has the
    centre of the training data and three times their range; its label stays.
    """
    if not isinstance(config, CorruptibleConfig) or not (config.label_noise or config.outliers):
        return train
    random, inputs = random_stream(config.seed, _CORRUPTION_STREAM), train.inputs
    labels = train.targets.astype(np.int64)  # a copy
    order = random.permutation(len(labels)), random.permutation(len(labels))
    noisy, far = (
        rows[: round(share * len(labels))]
        for rows, share in zip(order, (config.label_noise, config.outliers), strict=True)
    )
    labels[noisy] = (labels[noisy] + random.randint(1, n_classes, len(noisy))) % n_classes
    if len(far):
        low, high = (bound.astype(np.float64) for bound in (inputs.min(0), inputs.max(0)))
        inputs = inputs.astype(np.float64)
        inputs[far] = random.uniform(2 * low - high, 2 * high - low, (len(far), len(low)))
    return train._replace(inputs=inputs, targets=labels)


def _with_shifted(train: RawSplit, shifts: int, image_shape: tuple[int, int]) -> RawSplit:
    """Return training images, and after all of them copies that are shifted by 1 to `shifts` pixels in four directions.

    What moves in is background, 0.
    """
    height, width = image_shape
    padded = np.pad(train.inputs.reshape(-1, height, width), ((0, 0), (shifts, shifts), (shifts, shifts)))
    moves = [(0, 0), *((down, 0) for down in range(-shifts, shifts + 1) if down)]
    moves += [(0, right) for right in range(-shifts, shifts + 1) if right]
    copies = [
        padded[:, shifts - down : shifts - down + height, shifts - right : shifts - right + width]
        for down, right in moves
    ]
    inputs = np.stack(copies).reshape(-1, height * width)
    return train._replace(inputs=inputs, targets=np.tile(train.targets, len(copies)))


def _standard(train: NDArray[np.generic], *, whole: bool = False) -> Scaling:
    """Return the scaling to mean 0 and standard deviation 1 (divisor n); a constant column is only centred."""
    from sklearn.preprocessing import StandardScaler

    fitted = StandardScaler().fit(train.reshape(-1, 1) if whole else train)
    mean, std = np.asarray(fitted.mean_, np.float64), np.asarray(fitted.scale_, np.float64)
    return Scaling(mean.reshape(()), std.reshape(())) if whole else Scaling(mean, std)


def _scaled_split(name: str, split: RawSplit, scaling: Scaling, target_scaling: Scaling | None) -> Split:
    inputs = _scaled(name, "feature", split.inputs, scaling)
    if target_scaling is None:
        return Split(inputs, np.ascontiguousarray(split.targets, np.int64), split.tasks, split.characters)
    return Split(inputs, _scaled(name, "target", split.targets, target_scaling))


def _scaled(name: str, column_word: str, raw: NDArray[np.generic], scaling: Scaling) -> NDArray[np.float32]:
    scaled = np.ascontiguousarray(scaling.apply(raw))
    if not np.isfinite([scaled.min(initial=0), scaled.max(initial=0)]).all():  # without a mask of the whole array
        row, column = np.argwhere(~np.isfinite(scaled))[0]
        raise DatasetError(f"{name}: row {row}, {column_word} {column} is too large for float32 once scaled")
    return scaled


def random_stream(seed: int, stream: int) -> np.random.RandomState:
    """Return a generator that is independent of ``RandomState(seed)`` and of the other streams of this seed.

    The numbers of a `RandomState`, unlike those of a `Generator`, are the same in every version of NumPy.
    """
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed, spawn_key=(stream,))))


def split_rows(classes: NDArray[np.generic], size: int | float, random: np.random.RandomState) -> tuple[Rows, Rows]:
    """Return the indices of the remaining and of the split-off rows, each ascending, stratified by class.

    A fraction splits off round(n · size) of the n rows of each class, but at least one of two or more. A number is
    distributed over the classes in proportion to their sizes. Every class keeps at least one row.

    Args:
        classes: The class of each row, (n,).
        size: A fraction between 0 and 1, or a number of rows, at most the number of rows less that of classes.
        random: Draws one permutation for each class, in ascending order of classes.
    """
    names, counts = np.unique(classes, return_counts=True)
    shares = _shares(counts, size) if isinstance(size, int) else _fractions(counts, size)
    is_apart = np.zeros(len(classes), dtype=bool)
    for name, share in zip(names, shares, strict=True):
        is_apart[random.permutation(np.flatnonzero(classes == name))[:share]] = True
    return np.flatnonzero(~is_apart), np.flatnonzero(is_apart)


def _fractions(counts: Rows, fraction: float) -> list[int]:
    return [min(max(1, round(count * fraction)), count - 1) for count in counts.tolist()]


def _shares(counts: Rows, size: int) -> Rows:
    """Return integer shares that sum to `size`: the remainder goes to the classes with the largest fractions."""
    total = counts.sum()
    shares: Rows = size * counts // total
    for _ in range(size - int(shares.sum())):
        cut_off = np.where(shares < counts - 1, size * counts - shares * total, -total)
        shares[cut_off.argmax()] += 1
    return shares
