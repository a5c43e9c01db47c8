"""The sweeps that come with idwbench, found by name."""

import os
from functools import cache
from importlib.resources import as_file, files
from os import PathLike
from pathlib import Path

from idwbench.errors import SpecError, did_you_mean

__all__ = ["shipped_descriptions", "shipped_sweeps", "sweep_path"]


@cache
def shipped_sweeps() -> dict[str, Path]:
    """Return the files of the shipped sweeps by name, sorted.

    A package that was built has them inside; in a checkout they are in the folder beside the package.
    """
    with as_file(files("idwbench")) as package:
        inside = package / "sweeps"
        folder = inside if inside.is_dir() else package.parent / "sweeps"
    return {file.stem: file for file in sorted(folder.rglob("*.yaml"), key=lambda file: file.stem)}


def shipped_descriptions() -> dict[str, str]:
    """Return the description of each shipped sweep by its name."""
    from idwbench.sweep.yaml_source import read_yaml

    return {name: str(read_yaml(file).content["description"]) for name, file in shipped_sweeps().items()}


def sweep_path(sweep: str | PathLike[str]) -> Path:
    """Return the path of a sweep file, given as a path or by the name of a shipped sweep.

    Text without a folder and without a suffix, such as ``two_moons``, is the name of a shipped sweep, also if the
    working directory has a file of that name; it is a path if no shipped sweep has this name. Everything else is a
    path: ``two_moons.yaml``, ``./two_moons`` and `pathlib.Path` objects.

    Raises:
        SpecError: neither a shipped sweep nor a file has this name.
    """
    path = Path(sweep)
    if not isinstance(sweep, str) or not sweep or path.name != sweep or path.suffix:
        return path
    shipped = shipped_sweeps()
    if sweep in shipped:
        return shipped[sweep]
    if "\0" in sweep or os.path.exists(path):
        return path
    hint = did_you_mean(sweep, shipped)
    raise SpecError("no such file, and no shipped sweep of this name", hint=hint, file=path)
