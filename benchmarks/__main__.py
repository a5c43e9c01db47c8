"""``python -m benchmarks [PART …]``: prove that the engines agree, then print what they cost."""

from __future__ import annotations

import argparse
import platform

import numpy as np
import torch

from benchmarks import engines, program
from benchmarks.kernels import kernel_regression
from benchmarks.layers import layers
from benchmarks.workloads import mnist
from idwbench.training.threads import available_cores, limited_threads

PARTS = {
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
    "startup": program.startup,
    "large": program.large,
    "loading": program.loading,
    "memory": program.memory,
    "layers": layers,
    "kernel_regression": kernel_regression,
}


def main() -> None:
    """Run the parts that are named, or all of them in order."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("part", nargs="*", help=f"what to measure, all of it if left out: {', '.join(PARTS)}")
    chosen = parser.parse_args().part or list(PARTS)
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]!r}")
    dataset, name = mnist()
    print(
        f"{platform.machine()} · {available_cores()} cores · Python {platform.python_version()} · "
        f"NumPy {np.__version__} · torch {torch.__version__} · {torch.backends.cpu.get_cpu_capability()} · {name}"
    )
    with limited_threads(1):
        for part in chosen:
            print(f"\n## {part}\n", flush=True)
            PARTS[part](dataset)


if __name__ == "__main__":
    main()
