"""``python -m benchmarks [PART …]``: prove that the engines agree, then print what they cost."""

from __future__ import annotations

import argparse
import platform

import numpy as np
import torch

from benchmarks import parts
from benchmarks.workloads import mnist
from idwbench.engine.threads import available_cores, limited_threads

PARTS = {
    "agreement": parts.agreement,
    "steps": parts.steps,
    "run": parts.full_run,
    "table1": parts.table_1,
    "two_moons": parts.two_moons,
    "threads": parts.threads,
    "prototypes": parts.prototypes,
    "memory": parts.memory,
    "stack": parts.stack,
    "shapes": parts.shapes,
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
        f"NumPy {np.__version__} · torch {torch.__version__} · {name}"
    )
    with limited_threads(1):
        for part in chosen:
            print(f"\n## {part}\n", flush=True)
            PARTS[part](dataset)


if __name__ == "__main__":
    main()
