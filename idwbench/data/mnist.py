"""MNIST and Fashion-MNIST: the official archives, checked at every read, fetched if missing."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idwbench.config import FashionMnistConfig, MnistConfig
from idwbench.data.cache import cache_folders, read_cache, write_cache
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.data.idx import parse_idx
from idwbench.data.torchvision_source import fetch_archive
from idwbench.errors import DatasetError

__all__ = ["ARCHIVES", "ImageArchives", "load_mnist"]

PARTS = {
    "train_images": ("train-images-idx3-ubyte.gz", (60_000, 28, 28)),
    "train_labels": ("train-labels-idx1-ubyte.gz", (60_000,)),
    "test_images": ("t10k-images-idx3-ubyte.gz", (10_000, 28, 28)),
    "test_labels": ("t10k-labels-idx1-ubyte.gz", (10_000,)),
}
ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class ImageArchives:
    """Four archives in torchvision's layout: ``<data folder>/<folder>/raw/*.gz``.

    Attributes:
        folder: torchvision's name of the data set, and of its folder.
        mean: Mean of x/255 over the training pixels, as it is commonly rounded.
        std: Their standard deviation, likewise.
        class_names: One name a class.
        checksums: SHA-256 of each part, in the order of train images and labels, test images and labels.
    """

    folder: str
    mean: float
    std: float
    class_names: tuple[str, ...]
    checksums: Mapping[str, str]

    @property
    def scaling(self) -> Scaling:
        """(x/255 − mean) / std, in the units 0 … 255."""
        return Scaling(np.asarray(self.mean * 255), np.asarray(self.std * 255))

    @property
    def sha256(self) -> str:
        """SHA-256 of the four checksums."""
        return hashlib.sha256("\n".join(self.checksums[part] for part in PARTS).encode()).hexdigest()


ARCHIVES = {
    "mnist": ImageArchives(
        folder="MNIST",
        mean=0.1307,
        std=0.3081,
        class_names=tuple(str(digit) for digit in range(10)),
        checksums={
            "train_images": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train_labels": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "test_images": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "test_labels": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "fashion_mnist": ImageArchives(
        folder="FashionMNIST",
        mean=0.2860,
        std=0.3530,
        class_names=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        checksums={
            "train_images": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train_labels": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "test_images": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "test_labels": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ),
}


def load_mnist(config: MnistConfig | FashionMnistConfig, folder: Path) -> Dataset:
    """Return MNIST or Fashion-MNIST from the data folder `folder`.

    Raises:
        DatasetError: an archive is missing and cannot be fetched, or its checksum is another than the official.
    """
    archives = ARCHIVES[config.name]
    arrays = _read(config.name, archives, folder)
    scaling = archives.scaling
    return Dataset(
        config=config,
        train=_split(arrays["train_images"], arrays["train_labels"], scaling),
        test=_split(arrays["test_images"], arrays["test_labels"], scaling),
        holdout=None,
        scaling=scaling,
        image_shape=(28, 28),
        class_names=archives.class_names,
        sha256=archives.sha256,
    )


def _read(name: str, archives: ImageArchives, folder: Path) -> Mapping[str, NDArray[np.uint8]]:
    raw = folder / archives.folder / "raw"
    _fetch_missing(name, archives, raw)
    # The archives are checked even if the cache spares unpacking them: an altered file is never passed over.
    contents = {part: _checked(raw / file, archives.checksums[part]) for part, (file, _) in PARTS.items()}
    cached_in, cache_name = cache_folders(folder), f"{name}-{archives.sha256[:16]}.npz"
    cached = read_cache(cached_in, cache_name, {part: shape for part, (_, shape) in PARTS.items()})
    if cached is not None:
        return cached
    arrays = {part: parse_idx(gzip.decompress(contents[part]), PARTS[part][0]) for part in PARTS}
    write_cache(cached_in, cache_name, arrays)
    return arrays


def _fetch_missing(name: str, archives: ImageArchives, raw: Path) -> None:
    missing = [part for part, (file, _) in PARTS.items() if not (raw / file).exists()]
    for position, part in enumerate(missing):
        try:
            fetch_archive(archives.folder, raw / PARTS[part][0], archives.checksums[part])
        except DatasetError as error:
            # The others would fail alike, and each would wait for its time limit.
            files = ", ".join(PARTS[left][0] for left in missing[position:])
            raise DatasetError(
                f"{name}: missing {files}; copy the official archives into {raw}, or connect to the network; "
                f"the data set 'digits' works offline (download failed: {error})"
            ) from None


def _checked(path: Path, expected: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from None
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DatasetError(
            f"{path}: truncated or altered: its SHA-256 begins with {found[:12]}, expected {expected[:12]}; "
            "delete it and it is fetched again, or copy the official archive there"
        )
    return content


def _split(images: NDArray[np.uint8], labels: NDArray[np.uint8], scaling: Scaling) -> Split:
    # 256 values can occur: scale each once, in float64, and look it up; in strips, as NumPy widens an index to 8 bytes.
    table = scaling.apply(np.arange(256, dtype=np.uint8))
    pixels = images.reshape(len(images), -1)
    inputs = np.empty(pixels.shape, np.float32)
    for start in range(0, len(pixels), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        np.take(table, pixels[rows], out=inputs[rows], mode="clip")
    return Split(inputs, labels.astype(np.int64))
