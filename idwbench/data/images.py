"""Images in the archives of MNIST and Fashion-MNIST, and both sets as one.

Archives are checked at every read, and downloaded if missing.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.folder import download, read_checked
from idwbench.data.preparation import RawData, RawSplit, ScalingChoice, split_off_validation
from idwbench.errors import DatasetError
from idwbench.runs.datasets import ImageConfig, PartsConfig

__all__ = ["ARCHIVES", "FILES", "UNIT_SCALING", "ImageArchives", "load_images", "load_parts", "parse_idx"]

UNIT_SCALING = Scaling(np.zeros(()), np.asarray(255.0))
_UNSIGNED_BYTE = 0x08
# The largest window, with the header and the checksum of gzip.
_GZIP = zlib.MAX_WBITS | 16
_HINT = "delete it and it is fetched again, or copy the official archive there"

FILES = {
    "train_images": "train-images-idx3-ubyte.gz",
    "train_labels": "train-labels-idx1-ubyte.gz",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte.gz",
}


@dataclass(frozen=True)
class ImageArchives:
    """Four archives in torchvision's layout: ``<data folder>/<folder>/raw/*.gz``.

    Attributes:
        folder: torchvision's name of the data set and its folder.
        mirrors: The addresses that torchvision names.
        mean: Mean of x/255 over the training pixels, rounded as usual.
        std: Their standard deviation, rounded as usual.
        checksums: SHA-256 of each of `FILES`.
    """

    folder: str
    mirrors: tuple[str, ...]
    mean: float
    std: float
    class_names: tuple[str, ...]
    checksums: Mapping[str, str]

    @property
    def scaling(self) -> Scaling:
        """(x/255 − mean) / std for x from 0 to 255."""
        return Scaling(np.asarray(self.mean * 255), np.asarray(self.std * 255))

    @property
    def sha256(self) -> str:
        """SHA-256 of the four checksums."""
        return hashlib.sha256("\n".join(self.checksums[part] for part in FILES).encode()).hexdigest()


ARCHIVES = {
    "mnist": ImageArchives(
        folder="MNIST",
        mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
        mean=0.1307,
        std=0.3081,
        class_names=tuple("0123456789"),
        checksums={
            "train_images": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train_labels": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "test_images": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "test_labels": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "fashion_mnist": ImageArchives(
        folder="FashionMNIST",
        mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
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


def load_images(config: ImageConfig, folder: Path) -> RawData:
    """Return a data set of the data folder `folder`; inputs are bytes, scaled by the archives' constants or x/255.

    Raises:
        DatasetError: an archive is missing and cannot be downloaded, or its checksum is wrong.
    """
    archives = ARCHIVES[config.name]
    raw = folder / archives.folder / "raw"
    _fetch_missing(config.name, archives, raw)
    arrays = {
        part: parse_idx(_decompressed(read_checked(raw / file, archives.checksums[part], _HINT)), file)
        for part, file in FILES.items()
    }
    return RawData(
        RawSplit(arrays["train_images"].reshape(-1, 28 * 28), arrays["train_labels"]),
        RawSplit(arrays["test_images"].reshape(-1, 28 * 28), arrays["test_labels"]),
        class_names=archives.class_names,
        image_shape=(28, 28),
        scaling=UNIT_SCALING if config.scaling == "unit" else archives.scaling,
        sha256=archives.sha256,
    )


def _decompressed(content: bytes) -> bytes:
    """Return what a gzip file of one member holds, in memory of the size that its last four bytes name."""
    return zlib.decompress(content, _GZIP, int.from_bytes(content[-4:], "little"))


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
    missing = [part for part, file in FILES.items() if not (raw / file).exists()]
    for position, part in enumerate(missing):
        try:
            download(archives.mirrors, raw / FILES[part], archives.checksums[part])
        except DatasetError as error:
            # The other downloads would fail too, each after a timeout.
            files = ", ".join(FILES[left] for left in missing[position:])
            raise DatasetError(
                f"{name}: missing {files} (download failed: {error})",
                hint=f"copy the official archives into {raw}, or connect to the network; "
                "the data set 'digits' works offline",
            ) from None


def load_parts(config: PartsConfig, folder: Path) -> RawData:
    """Return the rows of the first part, then those of the second, in each split; inputs are bytes.

    Class c is label c of each part, by the name of its number. Pixels are scaled to x/255, or by mean and standard
    deviation over both parts, from those of each. The checksum is that of the parts' checksums.

    Raises:
        DatasetError: a part is missing or altered, or has too few rows for validation.
    """
    parts = [load_images(part, folder) for part in config.parts]
    split = [split_off_validation(part, raw) for part, raw in zip(config.parts, parts, strict=True)]
    validation = [apart for _, apart in split if apart is not None]
    return RawData(
        _joined([rest for rest, _ in split]),
        _joined([raw.test for raw in parts]),
        validation=_joined(validation) if validation else None,
        class_names=tuple(str(label) for label in range(len(parts[0].class_names))),
        image_shape=parts[0].image_shape,
        scaling=_shared_scaling([raw.scaling for raw in parts]),
        sha256=hashlib.sha256("\n".join(str(raw.sha256) for raw in parts).encode()).hexdigest(),
    )


def _shared_scaling(scalings: Sequence[ScalingChoice]) -> Scaling:
    """Return the scaling of parts with the same scaling, or that by mean and standard deviation of all pixels.

    The parts have the same number of pixels, so that means and mean squares are those of the parts' values.
    """
    constants = [scaling for scaling in scalings if isinstance(scaling, Scaling)]
    assert len(constants) == len(scalings), "parts are scaled by constants"
    first = constants[0]
    if all((one.mean, one.std) == (first.mean, first.std) for one in constants):
        return first
    means, stds = (np.array([getattr(one, name) for one in constants]) for name in ("mean", "std"))
    return Scaling(means.mean(), np.sqrt((stds**2 + means**2).mean() - means.mean() ** 2))


def _joined(splits: Sequence[RawSplit]) -> RawSplit:
    """Return the rows of all parts, one part after the other."""
    return RawSplit(
        np.concatenate([split.inputs for split in splits]),
        np.concatenate([split.targets for split in splits]),
        np.repeat(np.arange(len(splits)), [len(split.inputs) for split in splits]),
    )
