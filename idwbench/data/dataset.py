"""`Dataset`: the arrays of one data set, with scaling and class names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from idwbench.data.columns import Columns
from idwbench.runs.dataset_base import DatasetConfig, Task
from idwbench.runs.metrics import evaluate

__all__ = [
    "Dataset",
    "FeatureMoments",
    "Scaling",
    "Split",
    "TrainingData",
    "array_sha256",
    "feature_moments",
    "nearest_values",
]

_NUMBERS_AT_ONCE, _NUMBERS_IN_CACHE = 2**22, 2**17

FeatureMoments = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Scaling:
    """The scaling that was applied: scaled = (raw − mean) / std, in float64, stored as float32.

    Attributes:
        mean: Shape () or (features,), in the data's own units.
        std: The same shape; positive.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    @classmethod
    def identity(cls) -> Scaling:
        """Return the identity."""
        return cls(np.zeros(()), np.ones(()))

    def apply(self, raw: NDArray[np.generic]) -> NDArray[np.float32]:
        """Return `raw` (…, features) in the model's units; values beyond float32 become infinite or NaN."""
        scaled = np.empty(raw.shape, np.float32)
        given, stored = np.atleast_2d(raw, scaled)  # views
        # A few rows at a time: pages of new memory take longer than the arithmetic.
        size = max(1, _NUMBERS_IN_CACHE * len(given) // max(1, given.size))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(given), size):
                part = given[first : first + size].astype(np.float64)
                part -= self.mean
                part /= self.std
                stored[first : first + size] = part
        return scaled

    def invert(self, scaled: NDArray[np.generic]) -> NDArray[np.float64]:
        """Return `scaled` (…, features) in the data's own units."""
        return scaled.astype(np.float64) * self.std + self.mean


@dataclass(frozen=True)
class Split:
    """Scaled inputs (n, features), float32, with labels (n,), int64 from 0, or scaled targets (n, outputs), float32.

    Attributes:
        tasks: The number (n,) of the part that each row comes from, int64 from 0; None for data without parts.
        characters: In a text of words, the characters (n,) from each label to the token after it: the word and what
            separates it from the next. None for all other data.
        weights: Weights (n,) of the rows in the loss and the initialisation, float32 of mean 1; None for equal weights.
            Only the fused engine knows them.
    """

    inputs: NDArray[np.float32]
    targets: NDArray[np.int64] | NDArray[np.float32]
    tasks: NDArray[np.int64] | None = None
    characters: NDArray[np.int64] | None = None
    weights: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """Check the arrays; compiled kernels do not."""
        inputs, targets = self.inputs, self.targets
        if inputs.ndim != 2 or len(inputs) == 0 or len(targets) != len(inputs):
            raise ValueError(f"inputs {inputs.shape} and targets {targets.shape} do not form a split")
        if inputs.dtype != np.float32 or (targets.dtype, targets.ndim) not in _TARGETS:
            raise ValueError(
                "expected float32 inputs with int64 labels (n,) or float32 targets (n, outputs), got "
                f"{inputs.dtype} and {targets.dtype} {targets.shape}"
            )
        if self.tasks is not None and (self.tasks.dtype, self.tasks.shape) != (np.dtype(np.int64), (len(inputs),)):
            raise ValueError(f"expected int64 tasks ({len(inputs)},), got {self.tasks.dtype} {self.tasks.shape}")
        weights = self.weights
        if weights is not None and (weights.dtype, weights.shape) != (np.dtype(np.float32), (len(inputs),)):
            raise ValueError(f"expected float32 weights ({len(inputs)},), got {weights.dtype} {weights.shape}")
        if not (inputs.flags.c_contiguous and targets.flags.c_contiguous):
            raise ValueError("expected contiguous arrays")

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays that the checksum of the data is that of."""
        return tuple(array for array in (self.inputs, self.targets, self.characters) if array is not None)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The targets of a classification, (n,)."""
        if self.targets.dtype != np.int64:
            raise ValueError("a regression has no labels")
        return self.targets  # type: ignore[return-value]


_TARGETS = {(np.dtype(np.int64), 1), (np.dtype(np.float32), 2)}


@dataclass(frozen=True)
class TrainingData:
    """Rows to train on, and what is known of them; all that an estimator has.

    Attributes:
        class_names: One name for each class, in the order of the labels; empty for a regression.
        target_scaling: Scaling of the targets of a regression.
    """

    train: Split
    class_names: tuple[str, ...]
    target_scaling: Scaling = field(default_factory=Scaling.identity)

    @property
    def task(self) -> Task:
        """Whether targets are labels or numbers."""
        return "classification" if self.class_names else "regression"

    @property
    def splits(self) -> dict[str, Split]:
        """The splits that exist, by name."""
        return {"train": self.train}

    @property
    def n_features(self) -> int:
        """Columns of `inputs`."""
        return int(self.train.inputs.shape[1])

    @property
    def n_outputs(self) -> int:
        """Columns of a model's output: one for each class, or for each target."""
        return len(self.class_names) or int(self.train.targets.shape[1])

    @cached_property
    def moments(self) -> FeatureMoments:
        """The `feature_moments` of the training inputs."""
        return feature_moments(self.train.inputs, self.train.weights)

    @cached_property
    def groups(self) -> list[NDArray[np.int64]]:
        """The training rows of each class, or all rows of a regression as one group."""
        if self.task == "regression":
            return [np.arange(len(self.train))]
        return [np.flatnonzero(self.train.labels == label) for label in range(self.n_outputs)]

    @cached_property
    def n_distinct(self) -> int:
        """Number of distinct training inputs."""
        return _n_distinct(self.train.inputs)

    @cached_property
    def n_distinct_by_group(self) -> list[int]:
        """Number of distinct inputs in each of `groups`."""
        return [_n_distinct(self.train.inputs[rows]) for rows in self.groups]


@dataclass(frozen=True, kw_only=True)
class Dataset(TrainingData):
    """One data set, ready to train on.

    Attributes:
        holdout: A large new sample of synthetic data, or None.
        scaling: Scaling of the inputs.
        image_shape: (height, width) if an input is an image, or None.
        sha256: Checksum of the content.
        validation: Rows of the training data that are not trained on, or None.
        columns: Those of a table, or None.
    """

    config: DatasetConfig
    test: Split
    holdout: Split | None
    scaling: Scaling
    image_shape: tuple[int, int] | None
    sha256: str
    validation: Split | None = None
    columns: Columns | None = None

    def __post_init__(self) -> None:
        """Check that the splits fit each other."""
        for split in self.splits.values():
            if split.inputs.shape[1] != self.n_features:
                raise ValueError(f"expected {self.n_features} features in each split, got {split.inputs.shape[1]}")
            if not self.class_names:
                if split.targets.ndim != 2 or split.targets.shape[1] != self.n_outputs:
                    raise ValueError(f"expected targets (n, {self.n_outputs}) in each split, got {split.targets.shape}")
            elif split.labels.min() < 0 or split.labels.max() >= self.n_outputs:
                raise ValueError(f"expected labels from 0 to {self.n_outputs - 1}")

    @property
    def task(self) -> Task:
        """Whether targets are labels, numbers, the next tokens of a text, or sequences."""
        return self.config.task if self.config.task in ("language", "sequence_to_sequence") else super().task

    @property
    def splits(self) -> dict[str, Split]:
        """The splits that exist, by name: train, validation, test, holdout."""
        named = {"train": self.train, "validation": self.validation, "test": self.test, "holdout": self.holdout}
        return {name: split for name, split in named.items() if split is not None}

    def metrics(self, split: str, outputs: NDArray[np.floating]) -> dict[tuple[str, str], float]:
        """Return the metrics of a model's `outputs` (n, outputs) on a split, in the targets' own units."""
        targets: NDArray[np.generic] = self.splits[split].targets
        if self.task == "regression":
            outputs, targets = self.target_scaling.invert(outputs), self.target_scaling.invert(targets)
        metrics = evaluate(self.task, outputs, targets)
        if self.config.task == "lookup":
            stored = self.target_scaling.invert(self.train.targets)
            nearest = nearest_values(outputs, stored)
            metrics["recall"] = float(((nearest >= 0) & (stored[nearest] == targets).all(1)).mean())
        return {(split, name): value for name, value in metrics.items()}


def nearest_values(outputs: NDArray[np.floating], stored: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the index (n,) of the stored value nearest to each of `outputs` (n, features); −1 for one with NaN.

    The order of ‖o − v‖² is that of ‖v‖² − 2 o·v. Of equal distances the first counts.
    """
    exact, asked = stored.astype(np.float64), outputs.astype(np.float64)
    norms = np.einsum("ij,ij->i", exact, exact)
    nearest = np.full(len(asked), -1, np.int64)
    rows = max(1, _NUMBERS_AT_ONCE // len(exact))
    for start in range(0, len(asked), rows):
        part = asked[start : start + rows]
        nearest[start : start + rows] = (norms - 2 * np.nan_to_num(part, posinf=0, neginf=0) @ exact.T).argmin(1)
    nearest[~np.isfinite(asked).all(1)] = -1
    return nearest


def _n_distinct(inputs: NDArray[np.float32]) -> int:
    return len({row.tobytes() for row in inputs})


def feature_moments(inputs: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> FeatureMoments:
    """Return mean and standard deviation (n − 1; 0 for one row) of each feature.

    With weights w of mean 1 the mean is Σ w x / n, and the variance Σ w (x − mean)² / (n − 1).
    """
    n, divisor = len(inputs), max(1, len(inputs) - 1)
    if weights is None:
        return inputs.mean(0, dtype=np.float64), inputs.std(0, ddof=n - divisor, dtype=np.float64)
    shares = weights / weights.sum(dtype=np.float64)
    mean = shares @ inputs.astype(np.float64)
    return mean, np.sqrt(shares @ (inputs - mean) ** 2 * (n / divisor))


def array_sha256(*arrays: NDArray[np.generic]) -> str:
    """Return the SHA-256, in hexadecimal, of the arrays' types, shapes and bytes, in order."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
