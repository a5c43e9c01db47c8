"""The one place that imports torchvision, which serves only to fetch the archives of image data sets.

It is imported by name and when needed: it takes seconds and brings torch, which reading data does without.
"""

from __future__ import annotations

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

# Operators live as long as the library object that declared them.
_declared: list[Any] = []


def torchvision_datasets() -> ModuleType:
    """Return `torchvision.datasets`, also where a CPU build of torch meets the registry's torchvision.

    That torchvision is compiled for CUDA. Without CUDA's libraries its compiled half does not load, and the import
    fails with "operator torchvision::nms does not exist" when it registers shapes for its operators `nms` and `qnms`.
    Declaring the two lets the import pass. A pair that fits is imported as it is.
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
    """Download one archive from torchvision's mirrors, in their order; it is checked and written atomically.

    Args:
        dataset_class: Name in `torchvision.datasets`, whose mirrors are asked.
        target: The file to write; its name is the archive's.
        sha256: What its content must have.

    Raises:
        DatasetError: no mirror gave it, or it cannot be written; one line with each reason.
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
        # RecursionError (too many redirections) is a RuntimeError, a time-out and URLError are OSErrors.
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
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as file:
        file.write(content)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep standard output for data, and limit each wait: torchvision sets no time limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        socket.setdefaulttimeout(before)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
