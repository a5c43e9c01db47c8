"""Download of image archives with torchvision, which is imported when needed: it takes seconds and loads torch."""

import contextlib
import hashlib
import importlib
import socket
import sys
import tempfile
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from types import ModuleType
from typing import Any

from idwbench.errors import DatasetError
from idwbench.files import atomic_write, read_file

__all__ = ["fetch_archive", "torchvision_datasets"]

TIMEOUT_SECONDS = 10.0
MISSING_OPERATORS = ("nms", "qnms")

# Keeps library objects alive: their operators are removed with them.
_declared: list[Any] = []


def torchvision_datasets() -> ModuleType:
    """Return `torchvision.datasets`, also for a CPU build of torch with a CUDA build of torchvision.

    That import fails with "operator torchvision::nms does not exist", since the compiled part of torchvision does not
    load; it passes once the missing operators are declared.
    """
    try:
        return importlib.import_module("torchvision.datasets")
    except RuntimeError:
        return _import_with_operators()


def _import_with_operators() -> ModuleType:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # half imported
    library = importlib.import_module("torch.library").Library("torchvision", "FRAGMENT")
    for operator in MISSING_OPERATORS:
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
    return importlib.import_module("torchvision.datasets")


def fetch_archive(dataset_class: str, target: Path, sha256: str) -> None:
    """Download an archive from the mirrors of a class of `torchvision.datasets`, check it and write it atomically.

    Args:
        dataset_class: Name of the class.
        target: The file to write, with the archive's name.
        sha256: Expected checksum.

    Raises:
        DatasetError: no mirror has the archive, or it cannot be written; one line with each reason.
    """
    try:
        datasets = torchvision_datasets()
    except (ImportError, RuntimeError) as error:
        raise DatasetError(f"torchvision cannot be imported: {_one_line(error)}") from None
    reasons = []
    for mirror in getattr(datasets, dataset_class).mirrors:
        try:
            _fetch(datasets, mirror + target.name, target, sha256)
            return
        # RecursionError (too many redirections) is a RuntimeError; time-outs and URLError are OSErrors.
        except (OSError, RuntimeError, HTTPException, DatasetError) as error:
            reasons.append(f"{mirror}: {_one_line(error)}")
    raise DatasetError("; ".join(reasons))


def _fetch(datasets: ModuleType, url: str, target: Path, sha256: str) -> None:
    with tempfile.TemporaryDirectory(prefix="idwbench-") as folder, _quiet():
        datasets.utils.download_url(url, folder, filename=target.name)
        content = read_file(Path(folder, target.name), DatasetError)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DatasetError(f"sent a file whose SHA-256 begins with {found[:12]}, expected {sha256[:12]}")
    with atomic_write(target, make_folder=True) as file:
        file.write(content)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Redirect stdout to stderr and set a socket timeout, which torchvision does not."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        socket.setdefaulttimeout(before)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
