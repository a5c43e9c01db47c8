"""Specifications of sweeps without a file."""

from typing import Any

from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.protocol import Protocol
from idwbench.sweep.grid import read_grid
from idwbench.sweep.spec import SweepSpec


def sweep_spec(
    name: str, *datasets: tuple[DatasetConfig, Protocol], grid: list[dict[str, Any]], seeds: tuple[int, ...] = (0,)
) -> SweepSpec:
    """Return the specification of a sweep over blocks of axes."""
    blocks, settings = read_grid(grid, datasets, len(seeds))
    return SweepSpec(name, "", datasets, seeds, blocks, settings)
