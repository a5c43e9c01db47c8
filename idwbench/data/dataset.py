"""`Dataset`: train and test arrays with all that a saved model must know of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idwbench.config import DatasetConfig

__all__ = ["Dataset", "Scaling", "Split", "array_sha256"]


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
        """Return the scaling that changes nothing."""
        return cls(np.zeros(()), np.ones(()))

    def apply(self, raw: NDArray[np.generic]) -> NDArray[np.float32]:
        """Return `raw` (…, features) in the model's units; what is beyond float32 becomes infinite or NaN."""
        with np.errstate(over="ignore", invalid="ignore"):
            return ((raw.astype(np.float64) - self.mean) / self.std).astype(np.float32)

    def invert(self, scaled: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return `scaled` (…, features) in the data's own units."""
        return scaled.astype(np.float64) * self.std + self.mean


@dataclass(frozen=True)
class Split:
    """Scaled inputs (n, features), float32 and contiguous, and labels (n,), int64 from 0."""

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Refuse arrays of another form: compiled kernels read them without looking again."""
        if self.inputs.ndim != 2 or self.labels.shape != (len(self.inputs),) or len(self.labels) == 0:
            raise ValueError(f"inputs {self.inputs.shape} and labels {self.labels.shape} make no split")
        if self.inputs.dtype != np.float32 or self.labels.dtype != np.int64:
            raise ValueError(f"expected float32 inputs and int64 labels, got {self.inputs.dtype}, {self.labels.dtype}")
        if not self.inputs.flags.c_contiguous:
            raise ValueError("expected contiguous inputs")

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """One data set, ready to train on.

    Attributes:
        config: What was asked for.
        train: What keys and values are fitted to.
        test: What accuracies are measured on.
        holdout: A large fresh sample of synthetic data; None for real data.
        scaling: How `inputs` came from the data's own units.
        image_shape: (height, width) if an input is an image.
        class_names: One name a class, in the order of the labels.
        sha256: Checksum of the content that was read or drawn.
    """

    config: DatasetConfig
    train: Split
    test: Split
    holdout: Split | None
    scaling: Scaling
    image_shape: tuple[int, int] | None
    class_names: tuple[str, ...]
    sha256: str

    def __post_init__(self) -> None:
        """Refuse splits that do not fit each other."""
        for split in (self.train, self.test, self.holdout):
            if split is None:
                continue
            if split.inputs.shape[1] != self.n_features:
                raise ValueError(f"expected {self.n_features} features in each split, got {split.inputs.shape[1]}")
            if split.labels.min() < 0 or split.labels.max() >= self.n_classes:
                raise ValueError(f"expected labels from 0 to {self.n_classes - 1}")

    @property
    def n_features(self) -> int:
        """Columns of `inputs`."""
        return int(self.train.inputs.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)


def array_sha256(*arrays: NDArray[np.generic]) -> str:
    """Return the SHA-256, in hexadecimal, of the arrays' types, shapes and bytes, in order."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
