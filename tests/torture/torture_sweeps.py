"""The sizes of the torture tests, and their sweeps."""

from __future__ import annotations

import os

# `make torture` runs the full sizes.
FULL = os.environ.get("IDWBENCH_TORTURE") == "1"


def sweep_text(settings: int, seeds: int, epochs: int = 2) -> str:
    """A sweep of tiny runs; each number of prototypes is a stack of its own."""
    sizes = list(range(1, settings + 1))
    return (
        "name: torture\n"
        "dataset: {name: two_moons, train_per_class: 10, test_per_class: 5, holdout_per_class: 0}\n"
        f"protocol: {{epochs: {epochs}, batch_size: 10}}\n"
        f"seeds: {seeds}\n"
        f"grid: {{method: idw, prototypes: {sizes}}}\n"
    )
