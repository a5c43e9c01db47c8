"""Image data sets in the archive format of MNIST; files are checked at every read and downloaded if missing."""

import gzip
import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.download import fetch_archive
from idwbench.data.image_cache import cache_folders, read_cache, write_cache
from idwbench.data.preparation import RawData, RawSplit
from idwbench.errors import DatasetError
from idwbench.files import read_file
from idwbench.runs.datasets import FashionMnistConfig, MnistConfig

__all__ = ["UNIT_SCALING", "ImageArchives", "load_images", "parse_idx"]

UNIT_SCALING = Scaling(np.zeros(()), np.asarray(255.0))
_UNSIGNED_BYTE = 0x08

PARTS = {
    "train_images": ("train-images-idx3-ubyte.gz", (60_000, 28, 28)),
    "train_labels": ("train-labels-idx1-ubyte.gz", (60_000,)),
    "test_images": ("t10k-images-idx3-ubyte.gz", (10_000, 28, 28)),
    "test_labels": ("t10k-labels-idx1-ubyte.gz", (10_000,)),
}


@dataclass(frozen=True)
class ImageArchives:
    """Four archives in torchvision's layout: ``<data folder>/<folder>/raw/*.gz``.

    Attributes:
        folder: torchvision's name of the data set and its folder.
        mean: Mean of x/255 over the training pixels, rounded as usual.
        std: Their standard deviation, rounded as usual.
        checksums: SHA-256 of each of `PARTS`.
    """

    folder: str
    mean: float
    std: float
    class_names: tuple[str, ...]
    checksums: Mapping[str, str]

    @property
    def scaling(self) -> Scaling:
        """(x/255 − mean) / std for x from 0 to 255."""
        return Scaling(np.asarray(self.mean * 255), np.asarray(self.std * 255))

    def scaling_of(self, choice: Literal["standard", "unit"]) -> Scaling:
        """Return `scaling`, or x/255."""
        return UNIT_SCALING if choice == "unit" else self.scaling

    @property
    def sha256(self) -> str:
        """SHA-256 of the four checksums."""
        return hashlib.sha256("\n".join(self.checksums[part] for part in PARTS).encode()).hexdigest()


def load_images(config: MnistConfig | FashionMnistConfig, archives: ImageArchives, folder: Path) -> RawData:
    """Return the data set from the data folder `folder`; inputs are bytes, scaled by the archives' constants or x/255.

    Raises:
        DatasetError: an archive is missing and cannot be downloaded, or its checksum is wrong.
    """
    arrays = _read(config.name, archives, folder)
    return RawData(
        RawSplit(arrays["train_images"].reshape(-1, 28 * 28), arrays["train_labels"]),
        RawSplit(arrays["test_images"].reshape(-1, 28 * 28), arrays["test_labels"]),
        class_names=archives.class_names,
        image_shape=(28, 28),
        scaling=archives.scaling_of(config.scaling),
        sha256=archives.sha256,
    )


def _read(name: str, archives: ImageArchives, folder: Path) -> Mapping[str, NDArray[np.uint8]]:
    raw = folder / archives.folder / "raw"
    _fetch_missing(name, archives, raw)
    # The archives are checked even if their content is cached.
    contents = {part: _checked(raw / file, archives.checksums[part]) for part, (file, _) in PARTS.items()}
    cached_in, cache_name = cache_folders(folder), f"{name}-{archives.sha256[:16]}.npz"
    cached = read_cache(cached_in, cache_name, {part: shape for part, (_, shape) in PARTS.items()})
    if cached is not None:
        return cached
    arrays = {part: parse_idx(gzip.decompress(contents[part]), PARTS[part][0]) for part in PARTS}
    write_cache(cached_in, cache_name, arrays)
    return arrays


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array of unsigned bytes in a file of MNIST's IDX format.

    It has two zero bytes, a type, the number of axes, their sizes (big-endian, 32 bits), and the values.

    Raises:
        DatasetError: another format or type, or the length does not match the sizes.
    """
    if len(content) < 4 or content[:3] != bytes((0, 0, _UNSIGNED_BYTE)):
        raise DatasetError(f"{name}: not an IDX file of unsigned bytes: it begins with {content[:4].hex(' ')!r}")
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise DatasetError(f"{name}: ends within its header, after {len(content)} bytes")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DatasetError(f"{name}: holds {len(content) - start} values, its header has {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _fetch_missing(name: str, archives: ImageArchives, raw: Path) -> None:
    missing = [part for part, (file, _) in PARTS.items() if not (raw / file).exists()]
    for position, part in enumerate(missing):
        try:
            fetch_archive(archives.folder, raw / PARTS[part][0], archives.checksums[part])
        except DatasetError as error:
            # The other downloads would fail too, each after a timeout.
            files = ", ".join(PARTS[left][0] for left in missing[position:])
            raise DatasetError(
                f"{name}: missing {files} (download failed: {error})",
                hint=f"copy the official archives into {raw}, or connect to the network; "
                "the data set 'digits' works offline",
            ) from None


def _checked(path: Path, expected: str) -> bytes:
    content = read_file(path, DatasetError)
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DatasetError(
            f"truncated or altered: its SHA-256 begins with {found[:12]}, expected {expected[:12]}",
            hint="delete it and it is fetched again, or copy the official archive there",
            file=path,
        )
    return content
