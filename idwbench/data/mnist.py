"""MNIST: 70,000 handwritten digits of 28 x 28 pixels."""

from pathlib import Path

from idwbench.data.image_archives import ImageArchives, load_images
from idwbench.data.preparation import RawData
from idwbench.runs.datasets import MnistConfig

__all__ = ["ARCHIVES", "load_mnist"]

ARCHIVES = ImageArchives(
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
)


def load_mnist(config: MnistConfig, folder: Path) -> RawData:
    """Return the content of the archives; raises like `load_images`."""
    return load_images(config, ARCHIVES, folder)
