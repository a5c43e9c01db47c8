"""``python -m benchmarks [PART …]``: prove that the engines agree, then print what they cost."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks import engines, program
from benchmarks.baselines import baselines
from benchmarks.defaults import defaults
from benchmarks.dual import dual
from benchmarks.estimator import estimator
from benchmarks.kernels import kernel_regression
from benchmarks.layers import layers
from benchmarks.lstm import lstm
from benchmarks.scale import scale
from benchmarks.whole_sweep import whole_sweep
from benchmarks.workloads import mnist
from idwbench.data.dataset import Dataset
from idwbench.training.threads import available_cores, limited_threads


def attribution(mnist: Dataset, full: bool = False) -> None:
    """Judge the attributions of the dual form and of others; see `benchmarks.attribution`."""
    from benchmarks.attribution.comparison import compare  # Captum is slow to import
    from benchmarks.attribution.sizes import FULL, SMALL

    compare(FULL if full else SMALL)


PARTS: dict[str, Callable[[Dataset], None]] = {
    "agreement": engines.agreement,
    "steps": engines.steps,
    "epochs": engines.epochs,
    "run": engines.full_run,
    "threads": engines.threads,
    "prototypes": engines.prototypes,
    "stack": engines.stack,
    "shapes": engines.shapes,
    "table1": program.table_1,
    "two_moons": program.two_moons,
    "whole_sweep": whole_sweep,
    "startup": program.startup,
    "large": program.large,
    "scale": scale,
    "loading": program.loading,
    "memory": program.memory,
    "layers": layers,
    "dual": dual,
    "lstm": lstm,
    "kernel_regression": kernel_regression,
    "baselines": baselines,
    "estimator": estimator,
    "defaults": defaults,
    "attribution": attribution,
}
# Parts that take long: they run only if they are named.
LONG_PARTS = ("attribution", "defaults")


def main() -> None:
    """Run the parts that are named, or all of them in order."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument(
        "part",
        nargs="*",
        help=f"what to measure, all but {' and '.join(LONG_PARTS)} if left out: {', '.join(PARTS)}",
    )
    parser.add_argument("--full", action="store_true", help="attribution: all of MNIST and a large network, half a day")
    arguments = parser.parse_args()
    chosen = arguments.part or [part for part in PARTS if part not in LONG_PARTS]
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]!r}")
    parts = {**PARTS, "attribution": partial(attribution, full=arguments.full)}
    dataset, name = mnist()
    print(
        f"{platform.machine()} · {available_cores()} cores · Python {platform.python_version()} · "
        f"NumPy {np.__version__} · torch {torch.__version__} · {torch.backends.cpu.get_cpu_capability()} · {name}"
    )
    with limited_threads(1):
        for part in chosen:
            print(f"\n## {part}\n", flush=True)
            parts[part](dataset)


if __name__ == "__main__":
    main()
