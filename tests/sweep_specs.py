"""Sweeps as text, as files, and as specifications without a file."""

from pathlib import Path

import pytest
from texts import text_file

from idwbench.errors import SpecError
from idwbench.sweep.grid import read_grid
from idwbench.sweep.spec import SweepSpec, read_sweep

GOOD = (Path(__file__).parent / "assets" / "good_sweep.yaml").read_text(encoding="utf-8")


def grid_text(grid):
    """Return a sweep whose grid is a flow mapping, on line 4 from column 7."""
    return f"name: x\ndataset: two_moons\nseeds: 1\ngrid: {grid}\n"


def sweep_spec(name, *datasets, grid, seeds=(0,)):
    """Return the specification of a sweep over blocks of axes."""
    return SweepSpec(name, "", datasets, seeds, read_grid(grid, datasets, len(seeds)))


def sweep_text(dataset, *blocks, sampler="", protocol="{epochs: 2}", seeds="2"):
    """Return a sweep: the data set on line 2 from column 10, the blocks from line 6, column 5."""
    lines = ["name: small", f"dataset: {dataset}", f"protocol: {protocol}", f"seeds: {seeds}", "grid:"]
    lines += [*(f"  - {block}" for block in blocks), *([f"sampler: {sampler}"] if sampler else [])]
    return "\n".join([*lines, ""])


def sweep_file(folder, dataset, *blocks, **settings):
    """Write a sweep beside a text of one's own, and return its path."""
    text_file(folder)
    path = folder / "small.yaml"
    path.write_text(sweep_text(dataset, *blocks, **settings), encoding="utf-8")
    return path


def read_text(folder, text):
    """Read a sweep file with this text, beside a text of one's own."""
    text_file(folder)
    (folder / "small.yaml").write_text(text, encoding="utf-8")
    return read_sweep(folder / "small.yaml")


def received(method):
    """Return what an observer was given, call by call."""
    return [call.args[0] for call in method.call_args_list]


def error_of(folder, text):
    """Return the one line by which a sweep file is refused, without the name of the file."""
    with pytest.raises(SpecError) as caught:
        read_text(folder, text)
    assert len(str(caught.value).splitlines()) == 1 and caught.value.exit_code == 2
    return str(caught.value).removeprefix(f"{folder / 'small.yaml'}:")
