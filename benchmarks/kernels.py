"""What kernel regression costs beside the bare matrix products of all pairs, and its memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from benchmarks.tables import header, row
from idwbench.data.dataset import Dataset
from idwbench.models import neighbours
from idwbench.models.kernel_regression import KernelRegression

__all__ = ["kernel_regression"]

SETTINGS: tuple[tuple[str, dict[str, float]], ...] = (
    *((kernel, {"bandwidth": 20.0}) for kernel in ("gaussian", "boxcar", "triangular", "epanechnikov")),
    ("shepard", {"power": 2.0, "epsilon": 0.0}),
    ("shepard", {"power": 8.0, "epsilon": 0.0}),
    ("shepard", {"power": 8.0, "epsilon": 0.1}),
)
SLICE = 2_000

PROGRAM = """
import resource
import numpy as np
from threadpoolctl import threadpool_limits
from idwbench.models.kernel_regression import kernel_regression

generator = np.random.default_rng(0)
keys = generator.random((60_000, 784), np.float32)
values = np.eye(10, dtype=np.float32)[generator.integers(0, 10, 60_000)]
with threadpool_limits(1):
    kernel_regression(generator.random((10_000, 784), np.float32), keys, values)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def kernel_regression(mnist: Dataset) -> None:
    """All test images with all training images as memory, in turn with the bare float32 products of the same chunks."""
    keys, queries = mnist.train.inputs, mnist.test.inputs
    values = np.eye(10, dtype=np.float32)[mnist.train.labels]
    rows = max(1, neighbours._PRODUCT_NUMBERS // len(keys))
    products = np.empty((rows, len(keys)), np.float32)
    header("kernel", "ratio", "processor seconds", "products", "must", numbers=3)
    for name, parameters in SETTINGS:
        memory = KernelRegression.of(name, parameters, keys, values)
        memory.predict(queries[:rows])
        whole = bare = 0.0
        for start in range(0, len(queries), SLICE):
            part = queries[start : start + SLICE]
            whole += _processor(lambda part=part, memory=memory: memory.predict(part))
            bare += _processor(lambda part=part: _products(part, keys, products))
        title = f"`{name}`, {', '.join(f'{key} {value:g}' for key, value in parameters.items())}"
        row(title, f"{whole / bare:.2f}", f"{whole:.1f}", f"{bare:.1f}", "≤ 1.5")
    peak = int(subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True).stdout)
    row("peak memory of the process, MB", f"{peak * 1024 / 1e6:.0f}", "", "", "≤ 1,000")


def _products(queries: np.ndarray, keys: np.ndarray, products: np.ndarray) -> None:
    for start in range(0, len(queries), len(products)):
        part = queries[start : start + len(products)]
        np.matmul(part, keys.T, out=products[: len(part)])


def _processor(work: Callable[[], object]) -> float:
    def now() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    started = now()
    work()
    return now() - started
