"""Fashion-MNIST: 70,000 images of clothes of 28 x 28 pixels, in the format of MNIST."""

from pathlib import Path

from idwbench.data.image_archives import ImageArchives, load_images
from idwbench.data.preparation import RawData
from idwbench.runs.datasets import FashionMnistConfig

__all__ = ["ARCHIVES", "load_fashion_mnist"]

ARCHIVES = ImageArchives(
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
)


def load_fashion_mnist(config: FashionMnistConfig, folder: Path) -> RawData:
    """Return the content of the archives; raises like `load_images`."""
    return load_images(config, ARCHIVES, folder)
